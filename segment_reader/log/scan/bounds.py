"""A partition's log end offset and last stable offset, from its files alone.

    log end offset       after the last whole batch of the last segment
    last stable offset   the first offset of the oldest transaction that has no marker yet, else the log end offset

Open transactions follow from the newest valid `.snapshot` and the headers behind its offset; without one from all
headers. For a log in use the result is that of one moment: its end is looked up first. KIP-98; `ListOffsets` under
read_committed returns the last stable offset.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Final

from kseg.segment_reader.decode.batch import FRAME_OVERHEAD
from kseg.segment_reader.decode.table import BASE
from kseg.segment_reader.errors import Fault
from kseg.segment_reader.log.errors import CorruptSnapshot, LogDamaged, SegmentGone
from kseg.segment_reader.log.files.index_entries import IndexFile
from kseg.segment_reader.log.files.log_end import check_log_end, whole_pieces
from kseg.segment_reader.log.files.preallocation import open_segment
from kseg.segment_reader.log.files.producer_snapshots import producer_snapshot
from kseg.segment_reader.log.files.segments import PartitionLog
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.headers import Piece, checksum_holds, frame_size
from kseg.segment_reader.log.scan.lookup import THE_END, first_batch
from kseg.segment_reader.log.transactions.aborted import TransactionTracker

_END: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without a marker: its producer, and the first offset that it wrote to the partition."""

    producer_id: int
    first_offset: int


def log_end_offset(storage: Storage, log: PartitionLog) -> int:
    """The offset after the last whole batch; 0 for a folder without segments. Raises LogDamaged, SegmentGone."""
    for segment in reversed(log.segments):
        with closing(open_segment(storage, segment)) as file, closing(IndexFile(storage, segment)) as index:
            found = first_batch(segment, file, index, THE_END)
            check_log_end(file, found.position, found.base_offset, may_be_torn=True)
            return found.base_offset
    return 0


def last_stable_offset(storage: Storage, log: PartitionLog, end: int | None = None) -> int:
    """See the module. `end`: as if the log ended there. Raises LogDamaged, SegmentGone."""
    last = log_end_offset(storage, log)  # first: a log in use grows, and its newest transactions may be open
    end = last if end is None else min(last, end)
    opened = open_transactions(storage, log, end)
    if not opened:
        return end
    _require_valid(storage, log, opened[0].first_offset)
    return opened[0].first_offset


def _require_valid(storage: Storage, log: PartitionLog, offset: int) -> None:
    """Raises LogDamaged if the checksum of the batch at an offset does not match: a flipped bit in its producer id
    would hold back all records behind it. Small batches were checked when the transactions were tracked."""
    segment = log.segments[log.segment_at(offset)]
    with closing(open_segment(storage, segment)) as file, closing(IndexFile(storage, segment)) as index:
        found = first_batch(segment, file, index, offset)
        if found.exists and found.base_offset == offset:
            size = frame_size(file.read(found.position, FRAME_OVERHEAD))
            if not checksum_holds(file, found.position, size):
                raise LogDamaged(file.path, found.position, Fault.CRC.reason, offset)


def open_transactions(storage: Storage, log: PartitionLog, end: int | None = None) -> list[OpenTransaction]:
    """The transactions that have no marker in the files, by their first offset. Raises LogDamaged, SegmentGone.

    end: as if the log ended there.
    """
    end = _END if end is None else end
    opened, offset = newest_snapshot(storage, log, end)
    tracker = TransactionTracker(opened)
    for number, segment in enumerate(log.segments):
        if number < log.segment_at(offset) or segment.base_offset >= end:
            continue
        with closing(open_segment(storage, segment)) as file, closing(IndexFile(storage, segment)) as index:
            position, edge, _ = first_batch(segment, file, index, offset)
            for piece in whole_pieces(file, position, edge, log.following(number)):
                bases = piece.table[:, BASE]
                if bases[-1] >= offset:
                    wanted = piece.table[(bases >= offset) & (bases < end)]
                    tracker.observe(segment.path, Piece(wanted, piece.data, piece.start, piece.end))
                if bases[-1] >= end:
                    break
    return sorted((OpenTransaction(*found) for found in tracker.open.items()), key=lambda one: one.first_offset)


def newest_snapshot(storage: Storage, log: PartitionLog, end: int) -> tuple[dict[int, int], int]:
    """Open transactions by producer at an offset up to `end`, and that offset; at the log's start without a snapshot
    none."""
    for offset, path in sorted(log.snapshots, reverse=True):
        if offset > end:
            continue
        try:
            states = producer_snapshot(storage.read_all(path), path)
        except (CorruptSnapshot, SegmentGone):
            continue
        return {s.producer_id: s.current_txn_first_offset for s in states if s.current_txn_first_offset >= 0}, offset
    return {}, log.segments[0].base_offset if log.segments else 0
