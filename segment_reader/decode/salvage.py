"""Decode damaged record sets to Arrow: like `RangeDecoder`, but bad batches are reported and skipped.

    headers ──► checksums ──► consecutive valid batches ──► one RangeDecoder each
                    └► a batch that is wrong, here or while its records are decoded: BadBatch
                         └► may it have been a marker? `AbortedPastDamage` knows which transactions are aborted then

A record that is valid and has no row (UnrepresentableRecord) is left out alone: RefusedRecord. It is no damage.

A batch's rows are returned only if the whole batch can be decoded: they are held back until then, and a batch that
extends beyond the range's start or end is decoded completely first. So adjacent ranges agree on which batches are bad.

Each RangeDecoder starts without knowing the markers before it, so it gets only the aborted transactions that are open.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kseg.segment_reader.decode.aborted_past_damage import UNDECIDED, AbortedPastDamage, Entries, Table
from kseg.segment_reader.decode.batch import CODEC_MASK, CONTROL_BIT, FRAME_OVERHEAD, LENGTH_AT, MIN_LENGTH, frames
from kseg.segment_reader.decode.checksums import first_bad_checksum
from kseg.segment_reader.decode.engine import DecodeCounts, Limits
from kseg.segment_reader.decode.legacy import RecordFault, first_offset
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.decode.reference import control_type, whole_records
from kseg.segment_reader.decode.scan import SMALL, scan
from kseg.segment_reader.decode.table import (
    ATTRIBUTES,
    BAD_MARKER,
    BASE,
    COUNT,
    LAST,
    MAGIC,
    MARKER,
    PACKED_MARKER,
    POSITION,
    SIZE,
    WIDTH,
    as_bytes,
)
from kseg.segment_reader.errors import BatchAddress, Fault, RecordFormatError

_ROWS: Final = 1024
_ANY_SIZE: Final = 1 << 40
_IMPOSSIBLE: Final = -1

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class BadBatch:
    """A batch that cannot be decoded: bytes [position, position + size) of its record set, offsets [first, last)."""

    position: int
    size: int
    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that has no row, in a batch that is sound. position: of its batch in the record set. content: the
    record's bytes, uncompressed; of magic 2 without its length."""

    position: int
    offset: int
    reason: str
    content: bytes


