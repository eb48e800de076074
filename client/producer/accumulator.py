"""Buffers records until they are sent: a queue of batches per partition, one memory limit for all (`buffer.memory`).

    user threads     append ──► the last batch of a partition's queue            all under one lock
    the I/O thread   drain  ◄── the first batches that are due; put_back for retries

A batch is due when it is full, has waited for `linger.ms`, has another batch behind it, or when a caller waits (flush,
full buffer, close).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kseg.client.errors import BufferExhausted, KafkaError, RecordTooLarge
from kseg.client.producer.batch import BATCH_OVERHEAD, NO_SEQUENCE, BatchDelivery, Delivery, ProducerBatch, with_sent
from kseg.client.producer.config import ProducerConfig
from kseg.client.producer.sequences import Sequences
from kseg.client.protocol.partition import TopicPartition
from kseg.client.transactions.producer_identity import TransactionIdentity
from kseg.segment_reader.encode.batches import Record
from kseg.segment_reader.encode.bodies import BatchBody

NEVER: Final = float("inf")


class ProducerClosed(RuntimeError):
    """The producer was closed before: an error of the caller, not of the cluster."""

    def __init__(self, message: str = "the producer is closed") -> None:
        super().__init__(message)


class PartitionQueue:
    """One partition's waiting batches, and how many are in flight."""

    __slots__ = ("batches", "failures", "in_flight", "not_before", "restart", "sequences", "tp", "trouble")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.batches: deque[ProducerBatch] = deque()
        self.in_flight = 0
        self.not_before = 0.0
        self.failures = 0
        self.sequences: Sequences | None = None
        self.restart = False
        self.trouble: KafkaError | None = None


