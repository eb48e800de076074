"""How a redrive reads: dead letters in place of records, in the driver; all else is as in any run.

Its ranges are addresses that the dead-letter table has. What tasks do for other runs is done here, without Spark where
neither transform nor table needs it: dead letters are few. The counts go the same way, so the account is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.decoding.bad_records import DEAD_LETTERS, RECORD_COLUMNS, BadRecords
from kseg.etl.decoding.payload import in_parts
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import ADDRESS, REDRIVABLE, REDRIVE, Letter, LetterStates
from kseg.etl.ledger.ranges import EMPTY, offsets_of
from kseg.etl.run.context import JobContext
from kseg.etl.run.row_counts import rows_of_tasks, rows_read
from kseg.etl.run.spark_jobs import SparkJobs, Written
from kseg.etl.source.decode_options import ADDRESS_COLUMNS
from kseg.etl.source.range_result import RangeResult
from kseg.etl.source.tasks import RangeTask
from kseg.etl.spark.dataframe import spark_schema
from kseg.etl.spark.narrowing import Crossing, RowSource
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.parquet.side_table import TaskFiles
from kseg.etl.tables.parquet.task_output import TaskOutput, read_task_output
from kseg.etl.tables.parquet.writer import land
from kseg.etl.tables.protocol import NO_VALUES, TableAccess
from kseg.etl.tables.values import ReadyTable
from kseg.etl.tasks.error_transport import ErrorTransport
from kseg.etl.tasks.packs import NOTHING_BESIDE, Beside
from kseg.etl.tasks.range_results import RangeResults, ReadBefore
from kseg.etl.transform.topics import rows_by_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def jobs_of(context: JobContext, plan: ev.RunPlan, beside: Beside) -> SparkJobs:
    """What reads a run's ranges."""
    return (RedriveJobs if plan.mode == REDRIVE else SparkJobs)(context, plan, beside)


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


@dataclass(frozen=True, slots=True)
class _Read:
    """One planned range. rows: those after the steps on batches, in their order."""

    result: RangeResult
    rows: tuple[pa.RecordBatch, ...]


class RedriveJobs(SparkJobs):
    """Reads dead letters of a run's ranges. A record that has no row again becomes a dead letter of this run."""

    def count(self, ranges: Sequence[ev.PlannedRange]) -> Written:
        if not ranges:
            return Written()
        own = {topic: topic for topic in self._topics}  # no rows are landed: none have to go together
        return Written(range_results=tuple(read.result for read in self._read(ranges, own, self._beside)))

    def write(self, sinks: Mapping[str, SinkSchema], tables: Mapping[str, ReadyTable]) -> Written:
        if not tables or self.transform.on_frame:
            return super().write(sinks, tables)
        results: list[RangeResult] = []
        outputs: list[TaskOutput] = []
        read: dict[int, int] = {}
        # Tables differ in their columns, but for those of which a range may have rows of each.
        groups = [dict(tables)] if self.plan.routed else [{table: ready} for table, ready in tables.items()]
        for task, group in enumerate(groups):
            done = list(self._read(self.plan.ranges_of(group), self._topics, self._beside))
            plan = self._landing_plan(sinks, group)
            batches = (rows for one in done for rows in one.rows)
            landed = list(land(batches, plan, task=task, attempt=0))
            outputs += [output for batch in landed for output in read_task_output(batch.to_pylist())]
            results += [one.result for one in done]
            read[task] = rows_read(one.result for one in done)
        return self._written(tuple(results), outputs, tables, rows_of_tasks(outputs, read))

    def source(
        self, spark: SparkSession, tables: Collection[str], beside: Beside = NOTHING_BESIDE
    ) -> tuple[RowSource, RangeResults]:
        """The rows are read and decoded here, before an action needs them."""
        if not tables:
            return super().source(spark, tables, beside)
        together = dict.fromkeys(self._topics, "")
        steps = rows_by_topic(self.transform.on_batches, self.options.schema, together)
        schema = next(of_topic.schema for of_topic in steps.values())
        done = list(self._read(self.plan.ranges_of(tables), together, beside))
        rows = pa.Table.from_batches([batch for one in done for batch in one.rows], schema)
        results = [one.result for one in done]
        tasks = [RangeTask(one.topic, one.partition, one.start, one.end, one.index) for one in results]
        return LetterRows(spark, rows), RangeResults(tasks, ReadBefore(results), ErrorTransport())

    def _read(self, ranges: Sequence[ev.PlannedRange], together: Mapping[str, str], beside: Beside) -> Iterator[_Read]:
        """The result of each range, and its rows after the steps on batches.

        together: topics of one name have rows of one schema.
        """
        steps, letters = self.transform.on_batches, beside.dead_letters
        by_topic = rows_by_topic(steps, self.options.schema, together)
        for index, (planned, records) in enumerate(self._records(ranges)):
            again = TaskFiles(letters.plan, index, 0) if letters is not None and letters.plan is not None else None
            bad_records = BadRecords(again, letters.most if letters is not None else None)
            address = {"topic": planned.topic, "partition": planned.partition, "offset": planned.start}
            apply = partial(by_topic[planned.topic].apply, address=address, bad_records=bad_records)
            try:
                out = [batch for batch in in_parts(records, apply) if batch.num_rows]
                kept = again.close() if again is not None else ()
            except BaseException:
                if again is not None:
                    again.abort()
                raise
            result = RangeResult(
                index,
                *(planned.topic, planned.partition, planned.start, planned.end),
                data=records.num_rows,
                rows=records.num_rows,
                rows_out=sum(batch.num_rows for batch in out) if steps else None,
                decoded=bad_records.counts if steps.decoding else None,
                routed=bad_records.routed if steps.routed else None,
                bad_records=tuple(bad_records.examples),
                kept=kept,
            )
            yield _Read(result, tuple(out))

    def _records(self, ranges: Sequence[ev.PlannedRange]) -> Iterator[tuple[ev.PlannedRange, pa.RecordBatch]]:
        """The dead letters of each range, one an offset, as records."""
        table, state = self.plan.dead_letters, self.context.clients.read_state()
        access = self.context.targets.access(table) if table is not None else None
        if access is None or access.state() is None:
            raise Refused.of("table-missing", case="dead letters", table=table, run=self.plan.run_id)
        letters = _of_ranges(access, ranges)
        partitions = list(zip(letters["topic"].to_pylist(), letters["partition"].to_pylist(), strict=True))
        offsets, runs = letters["offset"].to_numpy(), letters[ADDRESS[-1]].to_pylist()
        by_partition: dict[tuple[str, int], list[int]] = {}
        states = LetterStates(state)
        for row, partition in enumerate(partitions):
            if states.of(Letter(*partition, int(offsets[row]), runs[row] or "")) in REDRIVABLE:
                by_partition.setdefault(partition, []).append(row)
        for planned in ranges:
            rows = np.array(by_partition.get((planned.topic, planned.partition), []), np.int64)
            rows = rows[(offsets[rows] >= planned.start) & (offsets[rows] < planned.end)]
            found, first = np.unique(offsets[rows], return_index=True)
            if len(found) != planned.length:
                raise Refused.of(
                    "dead-letters-missing", {"count": planned.length - len(found)}, table=table, run=self.plan.run_id
                )
            yield planned, as_records(letters.take(pa.array(rows[first])), self.options.schema)


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


def _of_ranges(access: TableAccess, ranges: Sequence[ev.PlannedRange]) -> pa.Table:
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
