"""Whether a partition's log has gaps: compaction removes records, and with them whole batches.

In any other log each batch begins where the one before it ends, so that a gap is damage. This is decided only where it
matters, from the bytes of the whole partition, and then remembered. A log has gaps if

    the broker's cleaner has a checkpoint of the partition
    or a batch covers more offsets than it has records
    or two batches that fit their other neighbours leave offsets between them
"""

from __future__ import annotations

from contextlib import closing

import numpy as np
import numpy.typing as npt

from kseg.segment_reader.decode.batch import CODEC_MASK
from kseg.segment_reader.decode.checksums import first_bad_checksum
from kseg.segment_reader.decode.legacy import RecordFault, first_offset
from kseg.segment_reader.decode.table import ATTRIBUTES, BASE, COUNT, LAST, MAGIC, POSITION, SIZE, as_bytes
from kseg.segment_reader.log.errors import LogFileError
from kseg.segment_reader.log.files.checkpoints import CLEANER_OFFSETS, partition_offsets
from kseg.segment_reader.log.files.preallocation import open_segment
from kseg.segment_reader.log.files.segments import PartitionLog, Segment
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.headers import Piece, Table, pieces


class CompactionGaps:
    """Callable: whether the log of one partition has gaps."""

    def __init__(self, storage: Storage, log: PartitionLog) -> None:
        self._storage, self._log = storage, log
        self._answer: bool | None = None

    def __call__(self) -> bool:
        if self._answer is None:
            self._answer = self._is_cleaned() or any(map(self._has_gap, self._log.segments))
        return self._answer

    def _is_cleaned(self) -> bool:
        path = f"{self._log.folder.rpartition('/')[0]}/{CLEANER_OFFSETS}"
        try:
            return (self._log.topic, self._log.partition) in partition_offsets(self._storage.read_all(path), path)
        except (LogFileError, OSError):
            return False

    def _has_gap(self, segment: Segment) -> bool:
        edge = segment.base_offset
        try:
            with closing(open_segment(self._storage, segment)) as file:
                for piece in pieces(file):
                    if _shows_gap(piece, edge):
                        return True
                    edge = int(piece.table[-1, LAST]) + 1
        except LogFileError:
            pass  # there was none before the damage
        return False


def _shows_gap(piece: Piece, edge: int) -> bool:
    table = piece.table
    if piece.frame(len(table) - 1) is None:
        table = table[:-1]
    dense = table[:, COUNT] == table[:, LAST] - table[:, BASE] + 1
    for row in np.flatnonzero((table[:, MAGIC] == 2) & ~dense).tolist():
        if _valid(piece, table[row : row + 1]):
            return True
    base, following = table[:, BASE].copy(), table[:, LAST] + 1
    for row in np.flatnonzero((table[:, MAGIC] < 2) & (table[:, ATTRIBUTES] & CODEC_MASK != 0)).tolist():
        try:  # the first offset of a compressed message is inside of it
            base[row] = first_offset(piece.data[_within(piece, table[row])], int(table[row, LAST]))
        except RecordFault:
            return False
    before = np.concatenate(([edge], following[:-1]))
    for row in np.flatnonzero(base[1:-1] > following[:-2]).tolist():
        ascend = base[row] >= before[row] and base[row + 2] >= following[row + 1]
        if ascend and _valid(piece, table[row : row + 3]):
            return True
    return False


def _within(piece: Piece, row: npt.NDArray[np.int64]) -> slice:
    at = int(row[POSITION]) - piece.start
    return slice(at, at + int(row[SIZE]))


def _valid(piece: Piece, rows: Table) -> bool:
    return int(first_bad_checksum(as_bytes(piece.data), piece.start, rows, len(piece.data))) < 0
