"""ShareGroupDescribe (API key 77): tells state and members of share groups (KIP-932).

v1  the first stable one; v0 was an early access and is gone
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int16, int32, string, struct, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"], key=77, versions="1", flexible="0+"):
    """Groups by id."""

    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")


class ShareGroupDescribeResponse(Response, key=77, versions="1", flexible="0+"):
    """One description a group."""

    class DescribedGroup(Struct):
        class Member(Struct):
            class Assignment(Struct):
                class TopicPartitions(Struct):
                    topic_id: UUID = uuid("0+")
                    topic_name: str = string("0+")
                    partitions: list[int] = array(int32, "0+")

                topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")

            member_id: str = string("0+")
            rack_id: str | None = string("0+", nullable="0+", default=None)
            member_epoch: int = int32("0+")
            client_id: str = string("0+")
            client_host: str = string("0+")
            subscribed_topic_names: list[str] = array(string, "0+")
            assignment: Assignment = struct(Assignment, "0+")

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        group_epoch: int = int32("0+")
        assignment_epoch: int = int32("0+")
        assignor_name: str = string("0+")
        members: list[Member] = array(Member, "0+")
        authorized_operations: int = int32("0+", default=-2147483648)

    Member: TypeAlias = DescribedGroup.Member
    Assignment: TypeAlias = Member.Assignment
    TopicPartitions: TypeAlias = Assignment.TopicPartitions

    throttle_time_ms: int = int32("0+")
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")
