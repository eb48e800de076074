"""Reads one segment batch by batch, and continues after damage.

    valid batches ──► ValidBatches   bytes of complete batches that may be decoded
    other bytes   ──► Damage         from the first byte that is not a valid batch to the next accepted batch

`segment_reader.log.damage.batch_validation` decides whether a single batch is *valid*. The checksum does not cover a
batch's base offset, length and leader epoch. A flipped bit there moves valid records to other offsets. So a valid batch
is *accepted* only if its neighbours confirm its offsets:

    it begins where the previous batch ends, or where a damaged batch's header says that it ends
    or it ends where the next valid batch, or the next segment, begins
    or there are gaps on both sides, and the log may have gaps because it is compacted (`CompactionGaps`)

If two batches have the same offsets, the one that does not fit its other neighbour is damaged, or both if neither fits.

These decisions depend only on the bytes of one segment (and the name of the next), so every reader finds the same
damage, wherever it begins. The end of the file is special: zeros at the end of a log's last segment are preallocated
space, and an incomplete batch at its end comes from an unclean shutdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kseg.segment_reader.decode.batch import CODEC_MASK, FRAME_OVERHEAD, MAGIC_AT, RECORDS_AT
from kseg.segment_reader.decode.checksums import first_bad_checksum
from kseg.segment_reader.decode.scan import SMALL
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
    as_bytes,
)
from kseg.segment_reader.errors import Fault
from kseg.segment_reader.log.damage.batch_validation import (
    CheckedBatch,
    SegmentView,
    bytes_of,
    headers_in,
    open_wrapper,
    packed_marker,
)
from kseg.segment_reader.log.damage.damage import ENDS_EARLY, MISPLACED, OUTSIDE, ZEROS, Damage, Torn
from kseg.segment_reader.log.files.preallocation import end_of_content, size_by_checksum
from kseg.segment_reader.log.files.storage import OpenFile
from kseg.segment_reader.log.scan.headers import Table, frame_size, only_zeros

WINDOW_BYTES: Final = 8 * 1024 * 1024
_LEAST_WINDOW_BYTES: Final = 64 * 1024
_ANY_SIZE: Final = 1 << 40
#: Fewer zeros at a file's end may be a batch's own.
_PREALLOCATED_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class ValidBatches:
    """Consecutive accepted batches, valid until the next item is read.

    table: one row for each batch (segment_reader.decode.table), with positions in the file; BASE is the first offset,
        also for a compressed message of magic 0 or 1. data: their bytes. next_offset: the offset after the last batch.
    """

    table: Table
    data: memoryview
    position: int
    next_offset: int


class SegmentScanner:
    """Scans one segment's .log. Iterate it once; afterwards `edge` is the offset after its last batch or damage.

    low, high: the offsets that the segment may have; high None for a log's last segment.
    position, edge: the start: the position of a batch, and the offset after the previous batch.
    has_gaps: returns whether the log may have gaps; called only if needed.
    """

    def __init__(
        self,
        file: OpenFile,
        low: int,
        high: int | None,
        *,
        has_gaps: Callable[[], bool],
        position: int = 0,
        edge: int | None = None,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.edge = low if edge is None else edge
        self.position = position
        self.torn: Torn | None = None
        self._file, self._view = file, SegmentView(file, low, high)
        self._has_gaps = has_gaps
        self._most = max(window_bytes, _LEAST_WINDOW_BYTES)
        self._window = self._most

    def __iter__(self) -> Iterator[ValidBatches | Damage]:
        yield from self._items()
        if not self._view.is_last and self.edge < self._view.high and not self._has_gaps():
            size = self._file.size
            yield Damage(self._file.path, size, 0, self.edge, self._view.high, ENDS_EARLY)
            self.edge = self._view.high

    def _items(self) -> Iterator[ValidBatches | Damage]:
        while (left := self._file.size - self.position) > 0:
            batches = self._valid_batches() if left >= FRAME_OVERHEAD else None
            if batches is not None:
                yield batches
                self._window = min(2 * self._window, self._most)
                continue
            if only_zeros(self._file, self.position):
                if not self._view.is_last and self.edge < self._view.high:
                    yield Damage(self._file.path, self.position, left, self.edge, self._view.high, ZEROS)
                    self.edge = self._view.high
                return
            item = self._next_batch()
            if item is None:
                return
            yield item
            self._window = _LEAST_WINDOW_BYTES

    # --- many batches at once

    def _valid_batches(self) -> ValidBatches | None:
        """The next batches that can be accepted together; None: the first of them must be checked separately."""
        position, edge = self.position, self.edge
        data = self._view.read(position, self._window)
        size = frame_size(data)
        if len(data) < size <= min(self._file.size - position, self._most):
            data = self._view.read(position, size)
        table = headers_in(data, position)
        if not len(table):
            return None
        valid = self._valid(data, position, table)
        before = np.empty(len(table), np.int64)
        before[0], before[1:] = edge, table[:-1, LAST] + 1
        good = valid & (table[:, BASE] >= before)
        count = len(table) if good.all() else int(np.argmin(good))
        firm = table[:count, BASE] == before[:count]
        firm[: count - 1] |= table[1:count, BASE] == table[: count - 1, LAST] + 1 if count else False
        if not firm[: count - 1].all() and self._has_gaps():
            firm[: count - 1] = True
        count = count if firm.all() else int(np.argmin(firm))
        if not count:
            return None
        found = table[:count]
        end = int(found[-1, POSITION] + found[-1, SIZE])
        self.position, self.edge = end, int(found[-1, LAST]) + 1
        return ValidBatches(found, data[: end - position], position, self.edge)

    def _valid(self, data: memoryview, start: int, table: Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        array = as_bytes(data)
        valid = np.ones(len(table), np.bool_)
        row = -1
        while (wrong := first_bad_checksum(array, start, table[row + 1 :], _ANY_SIZE)) >= 0:
            row += 1 + wrong
            valid[row] = False
        for row in np.flatnonzero(valid & (table[:, MARKER] == PACKED_MARKER)).tolist():
            table[row, MARKER] = packed_marker(bytes_of(data, start, table, row))
        packed = (table[:, MAGIC] < 2) & (table[:, ATTRIBUTES] & CODEC_MASK != 0)
        for row in np.flatnonzero(valid & packed).tolist():
            valid[row] = open_wrapper(bytes_of(data, start, table, row), table[row]) is None
        valid &= table[:, MARKER] != BAD_MARKER
        valid &= (table[:, BASE] >= self._view.low) & (table[:, LAST] < self._view.high)
        return valid

    # --- one batch at a time: its neighbours decide

    def _next_batch(self) -> ValidBatches | Damage | None:
        """The batch at the current position, or the damage that begins there; None at the end of the file."""
        seen = self._view.check(self.position)
        if seen.reason is None and self._accepted(seen, None, firm=False):
            data = self._view.read(seen.position, seen.size)
            table = headers_in(data, seen.position)[:1]
            table[0, BASE] = seen.base
            self.position, self.edge = seen.end, seen.following
            return ValidBatches(table, data, seen.position, self.edge)
        return self._damage(seen)

    def _accepted(self, seen: CheckedBatch, claims: tuple[int, ...] | None, *, firm: bool) -> bool:
        """Whether its neighbours confirm a batch's offsets.

        claims: for a batch after damage, its possible first offsets by the damaged header. A start at the end of the
            last batch before the damage proves nothing, because the damage may have changed its offset.
        firm: the batch contradicts an earlier batch, so a gap next to it proves nothing.
        """
        if seen.reason is not None or seen.base < self.edge:
            return False
        if seen.base in ((self.edge,) if claims is None else claims):
            return True
        behind = self._view.next_valid(seen, self.edge)
        following = self._view.high if behind is None else behind.base
        if following <= seen.following:
            return following == seen.following
        return not firm and self._has_gaps()

    def _damage(self, seen: CheckedBatch) -> Damage | None:
        """The damage from a batch that is not accepted to the next accepted batch, or to the end."""
        began, reason = seen, seen.reason or (OUTSIDE if seen.base < self._view.low else MISPLACED)
        if seen.reason is None and seen.base < self.edge:
            reason = Fault.OFFSET_ORDER.reason
        claims, lost, alone = self._view.claimed_starts(seen, self.edge), self._view.claimed_count(seen), True
        while True:
            contradicts = seen.intact and seen.base >= self.edge
            behind = self._view.next_valid(seen, self.edge)
            if behind is None:
                return self._tail(began, seen, reason, lost)
            if behind.position != seen.end:
                alone = False
            firm = contradicts and behind.base < seen.following
            if self._accepted(behind, claims, firm=firm):
                break
            claims, alone = self._view.claimed_starts(behind, self.edge), False
            lost += self._view.claimed_count(behind)
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

    def _tail(self, began: CheckedBatch, last: CheckedBatch, reason: str, lost: int) -> Damage | None:
        """Damage up to the end, without an accepted batch after it."""
        size = self._file.size
        if self._view.is_last and began.position == last.position and self._is_torn(began):
            self.torn = Torn(self._file.path, began.position, size - began.position)
            self.position = size
            return None
        content = size
        if only_zeros(self._file, max(began.position, size - _PREALLOCATED_BYTES)):
            content = end_of_content(self._file, began.position, size)
        end = max(content, last.end)
        offsets = (self.edge, self.edge + max(1, lost)) if self._view.is_last else (self.edge, self._view.high)
        self.position, self.edge = size, offsets[1]
        return Damage(self._file.path, began.position, end - began.position, *offsets, reason)

    def _is_torn(self, seen: CheckedBatch) -> bool:
        """Whether these are the first bytes of a batch that fits here and extends beyond the end of the file."""
        head = self._view.read(seen.position, min(RECORDS_AT, self._file.size - seen.position))
        if len(head) >= FRAME_OVERHEAD:
            left = self._file.size - seen.position
            if frame_size(head) <= left or not self._view.low <= int.from_bytes(head[:8], "big") < self._view.high:
                return False
            if len(head) > MAGIC_AT and head[MAGIC_AT] > 2:
                return False
            # A batch that is whole except for its length was not cut off.
            return len(head) <= MAGIC_AT or not size_by_checksum(self._file, seen.position, self._file.size)
        return True
