"""Retention of dead letters (`sink.dead_letters.retention`): those of runs that ended longer ago are deleted.

    ledger: these have expired ──► rows deleted from the table ──► ledger: the table as it is now

All letters of a run expire together, and none of them while an unfinished redrive has planned one of them. The first
event is decided from the ledger state that it is appended to, like a redrive's plan: so the two cannot use the same
letters. If a later step is interrupted, the next maintenance repeats it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.dead_letters import ADDRESS, Letter, LetterStates, letters_of
from kseg.etl.ledger.events import INCREMENTAL
from kseg.etl.ledger.expired_letters import LettersExpired, has_expired
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.ranges import EMPTY, OffsetSet
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.ledger.table_names import current_names
from kseg.etl.ledger.values import TableRecord
from kseg.etl.operations.dead_letters import addresses_of, dead_letter_tables
from kseg.etl.run.context import JobContext
from kseg.etl.tables.values import KnownTable

AT_ONCE = 500
"""The number of runs whose letters are deleted in one commit: its predicate lists them."""


@dataclass(frozen=True, slots=True)
class ExpiredLetters:
    """One dead-letter table. expired: number of letters that expire now, by their state before. deleted: number of
    deleted rows; None in a dry run."""

    path: str
    expired: dict[str, int] = field(default_factory=dict)
    deleted: int | None = None


def expire_letters(context: JobContext, lease: Lease | None, retention: timedelta | None) -> list[ExpiredLetters]:
    """Delete dead letters older than `retention`, table by table, and those that an interrupted attempt has left.

    lease: the maintenance's; None: a dry run, nothing is changed. retention: None: no letters expire.

    Raises:
        Refused: a table is not what the ledger left, such as one that was restored.
        RetriableFailure: another writer changed a table meanwhile.
        LeaseLost: another maintenance has taken over.
    """
    found = []
    state = context.clients.read_state()
    moved = state.tables.keys() - set(current_names(state.tables))
    for table in dead_letter_tables(context, state):
        if table in moved:
            continue
        # First, since the ledger's record of the deletion would hide an older change from all later runs.
        context.targets.check(table, _known(state, table))
        access = context.targets.access(table)
        rows = access.read(ADDRESS, {}) if access is not None else None
        if access is None or rows is None:
            continue
        letters = letters_of(rows[name].to_pylist() for name in ADDRESS)
        before = None if retention is None else datetime.now(UTC) - retention
        if lease is None:
            found.append(ExpiredLetters(table, _event(state, table, letters, before).counts))
            continue
        found.append(_expire(context, lease, table, letters, before))
    return found


def _expire(
    context: JobContext, lease: Lease, table: str, letters: Sequence[Letter], before: datetime | None
) -> ExpiredLetters:
    events: list[LettersExpired] = []

    def decide(state: JobState) -> list[LettersExpired]:
        events[:] = [_event(state, table, letters, before)]
        return events if events[0].runs else []

    after = lease.transition(decide)
    context.observe("expire:after")
    going = dict.fromkeys(
        one.run_id for one in letters if has_expired(after.expired_letters, one.run_id, one.tp, one.offset)
    )
    if not going:
        return ExpiredLetters(table, deleted=0)
    maintenance = context.targets.maintenance(table)
    maintenance.check_store()
    runs, deleted = list(going), 0
    details = {"job": context.job.name, "ledger": context.clients.ledger.id}
    with maintenance.exclusively(lease, wait=timedelta(0)):
        for first in range(0, len(runs), AT_ONCE):
            lease.read()  # raises LeaseLost if another maintenance has taken over
            deleted += maintenance.delete_runs(runs[first : first + AT_ONCE], details=details)
    context.observe("expire:deleted")
    now = context.targets.check(table, _known(after, table))
    lease.transition(lambda _: [LettersExpired(table=table, state=now)])
    return ExpiredLetters(table, events[0].counts, deleted)


def _known(state: JobState, table: str) -> KnownTable:
    return KnownTable(state.tables.get(table), state.table_records.get(table, TableRecord()))


def _event(state: JobState, table: str, letters: Iterable[Letter], before: datetime | None) -> LettersExpired:
    """The event with the letters that expire by this state of the ledger and have not expired before."""
    states, reserved = LetterStates(state), state.reservations()
    by_run: dict[str, list[Letter]] = {}
    for letter in letters:
        by_run.setdefault(letter.run_id, []).append(letter)
    runs: dict[str, dict[TopicPartition, OffsetSet]] = {}
    counts: Counter[str] = Counter()
    dropped = _dropped_until(state)
    for run_id, of_run in by_run.items() if before is not None else ():
        assert before is not None
        planned = any(one.offset in reserved.get(one.tp, EMPTY) for one in of_run)
        ended = _ended_before(state.runs[run_id], before) if run_id in state.runs else dropped < before
        if planned or not ended or not (states.is_own(run_id) or states.is_of_lost(run_id)):
            continue
        new = [one for one in of_run if not has_expired(state.expired_letters, run_id, one.tp, one.offset)]
        if new:
            runs[run_id] = addresses_of(new)
            counts.update(states.of(one) for one in new)
    return LettersExpired(table=table, runs=runs, counts=dict(sorted(counts.items())))


def _ended_before(run: RunState, before: datetime) -> bool:
    """Whether a run ended before this time.

    False for an abandoned backfill: it may run again with the same id, and write the same dead letters again.
    """
    if run.abandoned and run.chain != INCREMENTAL:
        return False
    return run.ended and run.ended_at is not None and run.ended_at < before


def _dropped_until(state: JobState) -> datetime:
    """A time before which all runs ended that a summary has dropped, and those of lost ledgers.

    Only incremental runs are dropped, the oldest first, and each ends before the next one is planned. Runs of other
    chains stay in the ledger for ever: they may be older than a dropped run.
    """
    lease = state.lease(INCREMENTAL)
    last = lease.until if lease is not None else datetime.max.replace(tzinfo=UTC)
    return next((run.planned_at for run in state.runs.values() if run.chain == INCREMENTAL), last)
