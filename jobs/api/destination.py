"""Chooses the broker that a request is sent to: by `--to`, or by its API's routing (`client.protocol.routing`) and its
fields.

    leader of the partition      Produce, Fetch, ListOffsets …
    coordinator of the group     OffsetCommit, JoinGroup, DescribeGroups …
    coordinator of the id        AddPartitionsToTxn, EndTxn …, InitProducerId with a transactional id
    controller                   CreateTopics, ElectLeaders …
    a named broker               configurations of brokers, of their loggers
    all brokers                  ListGroups, ListTransactions, DescribeLogDirs: each knows its own alone
    any broker                   all others

A request is not split: everything that it names has to belong to one broker. Partitions of two leaders are an error.
https://kafka.apache.org/protocol#protocol_partitioning
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import Broker
from kseg.client.errors import BrokerUnavailable, UnknownTopic
from kseg.client.protocol.enums import ConfigResourceType
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.fields import ZERO_UUID
from kseg.client.protocol.partition import TopicPartition
from kseg.client.protocol.registry import API_BY_NAME
from kseg.client.protocol.routing import RequestTarget
from kseg.client.protocol.schema import Message
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection
from kseg.jobs.api import bad_argument

Kind = Literal["any", "controller", "broker", "leader", "group", "transaction", "all"]

FORMS: Final = "any, controller, broker:ID, leader:TOPIC:PARTITION, group:ID, transaction:ID or all"

#: Where a request has its topics: the list, the name, the list of partitions, the number ("" if it is the item itself).
_LEADER: Final = {
    "Produce": ("topic_data", "name", "partition_data", "index"),
    "Fetch": ("topics", "topic", "partitions", "partition"),
    "ListOffsets": ("topics", "name", "partitions", "partition_index"),
    "DeleteRecords": ("topics", "name", "partitions", "partition_index"),
    "OffsetForLeaderEpoch": ("topics", "topic", "partitions", "partition"),
    "DescribeProducers": ("topics", "name", "partition_indexes", ""),
    "ShareFetch": ("topics", "topic_id", "partitions", "partition_index"),
    "ShareAcknowledge": ("topics", "topic_id", "partitions", "partition_index"),
}
_MARKED: Final = ("topics", "name", "partition_indexes", "")
_GROUP_FIELDS: Final = ("group_id", "group_ids", "groups", "groups_names")
_TRANSACTIONAL_FIELDS: Final = ("transactional_id", "transactional_ids", "transactions")
_OF_A_BROKER: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)


@dataclass(frozen=True, slots=True)
class Destination:
    """The broker to ask.

    `name`: group, transactional id or topic; `number`: broker or partition; `topic_id` for a topic.
    """

    kind: Kind
    name: str = ""
    number: int = -1
    topic_id: UUID | None = None

    def __str__(self) -> str:
        parts = [self.name or (str(self.topic_id) if self.topic_id else "")]
        parts += [str(self.number)] if self.number >= 0 else []
        return ":".join([self.kind, *filter(None, parts)])


def parse(text: str) -> Destination:
    """`--to` as a value. Raises ConfigurationError."""
    kind, _, rest = text.partition(":")
    if kind in ("any", "controller", "all") and not rest:
        return Destination(kind)  # type: ignore[arg-type]
    if kind in ("group", "transaction") and rest:
        return Destination(kind, name=rest)  # type: ignore[arg-type]
    if kind == "broker" and re.fullmatch(r"\d{1,9}", rest):
        return Destination("broker", number=int(rest))
    if kind == "leader" and (match := re.fullmatch(r"(.+):(\d{1,9})", rest)):
        return Destination("leader", name=match[1], number=int(match[2]))
    raise bad_argument("--to", f"{text!r} is not a destination", f"give {FORMS}")


def by_default(api: str, request: Message) -> list[Destination]:
    """The destinations of what the request names; several of them have to lead to one broker.

    Raises ConfigurationError where the fields do not tell it (AlterReplicaLogDirs goes to the broker with the replica).
    """
    asked = API_BY_NAME[api].request.ROUTE.target
    if asked in (RequestTarget.LEADER, RequestTarget.REPLICA):
        return _leaders_of(api, request) or [
            _ask_back(api, "names no partition", "leader:TOPIC:PARTITION or broker:ID")
        ]
    if asked is RequestTarget.GROUP_COORDINATOR:
        groups = [Destination("group", name=name) for name in _names(request, "group")]
        return groups or [_ask_back(api, "names no group", "group:ID or broker:ID")]
    if asked is RequestTarget.TRANSACTION_COORDINATOR:
        # Without a transactional id a producer id may come from any broker.
        ids = [Destination("transaction", name=name) for name in _names(request, "transactional")]
        return ids or [Destination("any")]
    if api == "AlterReplicaLogDirs":
        _ask_back(api, "belongs to the broker that holds the replica", "broker:ID")
    if asked is RequestTarget.NAMED_BROKER:
        return _brokers(request) or [Destination("any")]
    if asked is RequestTarget.ALL_BROKERS:
        return [Destination("all")]
    return [Destination("controller" if asked is RequestTarget.CONTROLLER else "any")]


def connect(cluster: Cluster, destination: Destination, deadline: Deadline) -> BrokerConnection:
    """A connection to the broker of a destination, for one try. Raises KafkaError."""
    if destination.kind == "any":
        return cluster.any_connection(deadline)
    if destination.kind == "group":
        return cluster.coordinator(("group", destination.name), deadline)
    if destination.kind == "transaction":
        return cluster.coordinator(("transaction", destination.name), deadline)
    if destination.kind == "leader":
        place = TopicPartition(
            destination.name or _topic_of(cluster, destination.topic_id, deadline), destination.number
        )
        return cluster.connection(cluster.leader(place, deadline).broker, deadline)
    brokers = cluster.metadata_now([], deadline)
    number = brokers.controller_id if destination.kind == "controller" else destination.number
    broker = brokers.brokers.get(number)
    if broker is None and destination.kind == "controller":
        raise BrokerUnavailable("the cluster has no controller now", code=ErrorCode.NOT_CONTROLLER)
    if broker is None:
        listed = ", ".join(map(str, sorted(brokers.brokers)))
        raise bad_argument("--to", f"the cluster has no broker {number}", f"it lists {listed}")
    return cluster.connection(broker, deadline)


def brokers(cluster: Cluster) -> list[Broker]:
    """All brokers of the cluster, by id."""
    return sorted(cluster.metadata([], refresh=True).brokers.values(), key=lambda broker: broker.node_id)


def _topic_of(cluster: Cluster, topic_id: UUID | None, deadline: Deadline) -> str:
    for topic in cluster.metadata_now(None, deadline).topics.values():
        if topic.topic_id == topic_id:
            return topic.name
    raise UnknownTopic(
        f"no topic of the cluster has the id {topic_id}", code=ErrorCode.UNKNOWN_TOPIC_ID, retriable=True
    )


def _leaders_of(api: str, request: Any) -> list[Destination]:
    if api != "WriteTxnMarkers":
        return _leaders(request, *_LEADER[api])
    return list(dict.fromkeys(leader for marker in request.markers for leader in _leaders(marker, *_MARKED)))


def _leaders(request: Any, topics: str, name: str, partitions: str, number: str) -> list[Destination]:
    found: dict[Destination, None] = {}
    for topic in getattr(request, topics) or []:
        topic_id = getattr(topic, "topic_id", ZERO_UUID)
        text = "" if name == "topic_id" else getattr(topic, name, None) or ""
        for partition in getattr(topic, partitions) or []:
            index = getattr(partition, number) if number else partition
            found[Destination("leader", text, index, topic_id if topic_id != ZERO_UUID and not text else None)] = None
    return list(found)


def _names(request: Message, kind: Literal["group", "transactional"]) -> list[str]:
    """Every group or transactional id that the request is about, whichever version's field has it."""
    return list(dict.fromkeys(_names_in(request, kind)))


def _names_in(value: Any, kind: str) -> Iterator[str]:
    ends = _GROUP_FIELDS if kind == "group" else _TRANSACTIONAL_FIELDS
    for field in value.FIELDS:
        if not field.name.endswith(ends):
            continue
        held = getattr(value, field.name)
        for item in held if isinstance(held, list) else [held]:
            if isinstance(item, str):
                if item:
                    yield item
            elif item is not None:
                yield from _names_in(item, kind)


def _brokers(request: Any) -> list[Destination]:
    """The brokers whose own configuration is meant; the name "" is the default of all brokers."""
    named: Iterable[Any] = request.resources or []
    found: dict[Destination, None] = {}
    for resource in named:
        if resource.resource_type in _OF_A_BROKER and resource.resource_name.isdecimal():
            found[Destination("broker", number=int(resource.resource_name))] = None
    return list(found)


def _ask_back(api: str, reason: str, forms: str) -> Destination:
    raise bad_argument("--to", f"{api}: the request {reason}, so its destination is unknown", f"give {forms}")
