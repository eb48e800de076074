"""One request to every broker, for what each of them alone knows: its groups, its transactions, its disks.

All requests of a round are sent before the first response is awaited. A broker whose error is retriable is asked
again in the next round, until the deadline; the other brokers' answers are kept. The responses together are no
snapshot: while coordinators move, two brokers may list the same group, or none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import BrokerUnavailable, KafkaError, SomeBrokersFailed
from kseg.client.protocol.api import api_of
from kseg.client.protocol.schema import Request, Response
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection

R = TypeVar("R", bound=Response)


@dataclass(slots=True)
class BroadcastResult(Generic[R]):
    """Each broker's answer, or its error, by broker id."""

    answers: dict[int, R] = field(default_factory=dict)
    errors: dict[int, KafkaError] = field(default_factory=dict)

    def whole(self, what: str) -> dict[int, R]:
        """All answers. Raises SomeBrokersFailed, which has those that came, if any broker failed."""
        if not self.errors:
            return self.answers
        words = "; ".join(f"broker {node_id}: {error.message}" for node_id, error in sorted(self.errors.items()))
        raise SomeBrokersFailed(
            f"{what}: {len(self.errors)} of {len(self.errors) + len(self.answers)} brokers failed: {words}",
            errors=self.errors,
            answers=self.answers,
        )


def broadcast(
    cluster: Cluster,
    request: Request[R] | type[Request[R]],
    *,
    build: Callable[[int], Request[R]] | None = None,
    check: Callable[[R], None] | None = None,
    timeout: float | None = None,
) -> BroadcastResult[R]:
    """Send to every broker of the cluster, at once, and give each one's answer or error.

    A request that differs by version is given as its class, and `build` makes it from the negotiated one.
    `check` raises the `KafkaError` for a response's error codes. Errors that are retriable are tried again,
    broker by broker, until `timeout` seconds (`default.api.timeout.ms` if None) have passed; the others' answers do not
    wait for that to be known. Nothing is raised for a broker.
    """
    if isinstance(request, type):
        if build is None:
            raise TypeError("a request's class needs `build`")
        return _broadcast(cluster, request, build, check, timeout)
    return _broadcast(cluster, type(request), lambda _: request, check, timeout)


def _broadcast(
    cluster: Cluster,
    kind: type[Request[R]],
    build: Callable[[int], Request[R]],
    check: Callable[[R], None] | None,
    timeout: float | None,
) -> BroadcastResult[R]:
    found: BroadcastResult[R] = BroadcastResult()
    final: set[int] = set()
    wanted: set[int] = set()

    def round_(deadline: Deadline) -> None:
        asked: list[tuple[int, BrokerConnection]] = []
        failed: dict[int, KafkaError] = {}
        # Before the requests: afterwards the connection that metadata is requested over may have an open request.
        brokers = cluster.ask_metadata_now([], deadline).brokers
        wanted.update(brokers)
        for node_id in sorted(wanted - found.answers.keys() - final):
            try:
                if node_id not in brokers:
                    raise BrokerUnavailable("the broker is no longer in the cluster's metadata", broker=str(node_id))
                connection = cluster.connection(brokers[node_id], deadline)
                until = deadline.within(cluster.config.request_timeout_ms / 1000)
                version = connection.version_of(kind)
                connection.send(build(version), version, deadline=until)
                asked.append((node_id, connection))
            except KafkaError as error:
                failed[node_id] = error
        for node_id, connection in asked:
            try:
                until = deadline.within(cluster.config.request_timeout_ms / 1000)
                response: R = connection.receive(deadline=until)
                if check is not None:
                    check(response)
                found.answers[node_id] = response
                found.errors.pop(node_id, None)
            except KafkaError as error:
                error.broker = error.broker or connection.label
                failed[node_id] = error
        found.errors |= failed
        for node_id, failure in failed.items():
            cluster.learn(failure)
            if not failure.retriable:
                final.add(node_id)
        again = next((failure for failure in failed.values() if failure.retriable), None)
        if again is not None:
            raise again

    try:
        cluster.retry(round_, timeout=timeout)
    except KafkaError as error:
        if not found.errors:
            raise  # the brokers are not known
        error.add_note(f"in {api_of(kind).name} to every broker")
    return found
