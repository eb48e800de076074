"""Damage as a value: which bytes of which file cannot be read, and which offsets are missing for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from kseg.segment_reader.log.files.storage import Storage

#: Reasons beside those of `segment_reader.errors.Fault`.
CUT_OFF: Final = "the last batch is cut off"
ENDS_EARLY: Final = "the segment ends before the next one begins"
ZEROS: Final = "zeros where batches have to be"
MISPLACED: Final = "its offset does not fit between what stands before and behind it"
OUTSIDE: Final = "its offsets are not those of its segment"

#: How many bytes of damage are handed on at once.
PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes `[position, position + length)` of a .log that cannot be read. JSON-able field by field.

    first, last: the offsets `[first, last)` that are missing for it. Empty where nothing is: bytes between
        two batches whose offsets meet.
    reason: of the first batch in it.
    hides_marker: a transaction's marker may have been there.
    """

    file: str
    position: int
    length: int
    first: int
    last: int
    reason: str
    hides_marker: bool = True

    def within(self, start: int, end: int) -> int:
        """The number of its offsets in [start, end)."""
        return max(0, min(self.last, end) - max(self.first, start))

    def belongs_to(self, start: int, end: int, *, leads: bool) -> bool:
        """Whether the reader of [start, end) is the one that has to hand its bytes on: of ranges that meet, one has.

        leads: no range is read before this one. It is the one in which the damage begins; without missing offsets, the
        one of the batch behind it.
        """
        return start <= self.first < end or (leads and self.first < start < self.last)


@dataclass(frozen=True, slots=True)
class Torn:
    """A batch cut off at a log's very end: what an unclean shutdown leaves. A broker cuts it away when it starts."""

    file: str
    position: int
    length: int

    def __str__(self) -> str:
        return (
            f"{self.file}, byte {self.position}: {self.length} bytes of a batch that was being written (unclean stop)"
        )


def damaged_bytes(storage: Storage, damage: Damage) -> Iterator[bytes]:
    """The bytes, piece by piece; of zeros none. Raises SegmentGone."""
    if damage.reason == ZEROS:
        return
    with closing(storage.open(damage.file)) as file:
        position, end = damage.position, damage.position + damage.length
        while position < end:
            piece = bytes(file.read(position, min(PIECE_BYTES, end - position)))
            if not piece:
                return
            yield piece
            position += len(piece)


def pieces_of(data: bytes | memoryview) -> Iterator[bytes]:
    """Damaged bytes that are in memory, piece by piece."""
    return (bytes(data[at : at + PIECE_BYTES]) for at in range(0, len(data), PIECE_BYTES))
