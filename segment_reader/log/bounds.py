"""What a broker would say of a partition's offsets, from its files alone.

    log end offset       after the last whole batch of the last segment
    last stable offset   the first offset of the oldest transaction that has no marker yet, else the log end offset

Open transactions follow from the newest whole `.snapshot` and the headers behind its offset; without one from all of
them. KIP-98; `ListOffsets` under read_committed answers with the last stable offset.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Final

import numpy as np

from segment_reader.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from segment_reader.log.entries import IndexFile
from segment_reader.log.errors import CorruptSnapshot, SegmentGone
from segment_reader.log.headers import pieces
from segment_reader.log.lookup import first_batch, next_offset_after
from segment_reader.log.segments import PartitionLog
from segment_reader.log.snapshots import producer_snapshot
from segment_reader.log.storage import Storage
from segment_reader.table import ATTRIBUTES, BASE, MAGIC, MARKER, PRODUCER

_END: Final = 1 << 63

__all__ = ["OpenTransaction", "last_stable_offset", "log_end_offset", "newest_snapshot", "open_transactions"]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without a marker: its producer, and the first offset that it wrote to the partition."""

    producer_id: int
    first_offset: int


def log_end_offset(storage: Storage, log: PartitionLog) -> int:
    """The offset after the last whole batch; 0 for a folder without segments. Raises LogDamaged, SegmentGone."""
    for segment in reversed(log.segments):
        following, _ = next_offset_after(storage, segment)
        return following
    return 0


def last_stable_offset(storage: Storage, log: PartitionLog, end: int | None = None) -> int:
    """See the module. `end`: as if the log ended there. Raises LogDamaged, SegmentGone."""
    last = log_end_offset(storage, log)
    end = last if end is None else min(last, end)
    opened = open_transactions(storage, log, end)  # a snapshot above the log's end is of a log that was longer
    return opened[0].first_offset if opened else end


def open_transactions(storage: Storage, log: PartitionLog, end: int | None = None) -> list[OpenTransaction]:
    """The transactions that have no marker in the files, by their first offset. Raises LogDamaged, SegmentGone.

    end: as if the log ended there.
    """
    end = _END if end is None else end
    opened, offset = newest_snapshot(storage, log, end)
    number = log.segment_at(offset)
    for segment in log.segments[number:]:
        with closing(storage.open(segment.path)) as file, closing(IndexFile(storage, segment)) as index:
            for piece in pieces(file, first_batch(segment, file, index, offset).position):
                table = piece.table
                transactional = (table[:, MAGIC] == 2) & (table[:, ATTRIBUTES] & TRANSACTIONAL_BIT != 0)
                here = (table[:, BASE] >= offset) & (table[:, BASE] < end)
                for row in np.flatnonzero(transactional & here).tolist():
                    producer = int(table[row, PRODUCER])
                    if not table[row, ATTRIBUTES] & CONTROL_BIT:
                        opened.setdefault(producer, int(table[row, BASE]))
                    elif table[row, MARKER] >= 0:
                        opened.pop(producer, None)
    return sorted(
        (OpenTransaction(producer, first) for producer, first in opened.items()), key=lambda one: one.first_offset
    )


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
