"""DescribeGroups (API key 15): state and members of classic groups.

A group of the new protocol (KIP-848) looks like a dead one here: ask ConsumerGroupDescribe, or ListGroups for its type.

    v1  tells the throttle time; v2 throttles after the answer
    v3  authorized operations (KIP-430)
    v4  instance ids of static members (KIP-345)
    v5  flexible
    v6  GROUP_ID_NOT_FOUND with a message for a missing group, which is Dead without an error before (KIP-1043)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, byte_string, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeGroupsRequest(Request["DescribeGroupsResponse"], key=15, versions="0-6", flexible="5+"):
    """Groups by id."""

    groups: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("3+")


class DescribeGroupsResponse(Response, key=15, versions="0-6", flexible="5+"):
    """One description a group."""

    class DescribedGroup(Struct):
        """`protocol_data` is the assignor's name, in state Stable."""

        class DescribedGroupMember(Struct):
            """Metadata and assignment are the client protocol's own bytes, there in state Stable."""

            member_id: str = string("0+")
            group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
            client_id: str = string("0+")
            client_host: str = string("0+")
            member_metadata: bytes = byte_string("0+")
            member_assignment: bytes = byte_string("0+")

        error_code: int = int16("0+")
        error_message: str | None = string("6+", nullable="6+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        protocol_type: str = string("0+")
        protocol_data: str = string("0+")
        members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
        authorized_operations: int = int32("3+", default=-2147483648)

    DescribedGroupMember: TypeAlias = DescribedGroup.DescribedGroupMember

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")
