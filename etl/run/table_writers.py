"""How the tables of a run get their rows: one writer for each way of writing, with the same steps.

    writer           data files                     commit                  ranges are read
    ---------------  -----------------------------  ----------------------  -------------------------------------
    TaskWriter       by the tasks, while they read  by the driver           once
    SideTableWriter  the same                       by the driver, before   with the tables of the rows
                                                    all other tables
    SparkWriter      by Spark's own writer          by Spark, as it writes  twice: counted before, read by Spark

Spark commits what it has just read. So the account of its tables is checked with a counting read before, and what it
read is compared with that account afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kseg.etl.errors import RetriableFailure
from kseg.etl.run.account import ReadCounts, account_for, differing_accounts
from kseg.etl.run.attempt import Attempt
from kseg.etl.run.range_jobs import RangeJobs, Written
from kseg.etl.run.row_counts import tables_without_rows
from kseg.etl.run.side_tables import SideTable
from kseg.etl.source.range_result import RangeResult
from kseg.etl.tables.parallel import AT_ONCE, parallel_map, parts
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.parquet.task_output import WrittenFile
from kseg.etl.tables.protocol import FileTarget, FrameTarget
from kseg.etl.tables.values import FoundCommit, NewCommit, ReadyTable
from kseg.etl.tasks.packs import Beside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kseg.etl.tasks.range_results import RangeResults

MAX_LEDGER_COMMITS: Final = 16
"""Most ledger commits that one run makes for its tables: each takes as long as several table commits."""


@dataclass
class TaskWriter:
    """The tables whose data files the tasks write. ready: the tables, once they exist. files: once they are written."""

    attempt: Attempt
    tables: Mapping[str, FileTarget]
    ready: dict[str, ReadyTable] = field(default_factory=dict)
    files: Mapping[str, list[WrittenFile]] = field(default_factory=dict)

    def prepare(self, sinks: Mapping[str, SinkSchema]) -> None:
        """Create the tables, or give them the columns that they lack."""
        if not self.tables:
            return
        attempt, job = self.attempt, self.attempt.context.job

        def ready(table: str) -> ReadyTable:
            attempt.check_table(table)
            return self.tables[table].ensure(
                sinks[table],
                partition_by=job.sink.partition_columns,
                merge_schema=job.adds_columns,
                run_id=attempt.plan.run_id,
                properties=attempt.plan.rules.properties,
                reshape=attempt.before_reshaping(table),
            )

        self.ready = parallel_map(self.tables, ready)
        attempt.confirm({table: created.state for table, created in self.ready.items()})

    def write(self, jobs: RangeJobs, sinks: Mapping[str, SinkSchema]) -> Written:
        """Read the tables' ranges and write their rows to data files."""
        written = jobs.write(sinks, self.ready)
        self.files = written.files
        return written

    def commit(self, sinks: Mapping[str, SinkSchema], reading: ReadCounts) -> None:
        """Commit the files, table by table. Of more than 16 tables, those whose commits are recorded in the ledger
        together are committed at the same time."""
        attempt = self.attempt
        empty = tables_without_rows(attempt.plan, reading.accounts, transformed=attempt.transformed)
        due = [table for table, files in self.files.items() if files or table not in empty]
        for tables in parts(due, MAX_LEDGER_COMMITS):
            # Files that a removal hits in part are rewritten here, each in this process's memory.
            at_once = 1 if attempt.disposition().removes else AT_ONCE
            commit_files(attempt, tables, self.tables, self.ready, self.files, sinks, at_once=at_once)


def commit_files(
    attempt: Attempt,
    tables: Iterable[str],
    targets: Mapping[str, FileTarget],
    ready: Mapping[str, ReadyTable],
    files: Mapping[str, list[WrittenFile]],
    sinks: Mapping[str, SinkSchema],
    *,
    at_once: int = AT_ONCE,
) -> None:
    """Commit the files of these tables, so many tables at the same time, and record it.

    Raises:
        LeaseLost: nothing is committed since.
        Refused: as `FileTarget.commit`.
    """
    context = attempt.context

    def commit(table: str) -> NewCommit | FoundCommit:
        columns = ready[table].write.columns
        with targets[table].exclusively(attempt.lease, wait=context.deadline.left()):
            attempt.lease.check()
            context.observe(f"land:{table}:before")
            outcome = targets[table].commit(
                files[table],
                attempt.run_commit(table),
                expected=attempt.plan.tables.get(table) or ready[table].state,
                columns=columns,
                remove=attempt.removal(table, columns.address(sinks[table])),
                holds=attempt.lease.read,
            )
        context.observe(f"land:{table}:committed")
        return outcome

    attempt.landed(parallel_map(tables, commit, at_once=at_once), files)


