"""Producers and transactions: what was committed is there, what was aborted is told, and epochs keep the old out."""

from __future__ import annotations

from typing import Any

from kseg.client.protocol.messages.offsets import OffsetFetchRequest
from kseg.client.protocol.messages.produce import InitProducerIdRequest
from kseg.client.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from kseg.segment_reader.encode.batches import Record, encode_batch

CONCURRENT_TRANSACTIONS = 51


class Transaction:
    """One transactional producer, each request in the version under test or the newest before KIP-890."""

    def __init__(self, peer: Any, **versions: int) -> None:
        self.peer = peer
        self.versions = versions
        self.id = peer.name("tx")
        self.producer_id, self.epoch = peer.producer_id(self.id)
        self.sequence = 0

    def version(self, api: str, cap: int) -> int:
        return self.versions.get(api, min(self.peer.newest(api), cap))

    def add(self, topic: str) -> None:
        def ask() -> None:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction.AddPartitionsToTxnTopic(
                        name=topic, partitions=[0]
                    )
                ],
            )
            response = self.peer.call(request, self.version("AddPartitionsToTxn", 3))
            [found] = response.results_by_topic_v3_and_below
            [result] = found.results_by_partition
            assert (found.name, result.partition_index, result.partition_error_code) == (topic, 0, 0), response

        self.peer.eventually(ask)

    def write(self, topic: str, value: bytes) -> int:
        batch = encode_batch(
            [Record(value=value)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        entry = self.peer.produce(topic, batch, transactional_id=self.id)
        assert entry.error_code == 0, entry
        self.sequence += 1
        offset: int = entry.base_offset
        return offset

    def end(self, *, committed: bool) -> Any:
        def ask() -> Any:
            request = EndTxnRequest(
                transactional_id=self.id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=committed,
            )
            response = self.peer.call(request, self.version("EndTxn", 4))
            assert response.error_code != CONCURRENT_TRANSACTIONS
            return response

        return self.peer.eventually(ask)

    def add_group(self, group: str) -> Any:
        def ask() -> Any:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
            )
            response = self.peer.call(request, self.version("AddOffsetsToTxn", 9))
            assert response.error_code != CONCURRENT_TRANSACTIONS
            return response

        return self.peer.eventually(ask)

    def commit_offset(self, group: str, topic: str, offset: int) -> int:
        part = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="in a transaction"
        )
        data = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[data],
        )
        response = self.peer.call(request, self.version("TxnOffsetCommit", 4))
        [found] = response.topics
        assert found.name == topic
        code: int = found.partitions[0].error_code
        return code


def _stable(peer: Any, topic: str, offset: int) -> None:
    """Until the last stable offset stands there: EndTxn answers before the markers are written."""

    def look() -> None:
        assert peer.fetch(topic, 0, isolation_level=1).last_stable_offset == offset

    peer.eventually(look)


def init_producer_id(peer: Any, version: int) -> None:
    plain, epoch = peer.producer_id(None, version)
    assert plain >= 0
    assert epoch == 0
    assert peer.producer_id(None, version)[0] != plain
    name = peer.name("tx")
    first = peer.producer_id(name, version)
    second = peer.producer_id(name, version)
    assert second == (first[0], first[1] + 1)  # the same producer, fenced
    if version >= 3:
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=30_000, producer_id=second[0], producer_epoch=second[1]
        )
        bumped = peer.call(request, version)
        assert (bumped.error_code, bumped.producer_id, bumped.producer_epoch) == (0, second[0], second[1] + 1)


def add_partitions_to_txn(peer: Any, version: int) -> None:
    topic = peer.topic()
    transaction = Transaction(peer, AddPartitionsToTxn=version)
    transaction.add(topic)
    assert transaction.write(topic, b"in it") == 0
    assert transaction.end(committed=True).error_code == 0
    _stable(peer, topic, 2)  # the record and its marker
    assert peer.values(topic, 0, 1) == [b"in it"]


def add_offsets_to_txn(peer: Any, version: int) -> None:
    _offsets_in_a_transaction(peer, AddOffsetsToTxn=version)


def txn_offset_commit(peer: Any, version: int) -> None:
    _offsets_in_a_transaction(peer, TxnOffsetCommit=version)


def _offsets_in_a_transaction(peer: Any, **versions: int) -> None:
    topic, group = peer.topic(), peer.name("group")
    peer.await_coordinator(group)
    transaction = Transaction(peer, **versions)
    assert transaction.add_group(group).error_code == 0

    def commit() -> None:
        assert transaction.commit_offset(group, topic, 11) == 0

    peer.eventually(commit)
    assert _committed(peer, group, topic) == -1  # nothing yet
    assert transaction.end(committed=True).error_code == 0

    def look() -> None:
        assert _committed(peer, group, topic) == 11

    peer.eventually(look)


