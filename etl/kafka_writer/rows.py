"""Passes the rows of Arrow batches to a producer, as encoded batches for each partition; their order is kept there."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.client.producer import BatchDelivery, KafkaProducer
from kseg.client.producer.partitioners import TopicPartitions
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import KsegError
from kseg.etl.kafka_writer.columns import RowColumns
from kseg.segment_reader.encode.columns import Columns, NullHeaderKey

Ints = npt.NDArray[np.int64]
_ROWS_AT_ONCE = 50_000


class BadRow(KsegError):
    """A row that cannot become a Kafka record. Its address is `row`, its number in the task."""


@dataclass(slots=True)
class PartitionWritten:
    """The rows written to one partition: their number, first and last offset (-1: unknown, as with acks=0)."""

    rows: int = 0
    first: int = -1
    last: int = -1


@dataclass
class RowWriter:
    """Writes batches with one producer; `finish` waits for all of them and returns their offsets.

    topic: of all rows; None: the column of that name.
    target_column: index of a column with the partition of each row, which is then used without other checks.
    """

    producer: KafkaProducer
    columns: RowColumns
    topic: str | None
    target_column: int | None = None
    _sent: list[tuple[TopicPartition, int, BatchDelivery]] = field(default_factory=list)
    _written: dict[TopicPartition, PartitionWritten] = field(default_factory=dict)
    _rows: int = 0

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Pass all rows to the producer.

        Raises:
            BadRow: a null topic, a header without a key, a partition that does not exist, a time before 1970.
            KafkaError: a batch could not be delivered.
        """
        chooser = PartitionChooser(self.producer.partitions, self.producer.config.batch_size)
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                self._write(batch.slice(start, _ROWS_AT_ONCE), chooser)
            self._settle(wait=False)

    def finish(self) -> dict[TopicPartition, PartitionWritten]:
        """Wait until everything is delivered. Raises KafkaError: that of the first batch that was not delivered."""
        self.producer.flush()
        self._settle(wait=True)
        return self._written

    def _write(self, batch: pa.RecordBatch, chooser: PartitionChooser) -> None:
        columns = encodable(batch, self.columns, self._rows)
        for topic, rows in _by_topic(batch, self.columns, self.topic, self._rows):
            if self.target_column is not None:
                targets = batch.column(self.target_column).to_numpy(zero_copy_only=False).astype(np.int64)[rows]
            else:
                targets = chooser.choose(topic, batch, self.columns, columns, rows, self._rows)
            order = np.argsort(targets, kind="stable")
            starts = np.flatnonzero(np.diff(targets[order], prepend=-1))
            for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
                tp = TopicPartition(topic, int(targets[order[start]]))
                self._send(tp, columns, rows[order[start:stop]])
        self._rows += batch.num_rows

    def _send(self, tp: TopicPartition, columns: Columns, rows: Ints) -> None:
        """Send the rows of one partition in batches of about `batch.size`."""
        numbers = np.cumsum(columns.sizes[rows]) // max(self.producer.config.batch_size, 1)
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1), len(rows)]
        for start, stop in pairwise(cuts):
            if start < stop:
                body = columns.encode(rows[start:stop])
                self._sent.append((tp, body.count, self.producer.send_body(tp, body)))

    def _settle(self, *, wait: bool) -> None:
        left = []
        for tp, count, delivery in self._sent:
            if not wait and not delivery.done():
                left.append((tp, count, delivery))
                continue
            delivered = delivery.result()
            written = self._written.setdefault(tp, PartitionWritten())
            written.rows += count
            if delivered.offset >= 0:
                written.first = delivered.offset if written.first < 0 else min(written.first, delivered.offset)
                written.last = max(written.last, delivered.last_offset)
        self._sent = left


class PartitionChooser:
    """Chooses the partition of each row: the column's, else by key as in Java's producer, else a random one for each
    `batch.size` bytes."""

    def __init__(self, partitions: Callable[[str], TopicPartitions], batch_size: int) -> None:
        """partitions: of a topic, by its name. batch_size: in bytes."""
        self._partitions = partitions
        self._batch_size = max(batch_size, 1)
        self._chance = random.Random()

    def choose(
        self, topic: str, batch: pa.RecordBatch, at: RowColumns, columns: Columns, rows: Ints, first: int
    ) -> Ints:
        """`rows`: the batch's rows for this topic; `first`: the number of its first row in the task, for errors."""
        known = self._partitions(topic)
        targets = columns.hashes[rows] % known.count
        without = columns.key.valid[rows] == 0
        if without.any():
            # Rows without a key go to the same partition until a batch is full: many small batches are slower.
            sizes = np.where(without, columns.sizes[rows], 0)
            numbers = np.cumsum(sizes) // self._batch_size
            drawn = np.array([self._chance.choice(known.preferred) for _ in range(int(numbers[-1]) + 1)], np.int64)
            targets = np.where(without, drawn[numbers], targets)
        if at.partition is not None:
            column = batch.column(at.partition)
            given = column.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)[rows]
            named = np.asarray(column.is_valid())[rows]
            wrong = named & ((given < 0) | (given >= known.count))
            if wrong.any():
                row = int(np.argmax(wrong))
                raise BadRow(
                    f"there is no partition {given[row]}: the topic has {known.count}",
                    topic=topic,
                    row=first + int(rows[row]),
                )
            targets = np.where(named, given, targets)
        return np.asarray(targets, np.int64)


def encodable(batch: pa.RecordBatch, at: RowColumns, first: int) -> Columns:
    """The batch's columns for the encoder; `first`: the number of its first row in the task, for errors."""

    def column(number: int | None) -> pa.Array | None:
        return None if number is None else batch.column(number)

    try:
        return Columns.of(column(at.key), column(at.value), column(at.headers), _millis(batch, at, first))
    except NullHeaderKey as error:
        raise BadRow("a header has no key", row=first + error.row) from error


def _millis(batch: pa.RecordBatch, at: RowColumns, first: int) -> Ints:
    now = int(time.time() * 1000)
    if at.timestamp is None:
        return np.full(batch.num_rows, now, np.int64)
    micros = batch.column(at.timestamp).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    found = np.asarray(micros.fill_null(now * 1000).to_numpy(zero_copy_only=False) // 1000, np.int64)
    if (found < 0).any():
        # -1 means none, and a broker that compresses records anew fails with others.
        raise BadRow(
            "the timestamp is before 1970, which no record can have",
            remedy="correct it, or keep it in the value",
            row=first + int(np.argmax(found < 0)),
        )
    return found


def _by_topic(batch: pa.RecordBatch, at: RowColumns, topic: str | None, first: int) -> Iterator[tuple[str, Ints]]:
    if topic is not None or at.topic is None:
        assert topic is not None
        yield topic, np.arange(batch.num_rows, dtype=np.int64)
        return
    encoded = batch.column(at.topic).dictionary_encode()
    if encoded.null_count:
        row = int(np.argmin(np.asarray(encoded.is_valid())))
        raise BadRow("the topic is null", remedy="give the option topic, or fill the column", row=first + row)
    numbers = encoded.indices.to_numpy(zero_copy_only=False)
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(numbers == number).astype(np.int64)
        if len(rows):
            yield name, rows
