"""Transactions from outside: who writes, what is open, and how to end one that hangs.

    describe_producers      DescribeProducers (61)      each partition's leader
    describe_transactions   DescribeTransactions (65)   each transactional id's coordinator
    list_transactions       ListTransactions (66)       every broker: each lists those that it coordinates
    abort_transaction       WriteTxnMarkers (27)        the partition's leader; for a hanging transaction alone
    fence_producer          InitProducerId (22)         the coordinator: ends what its producer left open, the clean way

A transaction hangs when a partition holds it open and no coordinator knows of it (a bug of a broker, or what KIP-890
prevents since). Readers with read_committed never get past it then, and no producer can end it: `abort_transaction`
writes the missing marker into the partition, as `kafka-transactions.sh abort` does. Sources: KIP-664, KIP-994.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.results import Results, ask_all_brokers, ask_each_leader, fixed, outcome, retry_failed_parts
from kseg.client.errors import KafkaError, TransactionError, UnsupportedVersion, error_from_code
from kseg.client.protocol.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from kseg.client.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kseg.client.protocol.partition import TopicPartition, by_topic
from kseg.client.retry import Deadline

_FIRST_WITH_DURATION: Final = 1
_FIRST_WITH_PATTERN: Final = 2
_NONE_OPEN: Final = -1


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a partition remembers. `transaction_start`: first offset of its open transaction, or None."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The coordinator's state of a transaction. States: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit,
    CompleteAbort …

    `start_ms` is None where no transaction is open.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id as a listing has it."""

    transactional_id: str
    producer_id: int
    state: str


def describe_producers(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> Results[TopicPartition, tuple[ActiveProducer, ...]]:
    """The idempotent and transactional producers that each partition's leader remembers."""

    def build(_: int, members: Collection[TopicPartition]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[tp.partition for tp in of_topic])
                for topic, of_topic in by_topic(members).items()
            ]
        )

    def read(response: DescribeProducersResponse) -> dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]:
        return {
            TopicPartition(topic.name, entry.partition_index): outcome(
                entry.error_code,
                "DescribeProducers",
                tuple(_producer(state) for state in entry.active_producers),
                detail=entry.error_message,
                topic=topic.name,
                partition=entry.partition_index,
            )
            for topic in response.topics
            for entry in topic.partitions
        }

    return ask_each_leader(cluster, partitions, DescribeProducersRequest, build, read)


def describe_transactions(cluster: Cluster, transactional_ids: Collection[str]) -> Results[str, TransactionDescription]:
    """Each transactional id's state at its own coordinator. One that nobody has used: TRANSACTIONAL_ID_NOT_FOUND."""
    results: Results[str, TransactionDescription] = Results()
    for name in transactional_ids:

        def ask(_: list[str], deadline: Deadline, name: str = name) -> dict[str, Any]:
            request = DescribeTransactionsRequest(transactional_ids=[name])
            response = cluster.send_now(
                DescribeTransactionsRequest, fixed(request), deadline, coordinator=("transaction", name)
            )
            return {
                state.transactional_id: outcome(
                    state.error_code,
                    "DescribeTransactions",
                    _transaction(state),
                    transactional_id=state.transactional_id,
                )
                for state in response.transaction_states
            }

        try:
            results |= retry_failed_parts(cluster, [name], ask, coordinator=("transaction", name))
        except KafkaError as error:
            results[name] = error
    return results


def list_transactions(
    cluster: Cluster,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int | None = None,
    pattern: str | None = None,
) -> Results[int, tuple[ListedTransaction, ...]]:
    """Every broker's transactional ids, by broker. Filters: none given lets everything pass.

    `longer_than_ms`: open for longer (from Kafka 3.7 on); `pattern`: a regular expression of Google's RE2 that the
    whole id fits (from 4.1 on). A broker that is too old for a filter has the error UnsupportedVersion; a state that
    there is not is a TransactionError.
    """

    def build(version: int) -> ListTransactionsRequest:
        request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))
        if version >= _FIRST_WITH_DURATION:
            request.duration_filter = -1 if longer_than_ms is None else longer_than_ms
        elif longer_than_ms is not None:
            raise UnsupportedVersion("the broker is too old to filter transactions by duration")
        if version >= _FIRST_WITH_PATTERN:
            request.transactional_id_pattern = pattern
        elif pattern is not None:
            raise UnsupportedVersion("the broker is too old to filter transactions by pattern")
        return request

    def read(_: int, response: ListTransactionsResponse) -> tuple[ListedTransaction, ...]:
        return tuple(
            ListedTransaction(state.transactional_id, state.producer_id, state.transaction_state)
            for state in response.transaction_states
        )

    def check(response: ListTransactionsResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "ListTransactions")
        if response.unknown_state_filters:
            raise TransactionError(f"no such transaction state: {', '.join(response.unknown_state_filters)}")

    return ask_all_brokers(cluster, ListTransactionsRequest, read, check=check, build=build)


def abort_transaction(cluster: Cluster, tp: TopicPartition, producer: ActiveProducer) -> None:
    """Write an abort marker for a producer's open transaction into one partition, past every coordinator.

    Only for a transaction that hangs: `describe_producers` shows it open and no broker lists its producer. Ending one
    that its coordinator still knows would abort in one partition what the coordinator may commit in others. Needs
    CLUSTER_ACTION on the cluster.
    """
    request = WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                transaction_result=False,
                # A partition that has seen no marker of this producer reports epoch -1, and accepts 0.
                coordinator_epoch=max(producer.coordinator_epoch, 0),
                topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
            )
        ]
    )

    def check(response: WriteTxnMarkersResponse) -> None:
        for marker in response.markers:
            for topic in marker.topics:
                for entry in topic.partitions:
                    if entry.error_code:
                        raise error_from_code(
                            entry.error_code, "WriteTxnMarkers", topic=topic.name, partition=entry.partition_index
                        )

    cluster.send(request, leader_of=tp, check=check)


def fence_producer(cluster: Cluster, transactional_id: str) -> tuple[int, int]:
    """End what the id's producer left open and lock it out; gives the id's new producer id and epoch."""

    def check(response: InitProducerIdResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "InitProducerId", transactional_id=transactional_id)

    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=cluster.config.transaction_timeout_ms
    )
    response = cluster.send(request, coordinator=("transaction", transactional_id), check=check)
    return response.producer_id, response.producer_epoch


def _producer(state: Any) -> ActiveProducer:
    start = state.current_txn_start_offset
    return ActiveProducer(
        producer_id=state.producer_id,
        epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        transaction_start=None if start == _NONE_OPEN else start,
    )


def _transaction(state: Any) -> TransactionDescription:
    started = state.transaction_start_time_ms
    return TransactionDescription(
        transactional_id=state.transactional_id,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        start_ms=None if started == _NONE_OPEN else started,
        partitions=frozenset(
            TopicPartition(topic.topic, partition) for topic in state.topics for partition in topic.partitions
        ),
    )
