"""A producer for many records: batched, idempotent by default, transactional with a transactional id.

    with KafkaProducer({"bootstrap.servers": "localhost:9092", "compression.type": "lz4"}) as producer:
        delivery = producer.send("orders", value=b"v", key=b"k")
        ...
    delivery.result().offset

`send` returns a future without waiting for the delivery: an I/O thread sends the records (`client.producer.sender`).
`send` is thread-safe; transactions and `close` are for one thread. A record that another thread sends while a
transaction ends belongs to it, or to the next one if that has begun meanwhile, or is rejected with IllegalStep or with
the error of records that an abort drops. After `close`, all methods but `flush` and `close` raise ProducerClosed.
"""

from __future__ import annotations

import operator
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final, TypeVar

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import (
    BrokerError,
    Fenced,
    KafkaError,
    RecordTooLarge,
    RequestTimedOut,
    UnknownTopic,
)
from kseg.client.groups.offsets import NOBODY, CommittedOffset, Committer
from kseg.client.producer.accumulator import NEVER, Accumulator, ProducerClosed
from kseg.client.producer.batch import RECORD_OVERHEAD, BatchDelivery, Delivery
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
from kseg.client.retry import Deadline
from kseg.client.transactions.producer_identity import TransactionIdentity, init_producer_id
from kseg.client.transactions.transaction import Transaction
from kseg.client.wire.waiting import Waiter
from kseg.segment_reader.encode.batches import Record
from kseg.segment_reader.encode.bodies import BatchBody

