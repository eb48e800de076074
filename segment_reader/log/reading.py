"""A range of offsets as record sets, from the files of one partition: what a row of Fetch answers is at a broker.

    log = open_log(storage, folder, "orders", 0)
    decoder = RangeDecoder("orders", 0, 100, 5000, isolation_level="read_committed")
    for found in record_sets(storage, log, 100, 5000, read_committed=True):
        yield from decoder.feed(found.records, found.aborted)
    yield from decoder.finish()

Files are read in windows of whole batches, so memory is bounded by a window or the largest batch, whichever is more.
Indexes shorten the way to the first batch; without them the segment's headers are walked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from segment_reader.batch import FRAME_OVERHEAD
from segment_reader.errors import Fault
from segment_reader.log.errors import LogDamaged, LogEndsEarly
from segment_reader.log.fates import Fates
from segment_reader.log.headers import PIECE_BYTES, Piece, frame_size, only_zeros, pieces, pieces_of
from segment_reader.log.kernels import chain
from segment_reader.log.lookup import exact_position, load_offset_index
from segment_reader.log.segments import PartitionLog
from segment_reader.log.storage import OpenFile, Storage
from segment_reader.table import as_bytes

WINDOW_BYTES: Final = 8 * 1024 * 1024
_LEAST_WINDOW_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class RecordSet:
    """Consecutive whole batches of one file, valid until the next one is asked for.

    aborted: (producer id, first offset) of the aborted transactions that overlap them.
    next_offset: the offset after the last batch.
    position: where they begin in `file`, in bytes.
    """

    records: memoryview
    aborted: list[tuple[int, int]]
    next_offset: int
    file: str
    position: int


def record_sets(
    storage: Storage,
    log: PartitionLog,
    start: int,
    end: int,
    *,
    read_committed: bool,
    window_bytes: int = WINDOW_BYTES,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[RecordSet]:
    """The record sets that hold offsets [start, end). The first may begin below `start`, the last end above `end`.

    Raises LogDamaged, LogEndsEarly, UndecidedTransaction (`end` is above the last stable offset), SegmentGone.
    """
    if start >= end:
        return
    from_, position, offset = _first_batch(storage, log, start)
    fates = Fates() if read_committed else None
    for number, segment in enumerate(log.segments[from_:], start=from_):
        if segment.base_offset >= end and segment.base_offset > offset:
            break
        following = log.segments[number + 1] if number + 1 < len(log.segments) else None
        with closing(storage.open(segment.path)) as file:
            edge = max(offset, segment.base_offset)
            for window in windows(file, position, edge, window_bytes, may_be_torn=following is None):
                first, offset = offset, window.next_offset
                if following is not None and offset > following.base_offset:
                    raise LogDamaged(file.path, window.position, f"offsets run into the segment {following.path}")
                if fates is not None:
                    behind = _Behind(storage, log, number, window.position + len(window.records), piece_bytes)
                    window.aborted.extend(_aborted(fates, window, first, min(offset, end) - 1, behind))
                yield window
                if offset >= end:
                    return
        position = 0
    raise LogEndsEarly(log.segments[-1].path if log.segments else log.folder, None, offset)


def _first_batch(storage: Storage, log: PartitionLog, offset: int) -> tuple[int, int, int]:
    """Where a range's first batch is: the segment's number, the position in it, and the batch's base offset."""
    if not log.segments:
        return 0, 0, offset
    number = log.segment_at(offset)
    segment = log.segments[number]
    with closing(storage.open(segment.path)) as file:
        return number, *exact_position(file, segment, offset, load_offset_index(storage, segment))


@dataclass(frozen=True, slots=True)
class _Behind:
    """Headers behind a place in a log, to its end."""

    storage: Storage
    log: PartitionLog
    number: int
    position: int
    piece_bytes: int

    def __call__(self) -> Iterator[tuple[str, Piece]]:
        position = self.position
        for segment in self.log.segments[self.number :]:
            with closing(self.storage.open(segment.path)) as file:
                for piece in pieces(file, position, piece_bytes=self.piece_bytes):
                    yield segment.path, piece
            position = 0


def _aborted(fates: Fates, window: RecordSet, first: int, last: int, behind: _Behind) -> list[tuple[int, int]]:
    for piece in pieces_of(window.file, window.records, window.position):
        fates.look_at(window.file, piece)
    return fates.aborted(first, last, behind)


def windows(file: OpenFile, position: int, edge: int, window_bytes: int, *, may_be_torn: bool) -> Iterator[RecordSet]:
    """Windows of whole batches from a position on; none may begin below `edge`, the offset after the one before.

    The file may end in zeros and, with `may_be_torn`, in a batch that is cut off: the last write before a crash.
    """
    while file.size - position >= FRAME_OVERHEAD:
        data = file.read(position, max(window_bytes, _LEAST_WINDOW_BYTES))
        size, following, fault = chain(as_bytes(data), edge)
        if size == 0 and not fault:
            data = file.read(position, frame_size(data))
            size, following, fault = chain(as_bytes(data), edge)
        if size:
            yield RecordSet(data[:size], [], following, file.path, position)
            position, edge = position + size, following
        elif fault and only_zeros(file, position):
            return
        elif fault:
            raise LogDamaged(file.path, position, Fault(fault).reason)
        else:
            break
    if position < file.size and not may_be_torn and not only_zeros(file, position):
        raise LogDamaged(file.path, position, "the last batch is cut off")
