"""A run's report from the ledger's state."""

from __future__ import annotations

from dataclasses import asdict

from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.decoding.errors import shown_columns
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.run.report import (
    GroupReport,
    OffsetsGivenUp,
    RangeReport,
    RunReport,
    Status,
    TableNulls,
    TableReport,
    Unconfirmed,
)


def ended(job: str, run: RunState, state: JobState | None = None) -> RunReport:
    """The report of a run that has ended. No table has rows of an abandoned one. state: as for `report_of`."""
    if run.finished:
        return report_of(job, run, status="done", state=state)
    report = report_of(job, run, status="abandoned")
    report.tables, report.quarantine, report.dead_letters = [], None, None
    report.notes.append(f"run {run.run_id} was abandoned: no table has rows of it, and its offsets are open again")
    return report


def report_of(job: str, run: RunState, *, status: Status, state: JobState | None = None) -> RunReport:
    """The report of a run by the ledger: its ranges, with counts once they are accounted, and its commits.

    state: with it the tables' nulls stand beside those of the run before.
    """
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
                _numbers(a.counts.decoding) if a.counts.decoding is not None else None,
            )
            for a in run.accounted.ranges
        ]
    else:
        ranges = [RangeReport(r.topic, r.partition, r.start, r.end) for r in run.plan.ranges]
    tables = [
        TableReport(path, commit.version, commit.rows, commit.nulls, _nulls_before(state, run, path))
        for path, commit in run.landed.items()
    ]
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
        notes=[
            *(f"no row was routed to {table}: there is no commit of this run" for table in run.without_rows),
            *_nulled_notes(run),
        ],
    )


def _numbers(counts: DecodingCounts) -> dict[str, int]:
    return {name: number for name, number in asdict(counts).items() if name != "columns"}


def nulled_columns(run: RunState) -> dict[str, int]:
    """By column, the number of records with nulls in place of what could not be decoded."""
    decoding = run.accounted.counts.decoding if run.accounted is not None else None
    return decoding.columns if decoding is not None else {}


def _nulled_notes(run: RunState) -> list[str]:
    columns = nulled_columns(run)
    return [f"records with nulls in place of what could not be decoded: {shown_columns(columns)}"] if columns else []


def _nulls_before(state: JobState | None, run: RunState, table: str) -> TableNulls | None:
    for other in reversed(state.runs.values()) if state is not None else ():
        commit = other.landed.get(table)
        earlier = other.finished and other.planned_at < run.planned_at
        if earlier and commit is not None and commit.nulls is not None and commit.rows:
            return TableNulls(other.run_id, commit.rows, dict(commit.nulls))
    return None


def null_notes(report: RunReport) -> list[str]:
    """Columns that hold nothing but nulls since this run: a decoder or a query that fails gives nulls and no error."""
    return [
        f"{table.path}: column {column} is null in all {table.rows} rows; in run {table.before.run} it was in "
        f"{table.before.nulls[column]} of {table.before.rows}"
        for table in report.tables
        if table.before is not None and table.rows and table.nulls is not None
        for column, nulls in table.nulls.items()
        if nulls == table.rows and table.before.nulls.get(column, table.before.rows) < table.before.rows
    ]


def group_report(committed: ev.OffsetsCommitted | None) -> GroupReport | None:
    """A commit of the group's offsets, by topic and partition."""
    if committed is None:
        return None
    offsets: dict[str, dict[int, int]] = {}
    for tp, offset in sorted(committed.offsets.items()):
        offsets.setdefault(tp.topic, {})[tp.partition] = offset.offset
    return GroupReport(committed.group, committed.how, offsets)
