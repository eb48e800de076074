"""Positions in a .log, by offset: what an index says is used only where the log itself agrees."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import numpy as np

from segment_reader.batch import FRAME_OVERHEAD, Frame, FrameFault, frames
from segment_reader.log.errors import CorruptIndex, SegmentGone
from segment_reader.log.headers import frame_size, pieces
from segment_reader.log.indexes import OffsetIndex, TimeIndex, offset_index, time_index
from segment_reader.log.segments import Segment
from segment_reader.log.storage import OpenFile, Storage
from segment_reader.reference import crc_matches
from segment_reader.table import BASE, LAST, POSITION

#: Entries of an index that are tried, from the best one down, before the whole segment is read instead.
_TRIES: Final = 3


def load_offset_index(storage: Storage, segment: Segment) -> OffsetIndex | None:
    """A segment's .index; None where it is missing or contradicts itself."""
    path = segment.others.get("index")
    try:
        return None if path is None else offset_index(storage.read_all(path), segment.base_offset, path)
    except (CorruptIndex, SegmentGone):
        return None


def load_time_index(storage: Storage, segment: Segment) -> TimeIndex | None:
    """A segment's .timeindex; None where it is missing or contradicts itself."""
    path = segment.others.get("timeindex")
    try:
        return None if path is None else time_index(storage.read_all(path), segment.base_offset, path)
    except (CorruptIndex, SegmentGone):
        return None


def position_before(file: OpenFile, segment: Segment, offset: int, index: OffsetIndex | None) -> int:
    """A position at which a batch begins, at or before the one that holds `offset` (where there is one).

    The batch at the place that the index names is looked at: it has to begin at or below `offset`, to hold the entry's
    own offset or end below it, and to have the right checksum.
    """
    if index is None:
        return 0
    found = int(np.searchsorted(index.offsets, offset, side="right")) - 1
    for entry in range(found, max(found - _TRIES, -1), -1):
        position = int(index.positions[entry])
        frame = _frame_at(file, position)
        if frame is not None and segment.base_offset <= frame.base_offset <= int(index.offsets[entry]):
            return position
    return 0


def exact_position(file: OpenFile, segment: Segment, offset: int, index: OffsetIndex | None) -> tuple[int, int]:
    """(position, base offset) of the first batch that ends at or behind `offset`, else where the file's frames end.

    Raises LogDamaged.
    """
    position, base = position_before(file, segment, offset, index), segment.base_offset
    for piece in pieces(file, position):
        behind = np.flatnonzero(piece.table[:, LAST] >= offset)
        if len(behind):
            row = int(behind[0])
            return int(piece.table[row, POSITION]), int(piece.table[row, BASE])
        position, base = piece.end, int(piece.table[-1, LAST]) + 1
    return position, base


def next_offset_after(storage: Storage, segment: Segment) -> tuple[int, int]:
    """(offset after a segment's last whole batch, position where its frames end). Raises LogDamaged."""
    with closing(storage.open(segment.path)) as file:
        position = position_before(file, segment, 1 << 62, load_offset_index(storage, segment))
        following = segment.base_offset
        for piece in pieces(file, position):
            following, position = int(piece.table[-1, LAST]) + 1, piece.end
        return following, position


def _frame_at(file: OpenFile, position: int) -> Frame | None:
    """The whole frame at a position, if there is one whose checksum is right."""
    head = file.read(position, FRAME_OVERHEAD)
    if len(head) < FRAME_OVERHEAD:
        return None
    size = frame_size(head)
    if not FRAME_OVERHEAD < size <= file.size - position:
        return None
    data = file.read(position, size)
    try:
        frame = next(frames(data), None)
    except FrameFault:
        return None
    return frame if frame is not None and crc_matches(data, frame) else None
