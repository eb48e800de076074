"""A range of offsets past damage: what `reading` gives, and each damage where it stands.

    for found in salvaged_sets(storage, log, 100, 5000, read_committed=True):
        match found:
            case RecordSet(): ...       sound batches; their checksums are right
            case Damage(): ...          offsets that are missing, and where their bytes are

What damage does to transactions (read_committed): a batch of a transaction is handed on if a marker says how it ended
and no damage that might hide another marker lies between the batch and that marker. Else nobody can tell whether it
counts, and it is damage itself, for the reason `UNDECIDED`:

    batch of P ... damage ... COMMIT of P      the batch is undecided: P's marker may have stood in the damage, and the
                                               COMMIT may end another transaction of P
    damage ... batch of P ... COMMIT of P      committed, however the transaction began
    batch of P ... the log's end               undecided: a transaction that was open

A single damaged batch that is too large to be a marker hides none. A `.txnindex` is not asked: it has no checksum.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kseg.segment_reader.decode.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from kseg.segment_reader.decode.table import ATTRIBUTES, BASE, LAST, MAGIC, MARKER, POSITION, PRODUCER, SIZE
from kseg.segment_reader.log.damage.batch_validation import sound_pair
from kseg.segment_reader.log.damage.compaction_gaps import Sparse
from kseg.segment_reader.log.damage.damage import UNDECIDED, Damage, Torn
from kseg.segment_reader.log.damage.walk import WINDOW_BYTES, Run, SegmentWalk
from kseg.segment_reader.log.errors import LogEndsEarly
from kseg.segment_reader.log.files.index_entries import IndexFile
from kseg.segment_reader.log.files.preallocation import open_segment
from kseg.segment_reader.log.files.segments import PartitionLog
from kseg.segment_reader.log.files.storage import OpenFile, Storage
from kseg.segment_reader.log.scan.bounds import OpenTransaction, newest_snapshot
from kseg.segment_reader.log.scan.headers import Piece, Table
from kseg.segment_reader.log.scan.record_sets import RecordSet
from kseg.segment_reader.log.transactions.aborted import Fates

_AHEAD_BYTES: Final = 1 << 20
_TRIES: Final = 3

__all__ = ["Salvager", "salvaged_sets"]


def salvaged_sets(
    storage: Storage,
    log: PartitionLog,
    start: int,
    end: int,
    *,
    read_committed: bool,
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[RecordSet | Damage]:
    """What holds offsets [start, end), in the order of offsets, and all damage that touches them.

    Raises LogEndsEarly, SegmentGone.
    """
    yield from Salvager(storage, log, window_bytes=window_bytes).sets(start, end, read_committed=read_committed)


@dataclass
class Salvager:
    """Reads one partition past its damage. torn: what was found cut off at the log's end by what has been read."""

    storage: Storage
    log: PartitionLog
    window_bytes: int = WINDOW_BYTES
    torn: Torn | None = None
    _sparse: Sparse = field(init=False)

    def __post_init__(self) -> None:
        self._sparse = Sparse(self.storage, self.log)

    def sets(self, start: int, end: int, *, read_committed: bool) -> Iterator[RecordSet | Damage]:
        """See `salvaged_sets`."""
        if start >= end:
            return
        fates = Fates(past_damage=True) if read_committed else None
        edge = start
        for place, item in self._from(start):
            if isinstance(item, Damage):
                if fates is not None:
                    fates.look_at(item.file, item)
                if item.last > start or item.first >= start:
                    yield item
                edge = max(edge, item.last)
            elif item.next_offset > start:
                if int(item.table[0, BASE]) >= end:
                    yield RecordSet(memoryview(b""), [], end, self.log.segments[place.number].path, item.position)
                    return
                yield from self._run(place, item, fates, edge, end)
                edge = item.next_offset
            if edge >= end:
                break
        if edge < end:
            segments = self.log.segments
            raise LogEndsEarly(segments[-1].path if segments else self.log.folder, None, edge)

    def all(self) -> Iterator[Run | Damage]:
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

    def _from(self, offset: int | None) -> Iterator[tuple[_Place, Run | Damage]]:
        """Everything from a place before `offset` on, or from the log's first byte; with the place behind each."""
        if not self.log.segments:
            return
        number = 0
        if offset is not None:
            # What stands right before the offset may be without offsets of its own: begin in front of that.
            offset = max(0, offset - 1)
            number = self.log.segment_at(offset)
        with closing(open_segment(self.storage, self.log.segments[number])) as file:
            position, edge = (0, None) if offset is None else self._anchor(file, number, offset)
        yield from self._behind(_Place(number, position, edge), self.window_bytes)

    def _behind(self, place: _Place, window_bytes: int) -> Iterator[tuple[_Place, Run | Damage]]:
        segments, position, edge = self.log.segments, place.position, place.edge
        for number in range(place.number, len(segments)):
            segment = segments[number]
            high = segments[number + 1].base_offset if number + 1 < len(segments) else None
            with closing(open_segment(self.storage, segment)) as file:
                walk = SegmentWalk(
                    file,
                    segment.base_offset,
                    high,
                    sparse=self._sparse,
                    position=position,
                    edge=edge,
                    window_bytes=window_bytes,
                )
                for item in walk:
                    yield _Place(number, walk.position, walk.edge), item
                self.torn = walk.torn or self.torn
            position, edge = 0, None

    def _anchor(self, file: OpenFile, number: int, offset: int) -> tuple[int, int | None]:
        """A batch that the index names at or before an offset, where its neighbour agrees with it; else the start."""
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
                base = sound_pair(file, position, segment.base_offset, high)
                if base is not None and base <= segment.base_offset + relative:
                    return position, base
        return 0, None

    # --- transactions

    def _run(self, place: _Place, run: Run, fates: Fates | None, first: int, end: int) -> Iterator[RecordSet | Damage]:
        path = self.log.segments[place.number].path
        if fates is None:
            yield RecordSet(run.data, [], run.next_offset, path, run.position)
            return
        fates.look_at(path, Piece(run.table, run.data, run.position, run.position + len(run.data)))
        last = min(run.next_offset, end) - 1
        aborted = fates.aborted(first, last, lambda: self._ahead(place))
        unsettled = fates.undecided(first, last)
        if not unsettled:
            yield RecordSet(run.data, aborted, run.next_offset, path, run.position)
            return
        yield from _parted(run, path, aborted, _rows_of(run.table, unsettled))

    def _ahead(self, place: _Place) -> Iterator[tuple[str, Piece | Damage]]:
        for behind, item in self._behind(place, _AHEAD_BYTES):
            path = self.log.segments[behind.number].path
            if isinstance(item, Run):
                yield path, Piece(item.table, item.data, item.position, item.position + len(item.data))
            else:
                yield path, item


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a walk stands: the segment's number, the position in it, the offset after what stands before."""

    number: int
    position: int
    edge: int | None


