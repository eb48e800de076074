"""A range of offsets past damage: the record sets of `scan.record_sets`, and each damage between them.

    for found in Salvager(storage, log).sets(100, 5000, read_committed=True):
        match found:
            case RecordSet(): ...       valid batches; their checksums are right
            case Damage(): ...          offsets that are missing, and where their bytes are

Damage and transactions (read_committed): a batch of a transaction is returned if a marker says how it ended and no
damage that might hide another marker lies between the batch and that marker. Otherwise its outcome cannot be known, and
it is damage itself, with the reason `UNDECIDED`:

    batch of P ... damage ... COMMIT of P      the batch is undecided: P's marker may have been in the damage, and the
                                               COMMIT may end another transaction of P
    damage ... batch of P ... COMMIT of P      committed, however the transaction began
    batch of P ... the log's end               undecided: a transaction that was open

A single damaged batch that is too large to be a marker hides none. The `.txnindex` is not used: it has no checksum.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kseg.segment_reader.decode.aborted_past_damage import UNDECIDED
from kseg.segment_reader.decode.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from kseg.segment_reader.decode.table import ATTRIBUTES, BASE, LAST, MAGIC, MARKER, POSITION, PRODUCER, SIZE
from kseg.segment_reader.log.damage.batch_validation import valid_pair
from kseg.segment_reader.log.damage.compaction_gaps import CompactionGaps
from kseg.segment_reader.log.damage.damage import Damage, Torn
from kseg.segment_reader.log.damage.segment_scanner import WINDOW_BYTES, SegmentScanner, ValidBatches
from kseg.segment_reader.log.errors import LogEndsEarly
from kseg.segment_reader.log.files.index_entries import IndexFile
from kseg.segment_reader.log.files.preallocation import open_segment
from kseg.segment_reader.log.files.segments import PartitionLog
from kseg.segment_reader.log.files.storage import OpenFile, Storage
from kseg.segment_reader.log.scan.bounds import OpenTransaction, newest_snapshot
from kseg.segment_reader.log.scan.headers import Piece, Table
from kseg.segment_reader.log.scan.record_sets import RecordSet
from kseg.segment_reader.log.transactions.aborted import TransactionTracker

_READ_AHEAD_BYTES: Final = 1 << 20
_TRIES: Final = 3


@dataclass
class Salvager:
    """Reads one partition past its damage. torn: the batch that is cut off at the log's end, if it was reached."""

    storage: Storage
    log: PartitionLog
    window_bytes: int = WINDOW_BYTES
    torn: Torn | None = None
    _has_gaps: CompactionGaps = field(init=False)

    def __post_init__(self) -> None:
        self._has_gaps = CompactionGaps(self.storage, self.log)

    def sets(self, start: int, end: int, *, read_committed: bool) -> Iterator[RecordSet | Damage]:
        """The record sets with offsets [start, end), in order, and all damage that touches them.

        Raises LogEndsEarly, SegmentGone.
        """
        if start >= end:
            return
        tracker = TransactionTracker(past_damage=True) if read_committed else None
        edge = start
        for place, item in self._from(start):
            if isinstance(item, Damage):
                if tracker is not None:
                    tracker.observe(item.file, item)
                if item.last > start or item.first >= start:
                    yield item
                edge = max(edge, item.last)
            elif item.next_offset > start:
                if int(item.table[0, BASE]) >= end:
                    yield RecordSet(memoryview(b""), [], end, self.log.segments[place.number].path, item.position)
                    return
                yield from self._valid_batches(place, item, tracker, edge, end)
                edge = item.next_offset
            if edge >= end:
                break
        if edge < end:
            segments = self.log.segments
            raise LogEndsEarly(segments[-1].path if segments else self.log.folder, None, edge)

    def all(self) -> Iterator[ValidBatches | Damage]:
        """The whole log, from its first byte."""
        for _, item in self._from(None):
            yield item

    def end(self) -> int:
        """The offset after the last batch, or damage, of the last segment; 0 without segments."""
        edge = 0
        if self.log.segments:
            number = len(self.log.segments) - 1
            edge = self.log.segments[number].base_offset
            for _, item in self._from(1 << 62):
                edge = item.last if isinstance(item, Damage) else item.next_offset
        return edge

    def open_transactions(self, end: int | None = None) -> list[OpenTransaction]:
        """The transactions that are open at the log's end (or at `end`), by their first offset; damage that may have
        hidden a marker leaves none open."""
        end = 1 << 63 if end is None else end
        opened, offset = newest_snapshot(self.storage, self.log, end)
        for _, item in self._from(offset):
            if isinstance(item, Damage):
                if item.hides_marker and offset <= item.first < end:
                    opened.clear()
                continue
            here = (item.table[:, BASE] >= offset) & (item.table[:, BASE] < end)
            for row in np.flatnonzero(_transactional(item.table) & here).tolist():
                producer = int(item.table[row, PRODUCER])
                if not item.table[row, ATTRIBUTES] & CONTROL_BIT:
                    opened.setdefault(producer, int(item.table[row, BASE]))
                elif item.table[row, MARKER] >= 0:
                    opened.pop(producer, None)
        found = [OpenTransaction(producer, first) for producer, first in opened.items()]
        return sorted(found, key=lambda one: one.first_offset)

    # --- one partition, segment by segment

    def _from(self, offset: int | None) -> Iterator[tuple[_Position, ValidBatches | Damage]]:
        """All items from a position before `offset` on, or from the log's first byte, with the position behind each."""
        if not self.log.segments:
            return
        number = 0
        if offset is not None:
            # Damage right before the offset may have no offsets of its own: begin in front of it.
            offset = max(0, offset - 1)
            number = self.log.segment_at(offset)
        with closing(open_segment(self.storage, self.log.segments[number])) as file:
            position, edge = (0, None) if offset is None else self._indexed_start(file, number, offset)
        yield from self._behind(_Position(number, position, edge), self.window_bytes)

    def _behind(self, place: _Position, window_bytes: int) -> Iterator[tuple[_Position, ValidBatches | Damage]]:
        segments, position, edge = self.log.segments, place.position, place.edge
        for number in range(place.number, len(segments)):
            segment = segments[number]
            high = segments[number + 1].base_offset if number + 1 < len(segments) else None
            with closing(open_segment(self.storage, segment)) as file:
                scanner = SegmentScanner(
                    file,
                    segment.base_offset,
                    high,
                    has_gaps=self._has_gaps,
                    position=position,
                    edge=edge,
                    window_bytes=window_bytes,
                )
                for item in scanner:
                    yield _Position(number, scanner.position, scanner.edge), item
                self.torn = scanner.torn or self.torn
            position, edge = 0, None

    def _indexed_start(self, file: OpenFile, number: int, offset: int) -> tuple[int, int | None]:
        """A batch that the index has at or before an offset, if its neighbour confirms it; else the segment's start."""
        segments = self.log.segments
        segment = segments[number]
        if offset <= segment.base_offset:
            return 0, None
        high = segments[number + 1].base_offset if number + 1 < len(segments) else None
        with closing(IndexFile(self.storage, segment)) as opened:
            index = opened.entries
            if index is None:
                return 0, None
            found = index.last_below(offset - segment.base_offset, 0, inclusive=True)
            for entry in range(found, max(found - _TRIES, -1), -1):
                relative, position = index[entry]
                base = valid_pair(file, position, segment.base_offset, high)
                if base is not None and base <= segment.base_offset + relative:
                    return position, base
        return 0, None

    # --- transactions

    def _valid_batches(
        self, place: _Position, batches: ValidBatches, tracker: TransactionTracker | None, first: int, end: int
    ) -> Iterator[RecordSet | Damage]:
        path = self.log.segments[place.number].path
        if tracker is None:
            yield RecordSet(batches.data, [], batches.next_offset, path, batches.position)
            return
        tracker.observe(
            path, Piece(batches.table, batches.data, batches.position, batches.position + len(batches.data))
        )
        last = min(batches.next_offset, end) - 1
        aborted = tracker.aborted(first, last, lambda: self._ahead(place))
        unsettled = tracker.undecided(first, last)
        if not unsettled:
            yield RecordSet(batches.data, aborted, batches.next_offset, path, batches.position)
            return
        yield from _parted(batches, path, aborted, _rows_of(batches.table, unsettled))

    def _ahead(self, place: _Position) -> Iterator[tuple[str, Piece | Damage]]:
        for behind, item in self._behind(place, _READ_AHEAD_BYTES):
            path = self.log.segments[behind.number].path
            if isinstance(item, ValidBatches):
                yield path, Piece(item.table, item.data, item.position, item.position + len(item.data))
            else:
                yield path, item


