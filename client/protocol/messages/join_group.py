"""JoinGroup (API key 11): enters a classic group, or its next generation; the answer comes when all have joined.

v1  a rebalance timeout of its own (KIP-62)
v2  tells the throttle time; v3 throttles after the answer
v4  a new member is given its id first, with MEMBER_ID_REQUIRED, and joins again (KIP-394)
v5  instance ids of static members (KIP-345)
v6  flexible
v7  the answer tells the protocol's type and name (KIP-559)
v8  why the member joins, for the broker's log (KIP-800)
v9  the leader may be told to skip the assignment
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, boolean, byte_string, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class JoinGroupRequest(Request["JoinGroupResponse"], key=11, versions="0-9", flexible="6+"):
    """The member and the protocols it speaks."""

    class JoinGroupRequestProtocol(Struct):
        """`metadata` is the client protocol's own bytes."""

        name: str = string("0+")
        metadata: bytes = byte_string("0+")

    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponse(Response, key=11, versions="0-9", flexible="6+"):
    """The generation; for its leader, all members."""

    class JoinGroupResponseMember(Struct):
        member_id: str = string("0+")
        group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
        metadata: bytes = byte_string("0+")

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+")
