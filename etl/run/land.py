"""Land and account: write a run's rows to its tables, one commit a table, and check the account before and after.

    read and write files ──► first equation ──► lease ──► commit, table by table ──► second equation ──► accounted

Of more than 16 tables, commits that are recorded in the ledger together are made side by side. Each stands alone: the
lease is checked before it, and it has the run's app transaction.

A table that an earlier attempt committed is found by its app transaction and not written again; its ranges are read for
their counts alone. Files of attempts that did not land are deleted once a commit with their app transaction is durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NoReturn

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import REDRIVE
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.state import RunState
from kseg.etl.planning.preflight import check_again
from kseg.etl.run.account import (
    ReadCounts,
    account_for,
    differing_accounts,
    failed,
    offsets_mismatch,
    throttled_by_broker,
)
from kseg.etl.run.commit_facts import CommitFacts
from kseg.etl.run.context import JobContext
from kseg.etl.run.engine_choice import choose_engine
from kseg.etl.run.leftovers import delete_leftovers
from kseg.etl.run.missing_files import refuse_missing_files
from kseg.etl.run.nulled import check_nulled
from kseg.etl.run.redrive_jobs import jobs_of
from kseg.etl.run.replacement import Replacement
from kseg.etl.run.row_counts import (
    TableRows,
    allowed_rows,
    refuse_lost_landing,
    routed_mismatch,
    rows_mismatch,
    rows_of_table,
    tables_without_rows,
)
from kseg.etl.run.shaping import TableShaping
from kseg.etl.run.side_tables import SideTable, SideTables, check_dead_letters, dead_letters_mismatch
from kseg.etl.run.spark_jobs import SparkJobs, Written
from kseg.etl.tables.errors import landed_by, one_table, routed_by_spark
from kseg.etl.tables.parallel import AT_ONCE, parallel_map, parts
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.parquet.task_output import WrittenFile
from kseg.etl.tables.protocol import FileTarget, FrameTarget
from kseg.etl.tables.removal import Removal
from kseg.etl.tables.values import FoundCommit, NewCommit, ReadyTable, RunCommit
from kseg.etl.telemetry.events import AccountFailed, TableCommitted


@dataclass(frozen=True, slots=True)
class LandingResult:
    """run: its state in the ledger after the account. throttled: seconds that quotas made tasks wait, by broker.
    notes: messages for users about the transform."""

    run: RunState
    throttled: Mapping[int, float]
    notes: tuple[str, ...] = ()


def land_and_account(context: JobContext, lease: Lease, run: RunState, *, again: bool) -> LandingResult:
    """From `planned` to `accounted`, continuing where an earlier attempt stopped.

    again: an earlier attempt is possible; it may have left commits that the ledger lacks, and files in no commit.

    Raises:
        Refused: an equation does not hold, or a table is not what the plan saw.
        LeaseLost: the lease was lost; nothing was committed since.
        KafkaError, RetriableFailure: brokers or stores are not available.
    """
    if run.accounted is not None:
        return LandingResult(run, {})  # the answer to an earlier try's event was lost
    return _Landing(context, lease, run.plan, dict(run.landed), again).carry_out()


MAX_LEDGER_COMMITS: Final = 16
"""Most ledger commits that one run makes for its tables: each takes as long as several table commits."""


@dataclass
class _Landing:
    context: JobContext
    lease: Lease
    plan: ev.RunPlan
    commits: dict[str, ev.TableCommit]
    again: bool
    unrecorded: list[str] = field(default_factory=list)
    replacement: Replacement | None = None
    landed_now: dict[str, list[WrittenFile] | None] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _facts(self) -> CommitFacts:
        return CommitFacts(self.plan, self.context.job.name, self.context.clients.ledger.id)

    @cached_property
    def _shaping(self) -> TableShaping:
        return TableShaping(self.context, self.lease)

    @property
    def beside(self) -> SideTables:
        """The run's quarantine and its dead-letter table."""
        return SideTables.of(self.plan, self.context.job)

    def carry_out(self) -> LandingResult:
        context = self.context
        context.progress.phase("land")
        context.progress.total(sum(r.length for r in self.plan.ranges), "offsets")
        for table, commit in self.commits.items():
            self._identify(table, commit.after)
            self._report_commit(table, commit)
        if self.again:
            self._find_earlier_commits()
        beside = self.beside.names
        todo = [table for table in self.plan.tables if table not in self.commits and table not in beside]
        removing, transformed = self.plan.mode == "backfill-replace", bool(context.job.transform)
        with context.stopwatch.phase("land"):
            targets = parallel_map(todo, lambda table: context.targets.target(table, removing=removing))
        choose_engine(context, self.plan.ranges, [t for t, its in targets.items() if isinstance(its, FrameTarget)])
        if any(isinstance(target, FrameTarget) for target in targets.values()):
            context.spark.session(delta=True)  # first: Delta's jars cannot be added to a Spark that is running
        elif self.plan.mode != REDRIVE:  # which reads in the driver
            context.engine.executor()
        with context.stopwatch.phase("land"):
            aside = self._prepare_beside()
            spark_jobs = jobs_of(context, self.plan, self.beside.beside(self.plan, context.job, aside))
            sinks = spark_jobs.sink_schemas(todo) if todo else {}
            if context.job.sink.widen:  # widening is done by Spark, which has Delta in such a job
                targets = parallel_map(todo, lambda t: context.targets.target(t, removing=removing, rows=sinks[t]))
        by_files = {table: target for table, target in targets.items() if isinstance(target, FileTarget)}
        by_spark = {table: target for table, target in targets.items() if isinstance(target, FrameTarget)}
        if by_spark and self.plan.routed:
            raise routed_by_spark(next(iter(by_spark)))
        with context.stopwatch.phase("land"):
            # Spark's writer commits what it has just read, so the account of its tables needs a counting job before.
            writing = frozenset(self.plan.ranges_of(by_files))
            counting = self.plan.ranges_of([*(table for table in self.commits if table not in beside), *by_spark])
            counted = spark_jobs.count([planned for planned in counting if planned not in writing])
            ready = self._prepare(sinks, by_files)
            written = spark_jobs.write(sinks, ready) if todo else Written()
            range_results = [*counted.range_results, *written.range_results]
            reading = account_for(self.plan, range_results, context.clients.logs)
            self._check_offsets(reading)
            self._check_tasks(written, reading)
            if not self.commits:  # those of an earlier attempt passed
                check_nulled(context.job, self.plan, reading)
            set_aside = {table: side.files(range_results) for table, side in aside.items()}
            letters = self.beside.dead_letters
            if letters in aside:  # those of a table that has landed are compared with its commit
                check_dead_letters(context.job, self.plan.run_id, reading)
                if (fault := dead_letters_mismatch(reading, set_aside[letters])) is not None:
                    self._fail("rows", fault, reading)
            if todo:
                # What was read is what was planned: no other topic of that name, and no log that was cut off since.
                check_again(context.inputs, context.clients.ledger.known(context.job.name))
            if removing and todo:
                self.replacement = Replacement.after(context, self.plan, reading)
                replacing = self.replacement.event()
                self.lease.transition(lambda _: [replacing])
            # Before all rows: where rows have landed, the records without a row are in a side table already.
            for table, files in set_aside.items():
                if files:
                    self._commit({table: files}, {table: aside[table].target}, {table: aside[table].ready}, {})
            empty = tables_without_rows(self.plan, reading.accounts, transformed=transformed)
            writing_to = [table for table, files in written.files.items() if files or table not in empty]
            for tables in parts(writing_to, MAX_LEDGER_COMMITS):
                self._commit({table: written.files[table] for table in tables}, by_files, ready, sinks)
            for table, target in by_spark.items():
                with target.exclusively(self.lease, wait=context.deadline.left()):
                    self._land_by_spark(table, target, spark_jobs, sinks[table], reading)
        throttled = throttled_by_broker(range_results)
        return LandingResult(self._account(reading), throttled, tuple(spark_jobs.notes))

    # --- before the first commit

    def _find_earlier_commits(self) -> None:
        """Find commits of attempts that died before they recorded them in the ledger. An app transaction remains when
        its rows are removed, so the table's state is checked as well."""
        targets = self.context.targets
        tables = [*self.plan.tables]
        tables += [table for table in self.beside.names if table not in tables]

        def find(table: str) -> ev.TableCommit | None:
            if table in self.commits:
                with landed_by(self.plan.run_id):
                    targets.check_landed(table, self.commits[table].after)
                return None
            target = targets.target(table)
            if not isinstance(target, FileTarget):
                return None  # Spark's own write checks them itself
            found = target.found_commit(self._run_commit(table))
            if found is None:
                return None
            with landed_by(self.plan.run_id):
                targets.check_landed(table, found.commit.after)
            return found.commit

        for table, found in parallel_map(tables, find).items():
            if found is not None:
                self._landed(table, found)
        self._record()

    def _prepare(self, sinks: Mapping[str, SinkSchema], tables: Mapping[str, FileTarget]) -> dict[str, ReadyTable]:
        if not tables:
            return {}
        job, targets = self.context.job, self.context.targets

        def prepare(table: str) -> ReadyTable:
            targets.check(table, self._shaping.known(self.plan, table))
            return tables[table].ensure(
                sinks[table],
                partition_by=job.sink.partition_columns,
                merge_schema=job.adds_columns,
                run_id=self.plan.run_id,
                properties=self.plan.rules.properties,
                reshape=self._shaping.before(table),
            )

        ready = parallel_map(tables, prepare)
        for table, made in ready.items():
            self._identify(table, made.state)
        self._confirm_lease({table: made.state for table, made in ready.items()})
        return ready

    def _prepare_beside(self) -> dict[str, SideTable]:
        """The tables beside the rows that have not landed yet, created if they do not exist."""

        def prepare(table: str) -> SideTable:
            self.context.targets.check(table, self._shaping.known(self.plan, table))
            setting = "sink.quarantine" if table == self.beside.quarantine else "sink.dead_letters"
            target, sink = self.context.targets.side_target(table, setting=setting), self.beside.schema(table)
            ready = target.ensure(sink, partition_by=(), merge_schema=True, run_id=self.plan.run_id)
            self._identify(table, ready.state)
            self._confirm_lease({table: ready.state})
            return SideTable(table, target, ready, sink)

        return {table: prepare(table) for table in self.beside.names if table not in self.commits}

    def _identify(self, table: str, state: ev.TableState) -> None:
        """Refuse a second name of one of the run's tables: the plan cannot compare tables that this run creates."""
        if (other := self.ids.setdefault(state.id, table)) != table:
            raise one_table(other, table)

    def _confirm_lease(self, ready: Mapping[str, ev.TableState]) -> None:
        self.plan = self._shaping.confirm_lease(self.plan, ready)

    def _check_offsets(self, reading: ReadCounts) -> None:
        fault = offsets_mismatch(reading, self.context.job.source.on_gap)
        if fault is None:
            return
        self._fail("offsets", fault, reading)

    def _check_tasks(self, written: Written, reading: ReadCounts) -> None:
        """The second equation up to the files. A table that has landed is not written again, so that what its tasks
        had read could not be compared with it any more behind a transform."""
        fault = rows_mismatch(written.tasks, ())
        if fault is None and self.plan.routed and not self.context.job.transform:  # which may drop rows
            fault = routed_mismatch(self.plan, reading.accounts, written.files)
        if fault is not None:
            self._fail("rows", fault, reading)

    # --- commits

    def _commit(
        self,
        files: Mapping[str, list[WrittenFile]],
        targets: Mapping[str, FileTarget],
        ready: Mapping[str, ReadyTable],
        sinks: Mapping[str, SinkSchema],
    ) -> None:
        """Commit these tables side by side, and record it. A commit that is not recorded, because of a crash or because
        another one fails, is found by its app transaction."""
        context = self.context

        def commit(table: str) -> NewCommit | FoundCommit:
            with targets[table].exclusively(self.lease, wait=context.deadline.left()):
                self.lease.check()
                context.observe(f"land:{table}:before")
                outcome = targets[table].commit(
                    files[table],
                    self._run_commit(table, self.replacement),
                    expected=self.plan.tables.get(table) or ready[table].state,
                    columns=ready[table].write.columns,
                    remove=self._removal(table, sinks.get(table), ready[table]),
                )
            context.observe(f"land:{table}:committed")
            return outcome

        # Files that a replacement hits in part are rewritten here, each in this process's memory.
        outcomes = parallel_map(files, commit, at_once=AT_ONCE if self.replacement is None else 1)
        for table, outcome in outcomes.items():
            if isinstance(outcome, NewCommit):
                self.landed_now[table] = files[table]
            self._landed(table, outcome.commit)
        self._record()
        for table in files:
            context.observe(f"land:{table}:after")

    def _land_by_spark(
        self, table: str, target: FrameTarget, spark_jobs: SparkJobs, sink: SinkSchema, reading: ReadCounts
    ) -> None:
        """Land one table by Spark's writer, which reads the ranges again and must find what the account has counted."""
        job, context = self.context.job, self.context
        frame, range_results = spark_jobs.frame(context.spark.session(delta=True), [table])
        if self.replacement is not None:
            frame = self.replacement.read_to_disk(frame, range_results, spark_jobs, reading, table)
        context.targets.check(table, self._shaping.known(self.plan, table))
        made = target.ensure(
            frame,
            sink,
            partition_by=job.sink.partition_columns,
            cluster_by=job.sink.cluster_by,
            properties=self.plan.rules.properties,
            merge_schema=job.adds_columns,
            run_id=self.plan.run_id,
            reshape=self._shaping.before(table),
        )
        self._identify(table, made)
        self._confirm_lease({table: made})
        self.lease.check()
        for change in target.widen(sink, allowed=job.sink.widen):
            spark_jobs.note(f"{table}: widened {change}, for good: from now on Spark's own writer lands its rows")
        context.observe(f"land:{table}:before")
        with spark_jobs.watching(range_results), range_results.typed_errors():
            outcome = target.land(
                frame,
                sink,
                self._run_commit(table, self.replacement),
                expected=self.plan.tables[table] or made,
                merge_schema=job.adds_columns,
                remove=self._removal(table, sink),
            )
        context.observe(f"land:{table}:committed")
        self._landed(table, outcome.commit)
        self._record()
        context.observe(f"land:{table}:after")
        if isinstance(outcome, NewCommit):
            self.landed_now[table] = None
            again = account_for(self.plan, spark_jobs.complete(range_results), context.clients.logs)
            fault = differing_accounts(reading, again, self.plan.ranges_of([table]))
            if fault is not None:
                self._fail("rows", fault, reading)
        spark_jobs.forget_range_results([table])
        if self.replacement is not None:
            frame.unpersist()

    def _removal(self, table: str, sink: SinkSchema | None, ready: ReadyTable | None = None) -> Removal | None:
        if self.replacement is None or table in self.beside.names:
            return None  # what earlier runs have set aside stays
        assert sink is not None and sink.address is not None  # noqa: PT018
        address = sink.address
        if ready is not None:
            address = type(address)(*(ready.write.columns.in_table(name) for name in address))
        return self.replacement.removal(table, address, by_sql=ready is None)

    def _landed(self, table: str, commit: ev.TableCommit) -> None:
        self._identify(table, commit.after)
        self.commits[table] = commit
        self._report_commit(table, commit)
        self.unrecorded.append(table)

    def _report_commit(self, table: str, commit: ev.TableCommit) -> None:
        beside = self.beside
        event = TableCommitted(
            table, commit, quarantine=table == beside.quarantine, dead_letters=table == beside.dead_letters
        )
        self.context.progress.event(event)

    def _record(self) -> None:
        """Record durable commits in the ledger, then delete files that other attempts of this run have left."""
        refuse_missing_files(self.context, self.plan.run_id, {table: self.commits[table] for table in self.unrecorded})
        landed = [
            ev.Landed(run_id=self.plan.run_id, table=table, commit=self.commits[table]) for table in self.unrecorded
        ]
        if landed:
            self.lease.transition(lambda _: landed)
        self.unrecorded.clear()
        for event in landed:
            if not event.commit.found and not self.again:
                continue  # listing all files of a table is expensive
            access = self.context.targets.access(event.table)
            if access is not None:
                delete_leftovers(self.lease, access, self.plan, event.table, [event.commit])

    def _run_commit(self, table: str, replacement: Replacement | None = None) -> RunCommit:
        kept = replacement.kept if replacement is not None and table not in self.beside.names else None
        return self._facts.of(table, kept)

    # --- after the last commit

    def _table_rows(self, reading: ReadCounts) -> list[TableRows]:
        """The rows of each table's commit, read back from the table's log."""
        beside, transformed = self.beside, bool(self.context.job.transform)
        letters = beside.dead_letters
        decoded = allowed_rows(self.plan, reading.accounts, self.landed_now, letters, transformed=transformed)

        def count(table: str) -> TableRows:
            with landed_by(self.plan.run_id):
                access = self.context.targets.access(table)
                if table not in self.landed_now:
                    refuse_lost_landing(table, access, self.commits[table], self.plan)
                return rows_of_table(
                    table,
                    access,
                    self.commits[table],
                    self.landed_now.get(table),
                    decoded.get(table),
                    removes=self.plan.mode == "backfill-replace" and table not in beside.names,
                )

        # A table without a commit is right if no row of the ranges is one of its own.
        empty = [
            TableRows(table, decoded.get(table), 0, 0, 0) for table in self.plan.routed if table not in self.commits
        ]
        return [*parallel_map(self.commits, count).values(), *empty]

    def _account(self, reading: ReadCounts) -> RunState:
        self.context.progress.phase("account")
        with self.context.stopwatch.phase("account"):
            self.context.observe("account:before")
            rows_out = sum(commit.rows for table, commit in self.commits.items() if table not in self.beside.names)
            fault = rows_mismatch((), self._table_rows(reading))
            if fault is not None:
                self._fail("rows", fault, reading, rows_out)
            accounted = reading.accounted(self.plan.run_id, rows_out)
            state = self.lease.transition(lambda _: [accounted])
            self.context.observe("account:after")
        return state.runs[self.plan.run_id]

    def _fail(self, equation: ev.Equation, fault: str, reading: ReadCounts, rows_out: int | None = None) -> NoReturn:
        """Record the failed account in the ledger, where it stays until a user clears it, and raise Refused."""
        self.context.progress.event(AccountFailed(equation, fault))
        final = bool(self.landed_now) and bool(self.context.job.transform)
        event = reading.failed(self.plan.run_id, equation, fault, rows_out, final=final)
        self.lease.transition(lambda _: [event])
        raise failed(self.plan, event)
