"""ConsumerGroupHeartbeat (API key 68): joins, stays in and leaves a group of the new protocol, all by itself (KIP-848).

v1  topics by a regular expression; the member makes up its own id (KIP-1082)

Null, or -1 for the rebalance timeout, says that nothing has changed since the last heartbeat; a first one tells all.
`member_epoch` 0 joins, -1 leaves, -2 leaves for a short while (a static member that will be back).
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, string, struct, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"], key=68, versions="0-1", flexible="0+"):
    """Who the member is, what it wants, which partitions it owns."""

    class TopicPartitions(Struct):
        topic_id: UUID = uuid("0+")
        partitions: list[int] = array(int32, "0+")

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = array(string, "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+", default=None)


class ConsumerGroupHeartbeatResponse(Response, key=68, versions="0-1", flexible="0+"):
    """The member's epoch and, when it changes, its assignment."""

    class Assignment(Struct):
        """All partitions that the member may read now."""

        class TopicPartitions(Struct):
            topic_id: UUID = uuid("0+")
            partitions: list[int] = array(int32, "0+")

        topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")

    TopicPartitions: TypeAlias = Assignment.TopicPartitions

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+", default=None)
