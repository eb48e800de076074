"""From a time to an offset: the first record at or after it, as ListOffsets answers (KIP-79).

A `.timeindex` says where it is safe to begin; the batch that its entry names is looked at first, and everything behind
it is searched by headers, so an index that ends early costs time and nothing else. In the batch that is young enough,
the records decide.
"""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

import numpy as np

from segment_reader.log.contents import batches, records
from segment_reader.log.errors import LogFileError
from segment_reader.log.headers import pieces
from segment_reader.log.lookup import exact_position, load_offset_index, load_time_index
from segment_reader.log.segments import PartitionLog, Segment
from segment_reader.log.storage import OpenFile, Storage
from segment_reader.table import BASE, LAST, MAGIC, MAX_TIME, POSITION


class TimedOffset(NamedTuple):
    """A record's offset and its timestamp, in ms."""

    offset: int
    timestamp: int


class NoTimestamps(LogFileError):
    """Records of magic 0 lie where the time was looked for: they have none (a broker answers with error 43)."""


def offset_for_time(storage: Storage, log: PartitionLog, timestamp: int) -> TimedOffset | None:
    """The first record whose timestamp (ms) is at or after the given one; None where there is none.

    Raises NoTimestamps, LogDamaged, SegmentGone.
    """
    for segment in log.segments:
        with closing(storage.open(segment.path)) as file:
            for piece in pieces(file, _safe_position(storage, segment, file, timestamp)):
                young = piece.table[:, MAX_TIME] >= timestamp
                older = piece.table[: int(np.argmax(young)) if young.any() else len(young)]
                if (older[:, MAGIC] == 0).any():
                    raise NoTimestamps(
                        file.path, int(older[0, POSITION]), "records of message format 0 have no timestamp"
                    )
                if young.any():
                    found = _in_batch(file, int(piece.table[len(older), POSITION]), timestamp)
                    if found is not None:
                        return found
                    return offset_after(storage, log, segment, int(piece.table[len(older), LAST]) + 1, timestamp)
    return None


def offset_after(
    storage: Storage, log: PartitionLog, segment: Segment, offset: int, timestamp: int
) -> TimedOffset | None:
    """The same from an offset on: a batch's header may name a time that none of its records has any more."""
    number = log.segment_at(segment.base_offset)
    for later in log.segments[number:]:
        with closing(storage.open(later.path)) as file:
            position, _ = exact_position(file, later, offset, load_offset_index(storage, later))
            for batch in batches(file, position):
                if batch.frame.max_timestamp >= timestamp:
                    found = _in_batch(file, batch.position, timestamp)
                    if found is not None:
                        return found
    return None


def _safe_position(storage: Storage, segment: Segment, file: OpenFile, timestamp: int) -> int:
    """A position before which every record is older than `timestamp`, as far as an index entry that holds tells."""
    times = load_time_index(storage, segment)
    offset = None if times is None else times.offset_before(timestamp)
    if times is None or offset is None:
        return 0
    claimed = int(times.timestamps[np.searchsorted(times.timestamps, timestamp, side="left") - 1])
    position, _ = exact_position(file, segment, offset, load_offset_index(storage, segment))
    for piece in pieces(file, position):
        row = piece.table[0]
        holds = row[BASE] <= offset <= row[LAST] and row[MAX_TIME] == claimed
        return position if holds else 0
    return 0


def _in_batch(file: OpenFile, position: int, timestamp: int) -> TimedOffset | None:
    batch = next(batches(file, position))
    for record in records(batch, file.path):
        if record.timestamp >= timestamp:
            return TimedOffset(record.offset, record.timestamp)
    return None
