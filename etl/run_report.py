"""A run as its ledger tells it, as a report."""

from __future__ import annotations

from etl.ledger.state import RunState
from etl.report import OffsetsGivenUp, RangeReport, RunReport, Status, TableReport, Unconfirmed


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
            )
            for a in run.accounted.ranges
        ]
    else:
        ranges = [RangeReport(r.topic, r.partition, r.start, r.end) for r in run.plan.ranges]
    tables = [TableReport(path, commit.version, commit.rows) for path, commit in run.landed.items()]
    quarantine = run.quarantine
    return RunReport(
        job=job,
        run_id=run.run_id,
        mode=run.mode,
        status=status,
        ranges=ranges,
        rows_in=run.accounted.rows_in if run.accounted else None,
        rows_out=run.accounted.rows_out if run.accounted else None,
        tables=[table for table in tables if table.path != quarantine],
        quarantine=next((table for table in tables if table.path == quarantine), None),
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
    )
