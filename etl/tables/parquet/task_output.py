"""Reports of a task to the driver: rows with a kind and a JSON payload.

They travel as the rows of the last `mapInArrow`, so that Spark itself drops those of attempts that did not win.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from kseg.etl.rows.buffers import integers, texts

TASK_OUTPUT = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("task", pa.int32()),
        pa.field("attempt", pa.int64()),
        pa.field("payload", pa.string()),
    ]
)
TASK_OUTPUT_DDL = "kind string, task int, attempt bigint, payload string"
"""`TASK_OUTPUT` as Spark's `mapInArrow` wants it."""

FILE = "file"
ROWS_WRITTEN = "rows-written"


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """One thing that a task attempt reports. task: its number in the plan. attempt: unique in the Spark application."""

    kind: str
    task: int
    attempt: int
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished data file that no commit refers to yet.

    table: where the table lies. path: relative to it, not encoded. size: bytes. rows: by the file's own footer.
    partition_values: by the table's partition columns, in Delta's text form. stats: Delta's per-file statistics, JSON.
    modified_ms: when it was finished, milliseconds since the epoch.
    """

    table: str
    path: str
    size: int
    rows: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    stats: str = "{}"
    modified_ms: int = 0

    def output(self, task: int, attempt: int) -> TaskOutput:
        return TaskOutput(FILE, task, attempt, asdict(self))

    @classmethod
    def of(cls, output: TaskOutput) -> WrittenFile:
        return cls(**output.payload)


def task_output_batch(outputs: Iterable[TaskOutput]) -> pa.RecordBatch:
    """Arrow rows with schema `TASK_OUTPUT`."""
    rows = list(outputs)
    columns = [
        texts([output.kind for output in rows]),
        integers([output.task for output in rows], pa.int32()),
        integers([output.attempt for output in rows], pa.int64()),
        texts([json.dumps(dict(output.payload), default=str) for output in rows]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=TASK_OUTPUT)


def read_task_output(rows: Iterable[Any]) -> Iterator[TaskOutput]:
    """The inverse of `task_output_batch`, from Spark's collected rows or from dictionaries (`to_pylist()`)."""
    for row in rows:
        yield TaskOutput(row["kind"], int(row["task"]), int(row["attempt"]), json.loads(row["payload"]))


def written_files(outputs: Iterable[TaskOutput]) -> list[WrittenFile]:
    """The data files among them."""
    return [WrittenFile.of(output) for output in outputs if output.kind == FILE]


def rows_handed(outputs: Iterable[TaskOutput], which: str = "rows") -> dict[tuple[int, int], int]:
    """The rows that each task attempt's writer was given, by task and attempt.

    which: `passed` for those alone that it did not write, since their table had landed before.
    """
    return {(o.task, o.attempt): int(o.payload[which]) for o in outputs if o.kind == ROWS_WRITTEN}