T = TypeVar("T")
Headers = Sequence[tuple[str | bytes, bytes | None]]
_NO_PARTITIONS: Final = TopicPartitions(0, ())
_LATEST: Final = 2**63 - 1
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
        if self._closed:
            return
        try:
            self._abort_open(error, NEVER)
        finally:
            self._shut_down(NEVER if error is None else time.monotonic())

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
        """Send one record; `timestamp` in ms from 0 on, -1: none, None: now; `partition` None: the partitioner chooses.

        Waits for metadata and for buffer memory, up to `max.block.ms` each, and for calls of other threads that ask the
        cluster or end a transaction.

        Raises UnknownTopic (also for a partition that does not exist), RecordTooLarge, BufferExhausted,
        UnsupportedVersion if the brokers are too old, TypeError and ValueError for fields that no record can have, and
        in a transaction the error that has failed it. The record was not accepted then, whatever the error's `sent`.
        """
        # Checked here and not when it is encoded: there, the other records of its batch would fail with it.
        size = RECORD_OVERHEAD
        if key is not None:
            key = key if type(key) is bytes else _as_bytes("key", key)
            size += len(key)
        if value is not None:
            value = value if type(value) is bytes else _as_bytes("value", value)
            size += len(value)
        if headers:
            headers = _checked_headers(headers)
            size += sum(len(name) + len(content or b"") + 10 for name, content in headers)
        timestamp = int(time.time() * 1000) if timestamp is None else _checked_timestamp(timestamp)
        record = Record(key, value, headers, timestamp)
        if size > self.config.max_request_size:
            limit = self.config.max_request_size
            raise RecordTooLarge(f"a record of {size} bytes is above max.request.size ({limit} bytes)", topic=topic)
        if not self._started:
            self._ready()
        known = self.partitions(topic)
        if partition is None:
            partition = self._choose(topic, key, value, known, size)
        if type(partition) is not int:
            partition = operator.index(partition)
        if not 0 <= partition < known.count:
            raise _no_such_partition(topic, partition, known.count)
        tp = TopicPartition(topic, partition)
        if self._transaction is None:  # in a shared transaction, its owner adds the partitions
            return self._accumulator.append(tp, record, size)
        return self._in_transaction(self._transaction, tp, partial(self._accumulator.append, tp, record, size))

    def send_body(self, tp: TopicPartition, body: BatchBody) -> BatchDelivery:
        """Send a batch whose records are encoded already; its delivery is that of all its records. Raises as `send`."""
        self._ready()
        known = self.partitions(tp.topic)
        if not 0 <= tp.partition < known.count:
            raise _no_such_partition(tp.topic, tp.partition, known.count)
        if self._transaction is None:
            return self._accumulator.append_body(tp, body)
        return self._in_transaction(self._transaction, tp, partial(self._accumulator.append_body, tp, body))

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now, without lingering, and wait until each record is delivered or has failed.

        Raises RequestTimedOut after `timeout` seconds. The error of a record is in its delivery.
        """
        if not self._accumulator.flush(NEVER if timeout is None else time.monotonic() + timeout):
            raise RequestTimedOut(f"records are still in flight after {timeout} s")

    def close(self, timeout: float | None = None) -> None:
        """Deliver the buffered records within `timeout` seconds (None: without a limit), fail the rest, and stop.

        An open transaction is aborted, with all its records, but not after a commit whose outcome is unknown. The
        coordinator aborts it when `transaction.timeout.ms` has passed if no time is left for the abort, or if batches
        are in flight that a broker might append after it (first transaction protocol). May take longer by the timeout
        of one request if a broker does not respond, and by a call of another thread that waits for the cluster.

        Raises the error of the abort, after everything is closed, but not Fenced if a record has failed with it.
        """
        if self._closed:
            return
        until = NEVER if timeout is None else time.monotonic() + timeout
        try:
            self._abort_open(None, until)
        finally:
            self._shut_down(until)

    def partitions(self, topic: str) -> TopicPartitions:
        """The topic's partitions, at most `metadata.max.age.ms` old. Waits for metadata up to `max.block.ms`."""
        self._require_open()
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

        Raises the error of a record (then only `abort` is possible), Fenced, and as `Transaction.commit`. If the
        outcome is unknown after an error, `abort` raises IllegalStep: call `commit` again, or `begin`.
        """
        self._transactional()
        self._accumulator.flush()  # without the lock, so that other threads need not wait
        with self._lock:
            transaction = self._transactional()
            self._accumulator.flush()  # what they have sent meanwhile
            failure = self._fail_with_records(transaction)
            if failure is not None:
                raise failure
            transaction.commit()

    def abort(self) -> None:
        """Abort: waiting records fail, and read_committed consumers see none of the transaction's records.

        Without effect if nothing is open. Raises the error that has failed the producer for good, if there is one.
        """
        self._transactional()
        aborted = BrokerError("the transaction was aborted before the record was sent")
        self._accumulator.abandon(aborted)  # without the lock: a thread that holds it may wait for memory
        self._accumulator.flush()
        with self._lock:
            transaction = self._transactional()
            self._accumulator.abandon(aborted)
            self._accumulator.flush()
            self._fail_with_records(transaction)
            transaction.abort()

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], *, committer: Committer = NOBODY
    ) -> None:
        """Commit a group's offsets as part of this transaction, as a member of the group (`GroupMember.committer`).

        Without `committer` the group must have no members, which brokers do not check. Raises OffsetCommitFailed if the
        group has gone on without the member: then only `abort` is possible.
        """
        with self._lock:
            self._transactional().commit_offsets(group, offsets, committer=committer)

    # -- inside

    def _ready(self) -> None:
        """Before the first record: get a producer id, start the I/O thread."""
        with self._lock:
            self._require_open()
            if self._started:
                return
            if self.config.idempotent and self._transaction is None and self._shared is None:
                self._accumulator.set_ids(*init_producer_id(self._cluster))
                self._require_open()  # that may have taken long
            self._sender.start()
            self._started = True

    def _require_open(self) -> None:
        if self._closed:
            raise ProducerClosed()

    def _in_transaction(self, transaction: Transaction, tp: TopicPartition, append: Callable[[], T]) -> T:
        """Append under the lock that a transaction ends under: a later record would be written outside of it."""
        with self._lock:
            self._require_open()
            return transaction.produce_to(tp, append)

    def _abort_open(self, error: BaseException | None, until: float) -> None:
        """Abort the transaction that is open, if any, unless `until` has passed. `error`: why the producer is left."""
        transaction = self._transaction
        if transaction is None or not transaction.open or time.monotonic() >= until:
            return
        self._accumulator.abandon(_closing())
        self._accumulator.close()  # a thread that waits for memory has the lock
        with self._lock:
            self._accumulator.abandon(_closing())
            done = self._accumulator.flush(min(until, time.monotonic() + _CLEAN_UP_SECONDS))
            failure = self._accumulator.failure
            if failure is not None:
                transaction.fail(failure)
            seconds = min(until - time.monotonic(), _CLEAN_UP_SECONDS)
            # With the first protocol the next transaction may have the same epoch: a batch that arrives after the abort
            # would belong to it, or to a transaction that nobody ends.
            if seconds <= 0 or not (done or transaction.second_protocol):
                return
            try:
                transaction.leave(error, timeout=seconds)
            except Fenced:
                if not isinstance(failure, Fenced):
                    raise

    def _shut_down(self, until: float) -> None:
        self._closed = True
        try:
            self._accumulator.close()
            with self._lock:  # another thread's first `send` may be starting the I/O thread
                started = self._started
            if started and time.monotonic() < until:
                self._accumulator.flush(until)
        finally:
            try:
                self._sender.stop()
            finally:  # nobody may wait for a delivery any more, whatever interrupts this
                self._accumulator.abandon(_closing(), also_under_way=True)
                with self._lock:
                    self._cluster.close()
            self._waiter.close()  # the thread has ended

    def _fail_with_records(self, transaction: Transaction) -> KafkaError | None:
        """Fail the transaction if one of its records has failed; returns that record's error."""
        failure = self._accumulator.failure if transaction.open else None  # else it is that of an earlier transaction
        if failure is not None:
            transaction.fail(failure, sequences_open=self._accumulator.sequences_open)
        return failure

    def _ask_partitions(self, topic: str) -> TopicPartitions:
        with self._lock:
            self._require_open()

            def attempt(deadline: Deadline) -> TopicPartitions:
                self._cluster.forget_metadata()
                return TopicPartitions.of(self._cluster.metadata_now([topic], deadline).topics[topic])

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
        self._require_open()
        if self._transaction is None:
            raise RuntimeError("this producer has no transactional id")
        return self._transaction


def _as_bytes(what: str, given: object) -> bytes:
    if isinstance(given, bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)  # the caller may change it before it is sent
    raise TypeError(f"{what} is {type(given).__name__}, not bytes")


def _checked_headers(headers: Headers) -> tuple[tuple[bytes, bytes | None], ...]:
    return tuple(
        (
            _as_bytes("a header's key", name.encode() if isinstance(name, str) else name),
            None if content is None else _as_bytes("a header's value", content),
        )
        for name, content in headers
    )


def _checked_timestamp(timestamp: int) -> int:
    checked = operator.index(timestamp)
    if not -1 <= checked <= _LATEST:
        raise ValueError(f"timestamp {timestamp} is outside of -1..{_LATEST}")
    return checked


def _closing() -> KafkaError:
    return BrokerError("the producer was closed before the record was delivered")


def _no_such_partition(topic: str, partition: int, count: int) -> UnknownTopic:
    return UnknownTopic(
        f"the topic has {count} partitions, and not this one", topic=topic, partition=partition, retriable=False
    )
