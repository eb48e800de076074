"""One segment, batch by batch, past whatever is damaged in it.

    sound batches ──► Run          bytes of whole batches that may be decoded
    all else      ──► Damage       from the first byte that is no sound batch to the next batch that is believed

A batch is *sound* if its header, its checksum and (of a control batch) its marker are right, and its offsets are the
segment's: at or above its base offset, below the next segment's.

The checksum leaves out where a batch stands: base offset, length, leader epoch. A flipped bit there moves sound records
to other offsets. So a sound batch is *believed* by what stands beside it:

    it begins where the batch before it ends, or where a damaged one says that it ends
    or it ends where the next sound batch, or the next segment, begins
    or there is room on both sides, and the log is one with gaps: compacted (`Sparse`)

Where two batches claim the same offsets, the one that does not fit its other side is the damaged one; both, if neither
does. Behind damage the next sound batch is looked for byte by byte; one that is not where the damaged batch's length
points to has to be followed by what looks like a batch, since a record's value may hold a batch too.

All of this follows from the bytes of one segment (and the next one's name), so every reader finds the same damage,
wherever it begins. The file's end is special: zeros in a log's last segment are room that was allocated ahead, and a
batch that is cut off there is how an unclean stop looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from segment_reader.batch import (
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
from segment_reader.codecs import DEFAULT_LIMIT
from segment_reader.errors import Fault
from segment_reader.legacy import RecordFault, first_offset
from segment_reader.log.damage import CUT_OFF, ENDS_EARLY, MISPLACED, OUTSIDE, ZEROS, Damage, Torn
from segment_reader.log.headers import Table, checksum_holds, frame_size, only_zeros
from segment_reader.log.kernels import first_wrong, plausible
from segment_reader.log.storage import OpenFile
from segment_reader.reference import control_type
from segment_reader.scan import SMALL, scan
from segment_reader.table import (
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

WINDOW_BYTES: Final = 8 * 1024 * 1024
_LEAST_WINDOW_BYTES: Final = 64 * 1024
_ROWS: Final = 1024
_ANY_SIZE: Final = 1 << 40
#: Fewer zeros at a file's end may be a batch's own.
_ROOM: Final = 4096
_MOST_OFFSETS: Final = 1 << 31
"""A segment's offsets are numbered by 32 bits from its base offset on."""
_MOST_RECORDS: Final = 1 << 20
"""More than that many are not believed of a batch that is damaged."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive believed batches, valid until the next item is asked for.

    table: a row each (segment_reader.table), positions as in the file, BASE the first offset also of what a compressed
        message of magic 0 and 1 holds. data: their bytes. next_offset: after the last of them.
    """

    table: Table
    data: memoryview
    position: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """One batch where it stands. size: 0 where its header is impossible. reason: None where it is sound.

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


class SegmentWalk:
    """Walks one segment's .log. Iterate it once; afterwards `edge` is the offset after its last batch or damage.

    low, high: the offsets that the segment may hold; high None for a log's last one.
    position, edge: where to begin: at a batch, and the offset after the one before it.
    sparse: whether the log has gaps; asked only where it matters.
    """

    def __init__(
        self,
        file: OpenFile,
        low: int,
        high: int | None,
        *,
        sparse: Callable[[], bool],
        position: int = 0,
        edge: int | None = None,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.edge = low if edge is None else edge
        self.position = position
        self.torn: Torn | None = None
        self._file, self._low, self._last = file, low, high is None
        self._high = low + _MOST_OFFSETS if high is None else high
        self._sparse = sparse
        self._most = max(window_bytes, _LEAST_WINDOW_BYTES)
        self._window = self._most

    def __iter__(self) -> Iterator[Run | Damage]:
        yield from self._items()
        if not self._last and self.edge < self._high and not self._sparse():
            size = self._file.size
            yield Damage(self._file.path, size, 0, self.edge, self._high, ENDS_EARLY)
            self.edge = self._high

    def _items(self) -> Iterator[Run | Damage]:
        while (left := self._file.size - self.position) > 0:
            run = self._run() if left >= FRAME_OVERHEAD else None
            if run is not None:
                yield run
                self._window = min(2 * self._window, self._most)
                continue
            if only_zeros(self._file, self.position):
                if not self._last and self.edge < self._high:
                    yield Damage(self._file.path, self.position, left, self.edge, self._high, ZEROS)
                    self.edge = self._high
                return
            item = self._one()
            if item is None:
                return
            yield item
            self._window = _LEAST_WINDOW_BYTES

    # --- many batches at once

    def _run(self) -> Run | None:
        """What can be believed at once of the batches from here on; None: the first of them has to be looked at."""
        position, edge = self.position, self.edge
        data = self._read(position, self._window)
        size = frame_size(data)
        if len(data) < size <= min(self._file.size - position, self._most):
            data = self._read(position, size)
        table = _headers(data, position)
        if not len(table):
            return None
        sound = self._sound(data, position, table)
        before = np.empty(len(table), np.int64)
        before[0], before[1:] = edge, table[:-1, LAST] + 1
        good = sound & (table[:, BASE] >= before)
        count = len(table) if good.all() else int(np.argmin(good))
        firm = table[:count, BASE] == before[:count]
        firm[: count - 1] |= table[1:count, BASE] == table[: count - 1, LAST] + 1 if count else False
        if not firm[: count - 1].all() and self._sparse():
            firm[: count - 1] = True
        count = count if firm.all() else int(np.argmin(firm))
        if not count:
            return None
        found = table[:count]
        end = int(found[-1, POSITION] + found[-1, SIZE])
        self.position, self.edge = end, int(found[-1, LAST]) + 1
        return Run(found, data[: end - position], position, self.edge)

    def _sound(self, data: memoryview, start: int, table: Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        array = as_bytes(data)
        sound = np.ones(len(table), np.bool_)
        row = -1
        while (wrong := first_wrong(array, start, table[row + 1 :], _ANY_SIZE)) >= 0:
            row += 1 + wrong
            sound[row] = False
        for row in np.flatnonzero(sound & (table[:, MARKER] == PACKED_MARKER)).tolist():
            table[row, MARKER] = _packed_marker(_bytes_of(data, start, table, row))
        packed = (table[:, MAGIC] < 2) & (table[:, ATTRIBUTES] & CODEC_MASK != 0)
        for row in np.flatnonzero(sound & packed).tolist():
            sound[row] = _open_wrapper(_bytes_of(data, start, table, row), table[row]) is None
        sound &= table[:, MARKER] != BAD_MARKER
        sound &= (table[:, BASE] >= self._low) & (table[:, LAST] < self._high)
        return sound

    # --- one batch at a time: what stands beside it decides

    def _one(self) -> Run | Damage | None:
        """The batch at the present position, or the damage that begins there; None at the file's end."""
        seen = self._look(self.position)
        if seen.reason is None and self._believed(seen, None, firm=False):
            data = self._read(seen.position, seen.size)
            table = _headers(data, seen.position)[:1]
            table[0, BASE] = seen.base
            self.position, self.edge = seen.end, seen.following
            return Run(table, data, seen.position, self.edge)
        return self._damage(seen)

    def _believed(self, seen: _Seen, claims: tuple[int, ...] | None, *, firm: bool) -> bool:
        """claims: it stands behind damage, and may begin there by what that says; that it begins where the last batch
        before the damage ended proves nothing, since the damage may have reached into its offset. firm: it contradicts
        a batch before it, so that a gap beside it proves nothing."""
        if seen.reason is not None or seen.base < self.edge:
            return False
        if seen.base in ((self.edge,) if claims is None else claims):
            return True
        behind = self._next_sound(seen)
        following = self._high if behind is None else behind.base
        if following <= seen.following:
            return following == seen.following
        return not firm and self._sparse()

    def _damage(self, seen: _Seen) -> Damage | None:
        """From an unbelieved batch to the next one that is believed, or to where nothing more comes."""
        began, reason = seen, seen.reason or (OUTSIDE if seen.base < self._low else MISPLACED)
        if seen.reason is None and seen.base < self.edge:
            reason = Fault.OFFSET_ORDER.reason
        claims, held, alone = self._claims(seen), self._held(seen), True
        while True:
            contradicts = seen.intact and seen.base >= self.edge
            behind = self._next_sound(seen)
            if behind is None:
                return self._tail(began, seen, reason, held)
            if behind.position != seen.end:
                alone = False
            firm = contradicts and behind.base < seen.following
            if self._believed(behind, claims, firm=firm):
                break
            claims, held, alone = self._claims(behind), held + self._held(behind), False
            seen = behind
        hides = began.control if began.intact else began.size <= SMALL
        found = Damage(
            self._file.path,
            began.position,
            behind.position - began.position,
            self.edge,
            behind.base,
            reason,
            hides if alone else True,
        )
        # It counts as one that begins where the damage ends.
        self.position, self.edge = behind.position, behind.base
        return found

    def _tail(self, began: _Seen, last: _Seen, reason: str, held: int) -> Damage | None:
        """Damage that nothing believed follows."""
        size = self._file.size
        if self._last and began.position == last.position and self._is_torn(began):
            self.torn = Torn(self._file.path, began.position, size - began.position)
            self.position = size
            return None
        end = max(self._end_of_content(began.position), last.end)
        offsets = (self.edge, self.edge + max(1, held)) if self._last else (self.edge, self._high)
        self.position, self.edge = size, offsets[1]
        return Damage(self._file.path, began.position, end - began.position, *offsets, reason)

    def _is_torn(self, seen: _Seen) -> bool:
        """Whether these are the first bytes of a batch that fits here, and of one that is longer than the file."""
        head = self._read(seen.position, min(RECORDS_AT, self._file.size - seen.position))
        if len(head) >= FRAME_OVERHEAD:
            left = self._file.size - seen.position
            if frame_size(head) <= left or not self._low <= int.from_bytes(head[:8], "big") < self._high:
                return False
            if len(head) > MAGIC_AT and head[MAGIC_AT] > 2:
                return False
            # A batch that is whole but for its length was not cut off.
            return len(head) <= MAGIC_AT or not checksum_holds(self._file, seen.position, left)
        return True

    def _end_of_content(self, position: int) -> int:
        """Where the zeros at the file's end begin."""
        at = self._file.size
        if not only_zeros(self._file, max(position, at - _ROOM)):
            return at
        while at > position:
            start = max(position, at - _LEAST_WINDOW_BYTES)
            filled = np.flatnonzero(np.frombuffer(self._read(start, at - start), np.uint8))
            if len(filled):
                return start + int(filled[-1]) + 1
            at = start
        return position

    def _read(self, position: int, size: int) -> memoryview:
        return self._file.read(position, max(0, min(size, self._file.size - position)))

    def _look(self, position: int) -> _Seen:
        left = self._file.size - position
        head = self._read(position, min(left, SMALL))
        if left < FRAME_OVERHEAD:
            return _Seen(position, reason=CUT_OFF)
        table: Table = np.empty((1, WIDTH), np.int64)
        rows, _, fault = scan(as_bytes(head), 0, left, table)
        if not rows and not fault and FRAME_OVERHEAD < frame_size(head) <= left:
            head = self._read(position, frame_size(head))  # a control batch of unusual size
            rows, _, fault = scan(as_bytes(head), 0, left, table)
        if not rows:
            return _Seen(position, reason=Fault(fault).reason if fault else CUT_OFF)
        row = table[0]
        reason, size = None, int(row[SIZE])
        intact = checksum_holds(self._file, position, size)
        if not intact:
            reason = Fault.CRC.reason
        elif row[MAGIC] < 2 and row[ATTRIBUTES] & CODEC_MASK:
            reason = _open_wrapper(self._read(position, size), row)
        elif row[MARKER] == PACKED_MARKER:
            row[MARKER] = _packed_marker(self._read(position, size))
        if reason is None and row[MARKER] == BAD_MARKER:
            reason = Fault.CONTROL_KEY.reason
        if reason is None and not self._low <= row[BASE] <= row[LAST] < self._high:
            reason = OUTSIDE
        control = bool(row[MAGIC] == 2 and row[ATTRIBUTES] & CONTROL_BIT)
        return _Seen(position, size, int(row[BASE]), int(row[LAST]), control, reason, intact)

    def _next_sound(self, seen: _Seen) -> _Seen | None:
        """The nearest sound batch behind one, which does not begin below the edge."""
        at = seen.end if seen.intact else seen.position + 1
        boundary = seen.end if seen.size else -1
        while True:
            if at == boundary and at < self._file.size:
                found = self._look(at)
                if found.reason is None and found.base >= self.edge:
                    return found
            place = self._plausible(at)
            if 0 <= at < boundary and (place is None or place > boundary):
                at = boundary
                continue
            if place is None:
                return None
            found = self._look(place)
            fits = found.reason is None and found.base >= self.edge
            if fits and (place == boundary or self._is_followed(found)):
                return found
            at = place + 1

    def _is_followed(self, seen: _Seen) -> bool:
        """Whether the file ends behind a batch, or something goes on there that looks like one."""
        left = self._file.size - seen.end
        if left <= 0 or only_zeros(self._file, seen.end):
            return True
        head = self._read(seen.end, min(left, RECORDS_AT))
        if len(head) < RECORDS_AT and self._last:
            return True
        following = plausible(as_bytes(head), 0, 1, seen.following, self._high, left if not self._last else 1 << 31)
        return bool(following == 0)

    def _plausible(self, position: int) -> int | None:
        """The next place where a batch might begin, by its header."""
        size = self._file.size
        while size - position >= FRAME_OVERHEAD + MIN_LENGTH[0]:
            data = self._read(position, _LEAST_WINDOW_BYTES * 16)
            ends = position + len(data) >= size
            stop = len(data) if ends else len(data) - RECORDS_AT
            at = int(plausible(as_bytes(data), 0, stop, max(self._low, self.edge), self._high, size - position))
            if at >= 0:
                return position + at
            if ends:
                return None
            position += stop
        return None

    def _claims(self, seen: _Seen) -> tuple[int, ...]:
        """Where a damaged batch's successor begins, by what its header says: where those agree, both are right."""
        if seen.intact:
            return (self.edge + seen.span,) if seen.base >= 0 else ()
        head = self._read(seen.position, RECORDS_AT)
        if len(head) <= MAGIC_AT or head[MAGIC_AT] < 2 or len(head) < RECORDS_AT:
            offset = int.from_bytes(head[:8], "big")
            return (offset + 1, self.edge + 1)
        base, delta, count = _numbers(head)
        return tuple(
            claim for claim in (base + delta + 1, self.edge + delta + 1, self.edge + count) if claim > self.edge
        )

    def _held(self, seen: _Seen) -> int:
        """How many offsets a damaged batch has held, as far as its header can be believed; 0: nothing can be said."""
        if seen.intact:
            return seen.span
        head = self._read(seen.position, RECORDS_AT)
        if len(head) > MAGIC_AT and head[MAGIC_AT] < 2:
            return 1
        if len(head) < RECORDS_AT:
            return 0
        _, delta, count = _numbers(head)
        return count if 0 < count == delta + 1 <= _MOST_RECORDS else 0


