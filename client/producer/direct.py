"""Producing: whole batches to partitions, idempotent or in a transaction. For tools and tests, and not tuned for speed.

    producer = Producer(cluster, "my-id")
    producer.begin()
    producer.send({TopicPartition("orders", 0): [Record(key=b"k", value=b"v")]})
    producer.commit()

A batch of an idempotent producer carries producer id, epoch and the sequence number of its first record; a leader drops
what it has got already, so that a retry after a lost answer appends nothing twice (KIP-98). Every `send` waits for its
answer, with acks from all replicas in sync: one batch of a partition is under way at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.leaders import Answered, ask_leaders
from kseg.client.cluster.metadata import Leader
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.producer.requests import produce_request, read_response
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import ProduceRequest, ProduceResponse
from kseg.client.protocol.partition import TopicPartition
from kseg.client.transactions.producer_identity import init_producer_id
from kseg.client.transactions.transaction import Transaction
from kseg.client.wire.broker import BrokerConnection
from kseg.segment_reader.encode.batches import Record, encode_batch

_ALL_IN_SYNC: Final = -1
_SEQUENCES: Final = 2**31
_MAGIC: Final = 16  # its position in a batch
_PRODUCER_ID: Final = slice(43, 51)


class Produced(NamedTuple):
    """Where a batch went: its first offset (-1: the leader had it already and has forgotten where).

    `log_append_time` is in ms, and -1 unless the topic's timestamps are the broker's.
    """

    base_offset: int
    log_append_time: int


def produce(
    cluster: Cluster,
    batches: Mapping[TopicPartition, bytes],
    *,
    transaction: Transaction | None = None,
) -> dict[TopicPartition, Produced]:
    """Append ready batches, one a partition, each to its leader.

    Batches without a producer id are not sent again after a lost answer, since they might be appended twice: it raises
    OutcomeUnknown then. Raises Fenced, and what `client.errors.error_from_code` makes of a partition's error.
    """

    def version_of(connection: BrokerConnection, leaders: Mapping[TopicPartition, Leader]) -> int:
        return connection.version_of(
            ProduceRequest,
            topic_ids_known=all(leader.topic_id is not None for leader in leaders.values()),
            transactional=transaction is not None,
            finalized_features=None if transaction is None else transaction.finalized_features,
        )

    def build(version: int, leaders: Mapping[TopicPartition, Leader]) -> ProduceRequest:
        return produce_request(
            version,
            {tp: batches[tp] for tp in leaders},
            leaders,
            acks=_ALL_IN_SYNC,
            timeout_ms=cluster.config.request_timeout_ms,
            transactional_id=None if transaction is None else transaction.transactional_id,
        )

    def read(response: ProduceResponse, leaders: Mapping[TopicPartition, Leader]) -> Iterator[Answered[Produced]]:
        for answer in read_response(response, leaders):
            duplicate = answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            produced = Produced(answer.base_offset, answer.log_append_time)
            yield Answered(answer.tp, 0 if duplicate else answer.error_code, produced, answer.leader)

    repeatable = all(_has_producer_id(batch) for batch in batches.values())
    return ask_leaders(cluster, batches, ProduceRequest, build, read, version_of, repeatable=repeatable)


def _has_producer_id(batch: bytes) -> bool:
    """Whether a leader that has the batch already drops it: magic 2 or later, with a producer id in its header."""
    return batch[_MAGIC] >= 2 and int.from_bytes(batch[_PRODUCER_ID], "big", signed=True) >= 0


class Producer:
    """An idempotent producer; with a transactional id one whose records count when `commit` has returned.

    Leaving it as a context manager on an error aborts what is open.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str | None = None,
        *,
        compression: str = "none",
        transaction_timeout_ms: int | None = None,
    ) -> None:
        self.compression = compression
        self.transaction = (
            None
            if transactional_id is None
            else Transaction(cluster, transactional_id, timeout_ms=transaction_timeout_ms)
        )
        self._cluster = cluster
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.transaction is not None:
            self.transaction.__exit__(kind, error, trace)

    def begin(self) -> None:
        """Begin a transaction; the first time it fences older producers of the same transactional id."""
        transaction = self._transactional()
        if self._identity is None:
            transaction.begin()
        else:
            transaction.begin_next()
        self._take_identity(transaction.producer_id, transaction.producer_epoch)

    def commit(self) -> None:
        """Commit: the records of this transaction become visible to read_committed readers."""
        self._transactional().commit()

    def abort(self) -> None:
        """Abort: no read_committed reader will see the records of this transaction."""
        self._transactional().abort()

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit a group's offsets with this transaction."""
        self._transactional().commit_offsets(group, offsets)

    def send(
        self, records: Mapping[TopicPartition, Sequence[Record]], *, compression: str | None = None
    ) -> dict[TopicPartition, Produced]:
        """Append one batch to each partition, and wait until all replicas in sync have it.

        A batch must fit into the topic's `max.message.bytes`. Raises as `produce` does; after an error that is not
        retriable the sequence of the partitions is open, and a new producer is needed.
        """
        if self.transaction is not None:
            self.transaction.add_partitions(list(records))
        elif self._identity is None:
            self._take_identity(*init_producer_id(self._cluster))
        if self._identity is None:
            raise RuntimeError("no transaction is open: call begin() first")
        producer_id, producer_epoch = self._identity
        batches = {
            tp: encode_batch(
                batch,
                compression=self.compression if compression is None else compression,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=self._sequences.get(tp, 0),
                transactional=self.transaction is not None,
            )
            for tp, batch in records.items()
            if batch
        }
        produced = produce(self._cluster, batches, transaction=self.transaction) if batches else {}
        for tp in batches:
            self._sequences[tp] = (self._sequences.get(tp, 0) + len(records[tp])) % _SEQUENCES
        return produced

    def _take_identity(self, producer_id: int, producer_epoch: int) -> None:
        if self._identity != (producer_id, producer_epoch):
            self._identity = (producer_id, producer_epoch)
            self._sequences.clear()  # a new epoch counts from zero

    def _transactional(self) -> Transaction:
        if self.transaction is None:
            raise RuntimeError("this producer has no transactional id")
        return self.transaction
