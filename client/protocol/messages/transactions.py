"""Transactions of producers, and what an administrator asks about them."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.error_policy import ABORTABLE, COORDINATOR, TRANSACTION, error_policy
from kseg.client.protocol.fields import array, boolean, int8, int16, int32, int64, string
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Request, Response, Struct


class AddPartitionsToTxnRequest(
    Request["AddPartitionsToTxnResponse"], key=24, versions="0-5", flexible="3+", for_clients="0-3", client_waits="1+"
):
    """AddPartitionsToTxn (API key 24): adds partitions to a transaction, before it writes to them.

    v1  throttles after the response
    v2  PRODUCER_FENCED
    v3  flexible; the last version for clients
    v4  many transactions at once, asked by brokers on behalf of their clients (KIP-890)
    v5  TRANSACTION_ABORTABLE

    One transaction's partitions up to v3, many transactions' from v4.
    """

    ROUTE = Route(RequestTarget.TRANSACTION_COORDINATOR)
    PERMISSIONS = permissions("WRITE topic, WRITE transactional id")
    ERRORS = error_policy(
        f"{TRANSACTION} TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION OPERATION_NOT_ATTEMPTED", ABORTABLE
    )

    class AddPartitionsToTxnTransaction(Struct):
        """From v4."""

        class AddPartitionsToTxnTopic(Struct):
            name: str = string("0+")
            partitions: list[int] = array(int32, "0+")

        transactional_id: str = string("4+")
        producer_id: int = int64("4+")
        producer_epoch: int = int16("4+")
        verify_only: bool = boolean("4+")
        topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")

    AddPartitionsToTxnTopic: TypeAlias = AddPartitionsToTxnTransaction.AddPartitionsToTxnTopic

    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


class AddPartitionsToTxnResponse(Response, answers=AddPartitionsToTxnRequest):
    """An error per partition."""

    class AddPartitionsToTxnResult(Struct):
        """From v4."""

        class AddPartitionsToTxnTopicResult(Struct):
            class AddPartitionsToTxnPartitionResult(Struct):
                partition_index: int = int32("0+")
                partition_error_code: int = int16("0+")

            name: str = string("0+")
            results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
                AddPartitionsToTxnPartitionResult, "0+"
            )

        transactional_id: str = string("4+")
        topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")

    AddPartitionsToTxnTopicResult: TypeAlias = AddPartitionsToTxnResult.AddPartitionsToTxnTopicResult
    AddPartitionsToTxnPartitionResult: TypeAlias = AddPartitionsToTxnTopicResult.AddPartitionsToTxnPartitionResult

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")


class AddOffsetsToTxnRequest(
    Request["AddOffsetsToTxnResponse"], key=25, versions="0-4", flexible="3+", client_waits="1+"
):
    """AddOffsetsToTxn (API key 25): adds a group's offsets to a transaction, before they are committed in it.

    With the second transaction protocol TxnOffsetCommit does this by itself (KIP-890).

        v1  throttles after the response
        v2  PRODUCER_FENCED
        v3  flexible
        v4  TRANSACTION_ABORTABLE (KIP-890)

    The transaction and the group.
    """

    ROUTE = Route(RequestTarget.TRANSACTION_COORDINATOR)
    PERMISSIONS = permissions("READ group, WRITE transactional id")
    ERRORS = error_policy(f"{TRANSACTION} GROUP_AUTHORIZATION_FAILED INVALID_GROUP_ID", ABORTABLE)

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTxnResponse(Response, answers=AddOffsetsToTxnRequest):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")


class TxnOffsetCommitRequest(
    Request["TxnOffsetCommitResponse"],
    key=28,
    versions="0-5",
    flexible="3+",
    first_transaction_protocol="0-4",
    client_waits="1+",
):
    """TxnOffsetCommit (API key 28): stores a group's offsets in a transaction: they take effect when it commits.

        v1  throttles after the response
        v2  leader epoch of the last record read
        v3  flexible; member id and generation, so that members of an older generation are rejected (KIP-447)
        v4  TRANSACTION_ABORTABLE (KIP-890)
        v5  adds the offsets to the transaction by itself: `versions` decides when it may be used

    Goes to the group's coordinator, not to the transaction's. A commit by a non-member has generation -1 and member
    id ""; brokers take such a commit even while the group has live members.

    Offsets per partition, and the transaction they belong to.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("READ topic, READ group, WRITE transactional id")
    ERRORS = error_policy(
        f"{TRANSACTION} GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED "
        "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID INVALID_GROUP_ID OFFSET_METADATA_TOO_LARGE "
        "INVALID_COMMIT_OFFSET_SIZE UNSUPPORTED_FOR_MESSAGE_FORMAT REQUEST_TIMED_OUT",
        ABORTABLE,
        # Another member may own the partitions by now, and reads the records again.
        ABORT="UNKNOWN_MEMBER_ID ILLEGAL_GENERATION STALE_MEMBER_EPOCH",
        FAIL="FENCED_INSTANCE_ID",
    )

    class TxnOffsetCommitRequestTopic(Struct):
        class TxnOffsetCommitRequestPartition(Struct):
            """`committed_offset` is the next one to read."""

            partition_index: int = int32("0+")
            committed_offset: int = int64("0+")
            committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
            committed_metadata: str | None = string("0+", nullable="0+")

        name: str = string("0+")
        partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, "0+")

    TxnOffsetCommitRequestPartition: TypeAlias = TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+")


