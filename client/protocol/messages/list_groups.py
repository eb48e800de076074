"""ListGroups (API key 16): the groups that a broker coordinates: to see all, ask all brokers.

v1  tells the throttle time; v2 throttles after the answer
v3  flexible
v4  states, also as a filter (KIP-518)
v5  types (classic, consumer, share, streams), also as a filter (KIP-848)
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class ListGroupsRequest(Request["ListGroupsResponse"], key=16, versions="0-5", flexible="3+"):
    """Empty filters let everything pass."""

    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
    """The groups."""

    class ListedGroup(Struct):
        group_id: str = string("0+")
        protocol_type: str = string("0+")
        group_state: str = string("4+", ignorable=True)
        group_type: str = string("5+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[ListedGroup] = array(ListedGroup, "0+")
