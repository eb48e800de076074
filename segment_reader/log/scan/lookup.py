"""Positions in a .log by offset: a hint or an index entry is used only where the log itself confirms it.

    the task's hint ─► entries of the .index, from the best one down ─► the beginning of the file

The first of these at which a batch with a right checksum begins at or below the offset is where headers are read from.
A wrong hint costs a read, never a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final, NamedTuple

import numpy as np

from kseg.segment_reader.decode.batch import FRAME_OVERHEAD, frames
from kseg.segment_reader.decode.checksums import first_bad_checksum
from kseg.segment_reader.decode.legacy import RecordFault, first_offset
from kseg.segment_reader.decode.table import BASE, LAST, POSITION, SIZE, as_bytes
from kseg.segment_reader.log.errors import LogDamaged
from kseg.segment_reader.log.files.index_entries import IndexFile
from kseg.segment_reader.log.files.segments import Segment
from kseg.segment_reader.log.files.storage import OpenFile, Storage
from kseg.segment_reader.log.scan.headers import Piece, check_large_frame, checksum_holds, frame_size, pieces

#: Entries of an index that are tried before all headers of the segment are read instead.
_TRIES: Final = 3
#: Read at a position to check whether a batch begins there: most batches, with the head of the one behind them.
PROBE_BYTES: Final = 32 * 1024
_ANY_SIZE: Final = 1 << 40
THE_END: Final = 1 << 62


class FoundBatch(NamedTuple):
    """A batch: its position and base offset (its own offset for magic 0 and 1). `exists`: False at the frames' end."""

    position: int
    base_offset: int
    exists: bool


def first_batch(
    segment: Segment,
    file: OpenFile,
    index: IndexFile,
    offset: int,
    *,
    hint: int | None = None,
    probe_bytes: int = PROBE_BYTES,
) -> FoundBatch:
    """The first batch of an open segment that ends at or behind `offset`, else where its frames end.

    hint: a position at which a batch may begin, at or before that one. Raises LogDamaged.
    """
    if offset > segment.base_offset:
        for position in _candidates(segment, file.size, index, offset, hint):
            found = _from(segment, file, position, offset, probe_bytes)
            if found is not None:
                return found
    return _first_in(segment, pieces(file, 0, piece_bytes=probe_bytes), 0, offset)


def first_offset_of(file: OpenFile, batch: FoundBatch) -> int:
    """The first offset of a batch that exists. A compressed message of magic 0 and 1 has that of its last one, so it is
    unpacked. Raises LogDamaged."""
    size = frame_size(file.read(batch.position, FRAME_OVERHEAD))
    check_large_frame(file, batch.position, size)
    data = file.read(batch.position, size)
    frame = next(frames(data))
    if frame.magic == 2 or not frame.codec:
        return batch.base_offset
    try:
        return first_offset(data, batch.base_offset)
    except RecordFault as fault:
        raise LogDamaged(file.path, batch.position, fault.fault.reason, batch.base_offset) from None


def next_offset_after(storage: Storage, segment: Segment) -> tuple[int, int]:
    """(offset after a segment's last whole batch, position where its frames end). Raises LogDamaged, SegmentGone."""
    with closing(storage.open(segment.path)) as file, closing(IndexFile(storage, segment)) as index:
        found = first_batch(segment, file, index, THE_END)
        return found.base_offset, found.position


def position_behind(segment: Segment, index: IndexFile, offset: int) -> int | None:
    """A position at or behind the end of the batch that holds `offset`, as the .index has it; None: it does not know.

    Nothing is checked: it is good for how much to read at once, and for nothing else.
    """
    entries = index.entries
    if entries is None:
        return None
    number = entries.last_below(offset - segment.base_offset, 0) + 2
    position = entries[number][1] if number < len(entries) else 0
    return position if 0 < position <= segment.size else None


def _candidates(segment: Segment, size: int, index: IndexFile, offset: int, hint: int | None) -> Iterator[int]:
    if hint is not None and 0 < hint < size:
        yield hint
    entries = index.entries
    if entries is None:
        return
    best = entries.last_below(offset - segment.base_offset, 0, inclusive=True)
    if best >= 0 and entries[best][1] >= size:  # it ran ahead of its log in a crash
        best = min(best, entries.last_below(size, 1))
    for number in range(best, max(best - _TRIES, -1), -1):
        position = entries[number][1]
        if 0 < position < size:
            yield position


def _from(segment: Segment, file: OpenFile, position: int, offset: int, probe_bytes: int) -> FoundBatch | None:
    """The batch in question, searched from a position on; None where there is no batch that may be trusted."""
    remaining = pieces(file, position, piece_bytes=probe_bytes)
    try:
        first = next(remaining, None)
    except LogDamaged:
        return None
    if first is None or not _may_begin_with(segment, file, first, offset):
        return None
    return _first_in(segment, remaining, position, offset, first)


def _may_begin_with(segment: Segment, file: OpenFile, piece: Piece, offset: int) -> bool:
    row = piece.table[0]
    if not segment.base_offset <= row[BASE] <= offset:
        return False
    if piece.frame(0) is not None:
        return bool(first_bad_checksum(as_bytes(piece.data), piece.start, piece.table[:1], _ANY_SIZE) < 0)
    return checksum_holds(file, int(row[POSITION]), int(row[SIZE]))


def _first_in(
    segment: Segment, remaining: Iterator[Piece], position: int, offset: int, first: Piece | None = None
) -> FoundBatch:
    end, following = position, segment.base_offset
    piece = next(remaining, None) if first is None else first
    if position == 0 and piece is not None and piece.table[0, BASE] < segment.base_offset:
        reason = f"offset {piece.table[0, BASE]} is below the segment's first, {segment.base_offset}"
        raise LogDamaged(segment.path, 0, reason, int(piece.table[0, BASE]))
    while piece is not None:
        behind = np.flatnonzero(piece.table[:, LAST] >= offset)
        if len(behind):
            row = piece.table[int(behind[0])]
            return FoundBatch(int(row[POSITION]), int(row[BASE]), True)
        end, following = piece.end, int(piece.table[-1, LAST]) + 1
        piece = next(remaining, None)
    return FoundBatch(end, following, False)
