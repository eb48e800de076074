"""Reading records: fetching, finding offsets by time, and the ends of leader epochs."""

# mypy: disable-error-code=misc

from __future__ import annotations

from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID

from kseg.client.protocol.error_policy import LEADER, error_policy
from kseg.client.protocol.fields import ByteString, array, int8, int16, int32, int64, record_set, string, struct, uuid
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, Route
from kseg.client.protocol.schema import Request, Response, Struct

#: The broker has evicted the fetch session, or its epoch differs.
_SESSION: Final = error_policy(
    NEW_SESSION="FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH FETCH_SESSION_TOPIC_ID_ERROR"
)
#: An IOException of the broker, or a failed read of tiered storage. Nothing was changed; Java's consumer retries, too.
_READ_FAILED: Final = error_policy(AGAIN="UNKNOWN_SERVER_ERROR")
#: Not an API of its own: a fetch from a replica that does not lead (KIP-392).
FETCH_FROM_FOLLOWER: Final = "Fetch from a follower"

_FETCH: Final = (
    f"{LEADER} TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION UNSUPPORTED_COMPRESSION_TYPE "
    "CORRUPT_MESSAGE UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID OFFSET_NOT_AVAILABLE LISTENER_NOT_FOUND "
    "INVALID_REQUEST"
)


