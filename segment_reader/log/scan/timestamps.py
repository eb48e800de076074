"""The first record at or after a time, as ListOffsets finds it (KIP-79).

An entry of a segment's `.timeindex` has an offset up to which all records are older than its timestamp. The entry's
batch is read and verified (its largest timestamp must be the entry's). The batches after it are searched by their
headers, so an incomplete or wrong index only costs time. In the first batch with a late enough timestamp, the records
are compared.

    for each segment   last entry below the time ─► its batch, found with the .index ─► later headers ─► records

If a whole segment is older, only the last entries of both indexes are read, and the headers in the .log from the batch
with the largest timestamp on: only this batch if timestamps ascend.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final, Literal

import numpy as np

from kseg.segment_reader.decode.table import BASE, LAST, MAGIC, MAX_TIME, POSITION, SIZE
from kseg.segment_reader.log.errors import LogFileError
from kseg.segment_reader.log.files.contents import batches, records
from kseg.segment_reader.log.files.index_entries import IndexFile
from kseg.segment_reader.log.files.preallocation import open_segment
from kseg.segment_reader.log.files.segments import PartitionLog, Segment
from kseg.segment_reader.log.files.storage import OpenFile, Storage
from kseg.segment_reader.log.scan.headers import check_large_frame, pieces
from kseg.segment_reader.log.scan.lookup import first_batch
from kseg.segment_reader.log.scan.positions import TimedOffset

#: An index has an entry every 4 KiB, so this holds the next one's batch too.
_PROBE_BYTES: Final = 8 * 1024

Untimed = Literal["refuse", "begin", "pass"]


class NoTimestamps(LogFileError):
    """The searched part of the log has records of magic 0, which have no timestamp (a broker returns error 43)."""


def offset_for_time(
    storage: Storage, log: PartitionLog, timestamp: int, *, start: int = 0, untimed: Untimed = "refuse"
) -> TimedOffset | None:
    """The first record at or above offset `start` whose timestamp (ms) is at or after the given one; None if there is
    none. A time before 1970 counts as 0, since -1 is the timestamp of a record without one.

    start: the log's start; the files may have records below it, which DeleteRecords has removed.
    untimed: the handling of earlier records of magic 0, which have no timestamp: an error; the range begins with the
        first of them; or they are ignored, so that a range that ends here includes them.
    Raises NoTimestamps, LogDamaged, SegmentGone.
    """
    timestamp = max(0, timestamp)
    old_format = untimed != "pass"
    for segment in log.segments[log.segment_at(start) :]:
        with closing(open_segment(storage, segment)) as file:
            position = _position_of(storage, segment, file, start)
            # A log's format goes up with its brokers, so only its beginning can be without times; an index must not
            # decide whether that is noticed.
            old_format = old_format and _begins_untimed(file, position)
            if old_format and untimed == "begin":
                return TimedOffset(max(segment.base_offset, start), -1)
            if old_format:
                raise NoTimestamps(file.path, position, "records of message format 0 have no timestamp")
            position = max(position, _safe_position(storage, segment, file, timestamp))
            found = _in_segment(storage, segment, file, position, timestamp, start, untimed)
        if found is not None:
            return found
    return None


def _position_of(storage: Storage, segment: Segment, file: OpenFile, start: int) -> int:
    """The position of the batch that holds an offset, or of the next one."""
    if start <= segment.base_offset:
        return 0
    with closing(IndexFile(storage, segment)) as index:
        return first_batch(segment, file, index, start, probe_bytes=_PROBE_BYTES).position


def _begins_untimed(file: OpenFile, position: int) -> bool:
    first = next(pieces(file, position, piece_bytes=_PROBE_BYTES), None)
    return first is not None and bool(first.table[0, MAGIC] == 0)


def _in_segment(
    storage: Storage,
    segment: Segment,
    file: OpenFile,
    position: int,
    timestamp: int,
    start: int,
    untimed: Untimed,
) -> TimedOffset | None:
    edge = max(segment.base_offset, start)
    for piece in pieces(file, position, piece_bytes=_PROBE_BYTES):
        for row in np.flatnonzero((piece.table[:, MAX_TIME] >= timestamp) | (piece.table[:, MAGIC] == 0)).tolist():
            at, size = int(piece.table[row, POSITION]), int(piece.table[row, SIZE])
            if piece.table[row, MAGIC] > 0:
                # A header may name a time that none of its records has any more: then the search goes on.
                found = _in_batch(storage, file.path, at, size, timestamp, start)
                if found is not None:
                    return found
            elif untimed == "begin":
                return TimedOffset(edge if row == 0 else int(piece.table[row - 1, LAST]) + 1, -1)
            elif untimed == "refuse":
                raise NoTimestamps(file.path, at, "records of message format 0 have no timestamp")
        edge = int(piece.table[-1, LAST]) + 1
    return None


def _safe_position(storage: Storage, segment: Segment, file: OpenFile, timestamp: int) -> int:
    """A position before which every record is older than `timestamp`, as far as a valid index entry shows."""
    with closing(IndexFile(storage, segment, "timeindex")) as times:
        entries = times.entries
        number = -1 if entries is None else entries.last_below(timestamp, 0)
        if entries is None or number < 0:
            return 0
        claimed, relative = entries[number]
    offset = segment.base_offset + relative
    with closing(IndexFile(storage, segment)) as index:
        position = first_batch(segment, file, index, offset, probe_bytes=_PROBE_BYTES).position
    first = next(pieces(file, position, piece_bytes=_PROBE_BYTES), None)
    if first is None:
        return 0
    row = first.table[0]
    return position if row[BASE] <= offset <= row[LAST] and row[MAX_TIME] == claimed else 0


def _in_batch(storage: Storage, path: str, position: int, size: int, timestamp: int, start: int) -> TimedOffset | None:
    with closing(storage.open(path)) as file:  # the search for this batch continues in its own
        check_large_frame(file, position, size)
        batch = next(batches(file, position))
        for record in records(batch, file.path):
            if record.timestamp >= timestamp and record.offset >= start:
                return TimedOffset(record.offset, record.timestamp)
    return None
