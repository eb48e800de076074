"""ShareGroupHeartbeat (API key 76): joins, stays in and leaves a share group (KIP-932).

v1  the first stable one; v0 was an early access and is gone
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, string, struct, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"], key=76, versions="1", flexible="0+"):
    """Epoch 0 joins, -1 leaves; null topics: nothing has changed since the last heartbeat."""

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    rack_id: str | None = string("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string, "0+", nullable="0+", default=None)


class ShareGroupHeartbeatResponse(Response, key=76, versions="1", flexible="0+"):
    """The member's epoch and, when it changes, its assignment."""

    class Assignment(Struct):
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