class TxnOffsetCommitResponse(Response, answers=TxnOffsetCommitRequest):
    """An error per partition."""

    class TxnOffsetCommitResponseTopic(Struct):
        class TxnOffsetCommitResponsePartition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0+")
        partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition, "0+")

    TxnOffsetCommitResponsePartition: TypeAlias = TxnOffsetCommitResponseTopic.TxnOffsetCommitResponsePartition

    throttle_time_ms: int = int32("0+")
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+")


class EndTxnRequest(
    Request["EndTxnResponse"],
    key=26,
    versions="0-5",
    flexible="3+",
    first_transaction_protocol="0-4",
    client_waits="1+",
):
    """EndTxn (API key 26): commits or aborts a transaction.

    The response comes when the decision is in the transaction log; markers follow.

    v1  throttles after the response
    v2  PRODUCER_FENCED
    v3  flexible
    v4  TRANSACTION_ABORTABLE (KIP-890)
    v5  bumps the epoch, and returns the next transaction's producer id and epoch: `versions` decides when it is used

    The transaction, and how it ends.
    """

    ROUTE = Route(RequestTarget.TRANSACTION_COORDINATOR, RetrySafety.VERIFY_FIRST, verify_with="DescribeTransactions")
    PERMISSIONS = permissions("WRITE transactional id")
    ERRORS = error_policy(TRANSACTION, ABORTABLE)

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


class EndTxnResponse(Response, answers=EndTxnRequest):
    """From v5: the producer id and epoch of the next transaction; -1 if there are none."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)


class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"], key=27, versions="0-2", flexible="1+", deprecated="0"):
    """WriteTxnMarkers (API key 27): writes commit or abort markers into partitions.

    Sent by transaction coordinators; an administrator ends a hanging transaction with it (KIP-664).

    v1  flexible
    v2  the transaction's version, for a stricter check of epochs (KIP-1228)

    Markers, each for one producer's partitions; `transaction_result` is true for a commit.
    """

    # Between brokers; an administrator ends a hanging transaction with it (KIP-664).
    ROUTE = Route(RequestTarget.LEADER)
    PERMISSIONS = permissions("CLUSTER_ACTION cluster")
    ERRORS = error_policy(
        "CORRUPT_MESSAGE INVALID_PRODUCER_EPOCH UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER "
        "MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND "
        "INVALID_REQUIRED_ACKS TRANSACTION_COORDINATOR_FENCED REQUEST_TIMED_OUT "
        "CLUSTER_AUTHORIZATION_FAILED",
    )

    class WritableTxnMarker(Struct):
        """`coordinator_epoch` -1 for an administrator's."""

        class WritableTxnMarkerTopic(Struct):
            name: str = string("0+")
            partition_indexes: list[int] = array(int32, "0+")

        producer_id: int = int64("0+")
        producer_epoch: int = int16("0+")
        transaction_result: bool = boolean("0+")
        topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+")
        coordinator_epoch: int = int32("0+")
        transaction_version: int = int8("2+", ignorable=True)

    WritableTxnMarkerTopic: TypeAlias = WritableTxnMarker.WritableTxnMarkerTopic

    markers: list[WritableTxnMarker] = array(WritableTxnMarker, "0+")


class WriteTxnMarkersResponse(Response, answers=WriteTxnMarkersRequest):
    """An error per producer and partition."""

    class WritableTxnMarkerResult(Struct):
        class WritableTxnMarkerTopicResult(Struct):
            class WritableTxnMarkerPartitionResult(Struct):
                partition_index: int = int32("0+")
                error_code: int = int16("0+")

            name: str = string("0+")
            partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult, "0+")

        producer_id: int = int64("0+")
        topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+")

    WritableTxnMarkerTopicResult: TypeAlias = WritableTxnMarkerResult.WritableTxnMarkerTopicResult
    WritableTxnMarkerPartitionResult: TypeAlias = WritableTxnMarkerTopicResult.WritableTxnMarkerPartitionResult

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+")


