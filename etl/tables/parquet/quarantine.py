"""What cannot be read lands too: its address and its bytes, in a table of its own, a row for each piece.

    one damage ──► pieces of at most a megabyte ──► rows of one Parquet file a task ──► the run's commit

How the files are committed: `etl.tables.parquet.side_table`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from kseg.etl.source.tasks import RangeTask
from kseg.etl.tables.parquet.schema import SinkSchema, sink_schema
from kseg.etl.tables.parquet.side_table import TaskFiles
from kseg.etl.tables.parquet.writer import LandingPlan
from kseg.segment_reader.log.damage.damage import Damage

#: Offsets missing are `[first_offset, last_offset)`. file and position are null for what a broker sent; piece_position
#: counts from `position`. Damage without bytes (a segment that ends early, zeros) has one row, with bytes null.
QUARANTINE: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("first_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("file", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("piece_position", pa.int64()),
        pa.field("bytes", pa.binary()),
    ]
)


def quarantine_schema() -> SinkSchema:
    """The table's columns: `QUARANTINE` and the run."""
    return sink_schema(QUARANTINE, addresses=False)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The table into which a run's tasks write the bytes that they cannot read. Picklable."""

    plan: LandingPlan

    def opened(self, task: RangeTask, attempt: int) -> TaskQuarantine:
        """For one attempt at one task."""
        return TaskQuarantine(self.plan, task, attempt)


class TaskQuarantine:
    """See `etl.source.reader.Keep`. Nothing is written before there is damage."""

    def __init__(self, plan: LandingPlan, task: RangeTask, attempt: int) -> None:
        self._task = task
        self._files = TaskFiles(plan, task.index, attempt)

    def keep(self, damage: Damage, pieces: Iterator[bytes]) -> None:
        at = 0
        for piece in pieces:
            self._write(damage, at, piece)
            at += len(piece)
        if not at:
            self._write(damage, 0, None)

    def close(self) -> tuple[str, ...]:
        """The finished files, as JSON."""
        return self._files.close()

    def abort(self) -> None:
        """Delete what was written."""
        self._files.abort()

    def _write(self, damage: Damage, at: int, piece: bytes | None) -> None:
        values = [
            self._task.topic,
            self._task.partition,
            damage.first,
            damage.last,
            damage.reason,
            damage.file or None,
            damage.position if damage.file else None,
            damage.length,
            at,
            piece,
        ]
        columns = [pa.array([value], field.type) for value, field in zip(values, QUARANTINE, strict=True)]
        self._files.write(pa.RecordBatch.from_arrays(columns, schema=QUARANTINE))
