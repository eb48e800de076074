"""Single batches of one segment: whether one is valid, what its header claims, where the next may begin.

A batch is *valid* if its header, its checksum and (of a control batch) its marker are right, and its offsets are the
segment's: at or above its base offset, below the next segment's. Whether a valid one is accepted depends on its
neighbours, which the scanner knows (`segment_reader.log.damage.segment_scanner`).

Behind damage the next valid batch is searched for byte by byte; one that does not begin where the damaged batch's
length points to has to be followed by something that looks like a batch, since a record's value may contain a batch
too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kseg.segment_reader.codecs.limits import DEFAULT_LIMIT
from kseg.segment_reader.decode.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    FRAME_OVERHEAD,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    MIN_LENGTH,
    RECORD_COUNT_AT,
    RECORDS_AT,
    frames,
)
from kseg.segment_reader.decode.legacy import RecordFault, first_offset
from kseg.segment_reader.decode.reference import control_type
from kseg.segment_reader.decode.scan import SMALL, scan
from kseg.segment_reader.decode.table import (
    ATTRIBUTES,
    BAD_MARKER,
    BASE,
    LAST,
    MAGIC,
    MARKER,
    PACKED_MARKER,
    POSITION,
    SIZE,
    STOP,
    WIDTH,
    as_bytes,
)
from kseg.segment_reader.errors import Fault
from kseg.segment_reader.log.damage.damage import CUT_OFF, OUTSIDE
from kseg.segment_reader.log.files.storage import OpenFile
from kseg.segment_reader.log.scan.headers import Table, checksum_holds, frame_size, only_zeros
from kseg.segment_reader.log.scan.kernels import MOST_OFFSETS, plausible

_ROWS: Final = 1024
_SEARCH_BYTES: Final = 1024 * 1024
"""Bytes that are searched for a header at once."""
_MOST_RECORDS: Final = 1 << 20
"""A damaged batch that claims more records than this is not trusted."""


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """The batch at a position. size: 0 where its header is impossible. reason: None where it is valid.

    intact: its checksum is right, so that its length is.
    """

    position: int
    size: int = 0
    base: int = -1
    last: int = -1
    control: bool = False
    reason: str | None = None
    intact: bool = False

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def following(self) -> int:
        return self.last + 1

    @property
    def span(self) -> int:
        return self.last - self.base + 1


class SegmentView:
    """One segment's .log, a batch at a time.

    low, high: the offsets that the segment may hold. is_last: nothing comes behind this segment.
    """

    def __init__(self, file: OpenFile, low: int, high: int | None) -> None:
        self.file, self.low, self.is_last = file, low, high is None
        self.high = low + MOST_OFFSETS if high is None else high

    def read(self, position: int, size: int) -> memoryview:
        """Up to `size` bytes, as far as the file goes; valid until the next read."""
        return self.file.read(position, max(0, min(size, self.file.size - position)))

    def check(self, position: int) -> CheckedBatch:
        """The batch at a position, valid or not."""
        left = self.file.size - position
        head = self.read(position, min(left, SMALL))
        if left < FRAME_OVERHEAD:
            return CheckedBatch(position, reason=CUT_OFF)
        table: Table = np.empty((1, WIDTH), np.int64)
        rows, _, fault = scan(as_bytes(head), 0, left, table)
        if not rows and not fault and FRAME_OVERHEAD < frame_size(head) <= left:
            head = self.read(position, frame_size(head))  # a control batch of unusual size
            rows, _, fault = scan(as_bytes(head), 0, left, table)
        if not rows:
            return CheckedBatch(position, reason=Fault(fault).reason if fault else CUT_OFF)
        row = table[0]
        reason, size = None, int(row[SIZE])
        intact = checksum_holds(self.file, position, size)
        if not intact:
            reason = Fault.CRC.reason
        elif row[MAGIC] < 2 and row[ATTRIBUTES] & CODEC_MASK:
            reason = open_wrapper(self.read(position, size), row)
        elif row[MARKER] == PACKED_MARKER:
            row[MARKER] = packed_marker(self.read(position, size))
        if reason is None and row[MARKER] == BAD_MARKER:
            reason = Fault.CONTROL_KEY.reason
        if reason is None and not self.low <= row[BASE] <= row[LAST] < self.high:
            reason = OUTSIDE
        control = bool(row[MAGIC] == 2 and row[ATTRIBUTES] & CONTROL_BIT)
        return CheckedBatch(position, size, int(row[BASE]), int(row[LAST]), control, reason, intact)

    def next_valid(self, seen: CheckedBatch, edge: int) -> CheckedBatch | None:
        """The nearest valid batch behind one, which does not begin below the offset `edge`."""
        at = seen.end if seen.intact else seen.position + 1
        boundary = seen.end if seen.size else -1
        while True:
            if at == boundary and at < self.file.size:
                found = self.check(at)
                if found.reason is None and found.base >= edge:
                    return found
            place = self._plausible(at, edge)
            if 0 <= at < boundary and (place is None or place > boundary):
                at = boundary
                continue
            if place is None:
                return None
            found = self.check(place)
            fits = found.reason is None and found.base >= edge
            if fits and (place == boundary or self._is_followed(found)):
                return found
            at = place + 1

    def claimed_starts(self, seen: CheckedBatch, edge: int) -> tuple[int, ...]:
        """The offsets at which a damaged batch's successor may begin, by its header; one that does confirms both."""
        if seen.intact:
            return (edge + seen.span,) if seen.base >= 0 else ()
        head = self.read(seen.position, RECORDS_AT)
        claims: tuple[int, ...] = ()
        if len(head) <= MAGIC_AT or head[MAGIC_AT] < 2 or len(head) < RECORDS_AT:
            claims = (int.from_bytes(head[:8], "big") + 1, edge + 1)
        if len(head) == RECORDS_AT:  # of any magic byte: it may be the one that was flipped
            base, delta, count = _numbers(head)
            claims += tuple(claim for claim in (base + delta + 1, edge + delta + 1, edge + count) if claim > edge)
        return claims

    def claimed_count(self, seen: CheckedBatch) -> int:
        """The number of offsets that a damaged batch covered, as far as its header can be trusted; 0: unknown."""
        if seen.intact:
            return seen.span
        head = self.read(seen.position, RECORDS_AT)
        if len(head) == RECORDS_AT:
            _, delta, count = _numbers(head)
            if 0 < count == delta + 1 <= _MOST_RECORDS:
                return count
        return 1 if len(head) > MAGIC_AT and head[MAGIC_AT] < 2 else 0

    def _is_followed(self, seen: CheckedBatch) -> bool:
        """Whether the file ends behind a batch, or is followed by something that looks like one."""
        left = self.file.size - seen.end
        if left <= 0 or only_zeros(self.file, seen.end):
            return True
        head = self.read(seen.end, min(left, RECORDS_AT))
        if len(head) < RECORDS_AT and self.is_last:
            return True
        following = plausible(as_bytes(head), 0, 1, seen.following, self.high, left if not self.is_last else 1 << 31)
        return bool(following == 0)

    def _plausible(self, position: int, edge: int) -> int | None:
        """The next position at which a batch might begin, by its header."""
        size = self.file.size
        while size - position >= FRAME_OVERHEAD + MIN_LENGTH[0]:
            data = self.read(position, _SEARCH_BYTES)
            ends = position + len(data) >= size
            stop = len(data) if ends else len(data) - RECORDS_AT
            at = int(plausible(as_bytes(data), 0, stop, max(self.low, edge), self.high, size - position))
            if at >= 0:
                return position + at
            if ends:
                return None
            position += stop
        return None