class SalvagingDecoder:
    """Decodes [start, end) of one partition; `options` are those of RangeDecoder.

    unreadable: how many offsets of the range are in bad batches, in damage that was skipped, or those of refused
    records. With the counts of RangeDecoder it accounts for all offsets passed so far. damaged: whether the last record
    set had bad batches.
    """

    def __init__(self, topic: str, partition: int, start: int, end: int, **options: Any) -> None:
        self.counts = DecodeCounts()
        self.gaps: list[tuple[int, int]] = []
        self.unreadable = 0
        self.damaged = False
        self.next_offset = start
        self._topic, self._partition = topic, partition
        self._end = end
        self._source: tuple[str | None, int] = None, 0  # of the record set
        self._transactions = AbortedPastDamage()
        self._read_committed = options["isolation_level"] == "read_committed"
        self._refused: list[tuple[int, Fault]] = []  # of the batches that were decoded last
        self._limit = (options.get("limits") or Limits()).max_batch_bytes
        self._check = bool(options.pop("check_crcs", True))
        self._make: Callable[[int, int], RangeDecoder] = lambda first, last: RangeDecoder(
            topic, partition, first, last, **{"set_refused_aside": True, "check_crcs": False, **options}
        )

    def skip_to(self, offset: int) -> None:
        """Counts everything from `next_offset` up to `offset` as absent."""
        self._add(self._make(self.next_offset, min(offset, self._end)), until=offset)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """No rows: `feed` returns all of them. Raises ValueError if the range has not been read to its end."""
        if self.next_offset < self._end:
            raise ValueError(f"the range ends at offset {self._end}, but only those below {self.next_offset} were read")
        return iter(())

    def pass_over(self, first: int, last: int) -> None:
        """Counts [first, last) as unreadable, and offsets from `next_offset` up to `first` as absent."""
        self.skip_to(first)
        last = min(last, self._end)
        self.unreadable += max(0, last - self.next_offset)
        self.next_offset = max(self.next_offset, last)

    def feed(
        self,
        records: bytes | memoryview,
        aborted: Sequence[tuple[int, int]] = (),
        *,
        file: str | None = None,
        position: int = 0,
    ) -> Iterator[pa.RecordBatch | BadBatch | RefusedRecord]:
        """The rows of one record set, and its bad batches and refused records that have offsets of the range. Unlike
        RangeDecoder, this decoder keeps no rows for the next call.

        Raises RecordFormatError if the end of a bad batch cannot be determined.
        """
        view = memoryview(records).cast("B")
        self._source = file, position
        table, reasons = self._headers(view)
        self._transactions.restart(aborted if self._read_committed else ())
        hiding = _may_hide_markers(table, reasons)
        undecided: set[int] = set()
        self.damaged = bool(reasons)
        row = 0
        while row < len(table) and self.next_offset < self._end:
            if row in reasons:
                first, last, size = self._reach(table, reasons, row)
                yield from self._bad(table, row, (first, last), size, reasons[row])
                if hiding[row]:
                    undecided |= self._undecided(table, reasons, hiding, row, last)
                row += 1
                continue
            if table[row, BASE] >= self._end:
                self.skip_to(self._end)
                return
            if row in undecided:
                self.damaged = True
                yield from self._bad_alone(table, row, UNDECIDED)
                row += 1
                continue
            stop = row + 1
            while stop < len(table) and stop not in reasons and stop not in undecided:
                stop += 1
            fault = yield from self._sound(view, table[row:stop])
            yield from self._set_aside(view, table[row:stop])
            if fault is None:
                self._transactions.pass_batches(table[row:stop])
                row = stop
            else:
                at, reason = fault
                self.damaged = True
                self._transactions.pass_batches(table[row : row + at])
                row += at
                yield from self._bad_alone(table, row, reason)
                if table[row, MAGIC] == 2 and table[row, ATTRIBUTES] & CONTROL_BIT:
                    undecided |= self._undecided(table, reasons, hiding, row, int(table[row, LAST]) + 1)
                row += 1

    def _headers(self, view: memoryview) -> tuple[Table, dict[int, str]]:
        """The headers of complete batches, and what is wrong with some of them, by row."""
        parts: list[Table] = []
        reasons: dict[int, str] = {}
        at, found, array = 0, 0, as_bytes(view)
        while at < len(view):
            table: Table = np.zeros((_ROWS, WIDTH), np.int64)
            rows, at, fault = scan(array, at, len(view), table)
            if fault and rows < _ROWS:
                size = FRAME_OVERHEAD + int.from_bytes(view[at + LENGTH_AT : at + FRAME_OVERHEAD], "big", signed=True)
                if size < FRAME_OVERHEAD + MIN_LENGTH[0]:
                    base = int.from_bytes(view[at : at + 8], "big", signed=True)
                    raise Fault(fault).error(BatchAddress(self._topic, self._partition, base, at))
                table[rows, [POSITION, SIZE, BASE, LAST]] = at, size, _IMPOSSIBLE, _IMPOSSIBLE
                reasons[found + rows] = Fault(fault).reason
                rows, at = rows + 1, at + size
            elif not fault and rows < _ROWS:
                parts.append(table[:rows])
                break
            parts.append(table[:rows])
            found += rows
        whole = np.concatenate(parts) if parts else np.zeros((0, WIDTH), np.int64)
        if self._check:
            row = -1
            while (wrong := first_bad_checksum(array, 0, whole[row + 1 :], _ANY_SIZE)) >= 0:
                row += 1 + wrong
                reasons.setdefault(row, Fault.CRC.reason)
        for row in np.flatnonzero(whole[:, MARKER] == PACKED_MARKER).tolist():
            if row not in reasons:
                kind = control_type(view, next(frames(view, int(whole[row, POSITION]))), self._limit)
                whole[row, MARKER] = BAD_MARKER if kind is None else kind & 0xFFFF
        packed = (whole[:, MAGIC] < 2) & (whole[:, ATTRIBUTES] & CODEC_MASK != 0)
        for row in np.flatnonzero(packed).tolist():
            if row not in reasons:
                try:
                    whole[row, BASE] = first_offset(_part(view, whole[row : row + 1]), int(whole[row, LAST]))
                except RecordFault as wrong_inside:
                    reasons[row] = wrong_inside.fault.reason
        return whole, reasons

    def _reach(self, table: Table, reasons: dict[int, str], row: int) -> tuple[int, int, int]:
        """The offsets [first, last) and the bytes of a batch with a wrong header or checksum: up to the next valid
        batch, together with other such batches."""
        position = int(table[row, POSITION])
        following = next((number for number in range(row + 1, len(table)) if number not in reasons), None)
        if following is not None:
            return self.next_offset, int(table[following, BASE]), int(table[following, POSITION]) - position
        base, last, count = (int(number) for number in table[row, [BASE, LAST, COUNT]])
        if base >= 0 and base <= self.next_offset <= last and (table[row, MAGIC] < 2 or count == last - base + 1):
            return self.next_offset, last + 1, int(table[row, SIZE])
        raise Fault.CRC.error(BatchAddress(self._topic, self._partition, base, position))

    def _bad(self, table: Table, row: int, offsets: tuple[int, int], size: int, reason: str) -> Iterator[BadBatch]:
        first, last = offsets
        if last <= self.next_offset:
            return
        base = int(table[row, BASE])
        self.pass_over(first, last)
        yield BadBatch(int(table[row, POSITION]), size, base if 0 <= base < first else first, last, reason)

    def _bad_alone(self, table: Table, row: int, reason: str) -> Iterator[BadBatch]:
        """A batch whose header is right."""
        offsets = max(self.next_offset, int(table[row, BASE])), int(table[row, LAST]) + 1
        return self._bad(table, row, offsets, int(table[row, SIZE]), reason)

    def _undecided(self, table: Table, reasons: dict[int, str], hiding: Mask, row: int, end: int) -> set[int]:
        """Rows of valid batches that are undecided because of the batch at `row`, damage below offset `end`."""
        more = np.flatnonzero(hiding[row + 1 :])
        stop = row + 1 + int(more[0]) if len(more) else len(table)
        following = [number for number in range(row + 1, stop) if number not in reasons]
        return {following[found] for found in self._transactions.pass_damage(end, table[following])}

    # --- batches with valid headers and checksums, whose records may still be wrong

    def _sound(self, view: memoryview, table: Table) -> Generator[pa.RecordBatch, None, tuple[int, str] | None]:
        """Rows of consecutive batches. Returns (row, reason) of the first whose records are wrong, or None."""
        start, end = self.next_offset, min(self._end, int(table[-1, LAST]) + 1)
        if end <= start:
            return None
        at_edge = self._edges(view, table, start, end)
        stop = len(table) if at_edge is None else at_edge[0]
        if not stop:
            return at_edge
        aborted = self._transactions.after(table[:0])
        handed, fault = yield from self._decoded(view, table[:stop], aborted, start, min(end, _after(table, stop)))
        if fault is None:
            return at_edge
        if fault[0] and _after(table, fault[0]) > start:
            # The counts up to the error include a part of the bad batch: decode the batches before it again, and count.
            again = self._make(start, min(_after(table, fault[0]), end))
            for batch in self._all(again, view, table[: fault[0]], aborted):
                yield from _from(batch, handed)
            self._add(again)
        return fault

    def _decoded(
        self, view: memoryview, table: Table, aborted: Entries, start: int, end: int
    ) -> Generator[pa.RecordBatch, None, tuple[int, tuple[int, str] | None]]:
        """Returns (the offset below which rows were yielded, the fault that ended decoding or None)."""
        if end <= start:
            return start, None
        lasts, origin = table[:, LAST], int(table[0, POSITION])
        held: list[pa.RecordBatch] = []
        handed = start
        decoder = self._make(start, end)
        try:
            for batch in self._all(decoder, view, table, aborted):
                held.append(batch)
                newest = int(batch.column("offset")[-1].as_py())
                row = int(np.searchsorted(lasts, newest))
                whole = newest + 1 if newest == lasts[row] else (int(lasts[row - 1]) + 1 if row else start)
                while held and held[0].column("offset")[-1].as_py() < whole:
                    ready = held.pop(0)
                    handed = int(ready.column("offset")[-1].as_py()) + 1
                    yield ready
        except RecordFormatError as error:
            row = int(np.searchsorted(table[:, POSITION], origin + error.address.position))
            return handed, (row, error.reason)
        yield from held
        self._add(decoder)
        return end, None

    def _edges(self, view: memoryview, table: Table, start: int, end: int) -> tuple[int, str] | None:
        """(row, reason) of a batch that extends beyond the range and cannot be decoded completely, or None."""
        across = (table[:, LAST] >= start) & (table[:, BASE] < end)
        across &= (table[:, BASE] < start) | (table[:, LAST] >= end)
        for row in np.flatnonzero(across).tolist():
            whole = self._make(int(table[row, BASE]), int(table[row, LAST]) + 1)
            try:
                for _ in self._all(whole, view, table[row : row + 1], self._transactions.after(table[:row])):
                    pass
            except RecordFormatError as error:
                return row, error.reason
        return None

    def _set_aside(self, view: memoryview, table: Table) -> Iterator[RefusedRecord]:
        """The refused records of these batches."""
        reasons, self._refused = dict(self._refused), []
        for row in np.unique(np.searchsorted(table[:, LAST], list(reasons))).tolist():
            position = int(table[row, POSITION])
            for offset, content in whole_records(view, next(frames(view, position)), self._limit):
                if offset in reasons:
                    yield RefusedRecord(position, offset, reasons[offset].reason, bytes(content))

    def _all(self, decoder: RangeDecoder, view: memoryview, table: Table, aborted: Entries) -> Iterator[pa.RecordBatch]:
        """The rows of consecutive batches of the record set."""
        file, position = self._source
        yield from decoder.feed(_part(view, table), aborted, file=file, position=position + int(table[0, POSITION]))
        yield from decoder.finish()

    def _add(self, decoder: RangeDecoder, until: int | None = None) -> None:
        if until is not None:
            decoder.skip_to(until)
        mine, more = self.counts, decoder.counts
        for name in ("data", "control", "aborted", "absent", "batches", "bytes"):
            setattr(mine, name, getattr(mine, name) + getattr(more, name))
        self.unreadable += more.refused
        self._refused += decoder.refused
        for first, last in decoder.gaps:
            if self.gaps and self.gaps[-1][1] == first:
                first = self.gaps.pop()[0]
            self.gaps.append((first, last))
        self.next_offset = max(self.next_offset, decoder.next_offset)


def _part(view: memoryview, table: Table) -> memoryview:
    return view[int(table[0, POSITION]) : int(table[-1, POSITION] + table[-1, SIZE])]


def _after(table: Table, row: int) -> int:
    return int(table[row - 1, LAST]) + 1


def _from(batch: pa.RecordBatch, offset: int) -> Iterator[pa.RecordBatch]:
    """The rows from an offset on."""
    row = int(np.searchsorted(batch.column("offset").to_numpy(), offset))
    if row < batch.num_rows:
        yield batch.slice(row)


def _may_hide_markers(table: Table, reasons: dict[int, str]) -> Mask:
    """The damaged batches that may have been a marker, by row, as far as headers and checksums say."""
    hiding: Mask = table[:, MARKER] == BAD_MARKER
    for row in reasons:
        hiding[row] = table[row, SIZE] <= SMALL or row - 1 in reasons or row + 1 in reasons
    return hiding