class FetchRequest(
    Request["FetchResponse"],
    key=1,
    versions="0-18",
    flexible="12+",
    deprecated="0-3",
    by_topic_name="0-12",
    client_waits="8+",
):
    """Fetch (API key 1): reads record sets.

        v1   the response has the throttle time
        v2   message sets of magic 1 may come (KIP-32); below, magic 0
        v3   a limit for the whole response; a first message larger than the limits comes whole (KIP-74)
        v4   isolation level, last stable offset, aborted transactions (KIP-98); the oldest version that 4.0 takes
        v5   log start offset
        v7   fetch sessions (KIP-227)
        v8   throttles after the response
        v9   the leader epoch that the reader knows (KIP-320)
        v10  zstd (KIP-110)
        v11  rack, preferred replica (KIP-392)
        v12  flexible; epoch of the last record read, diverging epoch, current leader
        v13  topics by id (KIP-516)
        v14  OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
        v15  the follower is in `replica_state` (KIP-903)
        v16  the response has the endpoints of new leaders (KIP-951)
        v17  directory of the following replica (KIP-853)
        v18  high watermark of the following replica (KIP-1166)

    A reader without a session sends session id 0 and epoch -1. The last batch of a record set may be incomplete, and
    from v3 on a first batch larger than every limit is returned whole, so that a reader always makes progress.

    Where to read, how many bytes, and how long the broker waits for them.
    """

    ROUTE = Route(RequestTarget.REPLICA)
    PERMISSIONS = permissions("READ topic")
    ERRORS = error_policy(
        _FETCH,
        _SESSION,
        _READ_FAILED,
        RESET_OFFSET="OFFSET_OUT_OF_RANGE",
    )
    ERRORS_BY_USE = MappingProxyType(
        {
            FETCH_FROM_FOLLOWER: error_policy(
                "",
                _SESSION,
                TO_LEADER=f"{_FETCH} OFFSET_OUT_OF_RANGE",
                FAIL="TOPIC_AUTHORIZATION_FAILED",
            )
        }
    )

    class ReplicaState(Struct):
        """Set by a follower; consumers keep the defaults."""

        replica_id: int = int32("15+", default=-1)
        replica_epoch: int = int64("15+", default=-1)

    class FetchTopic(Struct):
        """A topic: by name up to v12, by id from v13."""

        class FetchPartition(Struct):
            """`partition_max_bytes` is not a hard limit: the first batch is returned whole."""

            partition: int = int32("0+")
            current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
            fetch_offset: int = int64("0+")
            last_fetched_epoch: int = int32("12+", default=-1)
            log_start_offset: int = int64("5+", default=-1, ignorable=True)
            partition_max_bytes: int = int32("0+")
            replica_directory_id: UUID = uuid("17+", tag=0, ignorable=True)
            high_watermark: int = int64("18+", default=9223372036854775807, tag=1, ignorable=True)

        topic: str = string("0-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partitions: list[FetchPartition] = array(FetchPartition, "0+")

    class ForgottenTopic(Struct):
        """Partitions to remove from the fetch session."""

        topic: str = string("7-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partitions: list[int] = array(int32, "7+")

    FetchPartition: TypeAlias = FetchTopic.FetchPartition

    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0, ignorable=True)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


class FetchResponse(Response, answers=FetchRequest):
    """Record sets per partition."""

    class FetchableTopicResponse(Struct):
        """A topic: by name up to v12, by id from v13."""

        class PartitionData(Struct):
            """`records` is a view of the response's bytes. `aborted_transactions` overlap what was returned."""

            class EpochEndOffset(Struct):
                """The offset at which the reader's log and the leader's diverge."""

                epoch: int = int32("12+", default=-1)
                end_offset: int = int64("12+", default=-1)

            class LeaderIdAndEpoch(Struct):
                """The current leader; -1 if it is unknown."""

                leader_id: int = int32("12+", default=-1)
                leader_epoch: int = int32("12+", default=-1)

            class SnapshotId(Struct):
                """A snapshot of the metadata log."""

                end_offset: int = int64("0+", default=-1)
                epoch: int = int32("0+", default=-1)

            class AbortedTransaction(Struct):
                """`first_offset` is the transaction's first record in this partition; its marker ends it."""

                producer_id: int = int64("4+")
                first_offset: int = int64("4+")

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            high_watermark: int = int64("0+")
            last_stable_offset: int = int64("4+", default=-1, ignorable=True)
            log_start_offset: int = int64("5+", default=-1, ignorable=True)
            diverging_epoch: EpochEndOffset = struct(EpochEndOffset, "12+", tag=0)
            current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "12+", tag=1)
            snapshot_id: SnapshotId = struct(SnapshotId, "12+", tag=2)
            aborted_transactions: list[AbortedTransaction] | None = array(
                AbortedTransaction, "4+", nullable="4+", ignorable=True
            )
            preferred_read_replica: int = int32("11+", default=-1)
            records: ByteString | None = record_set("0+", nullable="0+")

        topic: str = string("0-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partitions: list[PartitionData] = array(PartitionData, "0+")

    class NodeEndpoint(Struct):
        """The address of a broker named in `current_leader`."""

        node_id: int = int32("16+")
        host: str = string("16+")
        port: int = int32("16+")
        rack: str | None = string("16+", nullable="16+", default=None)

    EpochEndOffset: TypeAlias = FetchableTopicResponse.PartitionData.EpochEndOffset
    LeaderIdAndEpoch: TypeAlias = FetchableTopicResponse.PartitionData.LeaderIdAndEpoch
    SnapshotId: TypeAlias = FetchableTopicResponse.PartitionData.SnapshotId
    AbortedTransaction: TypeAlias = FetchableTopicResponse.PartitionData.AbortedTransaction
    PartitionData: TypeAlias = FetchableTopicResponse.PartitionData

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)


