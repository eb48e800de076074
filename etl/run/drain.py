"""A backlog in many runs: `kseg ingest --drain` repeats capped runs until the end that it saw at first.

    ends seen first    ├────────── run 1 ──────────┼────────── run 2 ──────────┼─ run 3 ─┤ ─ ─ producers go on ─ ─
                       each one has a plan, a lease, a commit a table, and a commit of the group's offsets

Each run is what `kseg ingest` does, with connections, checks and `run.deadline` of its own; they share the process and
its Spark. A drain that dies loses at most the run that it was in: the next ingest or drain takes that up.

The ends are bounds from above: they lie at or below the last stable offset of then, and so of any later moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.plan import plan_incremental
from kseg.etl.run.context import JobContext, Observer
from kseg.etl.run.pipeline import pursue
from kseg.etl.run.report import RunReport
from kseg.etl.run.report_sum import ReportSum
from kseg.etl.telemetry.events import RunEnded
from kseg.etl.telemetry.progress import NULL_PROGRESS, Progress


@dataclass(frozen=True, slots=True)
class DrainedRun:
    """One run of a drain. unread: offsets that it left up to the drain's ends. report: where its page was written."""

    run: str
    offsets: int
    records: int
    rows: int
    unread: int
    seconds: float
    report: str | None = None

    def __str__(self) -> str:
        return (
            f"{self.run}: {self.records} records, {self.rows} rows in {self.seconds:.1f} s; {self.unread} offsets left"
        )


@dataclass(slots=True)
class DrainReport:
    """All runs of one drain. total: what they did together; `unread` are offsets up to the drain's ends."""

    total: RunReport
    runs: list[DrainedRun] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The document of a run, with sums over all runs, and `runs` with a line for each."""
        return self.total.to_json() | {"runs": [asdict(run) for run in self.runs]}


def run_drain(
    job: Job,
    *,
    take_over: bool = False,
    accept_group_offsets: bool = False,
    progress: Progress | None = None,
    observe: Observer | None = None,
) -> DrainReport:
    """Incremental runs, one after the other, until all partitions have reached the ends that were seen at first.

    take_over, accept_group_offsets: as for `run_ingest`, of the first run alone: what happens later nobody has seen.

    Raises:
        As `run_ingest`, from the run that fails; the runs before it have landed.
    """
    progress = progress or NULL_PROGRESS
    ends: Mapping[TopicPartition, int] | None = None
    total, runs = ReportSum(), list[DrainedRun]()
    while True:
        with JobContext.open(job, progress, observe) as context:
            context.check_group()
            if ends is None:
                ends = context.inputs.snapshot(context.clients.read_state()).ends
            report = pursue(
                context,
                ev.INCREMENTAL,
                partial(plan_incremental, until=ends),
                take_over=take_over and not runs,
                accept_group_offsets=accept_group_offsets and not runs,
            )
            unread = _unread(context.clients.read_state(), ends)
        if report.run_id is None:  # nothing to do
            total.add(report)
            break
        runs.append(_ended(report, unread, progress))
        total.add(report)
        progress.message(f"run {len(runs)}, {runs[-1]}")
        if not unread:
            break
    total.report.unread = unread
    if unread:
        total.report.notes.append(
            f"{unread} offsets up to the end of the drain are planned by other runs that have not ended: `kseg status`"
        )
    return DrainReport(total.report, runs)


def _ended(report: RunReport, unread: int, progress: Progress) -> DrainedRun:
    document = report.to_json()
    progress.event(RunEnded(document))
    counts = report.counts
    return DrainedRun(
        run=report.run_id or "",
        offsets=counts["offsets"],
        records=counts["records"],
        rows=sum(table.rows or 0 for table in report.tables),
        unread=unread,
        seconds=round(report.seconds.get("total", 0.0), 3),
        report=document.get("report"),
    )


def _unread(state: JobState, ends: Mapping[TopicPartition, int]) -> int:
    """The offsets below the ends that have neither landed nor been given up. Some above a frontier may have landed."""
    frontiers = {tp: state.frontier(tp) for tp in ends}
    return sum(
        state.covered(tp).missing_in(frontier, ends[tp]).length
        for tp, frontier in frontiers.items()
        if frontier is not None and frontier < ends[tp]
    )
