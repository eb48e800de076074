"""SyncGroup (API key 14): hands out a classic group's assignments: the leader brings them, each member gets its own.

v1  tells the throttle time; v2 throttles after the answer
v3  instance ids of static members (KIP-345)
v4  flexible
v5  protocol type and name, checked by the broker (KIP-559)
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, byte_string, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class SyncGroupRequest(Request["SyncGroupResponse"], key=14, versions="0-5", flexible="4+"):
    """From the leader: everybody's assignment."""

    class SyncGroupRequestAssignment(Struct):
        member_id: str = string("0+")
        assignment: bytes = byte_string("0+")

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment, "0+")


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+"):
    """The member's own assignment."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = byte_string("0+")