@dataclass(frozen=True, slots=True)
class _Position:
    """A position of the scanner: the segment's number, the byte in it, the offset after the batch before."""

    number: int
    position: int
    edge: int | None


def _transactional(table: Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    chosen: np.ndarray[tuple[int], np.dtype[np.bool_]] = (table[:, MAGIC] == 2) & (
        table[:, ATTRIBUTES] & TRANSACTIONAL_BIT != 0
    )
    return chosen


def _rows_of(table: Table, unsettled: list[tuple[int, int, int]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The batches of undecided transactions: (producer id, first offset, end) each."""
    data = _transactional(table) & (table[:, ATTRIBUTES] & CONTROL_BIT == 0)
    of_one = np.zeros(len(table), np.bool_)
    for producer, began, until in unsettled:
        of_one |= data & (table[:, PRODUCER] == producer) & (table[:, BASE] >= began) & (table[:, BASE] < until)
    return of_one


def _parted(
    batches: ValidBatches,
    path: str,
    aborted: list[tuple[int, int]],
    undecided: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> Iterator[RecordSet | Damage]:
    """Batches without the undecided ones, each of which is a damage of its own."""
    row = 0
    while row < len(undecided):
        stop = row + 1
        while stop < len(undecided) and undecided[stop] == undecided[row] and not undecided[row]:
            stop += 1
        first, final = batches.table[row], batches.table[stop - 1]
        position, end = int(first[POSITION]), int(final[POSITION] + final[SIZE])
        if undecided[row]:
            bounds = int(first[BASE]), int(final[LAST]) + 1
            yield Damage(path, position, end - position, *bounds, UNDECIDED, hides_marker=False)
        else:
            data = batches.data[position - batches.position : end - batches.position]
            yield RecordSet(data, list(aborted), int(final[LAST]) + 1, path, position)
        row = stop
