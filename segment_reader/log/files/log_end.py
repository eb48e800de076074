"""Examines the bytes after a log's last whole batch: nothing, zeros, the beginning of a batch, or damage.

A crash may leave the beginning of the batch that was being written, and a reader may meet one that is being written: at
the very end of a log that is no damage. But no checksum covers a batch's length field, and one flipped bit in it makes
any batch look cut off and hides all behind it. So a tail counts as the beginning of a batch only if nothing contradicts
that: it contains no whole batch, and its checksum is not that of all the bytes up to the file's end, or to the
preallocated zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kseg.segment_reader.decode.batch import FRAME_OVERHEAD, RECORDS_AT
from kseg.segment_reader.decode.table import BASE, LAST, POSITION, as_bytes
from kseg.segment_reader.errors import Fault
from kseg.segment_reader.log.errors import LogDamaged
from kseg.segment_reader.log.files.preallocation import size_by_checksum
from kseg.segment_reader.log.files.segments import Segment
from kseg.segment_reader.log.files.storage import OpenFile
from kseg.segment_reader.log.scan.headers import PIECE_BYTES, Piece, checksum_holds, frame_size, only_zeros, pieces
from kseg.segment_reader.log.scan.kernels import MOST_OFFSETS, plausible

_SEARCHED_AT_ONCE: Final = 4 * 1024 * 1024


def whole_pieces(
    file: OpenFile, position: int, edge: int, following: Segment | None, *, piece_bytes: int = PIECE_BYTES
) -> Iterator[Piece]:
    """`pieces` of a segment that is part of a log, and a check of its end.

    edge: the offset after the batch before `position`. following: the next segment, None for the last one, which alone
    may end in a batch that is cut off.
    Raises LogDamaged where offsets do not fit between the two, or the end is damaged.
    """
    for piece in pieces(file, position, piece_bytes=piece_bytes):
        first, where = int(piece.table[0, BASE]), int(piece.table[0, POSITION])
        if first < edge:
            raise LogDamaged(file.path, where, Fault.OFFSET_ORDER.reason, first)
        position, edge = piece.end, int(piece.table[-1, LAST]) + 1
        if following is not None and edge > following.base_offset:
            raise LogDamaged(file.path, where, f"offsets run into the segment {following.path}", first)
        yield piece
    check_log_end(file, position, edge, may_be_torn=following is None)


def check_log_end(file: OpenFile, position: int, edge: int, *, may_be_torn: bool) -> None:
    """Raises LogDamaged unless only zeros follow `position` or, with `may_be_torn`, a batch that is cut off."""
    if position >= file.size or only_zeros(file, position):
        return
    if not may_be_torn:
        raise LogDamaged(file.path, position, "the last batch is cut off", edge)
    if file.size - position < FRAME_OVERHEAD:
        return
    size = size_by_checksum(file, position, file.size)
    if size:
        claimed = frame_size(file.read(position, FRAME_OVERHEAD))
        reason = f"the length field says {claimed} bytes, the checksum is that of {size}"
        raise LogDamaged(file.path, position, reason, edge)
    found = _whole_batch(file, position + 1, edge)
    if found >= 0:
        raise LogDamaged(file.path, position, f"{Fault.LENGTH.reason}: a whole batch follows at byte {found}", edge)


def _whole_batch(file: OpenFile, position: int, edge: int) -> int:
    """The position of the next batch with a right checksum and offsets from `edge` on that its segment can have; -1
    without one.

    Without the upper bound half of all values of 8 bytes would be offsets: each candidate's checksum is computed, over
    up to all the bytes behind it.
    """
    while file.size - position >= FRAME_OVERHEAD:
        data = file.read(position, min(_SEARCHED_AT_ONCE, file.size - position))
        had = len(data)
        likely, at = [], 0
        array = as_bytes(data)
        while (at := int(plausible(array, at, had, edge, edge + MOST_OFFSETS, file.size - position))) >= 0:
            likely.append((position + at, frame_size(data[at : at + FRAME_OVERHEAD])))
            at += 1
        del array, data  # reading goes into the same buffer
        for candidate, size in likely:
            if checksum_holds(file, candidate, size):
                return candidate
        if had <= RECORDS_AT:
            break
        position += had - RECORDS_AT
        if position + RECORDS_AT >= file.size:
            break
    return -1
