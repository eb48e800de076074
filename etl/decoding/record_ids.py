"""The identity of rows in the decoder's hands: which record each was made of.

    topic, partition, offset    of the record: `_kseg_topic …` of decoded rows, the record's own columns otherwise

A batch may have records of several partitions: dead letters do, whose files are compacted. So an offset alone is no
identity. All records that are decoded together are of one generation of their partitions (an accepted change of the
source): a task reads one log, and a redrive takes the dead letters of the current generation alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.etl.rows.names import KSEG_ADDRESS, OWN_ADDRESS

NAMES: Final = ("topic", "partition", "offset")
"""The parts of an identity."""


class RecordsDiffer(RuntimeError):
    """Rows were made of other records than those that they are compared with: a fault of this program."""


@dataclass(frozen=True, slots=True)
class RecordIds:
    """The identities of some rows, in the rows' order. topics, partitions, offsets: of each row's record."""

    topics: pa.Array
    partitions: pa.Array
    offsets: pa.Array

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> RecordIds:
        """The identities of records, or of decoded rows, in which a payload's own field `offset` is no identity."""
        names = KSEG_ADDRESS if KSEG_ADDRESS.offset in rows.schema.names else OWN_ADDRESS
        return cls(*(rows.column(name) for name in names))

    def __len__(self) -> int:
        return len(self.offsets)

    def at(self, row: int) -> dict[str, str | int]:
        """One identity, by the names of its parts: an error's address."""
        return dict(zip(NAMES, (part[row].as_py() for part in self._parts), strict=True))

    def take(self, rows: Sequence[int]) -> RecordIds:
        places = pa.array(rows, pa.int64())
        return RecordIds(*(part.take(places) for part in self._parts))

    def places_in(self, records: RecordIds) -> npt.NDArray[np.int64]:
        """For each row, the number of its record among these; of a dead letter that is there twice, the first.

        Raises RecordsDiffer: a row's record is not among them.
        """
        found = np.full(len(self), -1, np.int64)
        for topic, partition in records._partitions():
            theirs, mine = records._in(topic, partition), self._in(topic, partition)
            offsets = records.offsets.take(pa.array(theirs))
            at = pc.index_in(self.offsets.take(pa.array(mine)), value_set=offsets)
            known = np.asarray(at.is_valid())
            found[mine[known]] = theirs[np.asarray(at.drop_null(), np.int64)]
        if len(found) and found.min() < 0:
            raise RecordsDiffer(f"the record of a row is not in the row's batch: {self.at(int(np.argmin(found)))}")
        return found

    @property
    def _parts(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        return self.topics, self.partitions, self.offsets

    def _partitions(self) -> list[tuple[str, int]]:
        """All partitions of these records, few in a batch."""
        pairs = pa.table([self.topics, self.partitions], names=NAMES[:2]).group_by(list(NAMES[:2])).aggregate([])
        return list(zip(*(pairs.column(name).to_pylist() for name in NAMES[:2]), strict=True))

    def _in(self, topic: str, partition: int) -> npt.NDArray[np.int64]:
        here = pc.and_(pc.equal(self.topics, topic), pc.equal(self.partitions, partition))
        return np.flatnonzero(np.asarray(here))
