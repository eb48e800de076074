"""A range of a log in parts of about so many bytes each, split where batches begin.

    sizes of segments ──► a byte to split at ──► the .index entry before it ──► headers in the .log from there on
                                                                                the next batch's offset is the boundary

Small segments end up together in one part, a large one in several. Without an index, or with one that the log
contradicts, headers are read from the last boundary on. A part is defined by its offsets: its positions in the files
are hints that the reader checks again, so files that change meanwhile move no row from one part to another. The same
files and numbers give the same parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from kseg.segment_reader.decode.table import BASE, LAST, MAGIC, POSITION
from kseg.segment_reader.log.errors import LogDamaged
from kseg.segment_reader.log.files.index_entries import Entries, IndexFile
from kseg.segment_reader.log.files.segments import PartitionLog, Segment
from kseg.segment_reader.log.files.storage import OpenFile, Storage
from kseg.segment_reader.log.scan.headers import pieces
from kseg.segment_reader.log.scan.lookup import first_batch, position_behind
from kseg.segment_reader.log.scan.positions import PositionHint

#: A boundary may lie a bit before or behind the wanted byte: within this fraction of a part, the beginning of a segment
#: is taken, or a batch that an index has.
_NEAR: Final = 1 / 8
_PROBE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class LogSplit:
    """Offsets [start, end), about `size` bytes of files; start_hint, end_hint: see record_sets.record_sets."""

    start: int
    end: int
    size: int
    start_hint: PositionHint | None = None
    end_hint: PositionHint | None = None


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """The bytes of one segment that belong to a range of offsets."""

    segment: Segment
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first


def segment_ranges(storage: Storage, log: PartitionLog, start: int, end: int) -> list[SegmentRange]:
    """The segments with offsets [start, end), and their bytes in that range. Raises SegmentGone."""
    if start >= end or not log.segments:
        return []
    number = log.segment_at(start)
    segments = [s for s in log.segments[number:] if s.base_offset < end]
    found = []
    for segment in segments:
        first, last = 0, segment.size
        following = log.segments[number + 1] if number + 1 < len(log.segments) else None
        with closing(IndexFile(storage, segment)) as index:
            if start > segment.base_offset and segment is segments[0]:
                with closing(storage.open(segment.path)) as file, suppress(LogDamaged):
                    first = first_batch(segment, file, index, start).position
            if segment is segments[-1] and not (following is not None and following.base_offset <= end):
                last = max(first, position_behind(segment, index, end - 1) or segment.size)
        found.append(SegmentRange(segment, first, last))
        number += 1
    return found


def cut(storage: Storage, ranges: list[SegmentRange], start: int, end: int, *, part_bytes: int) -> list[LogSplit]:
    """Parts that make up [start, end), of about `part_bytes` each; none for an empty range.

    ranges: the range's segments. A damaged one is not split further: reading it reports the damage.
    Raises SegmentGone, ValueError for a size that is not positive.
    """
    if part_bytes < 1:
        raise ValueError(f"part_bytes must be positive, not {part_bytes}")
    if start >= end:
        return []
    total = sum(one.size for one in ranges)
    count = max(1, -(-total // part_bytes))
    places = [(start, PositionHint(ranges[0].segment.base_offset, ranges[0].first) if ranges else None)]
    for offset, place in _cuts(storage, ranges, total / count, count):
        if places[-1][0] < offset < end:
            places.append((offset, place))
    sizes = _sizes(ranges, [place for _, place in places])
    last = PositionHint(ranges[-1].segment.base_offset, ranges[-1].last) if ranges else None
    bounds = [*places[1:], (end, last)]
    return [
        LogSplit(first, until, size, start_hint, end_hint)
        for (first, start_hint), (until, end_hint), size in zip(places, bounds, sizes, strict=True)
    ]


def _cuts(storage: Storage, ranges: list[SegmentRange], each: float, count: int) -> Iterator[tuple[int, PositionHint]]:
    """(offset, place) of batches about `each` bytes apart, ascending."""
    begun = 0  # bytes before this segment
    number = 1  # the next cut
    for one in ranges:
        size = one.size
        if begun and number < count and abs(number * each - begun) <= each * _NEAR:
            yield one.segment.base_offset, PositionHint(one.segment.base_offset, 0)
            number += 1
        near_the_end = begun + size - each * _NEAR if one is not ranges[-1] else begun + size
        wanted = []
        while number < count and number * each < near_the_end:
            wanted.append(one.first + int(number * each) - begun)
            number += 1
        if wanted:
            yield from _inside(storage, one, wanted, int(each * _NEAR))
        begun += size


def _inside(storage: Storage, one: SegmentRange, wanted: list[int], near: int) -> Iterator[tuple[int, PositionHint]]:
    """The first batches of a segment that begin `near` the wanted positions, or behind."""
    segment, known = one.segment, one.first
    with ExitStack() as stack:
        file = stack.enter_context(closing(storage.open(segment.path)))
        entries = stack.enter_context(closing(IndexFile(storage, segment))).entries
        for position in wanted:
            if position <= known:
                continue
            found = _batch_near(file, segment, position, max(position - near, known + 1), known, entries)
            if found is None:
                return
            offset, known = found
            yield offset, PositionHint(segment.base_offset, known)


def _batch_near(
    file: OpenFile, segment: Segment, position: int, least: int, known: int, entries: Entries | None
) -> tuple[int, int] | None:
    """(offset, position) of a batch at or behind `least`, near `position`; `known`: where one before it begins.

    A batch's offset is its first; of magic 0 and 1 its own, which is the last of those that a compressed one holds.
    None where the frames end before, or are damaged.
    """
    best = -1 if entries is None else entries.last_below(position, 1, inclusive=True)
    if entries is not None and best >= 0 and entries[best][1] > known:
        found = _first_behind(file, segment, least, entries[best][1], segment.base_offset + entries[best][0])
        if found is not None:
            return found
    return _first_behind(file, segment, least, known, None)


def _first_behind(file: OpenFile, segment: Segment, least: int, at: int, claimed: int | None) -> tuple[int, int] | None:
    """The first batch at or behind `least`, from the one at `at` on: it has to hold `claimed`, if an index says so."""
    try:
        for piece in pieces(file, at, piece_bytes=_PROBE_BYTES):
            row = piece.table[0]
            if claimed is not None and (
                row[BASE] < segment.base_offset or (row[MAGIC] == 2 and not row[BASE] <= claimed <= row[LAST])
            ):
                return None
            claimed = None
            behind = np.flatnonzero(piece.table[:, POSITION] >= least)
            if len(behind):
                found = piece.table[int(behind[0])]
                return int(found[BASE]), int(found[POSITION])
    except LogDamaged:
        pass
    return None


def _sizes(ranges: list[SegmentRange], places: list[PositionHint | None]) -> list[int]:
    """Bytes from each place to the next, the last to the end."""
    before: dict[int, int] = {}
    total = 0
    for one in ranges:
        before[one.segment.base_offset] = total - one.first
        total += one.size
    marks = [0 if place is None else before[place.segment] + place.position for place in places]
    return [until - first for first, until in zip(marks, [*marks[1:], total], strict=True)]