class ListOffsetsRequest(
    Request["ListOffsetsResponse"],
    key=2,
    versions="0-11",
    flexible="6+",
    deprecated="0",
    for_clients="1+",
    client_waits="3+",
):
    """ListOffsets (API key 2): offsets by time.

        v0   no offsets by time, but the first offsets of segments: at most `max_num_offsets`, newest first
        v1   one offset a partition: the first at or after a time; the oldest version that 4.0 takes
        v2   isolation level: under read_committed the latest offset is the last stable one
        v3   throttles after the response
        v4   leader epochs, in request and response (KIP-320)
        v5   OFFSET_NOT_AVAILABLE right after a leader change (KIP-207)
        v6   flexible
        v7   time -3: the record with the largest timestamp (KIP-734)
        v8   time -4: the earliest offset on the broker's own disk (KIP-405)
        v9   time -5: the latest offset in tiered storage (KIP-1005)
        v10  a timeout, for answers that come from tiered storage (KIP-1075)
        v11  time -6: the earliest offset not yet in tiered storage (KIP-1023)

    Time -1 is the latest offset, -2 the earliest. Offset -1 in the response: no record at or after that time.

    A time (or one of the special values) per partition.
    """

    ROUTE = Route(RequestTarget.LEADER)
    PERMISSIONS = permissions("DESCRIBE topic")
    ERRORS = error_policy(
        f"{LEADER} LEADER_NOT_AVAILABLE OFFSET_NOT_AVAILABLE TOPIC_AUTHORIZATION_FAILED "
        "UNSUPPORTED_FOR_MESSAGE_FORMAT INVALID_REQUEST",
        _READ_FAILED,
    )

    class ListOffsetsTopic(Struct):
        class ListOffsetsPartition(Struct):
            partition_index: int = int32("0+")
            current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
            timestamp: int = int64("0+")
            max_num_offsets: int = int32("0", default=1)

        name: str = string("0+")
        partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition, "0+")

    ListOffsetsPartition: TypeAlias = ListOffsetsTopic.ListOffsetsPartition

    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic, "0+")
    timeout_ms: int = int32("10+", ignorable=True)


class ListOffsetsResponse(Response, answers=ListOffsetsRequest):
    """An offset per partition, with the timestamp found there."""

    class ListOffsetsTopicResponse(Struct):
        class ListOffsetsPartitionResponse(Struct):
            """For the special times `timestamp` is -1, except for -3."""

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            old_style_offsets: list[int] = array(int64, "0")
            timestamp: int = int64("1+", default=-1)
            offset: int = int64("1+", default=-1)
            leader_epoch: int = int32("4+", default=-1)

        name: str = string("0+")
        partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, "0+")

    ListOffsetsPartitionResponse: TypeAlias = ListOffsetsTopicResponse.ListOffsetsPartitionResponse

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, "0+")


class OffsetForLeaderEpochRequest(
    Request["OffsetForLeaderEpochResponse"], key=23, versions="0-4", flexible="4+", deprecated="0-1"
):
    """OffsetForLeaderEpoch (API key 23): where a leader epoch ended.

    A reader detects by it that the log was truncated.

    v1  the response has the epoch too
    v2  the leader epoch that the reader knows (KIP-320); the oldest version that 4.0 takes
    v3  replica id: -2 is a reader that may see past the high watermark, -1 a consumer
    v4  flexible

    An epoch per partition.
    """

    ROUTE = Route(RequestTarget.LEADER)
    PERMISSIONS = permissions("DESCRIBE topic")
    ERRORS = error_policy(f"{LEADER} TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED", _READ_FAILED)

    class OffsetForLeaderTopic(Struct):
        class OffsetForLeaderPartition(Struct):
            partition: int = int32("0+")
            current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
            leader_epoch: int = int32("0+")

        topic: str = string("0+")
        partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition, "0+")

    OffsetForLeaderPartition: TypeAlias = OffsetForLeaderTopic.OffsetForLeaderPartition

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic, "0+")


class OffsetForLeaderEpochResponse(Response, answers=OffsetForLeaderEpochRequest):
    """Per partition: the largest epoch at or below the requested one, and the offset after its last record."""

    class OffsetForLeaderTopicResult(Struct):
        class EpochEndOffset(Struct):
            """-1 and -1 if the broker does not know the epoch."""

            error_code: int = int16("0+")
            partition: int = int32("0+")
            leader_epoch: int = int32("1+", default=-1, ignorable=True)
            end_offset: int = int64("0+", default=-1)

        topic: str = string("0+")
        partitions: list[EpochEndOffset] = array(EpochEndOffset, "0+")

    EpochEndOffset: TypeAlias = OffsetForLeaderTopicResult.EpochEndOffset

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult, "0+")
