"""A run's report from the ledger's state."""

from __future__ import annotations

from dataclasses import asdict

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import RunState
from kseg.etl.run.report import GroupReport, OffsetsGivenUp, RangeReport, RunReport, Status, TableReport, Unconfirmed


def ended(job: str, run: RunState) -> RunReport:
    """A run that is over. Of one that was abandoned no table has rows."""
    if run.finished:
        return report_of(job, run, status="done")
    report = report_of(job, run, status="abandoned")
    report.tables, report.quarantine, report.dead_letters = [], None, None
    report.notes.append(f"run {run.run_id} was abandoned: no table has rows of it, and its offsets are open again")
    return report


def report_of(job: str, run: RunState, *, status: Status) -> RunReport:
    """What is known of a run: its ranges, with counts once they are accounted, and its commits."""
    if run.accounted is not None:
        ranges = [
            RangeReport(
                a.topic,
                a.partition,
                a.start,
                a.end,
                a.counts.data,
                a.counts.control,
                a.counts.aborted,
                a.counts.absent,
                a.counts.dead_lettered,
                a.counts.late if run.plan.late_before_ms is not None else None,
                asdict(a.counts.decoding) if a.counts.decoding is not None else None,
            )
            for a in run.accounted.ranges
        ]
    else:
        ranges = [RangeReport(r.topic, r.partition, r.start, r.end) for r in run.plan.ranges]
    tables = [TableReport(path, commit.version, commit.rows) for path, commit in run.landed.items()]
    quarantine, letters = run.quarantine, run.plan.dead_letters
    return RunReport(
        job=job,
        run_id=run.run_id,
        mode=run.mode,
        status=status,
        ranges=ranges,
        rows_in=run.accounted.rows_in if run.accounted else None,
        rows_out=run.accounted.rows_out if run.accounted else None,
        tables=[table for table in tables if table.path not in (quarantine, letters)],
        quarantine=next((table for table in tables if table.path == quarantine), None),
        dead_letters=next((table for table in tables if table.path == letters), None),
        unconfirmed=[
            Unconfirmed(
                tp.topic,
                tp.partition,
                mark if mark >= 0 else None,
                sum(max(0, r.end - max(r.start, mark)) for r in run.plan.ranges if r.tp == tp),
            )
            for tp, mark in sorted(run.plan.unconfirmed.items())
        ],
        given_up=[
            OffsetsGivenUp(gap.topic, gap.partition, gap.start, gap.end, "gap")
            for gap in (run.accounted.gaps if run.accounted else ())
        ],
        group=group_report(run.offsets_committed),
    )


def group_report(committed: ev.OffsetsCommitted | None) -> GroupReport | None:
    """A commit of the group's offsets, by topic and partition."""
    if committed is None:
        return None
    offsets: dict[str, dict[int, int]] = {}
    for tp, offset in sorted(committed.offsets.items()):
        offsets.setdefault(tp.topic, {})[tp.partition] = offset.offset
    return GroupReport(committed.group, committed.how, offsets)