def _transactional(table: Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    chosen: np.ndarray[tuple[int], np.dtype[np.bool_]] = (table[:, MAGIC] == 2) & (
        table[:, ATTRIBUTES] & TRANSACTIONAL_BIT != 0
    )
    return chosen


def _rows_of(table: Table, unsettled: list[tuple[int, int, int]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which batches are of transactions that nobody can decide: (producer id, first offset, end) each."""
    data = _transactional(table) & (table[:, ATTRIBUTES] & CONTROL_BIT == 0)
    of_one = np.zeros(len(table), np.bool_)
    for producer, began, until in unsettled:
        of_one |= data & (table[:, PRODUCER] == producer) & (table[:, BASE] >= began) & (table[:, BASE] < until)
    return of_one


def _parted(
    run: Run, path: str, aborted: list[tuple[int, int]], undecided: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Iterator[RecordSet | Damage]:
    """A run without its undecided batches, each of which is a damage of its own."""
    row = 0
    while row < len(undecided):
        stop = row + 1
        while stop < len(undecided) and undecided[stop] == undecided[row] and not undecided[row]:
            stop += 1
        first, final = run.table[row], run.table[stop - 1]
        position, end = int(first[POSITION]), int(final[POSITION] + final[SIZE])
        if undecided[row]:
            bounds = int(first[BASE]), int(final[LAST]) + 1
            yield Damage(path, position, end - position, *bounds, UNDECIDED, hides_marker=False)
        else:
            data = run.data[position - run.position : end - run.position]
            yield RecordSet(data, list(aborted), int(final[LAST]) + 1, path, position)
        row = stop
