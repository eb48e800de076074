"""The reference decoder: the record formats in plain Python, written to be read and to test the compiled one.

It makes Python objects for everything and takes about a hundred times as long. It gives the same batches, counts, gaps
and faults as `segment_reader.decode.compiled`; where a rule is in doubt, this file decides.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from crc32c import crc32c

from kseg.segment_reader.decode.batch import (
    ABORT_MARKER,
    ATTRIBUTES_AT,
    CONTROL_KEY,
    MAGIC_AT,
    RECORDS_AT,
    Frame,
    FrameFault,
    frames,
)
from kseg.segment_reader.decode.engine import AbortedTransactions, DecodeCounts, Options
from kseg.segment_reader.decode.header_names import LARGEST_REPLACED, is_utf8, java_text
from kseg.segment_reader.decode.legacy import (
    Leaf,
    RecordFault,
    decompress,
    message_crc_matches,
    message_fields,
    message_time,
    open_wrapper,
)
from kseg.segment_reader.decode.schema import HEADER_COST
from kseg.segment_reader.errors import Fault

MAX_MILLIS = (2**63 - 1) // 1000
DATA, CONTROL, ABORTED = "data", "control", "aborted"


class Body(NamedTuple):
    """A record's own fields. `headers` is None where it has none; their names are bytes."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]] | None


