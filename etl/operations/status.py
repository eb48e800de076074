"""A job's status, without a JVM: last runs, consumer lag by partition, ledger against group offsets and tables."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from kseg.etl.catalogs.registry import resolve
from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError, KsegError, Refused
from kseg.etl.ledger.events import INCREMENTAL
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.ledger.store import Ledger
from kseg.etl.operations.dead_letters import dead_letter_counts
from kseg.etl.operations.find_run import find_run
from kseg.etl.operations.problems import Problem, freshness_problem, group_problem, run_problems, table_problem
from kseg.etl.planning.group_reconciliation import GroupView, standing_of
from kseg.etl.planning.preflight import examine_tables
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.run.context import JobContext
from kseg.etl.run.data_freshness import Freshness, freshness_of
from kseg.etl.run.report import RunReport
from kseg.etl.run.report_from_ledger import ended, nulled_columns
from kseg.etl.tables.side_kinds import side_tables_of


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run: its phase, and what it landed.

    refused: the error with which its last attempt ended. rows_in, rows_out and quarantined (number of offsets that
    could not be read) are None before the run is accounted for. owner: the last holder of its lease. nulled: records
    with nulls in place of what could not be decoded, by column.
    """

    run_id: str
    mode: str
    phase: str
    planned_at: str
    ended_at: str | None
    offsets: int
    rows_in: int | None
    rows_out: int | None
    refused: str | None
    owner: str
    quarantined: int | None = None
    refused_at: str | None = None
    nulled: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """One partition, in offsets.

    frontier: where the next run starts; None before the first run. lag: number of readable offsets at or above the
    frontier (before the first run: the log's start) that have not landed, including those of an unfinished run's plan.
    group_offset: -1 if the group has none; None if the job has no group.
    agrees: whether a run would continue with the group's offset (`planning.group_reconciliation`).
    oldest: time of the first batch that has not landed (ISO 8601, UTC). seconds_behind: its age now; 0 without lag,
        None if it is not known.
    """

    topic: str
    partition: int
    log_start: int
    frontier: int | None
    last_stable_offset: int
    high_watermark: int
    lag: int
    group_offset: int | None
    agrees: bool
    landed: int
    given_up: int
    beyond_frontier: int
    oldest: str | None = None
    seconds_behind: float | None = None


@dataclass(frozen=True, slots=True)
class TableLine:
    """A target table: its current version, and the last one in the ledger. problem: why a run would refuse it, or why
    it was not examined."""

    path: str
    version: int | None
    ledger_version: int | None
    rows: int | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class LeaseLine:
    """A live lease."""

    chain: str
    owner: str
    until: str


@dataclass(slots=True)
class StatusReport:
    """Everything that `kseg status` shows. dead_letters: their number by state (`etl.ledger.dead_letters`).

    problems: those that a person must solve. freshness: of all partitions together; that of each is in `partitions`.
    """

    job: str
    ledger: str
    ledger_id: str
    runs: list[RunLine] = field(default_factory=list)
    partitions: list[PartitionLine] = field(default_factory=list)
    tables: list[TableLine] = field(default_factory=list)
    leases: list[LeaseLine] = field(default_factory=list)
    group: str | None = None
    dead_letters: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    freshness: Freshness | None = None

    @property
    def lag(self) -> int:
        """Offsets that have not landed, over all partitions."""
        return sum(p.lag for p in self.partitions)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return {**asdict(self), "lag": self.lag}


def status(job: Job, runs: int = 10) -> StatusReport:
    """Read ledger, brokers and tables; nothing is written. runs: how many of the last runs to list.

    Raises:
        Refused: there is no ledger yet, or it is damaged.
        KafkaError: the cluster is not available.
    """
    with JobContext.open(job, ledger="required") as context:
        state = context.clients.ledger.read(job.name)
        report = StatusReport(job.name, job.ledger, context.clients.ledger.id, group=job.group)
        report.runs = [_run_line(run) for run in reversed(list(state.runs.values())[-runs:])]
        report.leases = _leases(state)
        snapshot = context.inputs.snapshot()
        view = context.inputs.group_view(snapshot.partitions)
        report.partitions, fresh = _partitions(context, state, snapshot, view)
        report.freshness = replace(fresh, partitions=[])
        topics = {p.topic for p in report.partitions}
        tables = set(job.sink.tables_of(topics)) | {table for _, table in side_tables_of(job)}
        report.dead_letters = dead_letter_counts(context, state)
        report.problems = [
            *run_problems(job, state, datetime.now(UTC)),
            *group_problem(view, state),
            *freshness_problem(fresh),
        ]
        for table in sorted(tables):
            line, problem = _table(context, state, table)
            report.tables.append(line)
            report.problems += [problem] if problem is not None else []
        return report


