"""Retention of dead letters (`sink.dead_letters.retention`): those of runs that ended longer ago are deleted.

    ledger: these have expired ──► rows deleted from the table ──► ledger: the table as it is now

All of a run's letters expire at once, but for a run of which an unfinished redrive has planned one. The first event is
decided on the state that it is appended to, as a redrive's plan is: so neither takes what the other needs. What is
interrupted behind it is repeated by the next maintenance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.dead_letters import ADDRESS, Letter, LetterStates
from kseg.etl.ledger.events import INCREMENTAL
from kseg.etl.ledger.expired_letters import LettersExpired, has_expired
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.ranges import EMPTY, OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.dead_letters import addresses_of, dead_letter_tables
from kseg.etl.run.context import JobContext

AT_ONCE = 500
"""Runs whose letters are deleted in one commit: its predicate names them."""


@dataclass(frozen=True, slots=True)
class ExpiredLetters:
    """One table of dead letters. expired: how many have now, by the state that they had. deleted: rows; None: none yet
    (a dry run)."""

    path: str
    expired: dict[str, int] = field(default_factory=dict)
    deleted: int | None = None


def expire_letters(context: JobContext, lease: Lease | None, retention: timedelta | None) -> list[ExpiredLetters]:
    """Delete the job's dead letters that are older, table by table; what an earlier attempt has left in any case.

    lease: of the maintenance; None: nothing is changed. retention: None: none expire.

    Raises:
        RetriableFailure: another writer changed a table meanwhile.
        LeaseLost: another maintenance has taken this one's place.
    """
    found = []
    state = context.clients.read_state()
    for table in dead_letter_tables(context, state):
        access = context.targets.access(table)
        rows = access.read(ADDRESS, {}) if access is not None else None
        if access is None or rows is None:
            continue
        letters = [Letter(*address) for address in zip(*(rows[name].to_pylist() for name in ADDRESS), strict=True)]
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
            lease.read()  # another may have taken it since
            deleted += maintenance.delete_runs(runs[first : first + AT_ONCE], details=details)
    context.observe("expire:deleted")
    access = context.targets.access(table)
    now = access.state() if access is not None else None
    lease.transition(lambda _: [LettersExpired(table=table, state=now)])
    return ExpiredLetters(table, events[0].counts, deleted)


def _event(state: JobState, table: str, letters: Iterable[Letter], before: datetime | None) -> LettersExpired:
    """What expires by this state of the ledger, besides what has."""
    states, reserved = LetterStates(state), state.reservations()
    by_run: dict[str, list[Letter]] = {}
    for letter in letters:
        by_run.setdefault(letter.run_id, []).append(letter)
    runs: dict[str, dict[TopicPartition, OffsetSet]] = {}
    counts: Counter[str] = Counter()
    for run_id, of_run in by_run.items() if before is not None else ():
        assert before is not None
        planned = any(one.offset in reserved.get(one.tp, EMPTY) for one in of_run)
        if planned or not states.is_own(run_id) or not _ended_before(state, run_id, before):
            continue
        new = [one for one in of_run if not has_expired(state.expired_letters, run_id, one.tp, one.offset)]
        if new:
            runs[run_id] = addresses_of(new)
            counts.update(states.of(one) for one in new)
    return LettersExpired(table=table, runs=runs, counts=dict(sorted(counts.items())))


def _ended_before(state: JobState, run_id: str, before: datetime) -> bool:
    """Of a run that the ledger's summary has dropped from its list: it is older than all that are there.

    A backfill that was abandoned may run again by its name, and set the same records aside.
    """
    run = state.runs.get(run_id)
    if run is not None:
        if run.abandoned and run.chain != INCREMENTAL:
            return False
        return run.ended and run.ended_at is not None and run.ended_at < before
    ends: Mapping[str, datetime] = {one.run_id: one.ended_at for one in state.runs.values() if one.ended_at is not None}
    return bool(ends) and min(ends.values()) < before
