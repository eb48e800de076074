"""Heartbeat (API key 12): keeps a member of a classic group alive.

v1  tells the throttle time; v2 throttles after the answer
v3  instance ids of static members (KIP-345)
v4  flexible
"""

from __future__ import annotations

from kseg.client.protocol.fields import int16, int32, string
from kseg.client.protocol.schema import Request, Response


class HeartbeatRequest(Request["HeartbeatResponse"], key=12, versions="0-4", flexible="4+"):
    """The member."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+"):
    """REBALANCE_IN_PROGRESS asks it to join again."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