def valid_pair(file: OpenFile, position: int, low: int, high: int | None) -> int | None:
    """The base offset of the batch at a position, where it is valid and the next one begins where it ends."""
    if not 0 <= position < file.size:
        return None
    view = SegmentView(file, low, high)
    seen = view.check(position)
    if seen.reason is not None or seen.end >= file.size:
        return None
    behind = view.check(seen.end)
    return seen.base if behind.reason is None and behind.base == seen.following else None


def headers_in(data: memoryview, position: int) -> Table:
    """The whole batches at the start of `data`, which begins at a position of the file, up to an impossible header."""
    parts: list[Table] = []
    at, rows, array = 0, _ROWS, as_bytes(data)
    while rows == _ROWS and at < len(data):
        table: Table = np.empty((_ROWS, WIDTH), np.int64)
        rows, at, fault = scan(array, at, len(data), table)
        table[:rows, POSITION] += position
        table[:rows, STOP] += position
        parts.append(table[:rows])
        if fault:
            break
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def bytes_of(data: memoryview, start: int, table: Table, row: int) -> memoryview:
    first = int(table[row, POSITION]) - start
    return data[first : first + int(table[row, SIZE])]


def packed_marker(batch: memoryview) -> int:
    kind = control_type(batch, next(frames(batch)), DEFAULT_LIMIT)
    return BAD_MARKER if kind is None else kind & 0xFFFF


def open_wrapper(message: memoryview, row: Table) -> str | None:
    """Writes the first offset inside of a compressed message to its row; returns the error, or None."""
    try:
        row[BASE] = first_offset(message, int(row[LAST]))
    except RecordFault as fault:
        return fault.fault.reason
    return None


def _numbers(head: memoryview) -> tuple[int, int, int]:
    """Base offset, last offset delta and record count of a batch's header."""
    at = LAST_OFFSET_DELTA_AT
    return (
        int.from_bytes(head[:8], "big", signed=True),
        int.from_bytes(head[at : at + 4], "big", signed=True),
        int.from_bytes(head[RECORD_COUNT_AT : RECORD_COUNT_AT + 4], "big", signed=True),
    )
