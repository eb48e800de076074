"""Land and account: write a run's rows to its tables, one commit a table, and check the account before and after.

    read and write files ──► first equation ──► lease ──► commit, table by table ──► second equation ──► accounted

Of more than 16 tables, commits that are recorded in the ledger together are made at the same time. Each stands alone:
the lease is checked before it, and it has the run's app transaction.

A table that an earlier attempt committed is found by its app transaction and not written again; its ranges are read for
their counts alone. Files of attempts that did not land are deleted once a commit with their app transaction is durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kseg.etl.ledger.dead_letters import REDRIVE
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.state import RunState
from kseg.etl.planning.preflight import check_again
from kseg.etl.run.account import ReadCounts, account_for, offsets_mismatch, throttled_by_broker
from kseg.etl.run.attempt import Attempt
from kseg.etl.run.context import JobContext
from kseg.etl.run.engine_choice import choose_engine
from kseg.etl.run.nulled import check_nulled
from kseg.etl.run.range_jobs import RangeJobs, Written
from kseg.etl.run.recorded_rules import record_rules
from kseg.etl.run.redrive_jobs import jobs_of
from kseg.etl.run.row_counts import (
    TableRows,
    allowed_rows,
    refuse_lost_landing,
    routed_mismatch,
    rows_mismatch,
    rows_of_table,
)
from kseg.etl.run.table_writers import SideTableWriter, SparkWriter, TaskWriter
from kseg.etl.source.range_result import RangeResult
from kseg.etl.tables.errors import landed_by, routed_by_spark
from kseg.etl.tables.parallel import parallel_map
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.protocol import TargetsByWriter


@dataclass(frozen=True, slots=True)
class LandingResult:
    """run: its state in the ledger after the account. throttled: seconds that quotas made tasks wait, by broker.
    notes: messages for users about the transform."""

    run: RunState
    throttled: Mapping[int, float]
    notes: tuple[str, ...] = ()


def land_and_account(context: JobContext, lease: Lease, run: RunState, *, earlier_attempt: bool) -> LandingResult:
    """From `planned` to `accounted`, continuing where an earlier attempt stopped.

    earlier_attempt: an earlier attempt is possible; it may have left commits that the ledger lacks, and files in no
        commit.

    Raises:
        Refused: an equation does not hold, or a table is not what the plan saw.
        LeaseLost: the lease was lost; nothing was committed since.
        KafkaError, RetriableFailure: brokers or stores are not available.
    """
    if run.accounted is not None:
        return LandingResult(run, {})  # the answer to an earlier try's event was lost
    return _Landing(Attempt(context, lease, run.plan, dict(run.landed), earlier_attempt)).carry_out()


@dataclass
class _Landing:
    """The steps of one attempt. todo: the tables for rows that it has to write. sinks: the schemas of their rows.
    results: of the ranges that were read."""

    attempt: Attempt
    todo: list[str] = field(default_factory=list)
    sinks: dict[str, SinkSchema] = field(default_factory=dict)
    results: tuple[RangeResult, ...] = ()

    def carry_out(self) -> LandingResult:
        """Land and account. See docs/explanation/exactly-once.md."""
        self._begin()
        targets = self._choose_targets()
        with self.attempt.context.stopwatch.phase("land"):
            side_tables = SideTableWriter(self.attempt)
            jobs = jobs_of(self.attempt.context, self.attempt.plan, side_tables.prepare())
            targets = self._choose_writers(targets, jobs)
            by_tasks = TaskWriter(self.attempt, targets.by_tasks)
            by_spark = SparkWriter(self.attempt, targets.by_spark)

            written = self._read_and_write(jobs, by_tasks, by_spark)
            reading = account_for(self.attempt.plan, self.results, self.attempt.context.clients.logs)
            self._check_first_equation(reading)
            self._check_rows_before_commits(written, reading)
            self._check_limits(reading)
            side_tables.check(reading, self.results)
            self._check_source_again()

            if self.todo:
                self.attempt.decide_removals(reading)
            # Before all rows: where rows have landed, the records without a row are in a side table already.
            side_tables.commit()
            by_tasks.commit(self.sinks, reading)
            by_spark.commit(jobs, self.sinks, reading)
        return LandingResult(self._account(reading), throttled_by_broker(self.results), tuple(jobs.notes))

    # --- before reading

    def _begin(self) -> None:
        attempt, progress = self.attempt, self.attempt.context.progress
        progress.phase("land")
        progress.total(sum(r.length for r in attempt.plan.ranges), "offsets")
        attempt.report_commits()
        attempt.find_earlier_commits()
        self.todo = attempt.rows_tables()

    def _choose_targets(self) -> TargetsByWriter:
        """Choose the writer of each table, and start the executor that reads the ranges."""
        attempt, context = self.attempt, self.attempt.context
        with context.stopwatch.phase("land"):
            targets = self._targets()
        choose_engine(context, attempt.plan.ranges, list(targets.by_spark))
        if targets.by_spark:
            context.spark.session(delta=True)  # first: Delta's jars cannot be added to a Spark that is running
        elif attempt.plan.mode != REDRIVE:  # which reads in the driver
            context.engine.executor()
        return targets

    def _choose_writers(self, targets: TargetsByWriter, jobs: RangeJobs) -> TargetsByWriter:
        """The same once the rows' schemas are known, for which Spark may have to widen a table."""
        if self.todo:
            self.sinks = jobs.sink_schemas(self.todo)
        if self.attempt.context.job.sink.widen:  # widening is done by Spark, which has Delta in such a job
            targets = self._targets(self.sinks)
        if targets.by_spark and self.attempt.plan.routed:
            raise routed_by_spark(next(iter(targets.by_spark)))
        return targets

    def _targets(self, rows: Mapping[str, SinkSchema] | None = None) -> TargetsByWriter:
        targets, removing = self.attempt.context.targets, self.attempt.disposition().removes
        found = parallel_map(
            self.todo,
            lambda table: targets.target(table, removing=removing, rows=None if rows is None else rows[table]),
        )
        return TargetsByWriter.of(found)

    # --- reading, and what is checked before the first commit

    def _read_and_write(self, jobs: RangeJobs, by_tasks: TaskWriter, by_spark: SparkWriter) -> Written:
        """Read all ranges once: those of tables that tasks write while they write them, the others to be counted."""
        plan = self.attempt.plan
        writing = frozenset(plan.ranges_of(by_tasks.tables))
        counting = plan.ranges_of([*self.attempt.landed_rows_tables(), *by_spark.tables])
        counted = jobs.count([planned for planned in counting if planned not in writing])
        by_tasks.prepare(self.sinks)
        written = by_tasks.write(jobs, self.sinks) if self.todo else Written()
        self.results = (*counted.range_results, *written.range_results)
        return written

    def _check_first_equation(self, reading: ReadCounts) -> None:
        fault = offsets_mismatch(reading, self.attempt.context.job.source.on_gap)
        if fault is not None:
            self.attempt.fail("offsets", fault, reading)

    def _check_rows_before_commits(self, written: Written, reading: ReadCounts) -> None:
        """The second equation up to the files. A table that has landed is not written again, so that what its tasks
        had read could not be compared with it any more behind a transform."""
        attempt = self.attempt
        fault = rows_mismatch(written.tasks, ())
        if fault is None and attempt.plan.routed and not attempt.transformed:  # which may drop rows
            fault = routed_mismatch(attempt.plan, reading.accounts, written.files)
        if fault is not None:
            attempt.fail("rows", fault, reading)

    def _check_limits(self, reading: ReadCounts) -> None:
        if not self.attempt.commits:  # those of an earlier attempt passed
            check_nulled(self.attempt.context.job, self.attempt.plan, reading)

    def _check_source_again(self) -> None:
        """Checks that the records read are those planned: no other topic of that name, and no log that was cut off
        since."""
        if self.todo:
            context = self.attempt.context
            check_again(context.inputs, context.clients.ledger.known(context.job.name))

    # --- after the last commit

    def _table_rows(self, reading: ReadCounts) -> list[TableRows]:
        """The rows of each table's commit, read back from the table's log."""
        attempt = self.attempt
        plan, commits, landed_now = attempt.plan, attempt.commits, attempt.landed_now
        due = allowed_rows(
            plan,
            reading.accounts,
            landed_now,
            attempt.side_tables.kinds,
            transformed=attempt.transformed,
            disposition=attempt.disposition,
        )

        def count(table: str) -> TableRows:
            with landed_by(plan.run_id):
                access = attempt.context.targets.access(table)
                if table not in landed_now:
                    refuse_lost_landing(table, access, commits[table], plan)
                removes = attempt.disposition(table).removes
                return rows_of_table(
                    table, access, commits[table], landed_now.get(table), due.get(table), removes=removes
                )

        # A table without a commit is right if no row of the ranges is one of its own.
        empty = [TableRows(table, due.get(table), 0, 0, 0) for table in plan.routed if table not in commits]
        return [*parallel_map(commits, count).values(), *empty]

    def _account(self, reading: ReadCounts) -> RunState:
        """Check the second equation, and write the account."""
        attempt, context = self.attempt, self.attempt.context
        context.progress.phase("account")
        with context.stopwatch.phase("account"):
            context.observe("account:before")
            rows_out = sum(attempt.commits[table].rows for table in attempt.landed_rows_tables())
            fault = rows_mismatch((), self._table_rows(reading))
            if fault is not None:
                attempt.fail("rows", fault, reading, rows_out)
            record_rules(context, attempt.lease, attempt.plan)
            accounted = reading.accounted(attempt.plan.run_id, rows_out)
            state = attempt.lease.transition(lambda _: [accounted])
            context.observe("account:after")
        return state.runs[attempt.plan.run_id]
