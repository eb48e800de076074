"""How a redrive reads: dead letters in place of records, in the driver; all else is as in any run.

Its ranges are addresses that the dead-letter table has. The driver reads that table and runs the packs itself, without
Spark where neither transform nor table needs it: dead letters are few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.decoding.bad_records import DEAD_LETTERS, RECORD_COLUMNS
from kseg.etl.errors import Refused
from kseg.etl.executors.driver import DriverExecutor
from kseg.etl.executors.port import Executor, Read
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import ADDRESS, REDRIVABLE, REDRIVE, Letter, LetterStates
from kseg.etl.ledger.ranges import EMPTY, offsets_of
from kseg.etl.run.context import JobContext
from kseg.etl.run.range_jobs import RangeJobs
from kseg.etl.source.decode_options import ADDRESS_COLUMNS
from kseg.etl.source.held_records import HeldRecords
from kseg.etl.source.tasks import RangeTask
from kseg.etl.spark.dataframe import spark_schema
from kseg.etl.spark.narrowing import Crossing, RowSource
from kseg.etl.tables.protocol import NO_VALUES, TableAccess
from kseg.etl.tasks.error_transport import ErrorTransport
from kseg.etl.tasks.packs import NOTHING_BESIDE, Beside, Source
from kseg.etl.tasks.range_results import CollectedResults, RangeResults
from kseg.etl.tasks.writing import hand_over
from kseg.etl.transform.topics import rows_by_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def jobs_of(context: JobContext, plan: ev.RunPlan, beside: Beside) -> RangeJobs:
    """The jobs that read a run's ranges."""
    return (RedriveJobs if plan.mode == REDRIVE else RangeJobs)(context, plan, beside)


@dataclass(frozen=True, slots=True)
class LetterRows:
    """Rows that the driver has read."""

    spark: SparkSession
    rows: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def frame(self, crossing: Crossing | None = None) -> DataFrame:
        """They lie in the JVM, whatever crosses of others. Raises ConfigurationError for a type that Spark lacks."""
        rows: Any = self.rows
        return self.spark.createDataFrame(rows, spark_schema(self.rows.schema))


class RedriveJobs(RangeJobs):
    """Reads dead letters of a run's ranges. A record that has no row again becomes a dead letter of this run."""

    def source(
        self, spark: SparkSession, tables: Collection[str], beside: Beside = NOTHING_BESIDE
    ) -> tuple[RowSource, RangeResults]:
        """The rows are read and decoded here, before an action needs them."""
        if not tables:
            return super().source(spark, tables, beside)
        steps, topics = self.transform.on_batches, self._topics
        executor = self._executor()
        tasks = self._tasks(executor, self.plan.ranges_of(tables))
        # Its progress is reported with that of the action.
        done = executor.run(Read(tasks, self._source(tasks), self.options, hand_over, steps, beside, alike=topics))
        schema = next(iter(rows_by_topic(steps, self.options.schema, dict.fromkeys(topics)).values())).schema
        rows = pa.Table.from_batches([batch for result in done for batch in result.outputs], schema)
        results = [result for one in done for result in one.range_results]
        return LetterRows(spark, rows), RangeResults(tasks, CollectedResults(results), ErrorTransport())

    def _executor(self) -> Executor:
        return DriverExecutor()

    def _tasks(self, executor: Executor, ranges: Sequence[ev.PlannedRange]) -> tuple[RangeTask, ...]:
        return tuple(RangeTask(r.topic, r.partition, r.start, r.end, index) for index, r in enumerate(ranges))

    def _source(self, tasks: Sequence[RangeTask]) -> Source:
        """The dead letters of each task, one an offset, as records."""
        table, state = self.plan.dead_letters, self.context.clients.read_state()
        access = self.context.targets.access(table) if table is not None else None
        if access is None or access.state() is None:
            raise Refused.of("table-missing", case="dead letters", table=table, run=self.plan.run_id)
        letters = _of_ranges(access, tasks)
        partitions = list(zip(letters["topic"].to_pylist(), letters["partition"].to_pylist(), strict=True))
        offsets, runs = letters["offset"].to_numpy(), letters[ADDRESS[-1]].to_pylist()
        by_partition: dict[tuple[str, int], list[int]] = {}
        states = LetterStates(state)
        for row, partition in enumerate(partitions):
            if states.of(Letter(*partition, int(offsets[row]), runs[row] or "")) in REDRIVABLE:
                by_partition.setdefault(partition, []).append(row)
        found: list[np.ndarray] = []
        for task in tasks:
            rows = np.array(by_partition.get((task.topic, task.partition), []), np.int64)
            rows = rows[(offsets[rows] >= task.start) & (offsets[rows] < task.end)]
            found.append(rows[np.unique(offsets[rows], return_index=True)[1]])
        if missing := sum(task.length for task in tasks) - sum(map(len, found)):
            raise Refused.of("dead-letters-missing", {"count": missing}, table=table, run=self.plan.run_id)
        of_task = [as_records(letters.take(pa.array(rows)), self.options.schema) for rows in found]
        return HeldRecords(of_task)


LETTERS: Final = pa.schema([*(DEAD_LETTERS.field(name) for name in RECORD_COLUMNS), pa.field(ADDRESS[-1], pa.string())])
"""Records and runs of dead letters."""


def read_letters(
    access: TableAccess, equal: Mapping[str, str | int] = NO_VALUES, where: str | None = None
) -> Iterator[pa.Table]:
    """The dead letters in a table, as `LETTERS`, some at a time. See `TableAccess.scan`."""
    there = {name.lower() for name in access.column_names()}  # a table of an earlier release may lack some
    for batch in access.scan([name for name in LETTERS.names if name.lower() in there], equal, where):
        # delta-rs gives views, which not all of Arrow's functions take.
        columns = [
            pa.Table.from_batches([batch])[field.name].cast(field.type)
            if field.name in batch.schema.names
            else pa.nulls(batch.num_rows, field.type)
            for field in LETTERS
        ]
        yield pa.Table.from_arrays(columns, schema=LETTERS)


def _of_ranges(access: TableAccess, ranges: Iterable[RangeTask]) -> pa.Table:
    """The dead letters in these ranges: a plan has no more than fit into memory."""
    wanted = offsets_of(ranges)
    found = [LETTERS.empty_table()]
    for letters in read_letters(access):
        addresses = zip(*(letters[name].to_pylist() for name in ADDRESS[:3]), strict=True)
        mine = [offset in wanted.get(TopicPartition(topic, number), EMPTY) for topic, number, offset in addresses]
        if any(mine):
            found.append(letters.filter(pa.array(mine)))
    return pa.concat_tables(found).combine_chunks()


def as_records(letters: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """Dead letters with the columns that records have when they are read. What a letter does not tell is null."""
    own = dict(zip(ADDRESS_COLUMNS, ADDRESS, strict=False))
    columns = []
    for field in schema:
        name = own.get(field.name, field.name)
        column = letters[name].cast(field.type) if name in RECORD_COLUMNS else pa.nulls(letters.num_rows, field.type)
        columns.append(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
