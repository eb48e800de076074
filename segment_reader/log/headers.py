"""Walking a .log by its batches' headers alone: what lies between them is passed over unread.

read a piece of the file ──► headers of the frames in it (compiled) ──► on behind the last one that began in it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from segment_reader.batch import FRAME_OVERHEAD, LENGTH_AT, FrameFault
from segment_reader.errors import Fault
from segment_reader.log.errors import LogDamaged
from segment_reader.log.storage import OpenFile
from segment_reader.scan import scan
from segment_reader.table import POSITION, SIZE, WIDTH, as_bytes

Table = npt.NDArray[np.int64]

#: What is read at once. Less costs more calls than it saves bytes, at the usual batches of some 16 KiB.
PIECE_BYTES: Final = 64 * 1024
_LEAST_PIECE_BYTES: Final = 4096
_ROWS: Final = 1024


@dataclass(slots=True)
class Piece:
    """Consecutive frames: a row of `table` each (segment_reader.table), whose positions are those in the file.

    `data` is the file from position `start` on; it may end within the last frame. `end` is where the next one begins.
    Table and data are used again: they are valid until the next piece.
    """

    table: Table
    data: memoryview
    start: int
    end: int

    def frame(self, row: int) -> memoryview | None:
        """A frame's own bytes, None where `data` ends before it does."""
        first = int(self.table[row, POSITION]) - self.start
        last = first + int(self.table[row, SIZE])
        return self.data[first:last] if last <= len(self.data) else None


def pieces(file: OpenFile, position: int = 0, *, piece_bytes: int = PIECE_BYTES) -> Iterator[Piece]:
    """Walks a .log from a position on, to where the file's frames end: see `end_of_frames` for what ends them.

    Raises LogDamaged at a header that is impossible.
    """
    size = max(piece_bytes, _LEAST_PIECE_BYTES)
    while file.size - position >= FRAME_OVERHEAD:
        end = position
        try:
            for piece in _scanned(file.read(position, size), position, file.size):
                yield piece
                end = piece.end
        except FrameFault as error:
            if only_zeros(file, error.position):
                return
            raise LogDamaged(file.path, error.position, error.fault.reason) from None
        if end == position:
            return
        position = end


def pieces_of(path: str, data: memoryview, position: int) -> Iterator[Piece]:
    """The same for whole frames that are in memory: `data` stands at `position` of the file."""
    try:
        yield from _scanned(data, position, position + len(data))
    except FrameFault as error:
        raise LogDamaged(path, error.position, error.fault.reason) from None


def _scanned(data: memoryview, position: int, end: int) -> Iterator[Piece]:
    """Pieces of `data`, the beginning of a file's bytes from `position` to `end`. Raises FrameFault."""
    table: Table = np.empty((_ROWS, WIDTH), np.int64)
    array = as_bytes(data)
    at, rows = 0, _ROWS
    while rows == _ROWS and at < len(data):
        rows, after, fault = scan(array, at, end - position, table)
        found = table[:rows]
        found[:, POSITION] += position
        if rows:
            yield Piece(found, data, position, position + after)
        at = after
        if fault:
            raise FrameFault(Fault(fault), -1, position + at)


def frame_size(head: memoryview) -> int:
    """Bytes of the frame that begins here, by its length field: `head` has its first 12 bytes."""
    return FRAME_OVERHEAD + int.from_bytes(head[LENGTH_AT:FRAME_OVERHEAD], "big", signed=True)


def only_zeros(file: OpenFile, position: int) -> bool:
    """Whether nothing but zeros is left: room that was allocated ahead (`log.preallocate`), or lost in a crash."""
    while position < file.size:
        data = file.read(position, PIECE_BYTES)
        if not len(data):
            break
        if np.frombuffer(data, np.uint8).any():
            return False
        position += len(data)
    return True
