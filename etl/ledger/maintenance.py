"""Maintenance of a ledger: summaries, compaction of its files, and retention of old events.

A *summary* is a checkpoint of the state after all events up to a number, appended in a separate commit. A reader starts
from the newest summary (an app transaction has its number), so that the time to read a job does not grow with its
history. A summary keeps everything that a plan, a commit or the validity of a later event depends on; only runs that
ended long ago are reduced to sums. A process that continues from an earlier state must get the same result.

*Compaction* rewrites small files into one and changes no row. It overwrites rows with themselves instead of using
OPTIMIZE: delta-rs 1.6.6 commits two concurrent OPTIMIZE, and then every row exists twice. *Retention* deletes old
events that a summary replaces; only users' queries read them.

Nothing here is needed for checkpoints and log cleanup of the Delta table: delta-rs writes a checkpoint every 10
commits, and then removes log entries older than a week.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from arro3.core import DataType
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from kseg.etl.errors import KsegError
from kseg.etl.ledger import codec
from kseg.etl.ledger.dead_letters import may_have_dead_letters, read_again
from kseg.etl.ledger.events import INCREMENTAL
from kseg.etl.ledger.fold import Entry
from kseg.etl.ledger.generations import is_shown_by_id
from kseg.etl.ledger.state import Archive, JobState, RunState, Summary
from kseg.etl.ledger.store import Ledger, job_predicate, scanned

KEEP = timedelta(days=90)
"""How long events that a summary replaces are kept for queries."""

SLACK = timedelta(days=1)
"""Retention deletes only if the oldest event is this much older than the limit: so at most once a day."""

SUMMARISE_AFTER = 500
"""A new summary is written after more than this many transitions since the last one: about 50 runs."""

RUNS_KEPT = 200
"""Ended runs that a summary keeps in full, if they have no more than `RANGES_KEPT` ranges together."""

RANGES_KEPT = 10_000
"""Every process parses them, with 20 µs of CPU time for the plan, the counts and the offsets of one range: without this
limit a job of 1,000 partitions would need 4 s for each command."""

LEAST_KEPT = 5
"""Ended runs that a summary keeps in full, whatever their number of ranges."""

RANGES_BETWEEN = 50_000
"""A new summary is also written when it would drop more ranges than this."""

SMALL_FILES = 40
"""More small files of one job than this are compacted: a read opens each of them (about half a millisecond)."""

COMPACTED_BYTES = 512 * 1024
"""Files of this size (some 10,000 events) are not compacted, so that old events are not read with new ones."""


def maintain(ledger: Ledger, job: str, *, keep: timedelta = KEEP, now: datetime | None = None) -> None:
    """Maintenance at the end of a run: cheap if there is nothing to do, and never blocks another process.

    Raises no KsegError: this run has finished, and the next one reports a problem with the ledger.
    """
    before = (now or datetime.now(UTC)) - keep
    with suppress(KsegError):
        # One read decides what to do; each of the three steps reads again before it writes.
        table, state = ledger.snapshot(job)
        with ledger.errors(f"maintain the ledger of job {job}"):
            summed = table.transaction_version(ledger.summary_app_id(job)) or 0
            files = _files(table, job)
            old = bool(summed) and _has_older(files, before)
            small, _ = _small_files(files)
        if _is_due(state, summed):
            summarise(ledger, job)
        if old:
            retain(ledger, job, keep=keep, now=now)
        if small > SMALL_FILES:
            compact(ledger, job)


def summarise(ledger: Ledger, job: str, *, after: int | None = None) -> bool:
    """Append a summary if there have been more than `after` transitions since the last one (None: if one is due).

    Its commit contains the ledger's app transaction with the current number: if a summary and a transition were decided
    from the same state, only one of them can commit.

    Returns:
        Whether it did; False also if another process has written meanwhile (the next run will do it).
    """
    table, state = ledger.snapshot(job)
    summed = table.transaction_version(ledger.summary_app_id(job)) or 0
    due = _is_due(state, summed) if after is None else state.sequence - summed > after
    if not due or state.updated_at is None:
        return False
    entry = Entry(Summary(state=summary_of(state)), state.updated_at, state.sequence)
    rows = codec.encode(job, [codec.Row(entry, 0, 1, f"summary-{state.sequence}")])
    properties = ledger.commit_properties(
        job, state.sequence, [Summary.KIND], name=secrets.token_hex(8), summed=state.sequence
    )
    with ledger.errors(f"summarise the job {job}"):
        try:
            write_deltalake(table, rows, mode="append", commit_properties=properties)
        except CommitFailedError:
            return False
    return True


def _is_due(state: JobState, summed: int) -> bool:
    """Whether a new summary would shorten what a process reads. summed: number of the last summary."""
    since = state.sequence - summed
    return since > SUMMARISE_AFTER or (
        since > 0 and sum(len(run.plan.ranges) for run in _outdated(state, RUNS_KEPT)) > RANGES_BETWEEN
    )


def compact(ledger: Ledger, job: str, *, small_files: int = SMALL_FILES) -> bool:
    """Rewrite the job's small files into one if there are more than `small_files`. No row changes; a concurrent
    transition is decided again.

    Returns:
        Whether it did; False also if all of them are older than a large file, or another process has written
        meanwhile (the next run will do it).
    """
    with ledger.errors(f"compact the job {job}"):
        table = ledger.table()
        small, last = _small_files(_files(table, job))
        if small <= small_files:
            return False
        going = f"{job_predicate(job)} AND seq > {last}"
        # This also removes copies of rows that concurrent OPTIMIZE commands have made.
        rows = codec.without_copies(scanned(table, going))
        if not rows.num_rows:
            return False
        try:
            write_deltalake(table, rows, mode="overwrite", predicate=going, target_file_size=COMPACTED_BYTES)
        except CommitFailedError:
            return False
    return True


def retain(ledger: Ledger, job: str, *, keep: timedelta = KEEP, now: datetime | None = None) -> bool:
    """Delete the job's events that are older than `keep` and that a summary replaces, and all earlier summaries.

    Returns:
        Whether it did; False also if another process has written meanwhile (the next run will do it).
    """
    before = (now or datetime.now(UTC)) - keep
    with ledger.errors(f"drop old events of the job {job}"):
        table = ledger.table()
        summed = table.transaction_version(ledger.summary_app_id(job)) or 0
        if not summed or not _has_older(_files(table, job), before):
            return False
        rows = scanned(table, f"{job_predicate(job)} AND seq <= {summed}")
        sequences, kinds = codec.column_values("seq", rows), codec.column_values("kind", rows)
        times = map(codec.time_of, codec.column_values("written_at", rows))
        young = min((seq for seq, at in zip(sequences, times, strict=True) if at >= before), default=None)
        # Clocks of several machines differ: every event before the first young one is deleted.
        last = summed if young is None else young - 1
        if not any(
            seq < summed if kind == Summary.KIND else seq <= last for seq, kind in zip(sequences, kinds, strict=True)
        ):
            return False
        old = (
            f"{job_predicate(job)} AND ((kind <> '{Summary.KIND}' AND seq <= {last})"
            f" OR (kind = '{Summary.KIND}' AND seq < {summed}))"
        )
        try:
            table.delete(old)
        except CommitFailedError:
            return False
        # Delete data files that no version of the last week uses. Another process may be deleting them, too.
        with suppress(DeltaError):
            ledger.table().vacuum(retention_hours=7 * 24, dry_run=False)
    return True


def count_files(ledger: Ledger) -> tuple[int, int]:
    """The number of data files in the ledger's newest version, and their total bytes."""
    sizes = ledger.table().get_add_actions().column("size_bytes").to_pylist()
    return len(sizes), sum(sizes)


