"""Land and account: a run's rows into its tables, each in one commit, with the account checked on both sides of it.

    read and write files ──► first equation ──► lease ──► commit, table by table ──► second equation ──► accounted

A table that an earlier attempt committed is found by its app transaction and not written again; its ranges are read for
their counts alone. Files of attempts that did not land are swept once a commit with their app transaction is durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from etl.accounting import Reading, account_for, failed, offsets_fault, rows_fault
from etl.context import JobContext, refuse_incidents
from etl.landing.delta import DeltaTarget, RunCommit
from etl.landing.facts import FileFact
from etl.landing.removal import OfAddresses, Removal
from etl.landing.schema import SinkSchema
from etl.landing.table import ReadyTable
from etl.ledger import events as ev
from etl.ledger.lease import Lease
from etl.ledger.state import RunState
from etl.passes import Passes


def land_and_account(context: JobContext, lease: Lease, run: RunState) -> None:
    """From `planned` to `accounted`, wherever an earlier attempt stopped.

    Raises:
        Refused: an equation does not hold, or a table is not what the plan saw.
        LeaseLost: the lease was lost; nothing was committed since.
        KafkaError, RetriableFailure: brokers or stores are away.
    """
    _Landing(context, lease, run.plan, dict(run.landed)).carry_out()


@dataclass(slots=True)
class _Landing:
    context: JobContext
    lease: Lease
    plan: ev.RunPlan
    commits: dict[str, ev.TableCommit]

    def carry_out(self) -> None:
        context = self.context
        context.progress.phase("land")
        context.progress.total(sum(r.length for r in self.plan.ranges))
        with context.stopwatch.phase("land"):
            self._find_earlier_commits()
            todo = [table for table in self.plan.tables if table not in self.commits]
            passes = Passes(context, self.plan)
            sink, ready = self._prepare(passes, todo)
            by_spark = [table for table in ready if self._target(table).spark_reasons()]
            counted = passes.count([*self.commits, *by_spark])
            written = passes.write(sink, {t: r for t, r in ready.items() if t not in by_spark}) if sink else None
        outcomes = [*counted.outcomes, *(written.outcomes if written else ())]
        reading = account_for(self.plan, outcomes, context.cluster)
        self._check_offsets(reading)
        for table, files in (written.files if written else {}).items():
            assert sink is not None
            self._commit(table, files, ready[table], sink)
        for table in by_spark:
            raise NotImplementedError(table)
        self._account(reading, {table: _rows(files) for table, files in (written.files if written else {}).items()})

    # --- before the first commit

    def _find_earlier_commits(self) -> None:
        """Commits of attempts that did not live to write them down."""
        for table in self.plan.tables:
            if table in self.commits:
                continue
            target = self._target(table)
            if (target.transaction_version(self.plan.app_id) or 0) >= self.plan.app_version:
                # Found by its app transaction, or refused as a later one: this call commits nothing.
                self._landed(table, target.commit((), self._run_commit(table)).commit)

    def _prepare(self, passes: Passes, todo: list[str]) -> tuple[SinkSchema | None, dict[str, ReadyTable]]:
        if not todo:
            return None, {}
        job = self.context.job
        sink = passes.sink_schema(self.context.spark())
        ready = {}
        for table in todo:
            target, planned = self._target(table), self.plan.tables[table]
            if planned is not None:
                refuse_incidents(target, planned)
            ready[table] = target.ensure(
                sink,
                partition_by=job.sink.partition_by,
                merge_schema=job.sink.merge_schema,
                run_id=self.plan.run_id,
            )
        return sink, ready

    def _check_offsets(self, reading: Reading) -> None:
        fault = offsets_fault(reading, self.context.job.source.on_gap)
        if fault is None:
            return
        event = ev.AccountFailed(
            run_id=self.plan.run_id,
            equation="offsets",
            reason=fault,
            ranges=reading.accounts,
            rows_in=reading.rows_in,
            gaps=reading.gaps,
        )
        self.lease.transition(lambda _: [event])
        raise failed(self.plan, fault, "offsets")

    # --- commits

    def _commit(self, table: str, files: list[FileFact], ready: ReadyTable, sink: SinkSchema) -> None:
        self.lease.check()
        self.context.observe(f"land:{table}:before")
        outcome = self._target(table).commit(
            files,
            self._run_commit(table),
            expected=self.plan.tables[table] or ready.state,
            columns=ready.columns,
            remove=self._removal(table, ready, sink),
        )
        self.context.observe(f"land:{table}:committed")
        self._landed(table, outcome.commit)
        self.context.observe(f"land:{table}:after")

    def _removal(self, table: str, ready: ReadyTable, sink: SinkSchema) -> Removal | None:
        if self.plan.mode != "backfill-replace":
            return None
        assert sink.address is not None
        topics = {r.topic for r in self.plan.ranges if r.table == table}
        offsets = {tp: offsets for tp, offsets in self.plan.offsets().items() if tp.topic in topics}
        names = type(sink.address)(*(ready.columns.in_table(name) for name in sink.address))
        return OfAddresses(names, offsets)

    def _landed(self, table: str, commit: ev.TableCommit) -> None:
        """Write a durable commit down, then sweep the files of attempts that did not make it."""
        event = ev.Landed(run_id=self.plan.run_id, table=table, commit=commit)
        self.lease.transition(lambda _: [event])
        self.commits[table] = commit
        if commit.found or self.lease.attempt > 1:
            from etl.landing.cleanup import sweep

            sweep(self._target(table), self.plan.run_id)

    def _run_commit(self, table: str) -> RunCommit:
        ranges = [[r.topic, r.partition, r.start, r.end] for r in self.plan.ranges if r.table == table]
        facts = {"job": self.context.job.name, "ledger": self.context.ledger.id, "mode": self.plan.mode}
        return RunCommit(self.plan.run_id, self.plan.app_id, self.plan.app_version, {**facts, "ranges": ranges})

    def _target(self, table: str) -> DeltaTarget:
        return self.context.target(table)

    # --- after the last commit

    def _account(self, reading: Reading, written: Mapping[str, int]) -> None:
        self.context.progress.phase("account")
        with self.context.stopwatch.phase("account"):
            self.context.observe("account:before")
            rows_out = sum(commit.rows for commit in self.commits.values())
            fault = rows_fault({t: rows for t, rows in written.items() if not self.commits[t].found}, self.commits)
            if fault is not None:
                failure = ev.AccountFailed(
                    run_id=self.plan.run_id,
                    equation="rows",
                    reason=fault,
                    ranges=reading.accounts,
                    rows_in=reading.rows_in,
                    rows_out=rows_out,
                )
                self.lease.transition(lambda _: [failure])
                raise failed(self.plan, fault, "rows")
            accounted = ev.Accounted(
                run_id=self.plan.run_id,
                ranges=reading.accounts,
                rows_in=reading.rows_in,
                rows_out=rows_out,
                gaps=(*reading.gaps, *reading.lost),
            )
            self.lease.transition(lambda _: [accounted])
            self.context.observe("account:after")


def _rows(files: list[FileFact]) -> int:
    return sum(file.rows for file in files)
