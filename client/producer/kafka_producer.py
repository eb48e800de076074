"""A producer for many records: batched, idempotent by default, transactional with a transactional id.

    with KafkaProducer({"bootstrap.servers": "localhost:9092", "compression.type": "lz4"}) as producer:
        delivery = producer.send("orders", value=b"v", key=b"k")
        ...
    delivery.result().offset

`send` returns a future without waiting for the delivery: an I/O thread sends the records (`client.producer.sender`).
`send` is thread-safe; transactions and `close` are for one thread.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import NO_LEADER
from kseg.client.cluster.retry import Deadline
from kseg.client.errors import BrokerError, KafkaError, RecordTooLarge, RequestTimedOut, UnknownTopic, error_from_code
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.producer.accumulator import NEVER, Accumulator
from kseg.client.producer.batch import RECORD_OVERHEAD, Delivery
from kseg.client.producer.config import ProducerConfig
from kseg.client.producer.partitioners import (
    Default,
    Partitioner,
    RandomOnce,
    RoundRobin,
    TopicPartitions,
    UserPartitioner,
    Users,
)
from kseg.client.producer.sender import Sender
from kseg.client.protocol.partition import TopicPartition
from kseg.client.transactions.producer_identity import TransactionIdentity, init_producer_id
from kseg.client.transactions.transaction import Transaction
from kseg.client.wire.waiting import Waiter
from kseg.segment_reader.encode.batches import Record
from kseg.segment_reader.encode.bodies import Body

Headers = Sequence[tuple[str | bytes, bytes | None]]
_NO_PARTITIONS: Final = TopicPartitions(0, ())
#: After an error in a transaction: how many seconds to wait for batches in flight before the abort.
_CLEAN_UP_SECONDS: Final = 5.0


class KafkaProducer:
    """See the module. As a context manager, it delivers all records at the end and closes.

    An open transaction is aborted. After an exception, records that are not delivered yet fail.
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, str],
        *,
        partitioner: UserPartitioner | None = None,
        identity: TransactionIdentity | None = None,
    ) -> None:
        """`config`: properties by their Java names, or a ProducerConfig. Nothing is connected yet.

        partitioner: (topic, key, value, number of partitions) -> partition, instead of the configured one.
        identity: write in another owner's transaction (`Transaction.identity`), which the owner begins and ends; no
            other producer may write to the same partitions in it.
        """
        self.config = config if isinstance(config, ProducerConfig) else ProducerConfig.from_properties(config)
        self._cluster = Cluster(self.config.client)
        self._lock = threading.RLock()
        self._waiter = Waiter()
        self._accumulator = Accumulator(self.config, self._waiter.wake)
        self._sender = Sender(self.config, self._accumulator, self._waiter)
        self._choose = self._partitioner(partitioner)
        self._topics: dict[str, tuple[TopicPartitions, float]] = {}
        self._started = self._closed = False
        self._shared = identity
        self._transaction = (
            None if self.config.transactional_id is None else Transaction(self._cluster, self.config.transactional_id)
        )
        if identity is not None:
            self._accumulator.set_identity(identity)

    def __enter__(self) -> KafkaProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._transaction is not None and self._transaction.open:
                # Wait for batches in flight: one that arrives after the abort would be a hanging transaction.
                self._accumulator.abandon(_closing())
                self._accumulator.flush(time.monotonic() + _CLEAN_UP_SECONDS)
                with self._lock:
                    self._transaction.__exit__(kind, error, trace)
        finally:
            self.close(0 if error is not None else None)

    # -- records

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        headers: Headers = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Send one record; `timestamp` in ms, None: now; `partition` None: the partitioner chooses.

        Waits for metadata and for buffer memory, up to `max.block.ms` each. Raises UnknownTopic (also for a partition
        that does not exist), RecordTooLarge, BufferExhausted, UnsupportedVersion if the brokers are too old, and in a
        transaction the error that has failed it.
        """
        record = Record(key, value, headers, int(time.time() * 1000) if timestamp is None else timestamp)
        size = RECORD_OVERHEAD + (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
        if headers:
            size += sum(len(name) + len(content or b"") + 10 for name, content in headers)
        if size > self.config.max_request_size:
            limit = self.config.max_request_size
            raise RecordTooLarge(f"a record of {size} bytes is above max.request.size ({limit} bytes)", topic=topic)
        if not self._started:
            self._ready()
        known = self.partitions(topic)
        if partition is None:
            partition = self._choose(topic, key, value, known, size)
        if not 0 <= partition < known.count:
            raise _no_such_partition(topic, partition, known.count)
        tp = TopicPartition(topic, partition)
        if self._transaction is not None or self._shared is not None:
            self._enlist(tp)
        return self._accumulator.append(tp, record, size)

    def send_body(self, tp: TopicPartition, body: Body) -> Delivery:
        """Send a batch whose records are encoded already; the delivery is its first record's. Raises as `send`."""
        self._ready()
        if tp.partition >= self.partitions(tp.topic).count:
            raise _no_such_partition(tp.topic, tp.partition, self.partitions(tp.topic).count)
        self._enlist(tp)
        return self._accumulator.append_body(tp, body)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now, without lingering, and wait until each record is delivered or has failed.

        Raises RequestTimedOut after `timeout` seconds. The error of a record is in its delivery.
        """
        if not self._accumulator.flush(NEVER if timeout is None else time.monotonic() + timeout):
            raise RequestTimedOut(f"records are still in flight after {timeout} s")

    def close(self, timeout: float | None = None) -> None:
        """Deliver the buffered records within `timeout` seconds (None: without a limit), fail the rest, and stop."""
        if self._closed:
            return
        self._closed = True
        self._accumulator.close()
        if self._started:
            if timeout != 0:
                self._accumulator.flush(NEVER if timeout is None else time.monotonic() + timeout)
            self._sender.stop()
        self._accumulator.abandon(_closing(), also_under_way=True)
        self._waiter.close()
        with self._lock:
            self._cluster.close()

    def partitions(self, topic: str) -> TopicPartitions:
        """The topic's partitions, at most `metadata.max.age.ms` old. Waits for metadata up to `max.block.ms`."""
        known, until = self._topics.get(topic, (_NO_PARTITIONS, 0.0))
        return known if time.monotonic() < until else self._ask_partitions(topic)

    # -- transactions

    def begin(self) -> None:
        """Begin a transaction. The first call fences older producers of the same transactional id.

        A commit of the last one whose outcome is unknown is repeated first: if that fails, its error is raised.
        """
        with self._lock:
            transaction = self._transactional()
            if transaction.producer_id < 0:
                transaction.begin()
            else:
                transaction.begin_next()
            self._accumulator.set_identity(transaction.identity)

    def commit(self) -> None:
        """Deliver all records of the transaction, then commit it.

        Raises the error of a record (then only `abort` is possible), Fenced, and as `Transaction.commit`.
        """
        transaction = self._transactional()
        self._accumulator.flush()
        with self._lock:
            self._report_failure(transaction)
            transaction.commit()

    def abort(self) -> None:
        """Abort: waiting records fail, and read_committed consumers see none of the transaction's records."""
        transaction = self._transactional()
        self._accumulator.abandon(BrokerError("the transaction was aborted before the record was sent"))
        self._accumulator.flush()
        with self._lock:
            try:
                self._report_failure(transaction)
            except KafkaError:
                if not transaction.can_abort:
                    raise
            transaction.abort()

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit a group's offsets as part of this transaction."""
        with self._lock:
            self._transactional().commit_offsets(group, offsets)

    # -- inside

    def _ready(self) -> None:
        """Before the first record: get a producer id, start the I/O thread."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the producer is closed")
            if self._started:
                return
            if self.config.idempotent and self._transaction is None and self._shared is None:
                self._accumulator.set_ids(*init_producer_id(self._cluster))
            self._sender.start()
            self._started = True

    def _enlist(self, tp: TopicPartition) -> None:
        """Add the partition to the transaction; in a shared transaction its owner does that."""
        if self._transaction is None:
            return
        with self._lock:
            self._transaction.add_partitions([tp])

    def _report_failure(self, transaction: Transaction) -> None:
        failure = self._accumulator.failure
        if failure is not None:
            transaction.fail(failure, sequences_open=self._accumulator.sequences_open)
            raise failure

    def _ask_partitions(self, topic: str) -> TopicPartitions:
        with self._lock:

            def attempt(deadline: Deadline) -> TopicPartitions:
                self._cluster.forget_metadata()
                found = self._cluster.metadata_now([topic], deadline).topics[topic]
                if found.error is not None:
                    raise error_from_code(int(found.error), "Metadata", topic=topic)
                if not found.partitions:
                    raise UnknownTopic("the topic has no partitions", topic=topic, retriable=True)
                available = (p for p, partition in found.partitions.items() if partition.leader_id != NO_LEADER)
                return TopicPartitions(len(found.partitions), tuple(sorted(available)))

            known = self._cluster.retry(attempt, timeout=self.config.max_block_ms / 1000)
            self._topics[topic] = known, time.monotonic() + self.config.client.metadata_max_age_ms / 1000
            return known

    def _partitioner(self, users: UserPartitioner | None) -> Partitioner:
        if users is not None:
            return Users(users)
        if self.config.partitioner == "round_robin":
            return RoundRobin()
        if self.config.partitioner == "random":
            return RandomOnce()
        return Default(
            self.config.batch_size,
            ignore_keys=self.config.ignore_keys,
            queue_sizes=self._accumulator.waiting_batches if self.config.adaptive_partitioning else None,
            chance=random.Random(),
        )

    def _transactional(self) -> Transaction:
        if self._transaction is None:
            raise RuntimeError("this producer has no transactional id")
        return self._transaction


def _closing() -> KafkaError:
    return BrokerError("the producer was closed before the record was delivered")


def _no_such_partition(topic: str, partition: int, count: int) -> UnknownTopic:
    return UnknownTopic(
        f"the topic has {count} partitions, and not this one", topic=topic, partition=partition, retriable=False
    )
