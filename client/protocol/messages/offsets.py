"""Committed offsets of groups."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.error_policy import GROUP, MEMBER, error_policy
from kseg.client.protocol.fields import array, boolean, int16, int32, int64, string, uuid
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, Route
from kseg.client.protocol.schema import Request, Response, Struct


class OffsetCommitRequest(
    Request["OffsetCommitResponse"],
    key=8,
    versions="0-10",
    flexible="8+",
    deprecated="0-1",
    for_clients="1+",
    by_topic_name="0-9",
    client_waits="4+",
):
    """OffsetCommit (API key 8): stores a group's offsets, outside of a transaction.

        v0   into ZooKeeper, which no later version reads
        v1   into the offsets topic; the member; a time for each offset
        v2   one retention time for all offsets instead; the oldest version that 4.0 takes
        v3   the response has the throttle time; v4 throttles after it
        v5   no retention time any more: the broker's configuration decides
        v6   leader epoch of the last record read (KIP-320)
        v7   instance id of a static member (KIP-345)
        v8   flexible
        v9   groups of the new protocol (KIP-848)
        v10  topics by id alone

    A commit by a non-member (the group must have no live members) has generation -1 and member id "".

    Offsets per partition, and who commits them.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("READ topic, READ group")
    ERRORS = error_policy(
        f"{GROUP} UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID REQUEST_TIMED_OUT "
        "OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED "
        "INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE GROUP_ID_NOT_FOUND",
        MEMBER,
        # The member learns its new epoch with the next heartbeat (KIP-848).
        REJOIN="STALE_MEMBER_EPOCH",
        JOIN_AFRESH="FENCED_MEMBER_EPOCH",
    )

    class OffsetCommitRequestTopic(Struct):
        """A topic: by name up to v9, by id from v10."""

        class OffsetCommitRequestPartition(Struct):
            """`committed_offset` is the next one to read; `commit_timestamp` -1 is the broker's time."""

            partition_index: int = int32("0+")
            committed_offset: int = int64("0+")
            committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
            commit_timestamp: int = int64("1", default=-1)
            committed_metadata: str | None = string("0+", nullable="0+")

        name: str = string("0-9", ignorable=True)
        topic_id: UUID = uuid("10+", ignorable=True)
        partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, "0+")

    OffsetCommitRequestPartition: TypeAlias = OffsetCommitRequestTopic.OffsetCommitRequestPartition

    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, "0+")


class OffsetCommitResponse(Response, answers=OffsetCommitRequest):
    """An error per partition."""

    class OffsetCommitResponseTopic(Struct):
        """A topic: by name up to v9, by id from v10."""

        class OffsetCommitResponsePartition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0-9", ignorable=True)
        topic_id: UUID = uuid("10+", ignorable=True)
        partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, "0+")

    OffsetCommitResponsePartition: TypeAlias = OffsetCommitResponseTopic.OffsetCommitResponsePartition

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, "0+")