def _headers(data: memoryview, position: int) -> Table:
    """The whole batches at the start of `data`, which stands at a position of the file, up to an impossible header."""
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


def _bytes_of(data: memoryview, start: int, table: Table, row: int) -> memoryview:
    first = int(table[row, POSITION]) - start
    return data[first : first + int(table[row, SIZE])]


def _packed_marker(batch: memoryview) -> int:
    kind = control_type(batch, next(frames(batch)), DEFAULT_LIMIT)
    return BAD_MARKER if kind is None else kind & 0xFFFF


def _open_wrapper(message: memoryview, row: Table) -> str | None:
    """Puts the first offset inside of a compressed message into its row; or tells what is wrong."""
    try:
        row[BASE] = first_offset(message, int(row[LAST]))
    except RecordFault as fault:
        return fault.fault.reason
    return None


def sound_pair(file: OpenFile, position: int, low: int, high: int | None) -> int | None:
    """The base offset of the batch at a position, where it is sound and the next one begins where it ends."""
    if not 0 <= position < file.size:
        return None
    walk = SegmentWalk(file, low, high, sparse=lambda: False)
    seen = walk._look(position)
    if seen.reason is not None or seen.end >= file.size:
        return None
    behind = walk._look(seen.end)
    return seen.base if behind.reason is None and behind.base == seen.following else None


def _numbers(head: memoryview) -> tuple[int, int, int]:
    """Base offset, last offset delta and record count, as they stand in a batch's header."""
    at = LAST_OFFSET_DELTA_AT
    return (
        int.from_bytes(head[:8], "big", signed=True),
        int.from_bytes(head[at : at + 4], "big", signed=True),
        int.from_bytes(head[RECORD_COUNT_AT : RECORD_COUNT_AT + 4], "big", signed=True),
    )


__all__ = ["Run", "SegmentWalk", "sound_pair"]
