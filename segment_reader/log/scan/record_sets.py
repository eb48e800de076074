"""A range of offsets as record sets, from the files of one partition, as consecutive Fetch responses have them.

    log = open_log(storage, folder, "orders", 0)
    decoder = RangeDecoder("orders", 0, 100, 5000, isolation_level="read_committed")
    for found in record_sets(storage, log, 100, 5000, read_committed=True):
        yield from decoder.feed(found.records, found.aborted)
    yield from decoder.finish()

Files are read in windows of whole batches, so memory is bounded by a window or the largest batch, whichever is more.
Hints and indexes give the position of the first batch and the end of the range; without them the first segment's
headers are read, and windows grow as more turns out to be needed, so that little is read in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final

from kseg.segment_reader.decode.batch import FRAME_OVERHEAD
from kseg.segment_reader.decode.table import LAST, as_bytes
from kseg.segment_reader.errors import Fault
from kseg.segment_reader.log.errors import LogDamaged, LogEndsEarly
from kseg.segment_reader.log.files.index_entries import IndexFile
from kseg.segment_reader.log.files.log_end import check_log_end, whole_pieces
from kseg.segment_reader.log.files.preallocation import open_segment
from kseg.segment_reader.log.files.segments import PartitionLog, Segment
from kseg.segment_reader.log.files.storage import OpenFile, Storage
from kseg.segment_reader.log.scan.headers import (
    PIECE_BYTES,
    TRUSTED_FRAME_BYTES,
    Piece,
    check_large_frame,
    frame_size,
    only_zeros,
    pieces_of,
)
from kseg.segment_reader.log.scan.kernels import chain
from kseg.segment_reader.log.scan.lookup import first_batch, position_behind
from kseg.segment_reader.log.scan.positions import PositionHint
from kseg.segment_reader.log.transactions.aborted import READ_AHEAD_BYTES, HeaderPieces, TransactionTracker
from kseg.segment_reader.log.transactions.index import MarkerIndex

#: Read at once where it is known that so much is needed: each read of an object store is a request.
WINDOW_BYTES: Final = 8 * 1024 * 1024
_FIRST_WINDOW_BYTES: Final = 256 * 1024
_LEAST_WINDOW_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class RecordSet:
    """Consecutive whole batches of one file, valid until the next one is asked for.

    aborted: (producer id, first offset) of the aborted transactions that overlap them.
    next_offset: the offset after the last batch; without records the range's end, when it lies between two segments.
    position: where they begin in `file`, in bytes.
    """

    records: memoryview
    aborted: list[tuple[int, int]]
    next_offset: int
    file: str
    position: int


def record_sets(
    storage: Storage,
    log: PartitionLog,
    start: int,
    end: int,
    *,
    read_committed: bool,
    start_hint: PositionHint | None = None,
    end_hint: PositionHint | None = None,
    window_bytes: int = WINDOW_BYTES,
    piece_bytes: int = PIECE_BYTES,
    read_ahead_bytes: int = READ_AHEAD_BYTES,
) -> Generator[RecordSet, None, None]:
    """The record sets that hold offsets [start, end). The first may begin below `start`, the last end above `end`.

    start_hint, end_hint: where the first batch may begin and the last may end; offsets decide, hints only save reads.
    Raises LogDamaged, LogEndsEarly, UndecidedTransaction (`end` is above the last stable offset), SegmentGone.
    """
    if start >= end:
        return
    tracker = (
        TransactionTracker(marker_lookup=MarkerIndex(storage, log).find_marker, read_ahead_bytes=read_ahead_bytes)
        if read_committed
        else None
    )
    from_, offset = log.segment_at(start), start
    with closing(_Ahead(storage, log, piece_bytes)) as ahead:
        for number, segment in enumerate(log.segments[from_:], start=from_):
            if segment.base_offset >= end and segment.base_offset > offset:
                yield RecordSet(memoryview(b""), [], end, segment.path, 0)
                return
            with closing(open_segment(storage, segment)) as file, closing(IndexFile(storage, segment)) as index:
                position, offset = _begin(segment, file, index, offset, start_hint)
                following = log.following(number)
                stop = _stop(segment, index, following, end, end_hint)
                for window in windows(file, position, offset, window_bytes, may_be_torn=following is None, stop=stop):
                    first, offset = offset, window.next_offset
                    _reject_overlap(window, first, following)
                    if tracker is not None:
                        behind = partial(ahead.behind, number, window.position + len(window.records), offset)
                        window.aborted.extend(_aborted(tracker, window, first, min(offset, end) - 1, behind))
                    yield window
                    if offset >= end:
                        return
    raise LogEndsEarly(log.segments[-1].path if log.segments else log.folder, None, offset)


def _begin(
    segment: Segment, file: OpenFile, index: IndexFile, offset: int, start_hint: PositionHint | None
) -> tuple[int, int]:
    """The position of the batch that holds an offset, and the offset after the batch before it."""
    if offset <= segment.base_offset:
        return 0, segment.base_offset
    hint = start_hint.position if start_hint is not None and start_hint.segment == segment.base_offset else None
    position, edge, _ = first_batch(segment, file, index, offset, hint=hint)
    return position, edge


def _reject_overlap(window: RecordSet, first: int, following: Segment | None) -> None:
    if following is not None and window.next_offset > following.base_offset:
        reason = f"offsets run into the segment {following.path}"
        raise LogDamaged(window.file, window.position, reason, first)


def _aborted(
    tracker: TransactionTracker, window: RecordSet, first: int, last: int, behind: Callable[[], HeaderPieces]
) -> list[tuple[int, int]]:
    """The aborted transactions that overlap a window, whose headers are observed first."""
    for piece in pieces_of(window.file, window.records, window.position):
        tracker.observe(window.file, piece)
    return tracker.aborted(first, last, behind)


def _stop(
    segment: Segment, index: IndexFile, following: Segment | None, end: int, end_hint: PositionHint | None
) -> int | None:
    """The position in a segment up to which the range probably reaches; None where that is unknown."""
    if end_hint is not None and end_hint.segment == segment.base_offset:
        return end_hint.position
    if following is not None and following.base_offset <= end:
        return segment.size
    if segment.size <= _FIRST_WINDOW_BYTES:
        return segment.size
    return position_behind(segment, index, end - 1)


class _Ahead:
    """Headers behind a position of a log, to its end. A segment's file stays open for the next position."""

    def __init__(self, storage: Storage, log: PartitionLog, piece_bytes: int) -> None:
        self._storage = storage
        self._log = log
        self._piece_bytes = piece_bytes
        self._number = -1
        self._file: OpenFile | None = None

    def behind(self, number: int, position: int, offset: int) -> Iterator[tuple[str, Piece]]:
        """From a position in the segment of that number on, where the batch at `offset` or behind it begins."""
        for later, segment in enumerate(self._log.segments[number:], start=number):
            offset = max(offset, segment.base_offset)
            file, following = self._open(later), self._log.following(later)
            for piece in whole_pieces(file, position, offset, following, piece_bytes=self._piece_bytes):
                offset = int(piece.table[-1, LAST]) + 1
                yield segment.path, piece
            position = 0

    def _open(self, number: int) -> OpenFile:
        if self._file is None or self._number != number:
            self.close()
            self._file, self._number = open_segment(self._storage, self._log.segments[number]), number
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def windows(
    file: OpenFile, position: int, edge: int, window_bytes: int, *, may_be_torn: bool, stop: int | None = None
) -> Iterator[RecordSet]:
    """Windows of whole batches from a position on; none may begin below `edge`, the offset after the one before.

    stop: a position up to which all will be needed; behind it, and without it, windows begin small and grow.
    The file may end in zeros and, with `may_be_torn`, in a batch that is cut off: the last write before a crash.
    """
    largest = max(window_bytes, _LEAST_WINDOW_BYTES)
    unsure = min(largest, _FIRST_WINDOW_BYTES)
    exact = 0
    while (left := file.size - position) >= FRAME_OVERHEAD:
        if exact:
            wanted = exact
        elif stop is not None and stop > position:
            wanted = max(min(largest, stop - position + FRAME_OVERHEAD), _LEAST_WINDOW_BYTES)
        else:
            wanted, unsure = unsure, min(2 * unsure, largest)
        data = file.read(position, min(wanted, left))
        size, following, fault = chain(as_bytes(data), edge)
        if size == 0 and not fault and len(data) >= FRAME_OVERHEAD:
            whole = frame_size(data)
            if not len(data) < whole <= left:
                break
            check_large_frame(file, position, whole)
            data = file.read(position, min(whole + FRAME_OVERHEAD, left))
            size, following, fault = chain(as_bytes(data), edge)
        if size:
            if len(data) - size < FRAME_OVERHEAD <= left - size:
                # Where a batch begins has no checksum, and only the one behind it can contradict: so that is read too.
                data = file.read(position, size + FRAME_OVERHEAD)
                size, following, fault = chain(as_bytes(data), edge)
            if fault == Fault.OFFSET_ORDER:
                raise LogDamaged(file.path, position + size, Fault.OFFSET_ORDER.reason, following)
            exact = _bytes_for_large_batch(data[size:], largest)
            yield RecordSet(data[:size], [], following, file.path, position)
            position, edge = position + size, following
        elif fault and only_zeros(file, position):
            return
        elif fault:
            raise LogDamaged(file.path, position, Fault(fault).reason, edge)
        else:
            break
    check_log_end(file, position, edge, may_be_torn=may_be_torn)


def _bytes_for_large_batch(begun: memoryview, window_bytes: int) -> int:
    """Bytes to read for the batch that a window has only the beginning of, and for the head of the one behind it.

    0 for a small one: the part of it that has been read is read again with the next window. A large one's would be
    half of what is read.
    """
    if len(begun) < FRAME_OVERHEAD:
        return 0
    size = frame_size(begun)
    return size + FRAME_OVERHEAD if window_bytes // 4 < size <= TRUSTED_FRAME_BYTES else 0
