"""The headers of a .log's batches; the records between them are not read.

    read a piece of the file ──► headers of the frames in it (compiled) ──► on behind the last one that began in it

Where batches are small next to a piece, nearly everything is read anyway: pieces grow then, so that a long scan needs
few requests. Where they are large, most of the file is skipped in pieces as small as at the start.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import crc32c
import numpy as np
import numpy.typing as npt

from kseg.segment_reader.decode.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    FRAME_OVERHEAD,
    LEGACY_CRC_AT,
    LENGTH_AT,
    MAGIC_AT,
    FrameFault,
)
from kseg.segment_reader.decode.scan import scan
from kseg.segment_reader.decode.table import BASE, LAST, POSITION, SIZE, WIDTH, as_bytes
from kseg.segment_reader.errors import Fault
from kseg.segment_reader.log.errors import LogDamaged
from kseg.segment_reader.log.files.storage import LocalFile, OpenFile

Table = npt.NDArray[np.int64]

#: Read at once. Less costs more calls than it saves bytes, at the usual batches of some 16 KiB.
PIECE_BYTES: Final = 64 * 1024
_LEAST_PIECE_BYTES: Final = 4096
_MOST_PIECE_BYTES: Final = 4 * 1024 * 1024
_ROWS: Final = 1024
#: A control batch is read whole. Its records are a handful of numbers, or the voters of a quorum.
_MOST_CONTROL_BYTES: Final = 1 << 20
CHECKED_AT_ONCE: Final = 1 << 20
#: Frames that claim to be larger are read only after their checksum was found to hold.
TRUSTED_FRAME_BYTES: Final = 16 * 1024 * 1024


@dataclass(slots=True)
class Piece:
    """Consecutive frames: a row of `table` each (segment_reader.decode.table), whose positions are those in the file.

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
    """The headers of a .log from a position on, to where the file's frames end: in zeros, or in one that is cut off.

    piece_bytes: what is read first. The file must not be read by others while this is iterated.
    Raises LogDamaged at a header that is impossible, and where offsets do not ascend.
    """
    least = max(piece_bytes, _LEAST_PIECE_BYTES)
    most = max(least, _MOST_PIECE_BYTES)
    size, last = least, -1
    while file.size - position >= FRAME_OVERHEAD:
        end = position
        data = file.read(position, min(size, file.size - position))
        had = len(data)
        try:
            for piece in _scanned(data, position, file.size):
                _require_order(file.path, piece.table, last)
                last = int(piece.table[-1, LAST])
                yield piece
                end = piece.end
        except FrameFault as error:
            damage = _damaged(file.path, error, data[error.position - position :])
            if only_zeros(file, error.position):  # reads into the same buffer
                return
            raise damage from None
        if end == position:
            size = _size_of_control_batch(file, position, had)
            if not size:
                return
            continue
        size = min(2 * size, most) if end <= position + had else least
        position = end


def _require_order(path: str, table: Table, last: int) -> None:
    """Frames begin behind the one before. No checksum covers where a batch begins: only this check does."""
    if table[0, BASE] > last and (table[1:, BASE] > table[:-1, LAST]).all():
        return
    row = 0 if table[0, BASE] <= last else int(np.flatnonzero(table[1:, BASE] <= table[:-1, LAST])[0]) + 1
    raise LogDamaged(path, int(table[row, POSITION]), Fault.OFFSET_ORDER.reason, int(table[row, BASE]))


def _size_of_control_batch(file: OpenFile, position: int, had: int) -> int:
    """The size of the frame that could not be scanned with so many bytes of it in memory; 0 where the file's end cuts
    it off.

    Control batches alone have to be whole. Raises LogDamaged for one that is larger than any can be.
    """
    head = file.read(position, FRAME_OVERHEAD)
    size = frame_size(head) if len(head) == FRAME_OVERHEAD else 0
    if not had < size <= file.size - position:
        return 0
    if size > _MOST_CONTROL_BYTES:
        claimed = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
        raise LogDamaged(file.path, position, "a control batch of impossible size", claimed)
    return size


def pieces_of(path: str, data: memoryview, position: int) -> Iterator[Piece]:
    """The same for whole frames that are in memory: `data` is at `position` of the file."""
    try:
        yield from _scanned(data, position, position + len(data))
    except FrameFault as error:
        raise _damaged(path, error, data[error.position - position :]) from None


def _damaged(path: str, error: FrameFault, frame: memoryview) -> LogDamaged:
    """The error about a frame that begins so."""
    claimed = int.from_bytes(frame[:LENGTH_AT], "big", signed=True)
    return LogDamaged(path, error.position, error.fault.reason, claimed)


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


def check_large_frame(file: OpenFile, position: int, size: int) -> None:
    """Checks a frame before all of it is read, lest a wrong length field allocate gigabytes. Raises LogDamaged."""
    if size > TRUSTED_FRAME_BYTES and not checksum_holds(file, position, size):
        raise LogDamaged(file.path, position, Fault.CRC.reason)


def checksum_holds(file: OpenFile, position: int, size: int) -> bool:
    """Whether the frame of `size` bytes at a position has the right checksum. Read in pieces: any size will do."""
    head = bytes(file.read(position, ATTRIBUTES_AT))
    if len(head) < ATTRIBUTES_AT:
        return False
    expected, start, add = checksum_in(head)
    at, end = position + start, position + size
    found = 0
    while at < end:
        data = file.read(at, min(CHECKED_AT_ONCE, end - at))
        if not len(data):
            return False
        found = add(data, found)
        at += len(data)
    return found == expected


def checksum_in(head: bytes) -> tuple[int, int, Callable[[bytes | memoryview, int], int]]:
    """A frame's checksum by its first bytes, up to its attributes: the value, the position from which on it is taken,
    and the function that adds bytes to one."""
    if head[MAGIC_AT] == 2:
        return int.from_bytes(head[CRC_AT:ATTRIBUTES_AT], "big"), ATTRIBUTES_AT, crc32c.crc32c
    return int.from_bytes(head[LEGACY_CRC_AT:MAGIC_AT], "big"), MAGIC_AT, zlib.crc32


def only_zeros(file: OpenFile, position: int) -> bool:
    """Whether only zeros follow: space that was preallocated (`log.preallocate`), or lost in a crash."""
    size = PIECE_BYTES
    while position < file.size:
        if isinstance(file, LocalFile):  # holes of a sparse file are not read
            position = file.next_data(position)
        data = file.read(position, min(size, file.size - position))
        if not len(data):
            break
        if np.frombuffer(data, np.uint8).any():
            return False
        position += len(data)
        size = min(2 * size, _MOST_PIECE_BYTES)
    return True