class ReferenceEngine:
    """See `segment_reader.decode.engine.Engine`."""

    def __init__(self, options: Options) -> None:
        self.counts = DecodeCounts()
        self.next_offset = options.start
        self.gaps: list[tuple[int, int]] = []
        self.refused: list[tuple[int, Fault]] = []
        self._options = options
        self._aborted = AbortedTransactions()
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0
        self._source: tuple[str | None, int] = None, 0  # of the record set

    def feed(
        self, records: bytes | memoryview, aborted: Sequence[tuple[int, int]], file: str | None, position: int
    ) -> Iterator[pa.RecordBatch]:
        options = self._options
        self._source = file, position
        buffer = memoryview(records).cast("B")
        self._aborted.restart(aborted if options.read_committed else ())
        try:
            for frame in frames(buffer):
                if self.next_offset >= options.end:
                    return
                if frame.base_offset >= options.end and (frame.magic == 2 or not frame.codec):
                    self._absent(options.end)
                    return
                try:
                    yield from self._frame(buffer, frame)
                except RecordFault as fault:
                    raise options.fault(
                        fault.fault, frame.base_offset, frame.position, offset=fault.offset, detail=fault.detail
                    ) from None
        except FrameFault as fault:
            if self.next_offset < options.end:
                raise fault.error(options.topic, options.partition) from None

    def skip_to(self, offset: int) -> None:
        self._absent(min(offset, self._options.end))

    def flush(self) -> Iterator[pa.RecordBatch]:
        if self._rows:
            yield self._emit()

    # -- frames

    def _frame(self, buffer: memoryview, frame: Frame) -> Iterator[pa.RecordBatch]:
        options = self._options
        marker = control_type(buffer, frame, options.limits.max_batch_bytes)
        kind = DATA
        if frame.magic == 2 and frame.producer_id >= 0:
            self._aborted.advance(frame.last_offset)
            if marker == ABORT_MARKER:
                self._aborted.close(frame.producer_id, frame.base_offset)
            elif frame.transactional and frame.producer_id in self._aborted:
                kind = ABORTED
        if frame.control:
            kind = CONTROL
        if frame.last_offset < self.next_offset:
            return
        self.counts.batches += 1
        self.counts.bytes += frame.size
        if options.check_crcs and not crc_matches(buffer, frame):
            raise RecordFault(Fault.CRC)
        if frame.control and frame.record_count and marker is None:
            raise RecordFault(Fault.CONTROL_KEY)
        span = frame.last_offset - frame.base_offset + 1
        if frame.magic < 2:
            yield from self._messages(buffer, frame)
        elif frame.record_count == 0:
            pass
        elif kind != DATA and frame.record_count == span:
            first, stop = max(frame.base_offset, self.next_offset), min(frame.next_offset, options.end)
            self._absent(first)
            self._count(kind, stop - first)
            self.next_offset = stop
        else:
            yield from self._records(buffer, frame, kind)
        self._absent(min(frame.next_offset, options.end))

    def _records(self, buffer: memoryview, frame: Frame, kind: str) -> Iterator[pa.RecordBatch]:
        """The records of a magic 2 batch: one sequence, compressed as a whole."""
        for delta, timestamp, record in batch_records(buffer, frame, self._options.limits.max_batch_bytes):
            offset = frame.base_offset + delta
            if offset >= self._options.end:
                self._absent(self._options.end)
                return
            if offset < self.next_offset:
                continue
            self._absent(offset)
            if kind == DATA:
                try:
                    micros = to_micros(timestamp, offset)
                    body = read_body(record)
                    self._check_names(body, offset)
                except RecordFault as fault:
                    self._set_aside(fault)
                    continue
                yield from self._row(frame, offset, timestamp, micros, int(frame.log_append_time), body, delta)
            self._count(kind, 1)
            self.next_offset = offset + 1

    def _messages(self, buffer: memoryview, frame: Frame) -> Iterator[pa.RecordBatch]:
        """The messages of a magic 0 or 1 frame: itself, or those in its compressed message set."""
        options = self._options
        limit = options.limits.max_batch_bytes
        for leaf in frame_messages(buffer, frame, limit, check_crcs=options.check_crcs):
            message = leaf.message
            if leaf.offset >= options.end:
                self._absent(options.end)
                return
            if leaf.offset < self.next_offset:
                continue
            self._absent(leaf.offset)
            key, value = message_fields(message)
            timestamp, kind = message_time(message, leaf)
            try:
                micros = to_micros(timestamp, leaf.offset)
            except RecordFault as fault:
                self._set_aside(fault)
                continue
            yield from self._row(frame, leaf.offset, timestamp, micros, kind, Body(key, value, None), 0)
            self._count(DATA, 1)
            self.next_offset = leaf.offset + 1

    def _check_names(self, body: Body, offset: int) -> None:
        options = self._options
        decoded = options.headers or options.raw_headers
        if decoded and options.header_names == "refuse" and not all(is_utf8(name) for name, _ in body.headers or ()):
            raise RecordFault(Fault.HEADER_UTF8, offset)

    def _set_aside(self, fault: RecordFault) -> None:
        """Leaves out a record that has no row, and raises the faults that are more than that."""
        if fault.offset is None or not self._options.set_refused_aside:
            raise fault
        self.refused.append((fault.offset, fault.fault))
        self.counts.refused += 1
        self.next_offset = fault.offset + 1

    # -- counts

    def _count(self, kind: str, offsets: int) -> None:
        setattr(self.counts, kind, getattr(self.counts, kind) + offsets)

    def _absent(self, until: int) -> None:
        """Everything from the next expected offset up to `until` is missing from the log."""
        first = self.next_offset
        if until <= first:
            return
        self.counts.absent += until - first
        if self.gaps and self.gaps[-1][1] == first:
            first = self.gaps.pop()[0]
        self.gaps.append((first, until))
        self.next_offset = until

    # -- rows

    def _row(
        self, frame: Frame, offset: int, timestamp: int, micros: int, kind: int, body: Body, delta: int
    ) -> Iterator[pa.RecordBatch]:
        options = self._options
        cost = options.row_cost + len(body.key or b"") + len(body.value or b"")
        pairs = body.headers if options.headers or options.raw_headers else None
        raw = any(not is_utf8(name) for name, _ in pairs or ())
        for name, content in pairs or ():
            cost += HEADER_COST + len(name) * (1 if is_utf8(name) else LARGEST_REPLACED) + len(content or b"")
        if options.provenance:
            cost += len((self._source[0] or "").encode())
        limits = options.limits
        if self._rows and (len(self._rows) >= limits.max_rows or self._bytes + cost > limits.max_bytes):
            yield self._emit()
        self._bytes += cost
        time: int | None = micros
        if timestamp == -1 and options.null_timestamps:
            time, kind = None, -1
        row: tuple[Any, ...] = (body.key, body.value, options.topic, options.partition, offset, time, kind)
        if options.headers:
            row += ([{"key": java_text(name), "value": content} for name, content in pairs] if pairs else None,)
        if options.raw_headers:
            row += ([{"key": name, "value": content} for name, content in pairs or ()] if raw else None,)
        if options.provenance:
            file, position = self._source
            row += (*provenance(frame, delta), file, None if file is None else position + frame.position)
        self._rows.append(row)

    def _emit(self) -> pa.RecordBatch:
        schema = self._options.schema
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(list(column), type=field.type) for column, field in zip(columns, schema, strict=True)]
        self._rows, self._bytes = [], 0
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class BoundedReader:
    """A bounded walk over bytes: every step is checked against the end."""

    def __init__(self, data: bytes | memoryview, position: int, end: int) -> None:
        self.data, self.start, self.position, self.end = data, position, position, end

    def skip(self, size: int, fault: Fault) -> int:
        start = self.position
        if size < 0 or size > self.end - start:
            raise RecordFault(fault)
        self.position += size
        return start

    def part(self, size: int, fault: Fault) -> BoundedReader:
        start = self.skip(size, fault)
        return BoundedReader(self.data, start, self.position)

    def take(self, size: int) -> bytes:
        start = self.skip(size, Fault.FIELD_LENGTH)
        return bytes(self.data[start : self.position])

    def varint(self, most: int) -> int:
        """Zig-zag base 128: 32 bits in at most 5 bytes, or 64 bits in at most 10."""
        value = 0
        for i in range(most):
            if self.position >= self.end:
                raise RecordFault(Fault.VARINT)
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                if value >> (32 if most == 5 else 64):
                    raise RecordFault(Fault.VARINT)
                return (value >> 1) ^ -(value & 1)
        raise RecordFault(Fault.VARINT)

    def nullable(self) -> bytes | None:
        """A field with its length in front; a negative length is null, as in Kafka's own reader."""
        size = self.varint(5)
        return None if size < 0 else self.take(size)