class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"], key=65, versions="0", flexible="0+"):
    """DescribeTransactions (API key 65): returns the state of transactions (KIP-664); goes to each one's coordinator.

    Transactional ids.
    """

    ROUTE = Route(RequestTarget.TRANSACTION_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE transactional id")
    ERRORS = error_policy(f"{COORDINATOR} TRANSACTIONAL_ID_NOT_FOUND TRANSACTIONAL_ID_AUTHORIZATION_FAILED")

    transactional_ids: list[str] = array(string, "0+")


class DescribeTransactionsResponse(Response, answers=DescribeTransactionsRequest):
    """State, producer and partitions of each."""

    class TransactionState(Struct):
        """`transaction_start_time_ms` is -1 if no transaction is open."""

        class TopicData(Struct):
            topic: str = string("0+")
            partitions: list[int] = array(int32, "0+")

        error_code: int = int16("0+")
        transactional_id: str = string("0+")
        transaction_state: str = string("0+")
        transaction_timeout_ms: int = int32("0+")
        transaction_start_time_ms: int = int64("0+")
        producer_id: int = int64("0+")
        producer_epoch: int = int16("0+")
        topics: list[TopicData] = array(TopicData, "0+")

    TopicData: TypeAlias = TransactionState.TopicData

    throttle_time_ms: int = int32("0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")


class ListTransactionsRequest(Request["ListTransactionsResponse"], key=66, versions="0-2", flexible="0+"):
    """ListTransactions (API key 66): lists the transactions that one broker coordinates (KIP-664): ask all brokers for
    all.

    v1  only those that have been open for longer (KIP-994)
    v2  only those whose transactional id matches a regular expression (KIP-1152)

    Filters; an empty list and -1 match everything.
    """

    ROUTE = Route(RequestTarget.ALL_BROKERS)
    PERMISSIONS = permissions("", otherwise="DESCRIBE on transactional id; others are left out")
    ERRORS = error_policy(
        "COORDINATOR_LOAD_IN_PROGRESS INVALID_REGULAR_EXPRESSION TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        AGAIN="COORDINATOR_NOT_AVAILABLE",
    )

    state_filters: list[str] = array(string, "0+")
    producer_id_filters: list[int] = array(int64, "0+")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class ListTransactionsResponse(Response, answers=ListTransactionsRequest):
    """The transactions. State filters that the broker does not know are listed."""

    class TransactionState(Struct):
        transactional_id: str = string("0+")
        producer_id: int = int64("0+")
        transaction_state: str = string("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array(string, "0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")


class DescribeProducersRequest(Request["DescribeProducersResponse"], key=61, versions="0", flexible="0+"):
    """DescribeProducers (API key 61): returns the producers that write to partitions (KIP-664); goes to the leader.

    It helps to find hanging transactions.

    Partitions by topic.
    """

    ROUTE = Route(RequestTarget.LEADER)
    PERMISSIONS = permissions("READ topic")
    ERRORS = error_policy(
        "NOT_LEADER_OR_FOLLOWER UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION"
    )

    class TopicRequest(Struct):
        name: str = string("0+")
        partition_indexes: list[int] = array(int32, "0+")

    topics: list[TopicRequest] = array(TopicRequest, "0+")


class DescribeProducersResponse(Response, answers=DescribeProducersRequest):
    """The producers of each partition."""

    class TopicResponse(Struct):
        class PartitionResponse(Struct):
            class ProducerState(Struct):
                """`current_txn_start_offset` is -1 if no transaction is open."""

                producer_id: int = int64("0+")
                producer_epoch: int = int32("0+")
                last_sequence: int = int32("0+", default=-1)
                last_timestamp: int = int64("0+", default=-1)
                coordinator_epoch: int = int32("0+")
                current_txn_start_offset: int = int64("0+", default=-1)

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)
            active_producers: list[ProducerState] = array(ProducerState, "0+")

        name: str = string("0+")
        partitions: list[PartitionResponse] = array(PartitionResponse, "0+")

    PartitionResponse: TypeAlias = TopicResponse.PartitionResponse
    ProducerState: TypeAlias = PartitionResponse.ProducerState

    throttle_time_ms: int = int32("0+")
    topics: list[TopicResponse] = array(TopicResponse, "0+")
