"""A request of many parts (topics, groups, brokers …) has an outcome for each: a value, or its error with its address.

`Results` is a dict from part to one of the two. `or_raise()` gives all or nothing.

`retry_failed_parts` is the one loop behind: a part that failed for now is asked again, alone or with the others that
did, until `default.api.timeout.ms` has passed; a part that has its value or a lasting error is never sent twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from typing import Any, TypeVar

from kseg.client.cluster.broadcast import broadcast
from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.coordinators import CoordinatorKey
from kseg.client.cluster.metadata import leader_in
from kseg.client.errors import KafkaError, OutcomeUnknown, ProtocolFault, error_from_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.partition import TopicPartition
from kseg.client.protocol.schema import Request, Response
from kseg.client.retry import Deadline

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R", bound=Response)


class Results(dict[K, V | KafkaError]):
    """The outcome of each part, by part."""

    def done(self) -> dict[K, V]:
        """The parts that succeeded."""
        return {part: outcome for part, outcome in self.items() if not isinstance(outcome, KafkaError)}

    def failed(self) -> dict[K, KafkaError]:
        """The parts that failed."""
        return {part: outcome for part, outcome in self.items() if isinstance(outcome, KafkaError)}

    def or_raise(self) -> dict[K, V]:
        """All values, or the first lasting error (else the first one); its notes name the others."""
        failed = list(self.failed().values())
        if failed:
            worst = min(failed, key=lambda error: error.retriable)
            for other in failed:
                if other is not worst:
                    worst.add_note(f"and also: {other}")
            raise worst
        return self.done()


def retry_failed_parts(
    cluster: Cluster,
    parts: Collection[K],
    ask: Callable[[list[K], Deadline], Mapping[K, Any]],
    *,
    coordinator: CoordinatorKey | None = None,
    final: Collection[int] = (),
    verify: Callable[[list[K], Deadline], Mapping[K, Any]] | None = None,
) -> Results[K, Any]:
    """Call `ask` with the parts that have no lasting outcome yet; it gives one for each, by one try at the brokers.

    `final`: error codes that are lasting here, although a client may in general try again after them.
    `verify`: after a lost answer to what must not be sent twice, the parts that turn out to be done; the others are
    asked for again. Without it the outcome of them all is OutcomeUnknown. REQUEST_TIMED_OUT of a part is a lost answer
    too: a broker returns it if the controller, to which it has forwarded the request, has not responded. If nobody can
    verify it until the deadline, the outcome is OutcomeUnknown, too.
    Raises only while no part has any outcome: no broker answered at all, or the answer as a whole was an error.
    """
    results: Results[K, Any] = Results()
    waiting = list(dict.fromkeys(parts))
    in_doubt = False
    lost: OutcomeUnknown | None = None

    def attempt(deadline: Deadline) -> None:
        nonlocal in_doubt, lost
        answered = dict(verify(list(waiting), deadline)) if in_doubt and verify is not None else {}
        rest = [part for part in waiting if part not in answered]
        if rest:
            try:
                answered |= ask(rest, deadline)
            except OutcomeUnknown as error:
                in_doubt, lost = True, error
                error.retriable = verify is not None
                raise
            lost = None
        for part in list(waiting):
            found = answered.get(part, ProtocolFault(f"the response lacks a requested part: {part}"))
            if isinstance(found, KafkaError) and found.code in final:
                found.retriable = False
            results[part] = found
            in_doubt |= isinstance(found, KafkaError) and found.code == ErrorCode.REQUEST_TIMED_OUT
            if not (isinstance(found, KafkaError) and found.retriable):
                waiting.remove(part)
        if waiting:
            for part in waiting[1:]:
                cluster.learn(results[part], coordinator=coordinator)
            raise results[waiting[0]]

    if waiting:
        try:
            cluster.retry(attempt, coordinator=coordinator)
        except KafkaError as failure:
            last = failure
            if lost is not None:  # what became of it matters more than why nobody could be asked
                lost.retriable = False
                last = lost
                for part in waiting:
                    results.pop(part, None)
            if not results:
                raise last from last.__cause__
            for part in waiting:
                results.setdefault(part, last)
    return Results({part: results[part] for part in dict.fromkeys(parts)})


def outcome(code: int, what: str, value: V, *, detail: str | None = None, **address: Any) -> V | KafkaError:
    """The value, or the error of the code."""
    return error_from_code(code, what, detail=detail, **address) if code else value


def ask_all_brokers(
    cluster: Cluster,
    request: Request[R] | type[Request[R]],
    read: Callable[[int, R], V],
    *,
    check: Callable[[R], None],
    build: Callable[[int], Request[R]] | None = None,
) -> Results[int, V]:
    """`broadcast` as results: what `read` makes of each broker's answer, or its own error, by broker id."""
    result = broadcast(cluster, request, build=build, check=check)
    found: dict[int, V | KafkaError] = {node_id: read(node_id, answer) for node_id, answer in result.answers.items()}
    found |= result.errors
    return Results({node_id: found[node_id] for node_id in sorted(found)})


def ask_each_leader(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    kind: type[Request[R]],
    build: Callable[[int, Collection[TopicPartition]], Request[R]],
    read: Callable[[R], Mapping[TopicPartition, V | KafkaError]],
    *,
    repeatable: bool | None = None,
    final: Collection[int] = (),
) -> Results[TopicPartition, V]:
    """Ask each partition's leader, once for all that it leads; each partition's value or error.

    `build` makes one leader's request for a version and its partitions, `read` takes an answer apart. `final`: as of
    `retry_failed_parts`.
    """

    def ask(waiting: list[TopicPartition], deadline: Deadline) -> dict[TopicPartition, V | KafkaError]:
        metadata = cluster.metadata_now({tp.topic for tp in waiting}, deadline)
        answers: dict[TopicPartition, V | KafkaError] = {}
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in waiting:
            try:
                led[leader_in(metadata, tp).broker.node_id].append(tp)
            except KafkaError as error:
                answers[tp] = error
        for node_id, members in led.items():
            try:
                made = partial(_build, build, members)
                answers.update(read(cluster.send_now(kind, made, deadline, broker=node_id, repeatable=repeatable)))
            except KafkaError as error:
                answers.update(dict.fromkeys(members, error))
        return answers

    return retry_failed_parts(cluster, partitions, ask, final=final)


def _build(
    build: Callable[[int, Collection[TopicPartition]], Request[R]], members: Collection[TopicPartition], version: int
) -> Request[R]:
    return build(version, members)


def fixed(request: Request[R]) -> Callable[[int], Request[R]]:
    """For `send_now` and `send_built`: a request that is the same in every version."""
    return lambda _: request