def batch_records(buffer: memoryview, frame: Frame, limit: int) -> Iterator[tuple[int, int, BoundedReader]]:
    """(offset delta, timestamp, what follows them) of each record of a magic 2 batch. Raises RecordFault."""
    packed = buffer[frame.position + RECORDS_AT : frame.position + frame.size]
    payload = decompress(frame.codec, packed, frame.magic, limit)
    reader = BoundedReader(payload, 0, len(payload))
    previous, last_delta = -1, frame.last_offset - frame.base_offset
    for _ in range(frame.record_count):
        if reader.position >= reader.end:
            raise RecordFault(Fault.TOO_FEW)
        length = reader.varint(5)
        record = reader.part(length, Fault.RECORD_OVERRUN)
        record.skip(1, Fault.RECORD_LENGTH)
        timestamp = frame.base_timestamp + record.varint(10)
        delta = record.varint(5)
        if not previous < delta <= last_delta:
            raise RecordFault(Fault.OFFSET_ORDER)
        previous = delta
        yield delta, frame.max_timestamp if frame.log_append_time else timestamp, record
    if reader.position != reader.end:
        raise RecordFault(Fault.TRAILING)


def frame_messages(buffer: memoryview, frame: Frame, limit: int, *, check_crcs: bool) -> Iterator[Leaf]:
    """The messages of a magic 0 or 1 frame: itself, or those in its compressed message set. Raises RecordFault."""
    whole = buffer[frame.position : frame.position + frame.size]
    if frame.codec:
        leaves = open_wrapper(whole, frame.base_offset, limit=limit, check_crcs=check_crcs)
    else:
        leaves = [Leaf(whole, frame.base_offset)]
    previous = -1
    for leaf in leaves:
        if check_crcs and not message_crc_matches(leaf.message):
            raise RecordFault(Fault.CRC)
        if not previous < leaf.offset <= frame.last_offset:
            raise RecordFault(Fault.OFFSET_ORDER)
        previous = leaf.offset
        yield leaf


