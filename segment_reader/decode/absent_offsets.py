"""Absent offsets, counted by batch headers alone: what a decoder has to have found, and cannot have made up.

    between batches      a batch begins behind the offset after the one before it
    inside a batch       it spans more offsets than it has records (magic 2 has both in its header)
    at the range's end   a batch begins behind it

A decoder counts as absent what lies between two records that it has decoded, so one that loses records finds gaps where
they were. Here nothing is decoded: some nanoseconds a batch. A header does not say which offsets are absent, so of a
batch with gaps that a range's edge cuts through, and of compressed message sets of the formats before 0.11, whose
headers have no count, the decoder's own gaps count, never more of them than the whole batch lacks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from kseg.segment_reader.decode.batch import (
    CODEC_MASK,
    FRAME_OVERHEAD,
    LAST_OFFSET_DELTA_AT,
    LEGACY_ATTRIBUTES_AT,
    LENGTH_AT,
    MAGIC_AT,
    MIN_LENGTH,
    RECORD_COUNT_AT,
)
from kseg.segment_reader.decode.jit import compiled
from kseg.segment_reader.decode.primitives import be8, be32, be64
from kseg.segment_reader.decode.table import as_bytes

MIN_MESSAGE, _, MIN_BATCH = MIN_LENGTH

# what the walk carries from one call to the next
AT, EDGE, ABSENT, UNSURE, STATE_SIZE = range(5)

_ROOM: Final = 64
_ANY: Final = 1 << 62


@compiled
def walk_headers(data: Any, end: Any, s: Any, unsure: Any) -> Any:
    """Passes the frames from data[s[AT]:]; True: `unsure` is full, empty it and call again.

    unsure: (first, end, most) of offsets whose gaps no header shows, and how many may be absent there.
    """
    size = data.size
    while s[EDGE] < end and size - s[AT] >= FRAME_OVERHEAD:
        at = s[AT]
        length = be32(data, at + LENGTH_AT)
        if length < MIN_MESSAGE or length > size - at - FRAME_OVERHEAD:
            return False
        magic = be8(data, at + MAGIC_AT)
        if magic > 2 or (magic == 2 and length < MIN_BATCH):
            return False
        if s[UNSURE] == unsure.shape[0]:
            return True
        base = be64(data, at)
        edge = s[EDGE]
        packed = magic < 2 and be8(data, at + LEGACY_ATTRIBUTES_AT) & CODEC_MASK != 0
        last = base + be32(data, at + LAST_OFFSET_DELTA_AT) if magic == 2 else base
        stop = min(last + 1, end)
        n = s[UNSURE]
        if last >= edge:
            if packed:
                unsure[n, 0], unsure[n, 1], unsure[n, 2] = edge, stop, _ANY
                s[UNSURE] = n + 1
            else:
                first = min(max(base, edge), end)
                s[ABSENT] += first - edge
                lacking = last - base + 1 - be32(data, at + RECORD_COUNT_AT) if magic == 2 else 0
                if lacking and first < stop:
                    if lacking == last - base + 1:
                        s[ABSENT] += stop - first
                    elif first == base and stop == last + 1:
                        s[ABSENT] += lacking
                    else:
                        unsure[n, 0], unsure[n, 1], unsure[n, 2] = first, stop, lacking
                        s[UNSURE] = n + 1
            s[EDGE] = stop
        s[AT] = at + FRAME_OVERHEAD + length
    return False


class AbsentOffsets:
    """Those of [start, end), from the record sets that its decoder is fed."""

    def __init__(self, start: int, end: int) -> None:
        self._end = end
        self._state = np.zeros(STATE_SIZE, np.int64)
        self._state[EDGE] = start
        self._found = np.zeros((_ROOM, 3), np.int64)
        self._unsure: list[tuple[int, int, int]] = []

    @property
    def next_offset(self) -> int:
        """The first offset not passed yet."""
        return int(self._state[EDGE])

    def feed(self, records: bytes | memoryview) -> None:
        """Pass a record set. It ends with its first frame that is not whole or none: errors are the decoder's."""
        data, state = as_bytes(records), self._state
        state[AT] = 0
        full = True
        while full:
            full = walk_headers(data, self._end, state, self._found)
            for first, stop, most in self._found[: state[UNSURE]].tolist():
                self._add_unsure(first, stop, most)
            state[UNSURE] = 0

    def skip_to(self, offset: int) -> None:
        """Offsets below are absent as far as none has been passed: the caller knows that."""
        offset = min(offset, self._end)
        self._state[ABSENT] += max(0, offset - self.next_offset)
        self._pass(offset)

    def pass_over(self, first: int, last: int) -> None:
        """[first, last) cannot be read, and is not absent; what lies before it is."""
        self.skip_to(first)
        self._pass(min(last, self._end))

    def leave_to_decoder(self, offset: int) -> None:
        """Below an offset headers cannot be believed: damage is among them."""
        offset = min(offset, self._end)
        if offset > self.next_offset:
            self._add_unsure(self.next_offset, offset, _ANY)
            self._pass(offset)

    def count(self, gaps: Sequence[tuple[int, int]]) -> int:
        """How many there are. gaps: the decoder's, ascending, for offsets that no header covers."""
        return int(self._state[ABSENT]) + sum(
            min(most, _inside(gaps, first, stop)) for first, stop, most in self._unsure
        )

    def _pass(self, offset: int) -> None:
        self._state[EDGE] = max(self.next_offset, offset)

    def _add_unsure(self, first: int, stop: int, most: int) -> None:
        if self._unsure and self._unsure[-1][1:] == (first, _ANY) and most == _ANY:
            first = self._unsure.pop()[0]
        self._unsure.append((first, stop, most))


def _inside(gaps: Sequence[tuple[int, int]], first: int, stop: int) -> int:
    """Offsets of the gaps in [first, stop)."""
    number = max(0, bisect_right(gaps, (first, _ANY)) - 1)
    total = 0
    while number < len(gaps) and gaps[number][0] < stop:
        total += max(0, min(gaps[number][1], stop) - max(gaps[number][0], first))
        number += 1
    return total