def _committed(peer: Any, group: str, topic: str) -> int:
    part = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
    response = peer.call(OffsetFetchRequest(group_id=group, topics=[part]), min(5, peer.newest("OffsetFetch")))
    offset: int = response.topics[0].partitions[0].committed_offset
    return offset


def end_txn(peer: Any, version: int) -> None:
    topic = peer.topic()
    transaction = Transaction(peer, EndTxn=version)
    transaction.add(topic)
    transaction.write(topic, b"kept")
    assert transaction.end(committed=True).error_code == 0
    _stable(peer, topic, 2)
    transaction.add(topic)
    assert transaction.write(topic, b"thrown away") == 2
    assert peer.fetch(topic, 0, isolation_level=1).last_stable_offset == 2
    assert transaction.end(committed=False).error_code == 0
    _stable(peer, topic, 4)
    aborted = peer.fetch(topic, 0, isolation_level=1).aborted_transactions
    assert [(one.producer_id, one.first_offset) for one in aborted] == [(transaction.producer_id, 2)]
    stale = transaction.epoch
    transaction.producer_id, transaction.epoch = peer.producer_id(transaction.id)
    transaction.epoch = stale
    assert transaction.end(committed=True).error_code in (47, 90)  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED


def write_txn_markers(peer: Any, version: int) -> None:
    """As an administrator ends a transaction that its coordinator has forgotten."""
    topic = peer.topic()
    transaction = Transaction(peer)
    transaction.add(topic)
    transaction.write(topic, b"hanging")
    made = WriteTxnMarkersRequest.WritableTxnMarker
    marker = made(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_result=False,
        topics=[made.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=0,
    )
    [answered] = peer.call(WriteTxnMarkersRequest(markers=[marker]), version).markers
    [found] = answered.topics
    assert (answered.producer_id, found.name) == (transaction.producer_id, topic)
    assert [(one.partition_index, one.error_code) for one in found.partitions] == [(0, 0)]
    _stable(peer, topic, 2)
    [aborted] = peer.fetch(topic, 0, isolation_level=1).aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (transaction.producer_id, 0)
    transaction.end(committed=False)


def describe_producers(peer: Any, version: int) -> None:
    topic = peer.topic()
    transaction = Transaction(peer)
    transaction.add(topic)
    transaction.write(topic, b"open")
    data = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[0])
    [found] = peer.call(DescribeProducersRequest(topics=[data]), version).topics
    [partition] = found.partitions
    assert (found.name, partition.partition_index, partition.error_code) == (topic, 0, 0)
    [producer] = partition.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (transaction.producer_id, transaction.epoch)
    assert (producer.last_sequence, producer.current_txn_start_offset) == (0, 0)
    transaction.end(committed=True)


def describe_transactions(peer: Any, version: int) -> None:
    topic = peer.topic()
    transaction = Transaction(peer)
    transaction.add(topic)
    request = DescribeTransactionsRequest(transactional_ids=[transaction.id, peer.name("nobody")])
    states = {found.transactional_id: found for found in peer.call(request, version).transaction_states}
    found = states.pop(transaction.id)
    assert (found.error_code, found.transaction_state) == (0, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == (transaction.producer_id, transaction.epoch)
    assert [(one.topic, one.partitions) for one in found.topics] == [(topic, [0])]
    [nobody] = states.values()
    assert nobody.error_code == 105  # TRANSACTIONAL_ID_NOT_FOUND
    transaction.end(committed=False)


def list_transactions(peer: Any, version: int) -> None:
    transaction = Transaction(peer)
    transaction.add(peer.topic())

    def listed(**filters: Any) -> dict[str, Any]:
        response = peer.call(ListTransactionsRequest(**filters), version)
        assert response.error_code == 0
        return {found.transactional_id: found for found in response.transaction_states}

    found = listed()[transaction.id]
    assert (found.producer_id, found.transaction_state) == (transaction.producer_id, "Ongoing")
    assert transaction.id in listed(state_filters=["Ongoing"], producer_id_filters=[transaction.producer_id])
    assert transaction.id not in listed(state_filters=["CompleteCommit"])
    if version >= 1:
        assert transaction.id not in listed(duration_filter=3_600_000)
    transaction.end(committed=False)


CHECKS = {
    "InitProducerId": init_producer_id,
    "AddPartitionsToTxn": add_partitions_to_txn,
    "AddOffsetsToTxn": add_offsets_to_txn,
    "TxnOffsetCommit": txn_offset_commit,
    "EndTxn": end_txn,
    "WriteTxnMarkers": write_txn_markers,
    "DescribeProducers": describe_producers,
    "DescribeTransactions": describe_transactions,
    "ListTransactions": list_transactions,
}
