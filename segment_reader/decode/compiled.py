"""The compiled decoder: compiled code for the work per frame or per record, Python for the work per group.

    scan        headers of up to FRAMES frames into the table          compiled, per frame
    plan        what to do with each: dropped, counted, decoded        compiled, per frame
    unpack      compressed frames, until a group is full               compiled, per frame; what is not plain in Python
    fill        records into Arrow buffers                             compiled, per record
    emit        a full set of buffers as a RecordBatch                 Python, per Arrow batch

Frames are decoded in order, whatever the grouping, so that the first of two faults is reported: one that is found while
decompressing or scanning ahead is raised after the frames before it are decoded.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator, Sequence

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from kseg.segment_reader.codecs.native import AVAILABLE, zstd_context
from kseg.segment_reader.decode.batch import ATTRIBUTES_AT, CODEC_MASK, MAGIC_AT, RECORDS_AT, TIMESTAMP_TYPE_BIT, frames
from kseg.segment_reader.decode.column_builder import ColumnBuilder
from kseg.segment_reader.decode.engine import AbortedTransactions, DecodeCounts, Options
from kseg.segment_reader.decode.jit import warn_if_compiling
from kseg.segment_reader.decode.kernel import fill
from kseg.segment_reader.decode.legacy import RecordFault, decompress, flatten, message_fields, open_wrapper
from kseg.segment_reader.decode.scan import P_CLOSED, P_EDGE, PLAN_SIZE, plan, scan, scan_messages
from kseg.segment_reader.decode.table import (
    ATTRIBUTES,
    BAD_MARKER,
    BASE,
    CHECK,
    CRC,
    FAULT,
    FULL,
    GROW_GAPS,
    GROW_REFUSED,
    MAGIC,
    MARKER,
    MAX_TIME,
    PACKED_MARKER,
    POSITION,
    RANGE_DONE,
    S_ABORTED,
    S_ABSENT,
    S_AT,
    S_BATCHES,
    S_CONTROL,
    S_DATA,
    S_GAPS,
    S_NEED,
    S_NEXT,
    S_OFFSET,
    S_ORIGIN,
    S_READ,
    S_REFUSED,
    S_ROWS,
    S_UNIT,
    SHIFT,
    SIZE,
    SOURCE,
    START,
    STATE_SIZE,
    STOP,
    TIME,
    TIME_TYPE,
    WIDTH,
    Bytes,
    Int64s,
    Rules,
    as_bytes,
)
from kseg.segment_reader.decode.unpack import BY_PYTHON, DONE, GROUP_FULL, unpack
from kseg.segment_reader.errors import Fault, RecordFormatError

FRAMES = 1024  # rows of the table: what is read ahead
DIRECT = 1 << 18  # a batch unpacked elsewhere is from this size on decoded where it lies, without joining a group

_PACKED_COLUMNS = [POSITION, SIZE, MAGIC, ATTRIBUTES, CRC, CHECK, MARKER]  # the arguments of _unpack
_EMPTY = np.empty(0, np.uint8)
_EMPTY.flags.writeable = False


class CompiledEngine:
    """See `segment_reader.decode.engine.Engine`."""

    def __init__(self, options: Options) -> None:
        limits = options.limits
        self._options = options
        self._aborted = AbortedTransactions()
        self._builder = ColumnBuilder(options)
        self._rules = Rules(
            end=options.end,
            check=options.check_crcs,
            headers=options.headers or options.raw_headers,
            refuse_names=options.header_names == "refuse",
            aside=options.set_refused_aside,
            provenance=options.provenance,
            null_times=options.null_timestamps,
            max_rows=self._builder.max_rows,
            max_bytes=limits.max_bytes,
            row_cost=options.row_cost,
        )
        self._table = np.zeros((FRAMES, WIDTH), np.int64)
        self._closed = np.empty((FRAMES, 2), np.int64)
        self._gaps = np.empty((64, 2), np.int64)
        self._refused = np.empty((16, 2), np.int64)
        self._state = np.zeros(STATE_SIZE, np.int64)
        self._state[[S_AT, S_OFFSET]] = -1
        self._state[S_NEXT] = options.start
        self._direct = min(DIRECT, limits.group_bytes)
        self._scratch = memoryview(b"")
        self._scratch_array = np.empty(0, np.uint8)
        self._unpacked = _EMPTY

    @property
    def next_offset(self) -> int:
        return int(self._state[S_NEXT])

    @property
    def counts(self) -> DecodeCounts:
        order = [S_DATA, S_CONTROL, S_ABORTED, S_ABSENT, S_BATCHES, S_READ, S_REFUSED]
        return DecodeCounts(*self._state[order].tolist())

    @property
    def gaps(self) -> list[tuple[int, int]]:
        return [(first, end) for first, end in self._gaps[: self._state[S_GAPS]].tolist()]

    @property
    def refused(self) -> list[tuple[int, Fault]]:
        return [(offset, Fault(fault)) for offset, fault in self._refused[: self._state[S_REFUSED]].tolist()]

    def feed(
        self, records: bytes | memoryview, aborted: Sequence[tuple[int, int]], file: str | None, position: int
    ) -> Iterator[pa.RecordBatch]:
        options = self._options
        if options.provenance:
            self._builder.from_file(file, self._state)
            self._state[S_ORIGIN] = -1 if file is None else position
            self._rules = self._rules._replace(row_cost=options.row_cost + len((file or "").encode()))
        view = memoryview(records).cast("B")
        data = as_bytes(view)
        entries = self._aborted.restart(aborted if options.read_committed else ())
        pending = np.array(entries, np.int64).reshape(-1, 2)
        producers, pending[:, 1] = np.unique(pending[:, 1], return_inverse=True)
        opened = np.zeros(len(producers), np.int64)
        planned = np.zeros(PLAN_SIZE, np.int64)
        planned[P_EDGE] = self.next_offset
        at, n, fault = 0, FRAMES, 0
        while n == FRAMES and not fault and self.next_offset < options.end:
            n, at, fault = scan(data, at, data.size, self._table)
            self._compressed_markers(view, n)
            kept = plan(
                self._table, n, options.end, options.check_crcs, pending, producers, opened, self._closed, planned
            )
            for producer, offset in self._closed[: planned[P_CLOSED]].tolist():
                self._aborted.close(producer, offset)
            yield from self._decode(view, data, kept)
            if kept < n:
                self.skip_to(options.end)
        if fault and self.next_offset < options.end:
            base = int.from_bytes(view[at : at + 8], "big", signed=True)
            raise options.fault(Fault(fault), base, at)

    def skip_to(self, offset: int) -> None:
        first, end, state = self.next_offset, min(offset, self._options.end), self._state
        if end <= first:
            return
        n = int(state[S_GAPS])
        if n and self._gaps[n - 1, 1] == first:
            self._gaps[n - 1, 1] = end
        else:
            if n == len(self._gaps):
                self._gaps = _twice(self._gaps)
            self._gaps[n] = first, end
            state[S_GAPS] = n + 1
        state[S_ABSENT] += end - first
        state[S_NEXT] = end

    def flush(self) -> Iterator[pa.RecordBatch]:
        if self._state[S_ROWS]:
            yield self._builder.emit(self._state)

    # -- one table's worth of frames

    def _decode(self, view: memoryview, data: Bytes, n: int) -> Iterator[pa.RecordBatch]:
        limits, end = self._options.limits, self._options.end
        group = limits.group_bytes
        self._state[S_UNIT] = 0
        headers: list[list[int]] = []  # of all rows, once one is left to Python
        unit = used = 0
        while unit < n:
            self._use_scratch(group + self._direct)
            context = zstd_context()  # of this thread: another one may take the rows after the next ones
            status, unit, used = unpack(
                data, self._table, unit, n, self._scratch_array, used, group, limits.max_batch_bytes, AVAILABLE, context
            )
            if status == DONE:
                break
            if status == BY_PYTHON:
                headers = headers or self._table[:n, _PACKED_COLUMNS].tolist()
                try:
                    content = self._decompress(view, unit, self._scratch[used:], *headers[unit])
                except RecordFault as fault:
                    yield from self._fill(data, unit)
                    if self.next_offset >= end:
                        return
                    raise self._error(unit, fault.fault, fault.offset, fault.detail) from None
                used = yield from self._take(content, data, unit, used)
                unit += 1
            if status == GROUP_FULL or used >= group:
                yield from self._fill(data, unit)
                used = 0
            if not used and self.next_offset >= end:
                return
        yield from self._fill(data, n)
        self._unpacked = _EMPTY

    def _take(
        self, content: bytes | memoryview, data: Bytes, unit: int, used: int
    ) -> Generator[pa.RecordBatch, None, int]:
        """A batch that Python has decompressed: into the scratch, or decoded where it lies. Returns bytes used."""
        size = len(content)
        in_place = isinstance(content, memoryview) and content.obj is self._scratch.obj
        if size >= self._direct and not in_place:
            yield from self._fill(data, unit)
            self._table[unit, [START, STOP, SOURCE]] = 0, size, 1
            self._unpacked = as_bytes(content)
            yield from self._fill(data, unit + 1)
            return 0
        if not in_place:
            self._scratch[used : used + size] = content
        self._table[unit, [START, STOP, SOURCE]] = used, used + size, 1
        return used + size

    def _use_scratch(self, size: int) -> None:
        if len(self._scratch) < size:
            self._scratch_array = np.empty(size, np.uint8)
            self._scratch = memoryview(self._scratch_array.data)
        self._unpacked = as_bytes(self._scratch)

    def _fill(self, data: Bytes, n: int) -> Iterator[pa.RecordBatch]:
        """Decodes the table's units below n that are not decoded yet."""
        state, builder = self._state, self._builder
        warn_if_compiling(fill)
        while True:
            status = fill(
                data, self._unpacked, self._table, n, builder.columns, self._gaps, self._refused, state, self._rules
            )
            if status <= RANGE_DONE:
                return
            if status == FULL:
                yield builder.emit(state)
            elif status == GROW_GAPS:
                self._gaps = _twice(self._gaps)
            elif status == GROW_REFUSED:
                self._refused = _twice(self._refused)
            elif status < FAULT:
                builder.grow(status, int(state[S_NEED]), state)
            else:
                offset = int(state[S_OFFSET])
                raise self._error(int(state[S_UNIT]), Fault(status - FAULT), None if offset < 0 else offset)

    # -- compressed frames

    def _decompress(
        self,
        view: memoryview,
        unit: int,
        buffer: memoryview,
        start: int,
        size: int,
        magic: int,
        attributes: int,
        crc: int,
        check: int,
        marker: int,
    ) -> bytes | memoryview:
        """The unpacked records of a batch, or the message set of a wrapper; in `buffer` where they fit.

        Raises RecordFault.
        """
        stop, limit, codec = start + size, self._options.limits.max_batch_bytes, attributes & CODEC_MASK
        if magic == 2:
            if check and crc32c(view[start + ATTRIBUTES_AT : stop]) != crc:
                raise RecordFault(Fault.CRC)
            if marker == BAD_MARKER:
                raise RecordFault(Fault.CONTROL_KEY)
            return decompress(codec, view[start + RECORDS_AT : stop], 2, limit, buffer)
        if check and zlib.crc32(view[start + MAGIC_AT : stop]) != crc:
            raise RecordFault(Fault.CRC)
        value = message_fields(view[start:stop])[1]
        if value is None:
            raise RecordFault(Fault.INNER_EMPTY)
        content = decompress(codec, value, magic, limit, buffer)
        last, nested, fault = scan_messages(as_bytes(content), 0, len(content), magic)
        if fault:
            raise RecordFault(Fault(fault))
        row = self._table[unit]
        base = int(row[BASE])
        if nested:
            del content  # all levels are opened again, within one limit
            return flatten(open_wrapper(view[start:stop], base, limit=limit, check_crcs=bool(check)))
        if magic == 1:
            if base < last:
                raise RecordFault(Fault.INNER_OFFSET)
            row[SHIFT], row[TIME] = base - last, row[MAX_TIME]
            row[TIME_TYPE] = 1 if attributes & TIMESTAMP_TYPE_BIT else 0
        return content

    def _compressed_markers(self, view: memoryview, n: int) -> None:
        """Control batches are never compressed by a broker; one that is must be unpacked to know its type."""
        for unit in np.flatnonzero(self._table[:n, MARKER] == PACKED_MARKER).tolist():
            from kseg.segment_reader.decode.reference import control_type

            frame = next(frames(view, int(self._table[unit, POSITION])))
            kind = control_type(view, frame, self._options.limits.max_batch_bytes)
            self._table[unit, MARKER] = BAD_MARKER if kind is None else kind & 0xFFFF

    def _error(self, unit: int, fault: Fault, offset: int | None = None, detail: str = "") -> RecordFormatError:
        base, position = self._table[unit, [BASE, POSITION]].tolist()
        return self._options.fault(fault, base, position, offset=offset, detail=detail)


def _twice(pairs: Int64s) -> Int64s:
    """The same pairs, with room for as many more."""
    larger = np.empty((2 * len(pairs), 2), np.int64)
    larger[: len(pairs)] = pairs
    return larger