@dataclass
class SideTableWriter:
    """The quarantine and the dead-letter table, if they have no commit of the run yet. Tasks write their files, while
    they read records for all other tables. pending: those tables, once they exist."""

    attempt: Attempt
    pending: dict[str, SideTable] = field(default_factory=dict)
    files: Mapping[str, list[WrittenFile]] = field(default_factory=dict)

    def prepare(self) -> Beside:
        """Create the tables that do not exist; returns what tasks have to know of them."""
        attempt, side_tables = self.attempt, self.attempt.side_tables
        for table, kind in side_tables.kinds.items():
            if table in attempt.commits:
                continue
            attempt.check_table(table)
            target, sink = attempt.context.targets.side_target(table, setting=kind.setting), kind.schema()
            ready = target.ensure(sink, partition_by=(), merge_schema=True, run_id=attempt.plan.run_id)
            attempt.confirm({table: ready.state})
            self.pending[table] = SideTable(table, target, ready, sink)
        return side_tables.beside(attempt.plan, attempt.context.job, self.pending, landed=bool(attempt.commits))

    def check(self, reading: ReadCounts, results: Iterable[RangeResult]) -> None:
        """Compare the tasks' files with their counts. results: of all reads of this attempt.

        Raises:
            TooManyDeadLetters: the run has more than it may have.
            Refused: the files do not have the records that were set aside.
        """
        attempt, results = self.attempt, tuple(results)
        self.files = {table: side.files(results) for table, side in self.pending.items()}
        for table, files in self.files.items():  # those of a table that has landed are compared with its commit
            kind = attempt.side_tables.kinds[table]
            if (fault := kind.check(attempt.context.job, attempt.plan.run_id, reading, files)) is not None:
                attempt.fail("rows", fault, reading)

    def commit(self) -> None:
        """Commit the tables that have files, one after the other."""
        targets = {table: side.target for table, side in self.pending.items()}
        ready = {table: side.ready for table, side in self.pending.items()}
        sinks = {table: side.sink for table, side in self.pending.items()}
        for table, files in self.files.items():
            if files:
                commit_files(self.attempt, [table], targets, ready, self.files, sinks)


@dataclass
class SparkWriter:
    """The tables that Spark's own writer writes and commits."""

    attempt: Attempt
    tables: Mapping[str, FrameTarget]

    def commit(self, jobs: RangeJobs, sinks: Mapping[str, SinkSchema], reading: ReadCounts) -> None:
        """Write and commit each table. It reads the table's ranges again, and must find what `reading` has.

        Raises:
            Refused: it has found something else.
        """
        for table, target in self.tables.items():
            with target.exclusively(self.attempt.lease, wait=self.attempt.context.deadline.left()):
                self._land(table, target, jobs, sinks[table], reading)

    def _land(self, table: str, target: FrameTarget, jobs: RangeJobs, sink: SinkSchema, reading: ReadCounts) -> None:
        attempt, context = self.attempt, self.attempt.context
        job, removes = context.job, attempt.disposition().removes
        frame, range_results = jobs.frame(context.spark.session(delta=True), [table])
        if removes:
            frame = self._read_to_disk(frame, range_results, jobs, reading, table)
        attempt.check_table(table)
        created = target.ensure(
            frame,
            sink,
            partition_by=job.sink.partition_columns,
            cluster_by=job.sink.cluster_by,
            properties=attempt.plan.rules.properties,
            merge_schema=job.adds_columns,
            run_id=attempt.plan.run_id,
            reshape=attempt.before_reshaping(table),
        )
        attempt.confirm({table: created})
        attempt.lease.check()
        for change in target.widen(sink, allowed=job.sink.widen):
            jobs.note(f"{table}: widened {change}, for good: from now on Spark's own writer lands its rows")
        context.observe(f"land:{table}:before")
        with jobs.watching(range_results), range_results.typed_errors():
            outcome = target.land(
                frame,
                sink,
                attempt.run_commit(table),
                expected=attempt.plan.tables[table] or created,
                merge_schema=job.adds_columns,
                remove=attempt.removal(table, sink.address, by_sql=True),
                holds=attempt.lease.read,
            )
        context.observe(f"land:{table}:committed")
        attempt.landed({table: outcome}, None)
        if isinstance(outcome, NewCommit):
            self._compare(table, reading, account_for(attempt.plan, jobs.complete(range_results), context.clients.logs))
        jobs.forget_range_results([table])
        if removes:
            frame.unpersist()

    def _compare(self, table: str, reading: ReadCounts, again: ReadCounts) -> None:
        """The rows that Spark has committed are those that were counted before."""
        fault = differing_accounts(reading, again, self.attempt.plan.ranges_of([table]))
        if fault is not None:
            self.attempt.fail("rows", fault, reading)

    def _read_to_disk(
        self, frame: DataFrame, range_results: RangeResults, jobs: RangeJobs, reading: ReadCounts, table: str
    ) -> DataFrame:
        """The rows, read to the workers' disks: what the log loses from here on is not removed without its new row.

        Raises:
            RetriableFailure: the log has lost records since the removal was decided.
        """
        from pyspark import StorageLevel

        plan = self.attempt.plan
        kept = frame.persist(StorageLevel.DISK_ONLY)
        with jobs.watching(range_results), range_results.typed_errors():
            kept.count()
        again = account_for(plan, range_results.resolve(), self.attempt.context.clients.logs)
        fault = differing_accounts(reading, again, plan.ranges_of([table]))
        if fault is not None:
            raise RetriableFailure(f"the log lost records while rows were being replaced: {fault}", run=plan.run_id)
        return kept
