"""Keeping a ledger small: compaction of its files, and retention of old events.

Checkpoints and the clean-up of the Delta log need nothing from here: delta-rs writes a checkpoint every 50 commits and
drops log entries that are older than a week when it does.

Retention folds all events up to a transition S into one `summary`, whose payload is the very state that they add up to,
and rewrites the job's rows in one commit: the summary under the number S, and the events after S as they are. It
carries the ledger's app transaction at the number where it stands, so that it and a transition on the same state
exclude each other. Finished runs older than the retention become sums, but everything a planner asks stays as it was:
landed and given up offsets, bases, boundaries, identities of topics and tables, group offsets, the numbers of chains,
leases, unfinished runs, and which backfills have run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from etl.ledger import codec
from etl.ledger.events import INCREMENTAL, RangeCounts
from etl.ledger.fold import Entry, fold
from etl.ledger.state import Archive, JobState, RunState, Summary
from etl.ledger.store import Ledger, job_predicate

KEEP = timedelta(days=90)
"""How long events stay as they are: what queries over the ledger can look back on."""

SLACK = timedelta(days=1)
"""Retention rewrites a job's rows at most this often."""

SMALL_FILES = 40
"""Files of one job that are compacted into one; a read opens each of them (about half a millisecond)."""


def maintain(ledger: Ledger, job: str, *, keep: timedelta = KEEP, now: datetime | None = None) -> None:
    """What a run does for the ledger when it ends: cheap where there is nothing to do, and never in the way of others.

    Raises:
        RetriableFailure, Refused: as `Ledger.read`.
    """
    if not retain(ledger, job, keep=keep, now=now):
        compact(ledger, job)


def compact(ledger: Ledger, job: str, *, small_files: int = SMALL_FILES) -> bool:
    """Rewrite the job's files as one if there are more than `small_files`. Changes no row; excludes no transition.

    Returns:
        Whether it did; False also where another process was at it.
    """
    with ledger.errors(f"compact the job {job}"):
        table = ledger.table()
        if len(table.file_uris(file_pruning_predicate=[("job", "=", job)])) <= small_files:
            return False
        try:
            table.optimize.compact(partition_filters=[("job", "=", job)])
        except CommitFailedError:
            return False
    return True


def retain(ledger: Ledger, job: str, *, keep: timedelta = KEEP, now: datetime | None = None) -> bool:
    """Fold the job's events older than `keep` into a summary, once they are a day older than that.

    Returns:
        Whether it did; False also where another process has written meanwhile (the next run will do it).
    """
    before = (now or datetime.now(UTC)) - keep
    with ledger.errors(f"fold old events of the job {job}"):
        table = ledger.table()
        state, rows = ledger.state_and_rows(table, job)
        old = [row for row in rows if not isinstance(row.entry.event, Summary)]
        if not old or old[0].entry.at >= before - SLACK:
            return False
        # Clocks of several machines may cross: the cut lies before the first transition that is young.
        cut = next((row.entry.sequence for row in rows if row.entry.at >= before), state.sequence + 1) - 1
        if cut < old[0].entry.sequence:
            return False
        folded = [row.entry for row in rows if row.entry.sequence <= cut]
        kept = [row for row in rows if row.entry.sequence > cut]
        later = {row.entry.event.chain for row in kept}
        summary = summarise(JobState(job=job, ledger_id=ledger.id), folded, before, later=later)
        first = codec.Row(Entry(Summary(state=summary), summary.updated_at or before, cut), 0, 1, f"summary-{cut}")
        try:
            write_deltalake(
                table,
                codec.encode(job, [first, *kept]),
                mode="overwrite",
                predicate=job_predicate(job),
                commit_properties=ledger.commit_properties(job, state.sequence, ["summary"]),
            )
        except CommitFailedError:
            return False
        # Data files that no version of the last week refers to. Another process may be at the same.
        with suppress(DeltaError):
            ledger.table().vacuum(retention_hours=7 * 24, dry_run=False)
    return True


def summarise(initial: JobState, entries: Sequence[Entry], before: datetime, *, later: Collection[str]) -> JobState:
    """The state that these events add up to, with runs that ended before that time reduced to what a planner asks.

    later: chains of the events that will follow. Their leases have to stay, for those events stand under them.
    """
    state = fold(initial, entries)
    runs: dict[str, RunState] = {}
    archive = state.archive
    last = next((run.run_id for run in reversed(state.runs.values()) if run.chain == INCREMENTAL), None)
    for run in state.runs.values():
        if not run.ended or (run.ended_at is not None and run.ended_at >= before) or run.run_id == last:
            runs[run.run_id] = run
        elif run.chain == INCREMENTAL:
            archive = _add(archive, run)
        else:
            # Its name may be asked for again, however late: a backfill that has finished does nothing the second time.
            runs[run.run_id] = _reduced(run)
    leases = {
        chain: lease
        for chain, lease in state.leases.items()
        if chain in later or not (chain in runs and runs[chain].archived and lease.until < before)
    }
    return replace(state, runs=runs, leases=leases, archive=archive)


def _add(archive: Archive, run: RunState) -> Archive:
    account = run.accounted if run.finished else None
    return Archive(
        runs=archive.runs + 1,
        rows_in=archive.rows_in + (account.rows_in if account else 0),
        rows_out=archive.rows_out + (account.rows_out if account else 0),
        counts=archive.counts + (account.counts if account else RangeCounts()),
    )


def _reduced(run: RunState) -> RunState:
    plan = replace(run.plan, pinned_config="", topics={}, ranges=(), tables={}, held_back={})
    account = replace(run.accounted, ranges=(), gaps=()) if run.accounted else None
    return RunState(
        plan=plan,
        planned_at=run.planned_at,
        accounted=account,
        abandoned=run.abandoned,
        finished=run.finished,
        ended_at=run.ended_at,
        archived=True,
    )


__all__ = ["KEEP", "compact", "maintain", "retain", "summarise"]