class _File(NamedTuple):
    """A data file and its statistics (None: missing): the last transition in it, and the time of its oldest event."""

    size: int
    last: int | None
    oldest: datetime | None


def _files(table: DeltaTable, job: str) -> list[_File]:
    """The job's data files."""
    files = table.get_add_actions(flatten=True)
    if not files.num_rows:
        return []
    none = [None] * files.num_rows
    named = set(files.column_names)
    last = files.column("max.seq").to_pylist() if "max.seq" in named else none
    # As numbers: arro3 needs a quarter of a second for the first timestamp.
    oldest = files.column("min.written_at").cast(DataType.int64()).to_pylist() if "min.written_at" in named else none
    columns = (files.column("partition.job").to_pylist(), files.column("size_bytes").to_pylist(), last, oldest)
    return [
        _File(size, seq, None if micros is None else codec.time_of(micros))
        for its, size, seq, micros in zip(*columns, strict=True)
        if its == job
    ]


def _small_files(files: list[_File]) -> tuple[int, int]:
    """The number of a job's small files, and the last transition in a large file (0: there is none)."""
    large = [file.last or 0 for file in files if file.size >= COMPACTED_BYTES]
    return len(files) - len(large), max(large, default=0)


def _has_older(files: list[_File], before: datetime) -> bool:
    """Whether a job's oldest event, by the files' statistics, is older than `before` by more than the slack."""
    return any(file.oldest is not None and file.oldest < before - SLACK for file in files)