def whole_records(buffer: memoryview, frame: Frame, limit: int) -> Iterator[tuple[int, bytes | memoryview]]:
    """The offset and the uncompressed bytes of each record of a frame, of magic 2 without its length. Raises
    RecordFault."""
    if frame.magic < 2:
        for leaf in frame_messages(buffer, frame, limit, check_crcs=False):
            yield leaf.offset, leaf.message
        return
    for delta, _, record in batch_records(buffer, frame, limit):
        yield frame.base_offset + delta, record.data[record.start : record.end]


def read_body(record: BoundedReader) -> Body:
    """Key, value and headers of a magic 2 record, which must fill it."""
    key, value = record.nullable(), record.nullable()
    count = record.varint(5)
    if count < 0 or count > (record.end - record.position) // 2:
        raise RecordFault(Fault.HEADER_COUNT)
    pairs: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        size = record.varint(5)
        if size < 0:
            raise RecordFault(Fault.HEADER_KEY)
        pairs.append((record.take(size), record.nullable()))
    if record.position != record.end:
        raise RecordFault(Fault.RECORD_LENGTH)
    return Body(key, value, pairs or None)


def to_micros(millis: int, offset: int) -> int:
    if abs(millis) > MAX_MILLIS:
        raise RecordFault(Fault.TIMESTAMP, offset)
    return millis * 1000


def provenance(frame: Frame, delta: int) -> tuple[Any, ...]:
    """The columns of a record that come from its batch's header (schema.arrow_schema)."""
    if frame.magic < 2:
        return (None,) * 6
    producer = (frame.producer_id, frame.producer_epoch) if frame.producer_id >= 0 else (None, None)
    sequence = None
    if frame.base_sequence >= 0:
        sequence = (frame.base_sequence + delta) & 0x7FFFFFFF  # wraps to 0 after the largest int32
    epoch = None if frame.leader_epoch < 0 else frame.leader_epoch
    return (epoch, *producer, sequence, frame.transactional, frame.base_offset)


def crc_matches(buffer: bytes | memoryview, frame: Frame) -> bool:
    """Whether a frame's own checksum is that of its bytes: CRC-32C for magic 2, CRC-32 below."""
    if frame.magic == 2:
        return int(crc32c(buffer[frame.position + ATTRIBUTES_AT : frame.position + frame.size])) == frame.crc
    return zlib.crc32(buffer[frame.position + MAGIC_AT : frame.position + frame.size]) == frame.crc


def control_type(buffer: bytes | memoryview, frame: Frame, limit: int) -> int | None:
    """The type in a control batch's first key; None where there is no such key, or the batch is none of that kind."""
    if not frame.control or not frame.record_count:
        return None
    start, stop = frame.position + RECORDS_AT, frame.position + frame.size
    try:
        payload = decompress(frame.codec, memoryview(buffer)[start:stop], 2, limit)
        reader = BoundedReader(payload, 0, len(payload))
        record = reader.part(reader.varint(5), Fault.RECORD_OVERRUN)
        record.skip(1, Fault.RECORD_LENGTH)
        record.varint(10)
        record.varint(5)
        key = record.nullable()
    except RecordFault:
        return None
    if key is None or len(key) < CONTROL_KEY.size:
        return None
    return int(CONTROL_KEY.unpack_from(key)[1])