class OffsetFetchRequest(
    Request["OffsetFetchResponse"],
    key=9,
    versions="0-10",
    flexible="6+",
    deprecated="0",
    for_clients="1+",
    by_topic_name="0-9",
    client_waits="4+",
):
    """OffsetFetch (API key 9): a group's committed offsets.

    v0   from ZooKeeper, where only a commit of version 0 goes
    v1   from the offsets topic; the oldest version that 4.0 takes
    v2   null asks for all topics; an error for the whole response
    v3   has the throttle time; v4 throttles after the response
    v5   leader epochs (KIP-320)
    v6   flexible
    v7   `require_stable`: UNSTABLE_OFFSET_COMMIT while a transaction that commits the offset is open (KIP-447)
    v8   many groups at once (KIP-709): `groups`, where older versions have `group_id` and `topics`
    v9   member id and epoch, for members of the new protocol (KIP-848)
    v10  topics by id alone

    Groups (one up to v7), and their topics.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE topic, DESCRIBE group")
    ERRORS = error_policy(
        f"{GROUP} UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID TOPIC_AUTHORIZATION_FAILED "
        "UNSTABLE_OFFSET_COMMIT GROUP_ID_NOT_FOUND",
        REJOIN="STALE_MEMBER_EPOCH",
        JOIN_AFRESH="UNKNOWN_MEMBER_ID ILLEGAL_GENERATION",
    )

    class OffsetFetchRequestTopic(Struct):
        """Up to v7."""

        name: str = string("0-7")
        partition_indexes: list[int] = array(int32, "0-7")

    class OffsetFetchRequestGroup(Struct):
        """`topics` null requests all offsets that the group has committed."""

        class OffsetFetchRequestTopics(Struct):
            """From v8: by name up to v9, by id from v10."""

            name: str = string("8-9", ignorable=True)
            topic_id: UUID = uuid("10+", ignorable=True)
            partition_indexes: list[int] = array(int32, "8+")

        group_id: str = string("8+")
        member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
        member_epoch: int = int32("9+", default=-1, ignorable=True)
        topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+")

    OffsetFetchRequestTopics: TypeAlias = OffsetFetchRequestGroup.OffsetFetchRequestTopics

    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


class OffsetFetchResponse(Response, answers=OffsetFetchRequest):
    """Per group (one up to v7) and partition; offset -1 if none is committed."""

    class OffsetFetchResponseTopic(Struct):
        """Up to v7."""

        class OffsetFetchResponsePartition(Struct):
            partition_index: int = int32("0-7")
            committed_offset: int = int64("0-7")
            committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
            metadata: str | None = string("0-7", nullable="0-7")
            error_code: int = int16("0-7")

        name: str = string("0-7")
        partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7")

    class OffsetFetchResponseGroup(Struct):
        class OffsetFetchResponseTopics(Struct):
            """From v8: by name up to v9, by id from v10."""

            class OffsetFetchResponsePartitions(Struct):
                partition_index: int = int32("8+")
                committed_offset: int = int64("8+")
                committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
                metadata: str | None = string("8+", nullable="8+")
                error_code: int = int16("8+")

            name: str = string("8-9", ignorable=True)
            topic_id: UUID = uuid("10+", ignorable=True)
            partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+")

        group_id: str = string("8+")
        topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
        error_code: int = int16("8+")

    OffsetFetchResponsePartition: TypeAlias = OffsetFetchResponseTopic.OffsetFetchResponsePartition
    OffsetFetchResponsePartitions: TypeAlias = (
        OffsetFetchResponseGroup.OffsetFetchResponseTopics.OffsetFetchResponsePartitions
    )
    OffsetFetchResponseTopics: TypeAlias = OffsetFetchResponseGroup.OffsetFetchResponseTopics

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")


class OffsetDeleteRequest(Request["OffsetDeleteResponse"], key=47, versions="0", client_waits="0+"):
    """OffsetDelete (API key 47): deletes a group's offsets of topics that it does not read any more (KIP-496).

    Goes to the group's coordinator.

    It never became flexible.

    Partitions by topic.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("READ topic, DELETE group")
    ERRORS = error_policy(
        f"{GROUP} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP GROUP_SUBSCRIBED_TO_TOPIC "
        "TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION",
        FAIL="UNKNOWN_TOPIC_OR_PARTITION",
    )

    class OffsetDeleteRequestTopic(Struct):
        class OffsetDeleteRequestPartition(Struct):
            partition_index: int = int32("0+")

        name: str = string("0+")
        partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition, "0+")

    OffsetDeleteRequestPartition: TypeAlias = OffsetDeleteRequestTopic.OffsetDeleteRequestPartition

    group_id: str = string("0+")
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic, "0+")


class OffsetDeleteResponse(Response, answers=OffsetDeleteRequest):
    """An error per partition."""

    class OffsetDeleteResponseTopic(Struct):
        class OffsetDeleteResponsePartition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0+")
        partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition, "0+")

    OffsetDeleteResponsePartition: TypeAlias = OffsetDeleteResponseTopic.OffsetDeleteResponsePartition

    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic, "0+")