def summary_of(state: JobState, *, runs_kept: int | None = None) -> JobState:
    """The state with reduced runs that ended long ago; everything that later events or plans depend on is kept.

    The leases of all chains are kept, too: later attempts continue their numbers.
    """
    old = {run.run_id for run in _outdated(state, RUNS_KEPT if runs_kept is None else runs_kept)}
    runs: dict[str, RunState] = {}
    archive = state.archive
    letters = may_have_dead_letters(state)
    for run in state.runs.values():
        if run.run_id not in old:
            runs[run.run_id] = run
        elif run.chain == INCREMENTAL and not run.archived and is_shown_by_id(state, run):
            archive = _add(archive, run)
        else:
            # A backfill may be requested again at any later time, and does nothing if it has finished. Of other runs
            # the generations are kept, because rows contain the id of their run.
            runs[run.run_id] = run if run.archived else _reduced(run, letters)
    return replace(state, runs=runs, archive=archive)


def _outdated(state: JobState, most: int) -> list[RunState]:
    """The ended runs that a summary reduces: all but the newest. most: the number of runs to keep."""
    ended = [run for run in state.runs.values() if run.ended]
    kept = ranges = 0
    for run in reversed(ended):
        ranges += len(run.plan.ranges)
        if kept == most or (ranges > RANGES_KEPT and kept >= LEAST_KEPT):
            break
        kept += 1
    return ended[: len(ended) - kept]


def _add(archive: Archive, run: RunState) -> Archive:
    if not run.finished or run.accounted is None:
        return replace(archive, runs=archive.runs + 1)
    landed = dict(archive.landed)
    for table, commit in run.landed.items():
        landed[table] = landed.get(table, 0) + commit.rows
    return Archive(
        runs=archive.runs + 1,
        rows_in=archive.rows_in + run.accounted.rows_in,
        rows_out=archive.rows_out + run.accounted.rows_out,
        counts=archive.counts + run.accounted.counts,
        landed=landed,
    )


def _reduced(run: RunState, letters: bool) -> RunState:
    """The run with only its identity and sums. letters: whether it may have landed dead letters of earlier runs."""
    plan = replace(run.plan, pinned_config="", topics={}, ranges=(), tables={}, held_back={})
    account = replace(run.accounted, ranges=(), gaps=()) if run.accounted else None
    return RunState(
        plan=plan,
        planned_at=run.planned_at,
        owner=run.owner,
        landed=run.landed,
        accounted=account,
        abandoned=run.abandoned,
        finished=run.finished,
        ended_at=run.ended_at,
        archived=True,
        read_again=read_again(run) if letters else {},
    )
