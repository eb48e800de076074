"""LeaveGroup (API key 13): leaves a classic group.

v1  tells the throttle time; v2 throttles after the answer
v3  many members at once (KIP-345): `members`, where older versions have `member_id`
v4  flexible
v5  why they leave, for the broker's log (KIP-800)
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class LeaveGroupRequest(Request["LeaveGroupResponse"], key=13, versions="0-5", flexible="4+"):
    """The members that leave."""

    class MemberIdentity(Struct):
        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+", default=None)
        reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)

    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+"):
    """An error per member, from v3."""

    class MemberResponse(Struct):
        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+")
        error_code: int = int16("3+")

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[MemberResponse] = array(MemberResponse, "3+")