class Accumulator:
    """The queues of all partitions. `wake` is called when something is due earlier than the I/O thread knows."""

    def __init__(self, config: ProducerConfig, wake: Callable[[], None]) -> None:
        self.lock = threading.Condition(threading.Lock())
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.identity: TransactionIdentity | None = None
        self._ids = (-1, -1)
        self.failure: KafkaError | None = None
        self.sequences_open = False
        self.asleep_until = 0.0
        self._config = config
        self._linger = config.linger_ms / 1000
        self._wake = wake
        self._incomplete: dict[ProducerBatch, None] = {}
        self._used = 0
        self._waiting = 0
        self._flushing = 0
        self._closed = False
        self._stopped: KafkaError | None = None

    # -- for the threads that send records

    def append(self, tp: TopicPartition, record: Record, size: int) -> Delivery:
        """Add a record to the last batch of its partition, or to a new one; waits for memory if the buffer is full.

        Raises RecordTooLarge, BufferExhausted, ProducerClosed, and the error that failed the transaction or the I/O
        thread.
        """
        with self.lock:
            self._make_space(size)
            queue = self._queue(tp)
            batch = queue.batches[-1] if queue.batches else None
            if (
                batch is None
                or not batch.takes_records
                or (batch.count and batch.size + size > self._config.batch_size)
            ):
                batch = self._add(queue, ProducerBatch(tp, time.monotonic()))
            delivery = batch.append(record, size)
            self._used += size
            wake = self._is_due_before_known(queue, batch)
        if wake:
            self._wake()
        return delivery

    def append_body(self, tp: TopicPartition, body: BatchBody) -> BatchDelivery:
        """Add a whole encoded batch. Raises as `append`."""
        size = len(body.data)
        with self.lock:
            self._make_space(size)
            batch = self._add(self._queue(tp), ProducerBatch(tp, time.monotonic(), body))
            self._used += size
        self._wake()
        return BatchDelivery(batch)

    def flush(self, until: float = NEVER) -> bool:
        """Send all present records and wait; returns whether all are done before `until` (monotonic clock)."""
        with self.lock:
            waited_for = list(self._incomplete)
            self._flushing += 1
        self._wake()
        try:
            return all(batch.wait(None if until == NEVER else until) for batch in waited_for)
        finally:
            with self.lock:
                self._flushing -= 1

    def abandon(self, error: KafkaError, *, also_under_way: bool = False) -> None:
        """Fail the waiting batches; with `also_under_way`, those in flight too."""
        with self.lock:
            for queue in self.queues.values():
                while queue.batches:
                    self._finish(queue, queue.batches.popleft(), error)
            for batch in list(self._incomplete) if also_under_way else ():
                self._finish(self.queues[batch.tp], batch, error)

    def close(self) -> None:
        """Accept no more records."""
        with self.lock:
            self._closed = True
            self.lock.notify_all()
        self._wake()

    def stop(self, error: KafkaError) -> None:
        """The I/O thread has failed: fail all batches, and every later record, in later transactions too."""
        with self.lock:
            self._stopped = error
        self.abandon(error, also_under_way=True)

    def set_identity(self, identity: TransactionIdentity) -> None:
        """Set the transaction of later records. Sequence numbers continue if producer id and epoch are the same."""
        with self.lock:
            ids = (identity.producer_id, identity.producer_epoch)
            if self.identity is None or (self.identity.producer_id, self.identity.producer_epoch) != ids:
                for queue in self.queues.values():
                    queue.sequences, queue.restart = None, False
            self.identity = identity
            self.failure, self.sequences_open = None, False

    def set_ids(self, producer_id: int, producer_epoch: int) -> None:
        """Set producer id and epoch of an idempotent producer without transactions."""
        with self.lock:
            self._ids = producer_id, producer_epoch

    def waiting_batches(self, topic: str) -> Mapping[int, int]:
        """The number of batches of each partition of a topic that wait or are in flight."""
        with self.lock:
            return {
                tp.partition: len(queue.batches) + queue.in_flight
                for tp, queue in self.queues.items()
                if tp.topic == topic
            }

    # -- for the I/O thread

    def due(self, now: float, *, going_to_sleep: bool = False) -> tuple[list[PartitionQueue], float]:
        """The queues whose first batch is due, and when to check again.

        `going_to_sleep`: the I/O thread sleeps until then, so a thread that appends something due earlier has to wake
        it.
        """
        ready, wake_at = [], NEVER
        with self.lock:
            for queue in self.queues.values():
                if not queue.batches:
                    continue
                at = self._due_at(queue)
                if at <= now:
                    ready.append(queue)
                else:
                    wake_at = min(wake_at, at, queue.batches[0].created + self._config.delivery_timeout_ms / 1000)
            self.asleep_until = wake_at if going_to_sleep else 0.0
        return ready, wake_at

    def ids(self) -> tuple[int, int]:
        """Producer id and epoch for a partition's first sequence number."""
        if self.identity is not None:
            return self.identity.producer_id, self.identity.producer_epoch
        return self._ids

    def number(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Assign sequence numbers to a batch that has none yet."""
        with self.lock:
            if queue.sequences is None:
                queue.sequences = Sequences(*self.ids())
            queue.sequences.assign(batch)

    def restart(self, queue: PartitionQueue, producer_id: int, producer_epoch: int) -> None:
        """Restart the partition's sequence numbers at 0 with these ids. None of its batches is in flight."""
        with self.lock:
            queue.restart = False
            if queue.sequences is not None:
                queue.sequences.restart(producer_id, producer_epoch)

    def drain_all(self, queue: PartitionQueue) -> list[ProducerBatch]:
        """Take all waiting batches from a queue, to fail them."""
        with self.lock:
            taken = list(queue.batches)
            queue.batches.clear()
            queue.in_flight += len(taken)
            return taken

    def drain(self, queues: Iterable[PartitionQueue], now: float) -> list[ProducerBatch]:
        """At most one batch of each queue, up to `max.request.size` together (but at least one)."""
        taken: list[ProducerBatch] = []
        remaining = self._config.max_request_size
        with self.lock:
            for queue in queues:
                if not queue.batches or self._due_at(queue) > now:
                    continue
                batch = queue.batches[0]
                if taken and batch.size > remaining:
                    break
                remaining -= batch.size
                queue.batches.popleft()
                queue.in_flight += 1
                batch.closed = True
                batch.attempts += 1
                taken.append(batch)
        return taken

    def put_back(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Put a batch back for a retry, before all later batches."""
        with self.lock:
            queue.in_flight -= 1
            if not batch.finished.is_set():
                self._insert(queue, batch)

    def replace(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Replace a batch by two batches of half its records."""
        with self.lock:
            queue.in_flight -= 1
            if batch.finished.is_set():
                return
            halves = batch.split()
            if queue.sequences is not None:
                queue.sequences.replaced(batch, halves)
            del self._incomplete[batch]
            self._used -= batch.size - BATCH_OVERHEAD
            for half in reversed(halves):
                self._incomplete[half] = None
                self._used += half.size - BATCH_OVERHEAD
                half.closed = True
                self._insert(queue, half)

    def finish(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError | None) -> None:
        """A batch is done: appended, or failed for good with `error`."""
        with self.lock:
            queue.in_flight -= 1
            self._finish(queue, batch, error)

    def expire(self, now: float, error: Callable[[ProducerBatch], KafkaError]) -> None:
        """Fail batches older than `delivery.timeout.ms`, also those in flight: their responses will be ignored."""
        limit = now - self._config.delivery_timeout_ms / 1000
        with self.lock:
            late = [batch for batch in self._incomplete if batch.created <= limit]
            for batch in late:
                queue = self.queues[batch.tp]
                if batch in queue.batches:
                    queue.batches.remove(batch)
                self._finish(queue, batch, error(batch))

    # -- with the lock held

    def _queue(self, tp: TopicPartition) -> PartitionQueue:
        queue = self.queues.get(tp)
        if queue is None:
            queue = self.queues[tp] = PartitionQueue(tp)
        return queue

    def _add(self, queue: PartitionQueue, batch: ProducerBatch) -> ProducerBatch:
        queue.batches.append(batch)
        self._incomplete[batch] = None
        return batch

    def _make_space(self, size: int) -> None:
        self._check_open()
        limit = self._config.buffer_memory
        if size > limit:
            raise RecordTooLarge(f"a record of {size} bytes does not fit into buffer.memory ({limit} bytes)")
        if self._used + size <= limit:
            return
        until = time.monotonic() + self._config.max_block_ms / 1000
        self._waiting += 1
        try:
            while self._used + size > limit:
                self._wake()
                left = until - time.monotonic()
                if left <= 0 or not self.lock.wait(left):
                    raise BufferExhausted(
                        f"{limit} bytes of records (buffer.memory) have waited for {self._config.max_block_ms} ms "
                        "(max.block.ms)"
                    )
                self._check_open()
        finally:
            self._waiting -= 1

    def _check_open(self) -> None:
        if self._closed:
            raise ProducerClosed()
        if self._stopped is not None:
            raise self._stopped
        if self.failure is not None:
            raise self.failure

    def _due_at(self, queue: PartitionQueue) -> float:
        """The time at which the first batch may be sent. NEVER: something else has to happen first, and wakes the I/O
        thread."""
        batch = queue.batches[0]
        sequences = queue.sequences
        if queue.in_flight and (queue.restart or queue.in_flight >= self._config.max_in_flight):
            return NEVER
        if sequences is not None and queue.in_flight and not sequences.known_to_leader:
            return NEVER
        if sequences is not None:
            in_turn = sequences.has_capacity if batch.sequence == NO_SEQUENCE else sequences.is_first(batch)
            if not in_turn:
                return NEVER
        hurry = batch.closed or len(queue.batches) > 1 or self._flushing or self._waiting or self._closed
        if hurry or not batch.takes_records or batch.size >= self._config.batch_size:
            return queue.not_before
        return max(queue.not_before, batch.created + self._linger)

    def _is_due_before_known(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        if batch.count > 1 and batch.size < self._config.batch_size:
            return False
        return self._due_at(queue) < self.asleep_until

    def _insert(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        at = 0
        if batch.sequence != NO_SEQUENCE and queue.sequences is not None:
            place = {id(other): number for number, other in enumerate(queue.sequences.open)}
            mine = place.get(id(batch), -1)
            while at < len(queue.batches) and place.get(id(queue.batches[at]), len(place)) < mine:
                at += 1
        queue.batches.insert(at, batch)

    def _finish(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError | None) -> None:
        if queue.sequences is not None:
            if error is None:
                queue.sequences.appended(batch)
            else:
                queue.sequences.failed_for_good(batch)
        if self._incomplete.pop(batch, 0) == 0:
            return  # it has expired already
        if error is not None and batch.in_doubt != error.sent:
            note = "it may have been appended by an earlier request" if batch.in_doubt else ""
            error = with_sent(error, sent=batch.in_doubt, note=note)
        self._used -= batch.size - BATCH_OVERHEAD
        if error is not None:
            if self.identity is not None:
                # Set before threads that wait for the batch wake up: a commit must see that a record is lost.
                self.failure = self.failure or error
                self.sequences_open = self.sequences_open or batch.sequence != NO_SEQUENCE
            batch.fail(error)
        else:
            batch.succeed(batch.base_offset, batch.log_append_time)
        if self._waiting:
            self.lock.notify_all()
