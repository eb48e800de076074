"""A batch of records for one partition, and the futures of its records.

    collecting ─full, lingered, flushed─► closed ─sent─► in flight ─response─► done: appended, or failed
                                            ▲──────── retry ─────────┘
                                            └ too large: replaced by two batches of half its records

A batch gets its sequence number when it is first sent, and keeps it, so that the leader recognizes a duplicate.
`place`: how many batches of the partition were numbered before it.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import Generic, NamedTuple, TypeVar

from kseg.client.errors import KafkaError
from kseg.client.protocol.partition import TopicPartition
from kseg.segment_reader.encode.batches import Record
from kseg.segment_reader.encode.bodies import BatchBody, compress_body, encode_body, records_of

T_co = TypeVar("T_co", covariant=True)

NO_SEQUENCE = -1
NO_OFFSET = -1
#: Bytes that a batch adds to its records, and a record to its key, value and headers: about the maximum.
BATCH_OVERHEAD = 61
RECORD_OVERHEAD = 21
SEQUENCES = 2**31


class Delivered(NamedTuple):
    """The place at which a record was appended.

    offset, base_offset: of the record and of its batch; -1 if unknown (acks=0, or the leader had the batch already).
    log_append_time: in ms; -1 unless the topic has `message.timestamp.type=LogAppendTime`.
    """

    topic: str
    partition: int
    offset: int
    base_offset: int
    log_append_time: int


class DeliveredBatch(NamedTuple):
    """The place at which the records of an encoded batch were appended.

    offset, last_offset: of the first and the last record; -1 if unknown (as in `Delivered`). If the producer has split
    the batch, other producers' records may be in between.
    log_append_time: of the last record, as in `Delivered`.
    """

    topic: str
    partition: int
    offset: int
    last_offset: int
    log_append_time: int


class _Future(ABC, Generic[T_co]):
    """The common part of the deliveries of a record and of a batch."""

    __slots__ = ()

    @abstractmethod
    def result(self, timeout: float | None = None) -> T_co:
        """The place at which it was appended. Raises KafkaError, or TimeoutError after `timeout` seconds."""

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """The error that `result` would raise, or None."""
        try:
            self.result(timeout)
        except KafkaError as error:
            return error
        return None


class Delivery(_Future[Delivered]):
    """A future for the delivery of one record."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether `result` returns at once."""
        return self._settled()[0].finished.is_set()

    def result(self, timeout: float | None = None) -> Delivered:
        """Wait for the delivery, at most `timeout` seconds (None: until `delivery.timeout.ms` ends it).

        Raises the KafkaError that the delivery failed with (it says if the record may have been appended all the same),
        or TimeoutError.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            batch, index = self._settled()
            if not batch.finished.wait(None if until is None else max(0.0, until - time.monotonic())):
                raise TimeoutError(f"not delivered after {timeout} s")
            if batch.halves is None:
                return batch.delivered(index)

    def _settled(self) -> tuple[ProducerBatch, int]:
        """The batch that the record is in after all splits, and its index there."""
        batch, index = self._batch, self._index
        while batch.halves is not None:
            first, second = batch.halves
            batch, index = (first, index) if index < first.count else (second, index - first.count)
        return batch, index


class BatchDelivery(_Future[DeliveredBatch]):
    """A future for the delivery of a whole encoded batch, whether the producer splits it or not."""

    __slots__ = ("_batch",)

    def __init__(self, batch: ProducerBatch) -> None:
        self._batch = batch

    def done(self) -> bool:
        """Whether `result` returns at once."""
        return self._batch.wait(0.0)

    def result(self, timeout: float | None = None) -> DeliveredBatch:
        """Wait until every record is delivered, at most `timeout` seconds (None: until `delivery.timeout.ms` ends it).

        Raises the KafkaError of the first records that were not delivered (its `sent` says if any record of the batch
        may have been appended), or TimeoutError.
        """
        if not self._batch.wait(None if timeout is None else time.monotonic() + timeout):
            raise TimeoutError(f"not delivered after {timeout} s")
        parts = list(self._batch.parts())
        error = next((part.error for part in parts if part.error is not None), None)
        if error is not None:
            if not error.sent and any(part.error is None or part.error.sent for part in parts):
                error = with_sent(error, sent=True, note="other records of its batch may have been appended")
            raise error
        known = [part for part in parts if part.base_offset >= 0]
        return DeliveredBatch(
            self._batch.tp.topic,
            self._batch.tp.partition,
            min((part.base_offset for part in known), default=NO_OFFSET),
            max((part.base_offset + part.count - 1 for part in known), default=NO_OFFSET),
            parts[-1].log_append_time,
        )


class ProducerBatch:
    """Records of one partition. Filled under the accumulator's lock; once closed, only the I/O thread uses it."""

    __slots__ = (
        "_body",
        "_packed",
        "_records",
        "attempts",
        "base_offset",
        "closed",
        "count",
        "created",
        "doubts",
        "error",
        "finished",
        "halves",
        "log_append_time",
        "place",
        "producer_epoch",
        "producer_id",
        "sequence",
        "size",
        "tp",
    )

    def __init__(self, tp: TopicPartition, created: float, body: BatchBody | None = None) -> None:
        self.tp = tp
        self.created = created
        self.count = 0 if body is None else body.count
        self.size = BATCH_OVERHEAD + (0 if body is None else len(body.data))
        self.finished = threading.Event()
        self.halves: tuple[ProducerBatch, ProducerBatch] | None = None
        self.error: KafkaError | None = None
        self.base_offset = NO_OFFSET
        self.log_append_time = -1
        self.sequence = NO_SEQUENCE
        self.place = -1
        self.producer_id = self.producer_epoch = -1
        self.attempts = 0
        self.closed = body is not None
        self.doubts = 0
        self._records: list[Record] = []
        self._body = body
        self._packed: tuple[str, bytes] | None = None

    def append(self, record: Record, size: int) -> Delivery:
        """Add a record; `size`: its estimated size in bytes."""
        self._records.append(record)
        self.count += 1
        self.size += size
        return Delivery(self, self.count - 1)

    @property
    def in_doubt(self) -> bool:
        """Whether one of its requests may have appended it. `doubts`: how many of them were not clearly rejected."""
        return self.doubts > 0

    @property
    def takes_records(self) -> bool:
        """Whether records can be added: it was not sent yet, and was not given as encoded bytes."""
        return not self.closed

    @property
    def body(self) -> BatchBody:
        """The encoded records. After this, no record can be added."""
        if self._body is None:
            self._body = encode_body(self._records)
            self._records = []
        return self._body

    def records(self) -> list[Record]:
        """The records, for an older message format."""
        return self._records if self._body is None else records_of(self._body)

    def packed(self, compression: str, level: int | None) -> bytes:
        """The compressed body; compressed only once, however often the batch is sent."""
        if self._packed is None or self._packed[0] != compression:
            self._packed = compression, compress_body(self.body, compression, level)
        return self._packed[1]

    @property
    def next_sequence(self) -> int:
        """The sequence of the record after its last. They wrap: after 2^31 - 1 comes 0."""
        return (self.sequence + self.count) % SEQUENCES

    def delivered(self, index: int) -> Delivered:
        if self.error is not None:
            raise self.error
        known = self.base_offset >= 0
        return Delivered(
            self.tp.topic,
            self.tp.partition,
            self.base_offset + index if known else NO_OFFSET,
            self.base_offset,
            self.log_append_time,
        )

    def split(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Split it into two batches with the same sequence numbers; deliveries then follow their records."""
        records = self.records()
        middle = len(records) // 2
        halves = []
        for part in (records[:middle], records[middle:]):
            half = ProducerBatch(self.tp, self.created, encode_body(part))
            half.doubts = self.doubts
            half.producer_id, half.producer_epoch, half.place = self.producer_id, self.producer_epoch, self.place
            halves.append(half)
        first, second = halves
        if self.sequence != NO_SEQUENCE:
            first.sequence = self.sequence
            second.sequence = first.next_sequence
        self.halves = first, second
        self._forget()
        return self.halves

    def parts(self) -> Iterator[ProducerBatch]:
        """The batches that its records are in after all splits, in their order: itself if it was not split."""
        if self.halves is None:
            yield self
        for half in self.halves or ():
            yield from half.parts()

    def wait(self, until: float | None) -> bool:
        """Wait until all its records are delivered or have failed; returns whether that is before `until` (monotonic
        clock; None: without a limit)."""
        # Halves are set before the event: once it is set, they are all that there is to wait for.
        if not self.finished.wait(None if until is None else max(0.0, until - time.monotonic())):
            return False
        return all(half.wait(until) for half in self.halves or ())

    def succeed(self, base_offset: int, log_append_time: int) -> None:
        self.base_offset, self.log_append_time = base_offset, log_append_time
        self._forget()

    def fail(self, error: KafkaError) -> None:
        self.error = error
        self._forget()

    def _forget(self) -> None:
        # Deliveries hold the batch, and a user may keep them: without its records.
        self._records, self._body, self._packed = [], None, None
        self.finished.set()


def with_sent(error: KafkaError, *, sent: bool, note: str = "") -> KafkaError:
    """A copy of an error that other batches may share. `sent`: whether its batch may be in the log all the same."""
    found = copy(error)
    found.__cause__ = error.__cause__
    found.sent = sent
    if note:
        found.message += f"; {note}"
    return found