def run_report(job: Job, run_id: str) -> RunReport:
    """The report of a run that has ended, from the ledger. Sends no request to a broker.

    run_id: may be a unique prefix (`find_run`).

    Raises:
        Refused: there is no ledger, no such run or more than one, or it has not ended.
    """
    state = Ledger.open(job.ledger, create=False).read(job.name)
    run = find_run(state, run_id)
    if run.ended_at is None:
        raise Refused.of("run-unfinished", {"run_id": run.run_id}, case="report")
    return ended(job.name, run, state)


def _run_line(run: RunState) -> RunLine:
    return RunLine(
        run_id=run.run_id,
        mode=run.mode,
        phase=run.phase,
        planned_at=run.planned_at.isoformat(),
        ended_at=run.ended_at.isoformat() if run.ended_at else None,
        offsets=sum(offsets.length for offsets in run.plan.offsets().values()),
        rows_in=run.accounted.rows_in if run.accounted else None,
        rows_out=run.accounted.rows_out if run.accounted else None,
        quarantined=run.accounted.counts.dead_lettered if run.accounted else None,
        refused=run.refused.message if run.refused else None,
        refused_at=run.refused.at.isoformat() if run.refused and run.refused.at else None,
        owner=run.owner,
        nulled=nulled_columns(run),
    )


def _leases(state: JobState) -> list[LeaseLine]:
    now = datetime.now(UTC)
    return [
        LeaseLine(lease.chain, lease.owner, lease.until.isoformat())
        for lease in state.leases.values()
        if lease.live(now)
    ]


def _partitions(
    context: JobContext, state: JobState, snapshot: SourceSnapshot, view: GroupView | None
) -> tuple[list[PartitionLine], Freshness]:
    frontiers = {tp: state.frontier(tp) for tp in snapshot.bounds}
    fresh = freshness_of(context.inputs.logs, snapshot, state, context.job.reporting.freshness)
    seen = {(one.topic, one.partition): one for one in fresh.partitions}
    lines = []
    for tp, bounds in snapshot.bounds.items():
        frontier = frontiers[tp]
        found = view.offsets.get(tp) if view else None
        first = frontier if frontier is not None else bounds.start
        group_offset = (found.offset if found else -1) if view else None
        agrees = (
            view is None or not view.watched or found is None or standing_of(view.group, tp, found, state) == "as left"
        )
        lines.append(
            PartitionLine(
                topic=tp.topic,
                partition=tp.partition,
                log_start=bounds.start,
                frontier=frontier,
                last_stable_offset=bounds.last_stable,
                high_watermark=bounds.high_watermark,
                lag=OffsetSet.single(first, max(first, snapshot.ends[tp])).subtract(state.landed(tp)).length,
                group_offset=group_offset,
                agrees=agrees,
                landed=state.landed(tp).length,
                given_up=state.given_up(tp).length,
                beyond_frontier=sum(e - s for s, e in state.landed(tp) if frontier is not None and s > frontier),
                oldest=seen[tp].oldest,
                seconds_behind=seen[tp].seconds,
            )
        )
    return lines, fresh


def _table(context: JobContext, state: JobState, table: str) -> tuple[TableLine, Problem | None]:
    known = state.tables.get(table)
    now, text, problem = None, None, None
    if resolve(table).location is None:
        text = "in a catalog: only Spark can read it"
        return TableLine(table, None, known.version if known else None, None, text), None
    try:
        now = examine_tables(context.inputs, state, INCREMENTAL, [table])[table]
    except KsegError as error:
        text, problem = str(error), table_problem(error)
        with suppress(ConfigurationError):  # the same one again, if its place cannot be a table's
            access = context.targets.access(table)
            now = access.state() if access is not None else None
    line = TableLine(
        path=table,
        version=now.version if now else None,
        ledger_version=known.version if known else None,
        rows=now.rows if now else None,
        problem=text,
    )
    return line, problem
