"""Packs that the driver runs itself, over records that it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from kseg.etl.executors.driver import DriverExecutor
from kseg.etl.executors.port import Read
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import OutOfMemoryError
from kseg.etl.source.held_records import HeldRecords
from kseg.etl.source.packing import LARGE
from kseg.etl.source.tasks import RangeTask
from kseg.etl.tasks.packs import TaskAttempt
from kseg.etl.tasks.writing import drop, hand_over
from kseg.etl.telemetry.events import ReadProgress

OPTIONS = DecodeOptions()
TASKS = (RangeTask("t", 0, 5, 7), RangeTask("t", 1, 0, 3, index=1), RangeTask("u", 0, 9, 10, index=2))


def records(task: RangeTask) -> pa.RecordBatch:
    columns = {
        "topic": pa.array([task.topic] * task.length),
        "partition": pa.array([task.partition] * task.length, pa.int32()),
        "offset": pa.array(range(task.start, task.end), pa.int64()),
    }
    arrays = [columns.get(field.name, pa.nulls(task.length, field.type)) for field in OPTIONS.schema]
    return pa.RecordBatch.from_arrays(
        [a.cast(f.type) for a, f in zip(arrays, OPTIONS.schema, strict=True)], schema=OPTIONS.schema
    )


def read_of(tasks: tuple[RangeTask, ...] = TASKS) -> Read:
    return Read(tasks, HeldRecords([records(task) for task in tasks]), OPTIONS, hand_over)


def test_every_record_is_counted_and_handed_over_once() -> None:
    results = DriverExecutor().run(read_of())
    of_range = [r for result in results for r in result.range_results]
    assert [(r.topic, r.partition, r.start, r.end, r.data, r.rows) for r in of_range] == [
        (task.topic, task.partition, task.start, task.end, task.length, task.length) for task in TASKS
    ]
    assert all(r.accounted for r in of_range)
    rows = pa.Table.from_batches([batch for result in results for batch in result.outputs])
    assert rows == pa.Table.from_batches(map(records, TASKS))


def test_rows_of_tables_are_written_apart() -> None:
    results = DriverExecutor().run(replace(read_of(), routes={"t": 0, "u": 1}))
    assert [[task.index for task in result.tasks] for result in results] == [[0, 1], [2]]


def test_of_many_records_progress_ends_with_all() -> None:
    seen: list[ReadProgress] = []
    tasks = (RangeTask("t", 0, 0, LARGE + 1), RangeTask("t", 1, 0, LARGE, index=1))
    results = DriverExecutor().run(replace(read_of(tasks), write=drop, on_progress=seen.append))
    assert len(results) == 2
    assert (seen[-1].tasks_done, seen[-1].rows) == (2, 2 * LARGE + 1)


def test_a_read_without_tasks_has_no_results() -> None:
    assert DriverExecutor().run(read_of(())) == ()


class Stopped(BaseException):
    """What a signal's handler raises."""


@pytest.mark.parametrize(
    ("raised", "seen"), [(Stopped, Stopped), (KeyError, KeyError), (MemoryError, OutOfMemoryError)]
)
def test_errors_are_raised_as_they_are(raised: type[BaseException], seen: type[BaseException]) -> None:
    def write(rows: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        next(rows)
        raise raised

    with pytest.raises(seen):
        DriverExecutor().run(replace(read_of(), write=write))
