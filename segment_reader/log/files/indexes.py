"""The three indexes of a segment. All numbers are big-endian; relative offsets count from the segment's base offset.

    .index      8 bytes    relative offset int32, position int32          at or before the batch at that position
    .timeindex  12 bytes   timestamp int64 (ms), relative offset int32    the largest timestamp up to that offset
    .txnindex   34 bytes   version int16, producer id int64, first offset int64, last offset int64,
                           last stable offset int64                       one aborted transaction, whose marker is here

Offsets of an index entry are the last ones of their batch. The first two are allocated in full (`segment.index.bytes`)
when a segment begins and cut to size when it is rolled, so a file in use ends in zeros, and they may lag behind or run
ahead of their log after a crash. A broker that is killed between the two writes of an entry leaves one of its numbers
zero: such a last entry is not used. They have no checksum. They are hints: a reader checks what it finds at the
position that an entry has.
https://kafka.apache.org/documentation/#impl_reads
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kseg.segment_reader.log.errors import CorruptIndex

_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_ABORTED: Final = Struct(">hqqqq")
_TXN_VERSION: Final = 0

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class OffsetIndex:
    """The positions of batches: `offsets` (absolute, ascending) and `positions` (bytes, ascending)."""

    offsets: Numbers
    positions: Numbers


@dataclass(frozen=True)
class TimeIndex:
    """The largest timestamp (ms) so far at some offsets: both absolute and ascending."""

    timestamps: Numbers
    offsets: Numbers


class AbortedEntry(NamedTuple):
    """One aborted transaction of a .txnindex: `last_offset` is that of its ABORT marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def offset_index(data: bytes, base_offset: int, file: str) -> OffsetIndex:
    """Reads an .index. Zeros at its end are space not used yet. Raises CorruptIndex where entries do not ascend."""
    entries = _entries(data, _OFFSET_ENTRY, file)
    offsets, positions = _numbers(entries, "offset"), _numbers(entries, "position")
    used = _used(offsets, positions)
    offsets, positions = offsets[:used], positions[:used]
    _require_ascending(offsets, positions, _OFFSET_ENTRY.itemsize, file, strictly=True)
    return OffsetIndex(offsets + base_offset, positions)


def time_index(data: bytes, base_offset: int, file: str) -> TimeIndex:
    """Reads a .timeindex. Zeros at its end are space not used yet. Raises CorruptIndex where entries do not ascend."""
    entries = _entries(data, _TIME_ENTRY, file)
    timestamps, offsets = _numbers(entries, "timestamp"), _numbers(entries, "offset")
    used = _used(timestamps, offsets)
    timestamps, offsets = timestamps[:used], offsets[:used]
    _require_ascending(timestamps, offsets, _TIME_ENTRY.itemsize, file, strictly=False)
    return TimeIndex(timestamps, offsets + base_offset)


def aborted_transactions(data: bytes, file: str) -> Iterator[AbortedEntry]:
    """Reads a .txnindex, entry by entry. Raises CorruptIndex at the first that cannot be one, or is cut short."""
    position = 0
    while position < len(data):
        if len(data) - position < _ABORTED.size:
            raise CorruptIndex(file, position, f"the last entry is cut short: {len(data) - position} bytes")
        version, *numbers = _ABORTED.unpack_from(data, position)
        entry = AbortedEntry(*numbers)
        if version != _TXN_VERSION:
            raise CorruptIndex(file, position, f"version {version} of an entry is unknown")
        if entry.producer_id < 0 or not 0 <= entry.first_offset <= entry.last_offset:
            raise CorruptIndex(file, position, f"{entry} is not a valid transaction")
        yield entry
        position += _ABORTED.size


def _entries(data: bytes, layout: np.dtype[Any], file: str) -> npt.NDArray[Any]:
    whole = len(data) // layout.itemsize
    if len(data) % layout.itemsize:
        raise CorruptIndex(file, whole * layout.itemsize, f"{len(data)} bytes are not a whole number of entries")
    return np.frombuffer(data, layout, whole)


def _numbers(entries: npt.NDArray[Any], name: str) -> Numbers:
    return entries[name].astype(np.int64)


def _used(first: Numbers, second: Numbers) -> int:
    """The number of whole entries before the zeros at the end."""
    filled = np.flatnonzero(first | second)
    if not len(filled):
        return 0
    last = int(filled[-1])
    half_written = last > 0 and any(not of[last] and of[last - 1] > 0 for of in (first, second))
    return last if half_written else last + 1


def _require_ascending(first: Numbers, second: Numbers, size: int, file: str, *, strictly: bool) -> None:
    for values in (first, second):
        if len(values) and values[0] < 0:
            raise CorruptIndex(file, 0, "an entry is negative")
        steps = np.diff(values)
        wrong = np.flatnonzero(steps <= 0 if strictly else steps < 0)
        if len(wrong):
            raise CorruptIndex(file, (int(wrong[0]) + 1) * size, "entries do not ascend")
