"""Requests to the leaders of many partitions, grouped: each leader gets one request for all its partitions.

In each round, the requests are sent to all leaders before the first response is awaited; a leader that gets several
requests answers them in order. Partitions with a retriable error, or whose leader did not respond, are requested again
in the next round, from the leader that they have then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from kseg.client.cluster.cluster import Cluster, outcome_unknown
from kseg.client.cluster.metadata import Leader, LeaderHint, leader_in
from kseg.client.errors import KafkaError, ProtocolFault, error_from_code
from kseg.client.protocol.api import api_of
from kseg.client.protocol.partition import TopicPartition
from kseg.client.protocol.schema import Request, Response
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection

R = TypeVar("R", bound=Response)
T = TypeVar("T")


class Answered(NamedTuple, Generic[T]):
    """A partition's part of a response: error code (0: none), value, and the leader if the response names one."""

    tp: TopicPartition
    error_code: int
    value: T
    leader: LeaderHint | None = None


def ask_leaders(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    kind: type[Request[R]],
    build: Callable[[int, Mapping[TopicPartition, Leader]], Sequence[Request[R]]],
    read: Callable[[Sequence[R], Mapping[TopicPartition, Leader]], Iterable[Answered[T]]],
    version_of: Callable[[BrokerConnection, Mapping[TopicPartition, Leader]], int] | None = None,
    *,
    repeatable: bool = True,
) -> dict[TopicPartition, T]:
    """Returns each partition's value.

    `build` makes the requests to one leader for a version, `read` splits the responses by partition; `version_of`
    chooses the version if it depends on more than the API. `repeatable`: whether a request may be sent again if its
    response is lost (see `ROUTE`); if not, OutcomeUnknown is raised.

    Raises the first error that is not retriable; when the deadline has passed, the last retriable one.
    """
    values: dict[TopicPartition, T] = {}

    def round_(deadline: Deadline) -> None:
        errors: list[KafkaError] = []
        asked: list[tuple[BrokerConnection, int, dict[TopicPartition, Leader]]] = []
        for leaders in _by_broker(cluster, [tp for tp in partitions if tp not in values], deadline, errors):
            try:
                connection = cluster.connection(next(iter(leaders.values())).broker, deadline)
                version = connection.version_of(kind) if version_of is None else version_of(connection, leaders)
                until = deadline.within(cluster.config.request_timeout_ms / 1000)
                requests = build(version, leaders)
                _send(connection, requests, version, until)
                asked.append((connection, len(requests), leaders))
            except KafkaError as error:
                errors.append(error)
        for connection, count, leaders in asked:
            try:
                until = deadline.within(cluster.config.request_timeout_ms / 1000)
                answered = read([connection.receive(deadline=until) for _ in range(count)], leaders)
            except KafkaError as error:
                if error.sent and not repeatable:
                    first = next(iter(leaders))
                    address = {"topic": first.topic, "partition": first.partition}
                    error = outcome_unknown(api_of(kind).name, error, **address)
                errors.append(error)
            else:
                _collect(cluster, kind, connection, answered, leaders, values, errors)
        for failure in errors:
            cluster.learn(failure)
        if errors:
            raise min(errors, key=lambda failure: failure.retriable)

    cluster.retry(round_)
    return values


def _send(connection: BrokerConnection, requests: Iterable[Request[Any]], version: int, deadline: Deadline) -> None:
    try:
        for request in requests:
            connection.send(request, version, deadline=deadline)
    except KafkaError:
        if connection.in_flight:  # the next request on this connection would get the responses to those already sent
            connection.close()
        raise


def _by_broker(
    cluster: Cluster, partitions: Collection[TopicPartition], deadline: Deadline, errors: list[KafkaError]
) -> list[dict[TopicPartition, Leader]]:
    groups: dict[int, dict[TopicPartition, Leader]] = defaultdict(dict)
    metadata = cluster.metadata_now({tp.topic for tp in partitions}, deadline)
    for tp in partitions:
        try:
            leader = leader_in(metadata, tp)
        except KafkaError as error:
            errors.append(error)
        else:
            groups[leader.broker.node_id][tp] = leader
    return list(groups.values())


def _collect(
    cluster: Cluster,
    kind: type[Request[Any]],
    connection: BrokerConnection,
    answered: Iterable[Answered[T]],
    leaders: Mapping[TopicPartition, Leader],
    values: dict[TopicPartition, T],
    errors: list[KafkaError],
) -> None:
    what = kind.__name__.removesuffix("Request")
    missing = set(leaders)
    for tp, code, value, hint in answered:
        missing.discard(tp)
        if code:
            error = error_from_code(code, what, topic=tp.topic, partition=tp.partition, broker=connection.label)
            error.learnt = hint is not None and cluster.learn_leader(hint)
            errors.append(error)
        elif tp in leaders:
            values[tp] = value
    errors += [
        ProtocolFault(f"{what} response lacks a requested partition", topic=tp.topic, partition=tp.partition)
        for tp in missing
    ]
