"""The state machine of the ledger: `fold` applies events to a state, and rejects an event that is not allowed in it.

The order of a run's events (any other order is an IllegalEvent):

    planned ──► landed* ──► accounted ──► offsets_committed ──► finished
       │  ▲        │            │                                  ▲
       │  └────────┤            ├──────────────────────────────────┘      (without a group commit)
       │  account_ │            │
       │  cleared  ▼            │
       ├────► account_failed    │
       │           │            │
       └───────────┴────────────┴──► abandoning ──► abandoned

`table_shaped` comes before the run lands in the table. Each attempt of a run that replaces rows writes `replacing`
before its first commit. `refused` only records an error,
and may follow any event. `reconfigured` is for a run that has landed nothing. After the group's offsets are committed,
a run can only finish.

An event is also rejected if it breaks an invariant of the planner: one unfinished run for each chain; numbers without
gaps; no offset in the plans of two unfinished runs, and no landed offset in a plan (unless the mode lands it again);
balanced counts; bases that never rise, and boundaries that never change; no event under a lease that is not the chain's
last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned, with_pinned
from kseg.etl.ledger.errors import IllegalEvent, LeaseLost
from kseg.etl.ledger.expired_letters import LettersExpired, with_expired
from kseg.etl.ledger.kept_offsets import gone_with, landed_with, with_attempt
from kseg.etl.ledger.lost_runs import LostRuns
from kseg.etl.ledger.order import MAY_FOLLOW, overlap_of
from kseg.etl.ledger.ranges import EMPTY, OffsetSet, offsets_of, total_length
from kseg.etl.ledger.schemas import SchemasAdded, changed_lineages
from kseg.etl.ledger.state import JobState, LeaseState, RunState, Summary
from kseg.etl.ledger.table_shaped import TableShaped, with_shape


@dataclass(frozen=True, slots=True)
class Entry:
    """An event in the ledger.

    at: when it was written, by the writer's clock (aware, UTC). sequence: number of its transition.
    """

    event: ev.Event
    at: datetime
    sequence: int


def fold(state: JobState, entries: Iterable[Entry]) -> JobState:
    """The state after these events; `state` is not changed.

    Raises:
        IllegalEvent: an event is not allowed after those before it.
        LeaseLost: an event was written under a lease that was no longer the chain's last.
    """
    building = _Building(state)
    for entry in entries:
        building.add(entry)
    return building.result()


class _Building:
    """A mutable copy of a state, to which events are applied."""

    def __init__(self, state: JobState) -> None:
        self._take(state)

    def _take(self, state: JobState) -> None:
        self.state = state
        self.runs = dict(state.runs)
        self.leases = dict(state.leases)
        self.bases = dict(state.bases)
        self.bases_of_files = state.bases_of_files
        self.landed = dict(state.landed_offsets)
        self.given_up = dict(state.given_up_offsets)
        self.boundaries = dict(state.boundaries)
        self.unproved = dict(state.unproved)
        self.topics = dict(state.topics)
        self.tables = dict(state.tables)
        self.table_records = dict(state.table_records)
        self.committed = {group: dict(offsets) for group, offsets in state.committed.items()}
        self.number = state.incremental_sequence
        self.sequence = state.sequence
        self.updated_at = state.updated_at
        self.last_refused = state.last_refused
        self.reopened = dict(state.reopened)
        self.lineages = state.lineages
        self.schema_texts = dict(state.schema_texts)
        self.reopened_in = dict(state.reopened_in)
        self.reopened_after = dict(state.reopened_after)
        self.expired_letters = state.expired_letters

    def result(self) -> JobState:
        return replace(
            self.state,
            sequence=self.sequence,
            updated_at=self.updated_at,
            runs=self.runs,
            leases=self.leases,
            bases=self.bases,
            bases_of_files=self.bases_of_files,
            landed_offsets=self.landed,
            given_up_offsets=self.given_up,
            boundaries=self.boundaries,
            unproved=self.unproved,
            topics=self.topics,
            tables=self.tables,
            table_records=self.table_records,
            committed=self.committed,
            incremental_sequence=self.number,
            last_refused=self.last_refused,
            reopened=self.reopened,
            reopened_in=self.reopened_in,
            reopened_after=self.reopened_after,
            lineages=self.lineages,
            schema_texts=self.schema_texts,
            expired_letters=self.expired_letters,
        )

    def add(self, entry: Entry) -> None:
        event = entry.event
        match event:
            case Summary():
                self._summary(event)
            case ev.Leased():
                self._leased(event, entry.at)
            case ev.RunRefused():
                # Needs no lease: a run may be refused before it has one, and the event changes no offsets.
                self._refused(event)
            case _:
                self._under_lease(event)
                self._held(event, entry.at)
        self.sequence = entry.sequence
        self.updated_at = entry.at

    def _held(self, event: ev.Event, at: datetime) -> None:
        match event:
            case ev.Renewed():
                self.leases[event.chain] = replace(self.leases[event.chain], renewed_at=at)
            case ev.Released():
                self.leases[event.chain] = replace(self.leases[event.chain], released=True)
            case ev.Planned():
                self._planned(event, at)
            case BasePinned():
                self._base_pinned(event)
            case ev.BoundaryPinned():
                self._boundary_pinned(event)
            case ev.BoundaryNotPinned():
                for tp, log_start in event.log_starts.items():
                    self.unproved[tp, event.time_ms] = log_start
            case ev.OffsetsGivenUp():
                for tp, offsets in offsets_of(event.ranges).items():
                    self.given_up[tp] = self.given_up.get(tp, EMPTY).union(offsets)
            case ev.OffsetsReclaimed():
                for tp, offsets in offsets_of(event.ranges).items():
                    self.given_up[tp] = self.given_up.get(tp, EMPTY).subtract(offsets)
            case ev.GroupOffsetsAccepted():
                self.committed.setdefault(event.group, {}).update(event.offsets)
            case ev.TopicSeen():
                self._seen(event.topics)
            case ev.LedgerRebuilt():
                self._rebuilt(event)
            case ev.SourceAccepted():
                self._source_accepted(event)
            case ev.TableAccepted():
                self._accepted(event)
            case LettersExpired():
                self.expired_letters = with_expired(self.expired_letters, event)
                if event.state is not None:
                    self._table(event.table, event.state)
            case SchemasAdded():
                self._schemas_added(event)
                if event.pinned:
                    self._run_step(event, at)
            case ev.OffsetsCommitted() if event.run_id not in self.runs:
                # The commit belongs to no run, or repeats that of a run which a summary has dropped.
                self.committed.setdefault(event.group, {}).update(event.offsets)
            case _:
                self._run_step(event, at)

    # --- leases

    def _leased(self, event: ev.Leased, at: datetime) -> None:
        before = self.leases.get(event.chain)
        expected = 1 if before is None else before.attempt + 1
        if event.attempt != expected:
            raise self._illegal(event, f"lease number {event.attempt} cannot follow number {expected - 1}")
        self.leases[event.chain] = LeaseState(
            chain=event.chain,
            owner=event.owner,
            attempt=event.attempt,
            since=at,
            renewed_at=at,
            duration=event.duration,
        )

    def _under_lease(self, event: ev.Event) -> None:
        """Fencing: only events under the last lease of a chain are accepted, whatever the clocks say."""
        lease = self.leases.get(event.chain)
        if lease is None:
            raise LeaseLost(f"{event.KIND} written without a lease", remedy=None, job=self.state.job, chain=event.chain)
        if (lease.owner, lease.attempt) != (event.owner, event.attempt) or lease.released:
            raise LeaseLost(
                f"{event.KIND} rejected: the lease number {event.attempt} is no longer held",
                owner=None if lease.released else lease.owner,
                until=None if lease.released else lease.until,
                remedy="run the job again: the unfinished run continues",
                job=self.state.job,
                chain=event.chain,
            )

    # --- runs

    def _planned(self, event: ev.Planned, at: datetime) -> None:
        plan = event.plan
        if (plan.run_id, plan.chain) != (event.run_id, event.chain):
            raise self._illegal(event, f"its plan is of run {plan.run_id} of chain {plan.chain}")
        if (plan.mode == "incremental") != (plan.chain == ev.INCREMENTAL):
            raise self._illegal(event, f"mode {plan.mode} in chain {plan.chain}")
        if plan.chain not in (ev.INCREMENTAL, plan.run_id):
            raise self._illegal(event, "the chain of such a run is called like the run")
        now = self.result()
        before = self.runs.get(plan.run_id)
        if before is not None and (not before.abandoned or plan.chain == ev.INCREMENTAL):
            raise self._illegal(event, f"there is a run of this id, and it is {before.phase}")
        unfinished = now.unfinished(plan.chain)
        if unfinished is not None:
            raise self._illegal(event, f"run {unfinished.run_id} of this chain has not ended")
        expected = now.next_app_transaction(plan.chain)
        if (plan.app_id, plan.app_version) != expected:
            raise self._illegal(event, f"app transaction {plan.app_id} {plan.app_version}, expected {expected}")
        if plan.generations != {tp: now.generation(tp) for tp in plan.offsets() if now.generation(tp)}:
            raise self._illegal(event, "a change of its source was accepted meanwhile")
        if (overlap := overlap_of(plan, now)) is not None:
            raise self._illegal(event, overlap)
        self.runs.pop(plan.run_id, None)  # an abandoned run with the same id: the new one becomes the last in order
        self.runs[plan.run_id] = RunState(plan=plan, planned_at=at, owner=event.owner)
        if plan.chain == ev.INCREMENTAL:
            self.number = plan.app_version
        self._seen(plan.topics)
        for path, table in plan.tables.items():
            if table is not None:
                self._table(path, table)
                self.table_records[path] = replace(self.table_records.get(path, ev.TableRecord()), examined=table)

    def _refused(self, event: ev.RunRefused) -> None:
        if event.chain == ev.INCREMENTAL:
            self.last_refused = event
        run = self.runs.get(event.run_id)
        if run is not None and not run.ended:
            self.runs[event.run_id] = replace(run, refused=event)

    def _run_step(self, event: ev.Event, at: datetime) -> None:
        run = self.runs.get(event.run_id)
        if run is None or run.chain != event.chain:
            raise self._illegal(event, "there is no such run in this chain")
        if run.phase not in MAY_FOLLOW[type(event)]:
            raise self._illegal(event, f"the run is {run.phase}")
        ended = run.ended
        match event:
            case ev.Reconfigured():
                run = self._reconfigured(event, run)
            case TableShaped():
                if event.table in run.landed:
                    raise self._illegal(event, f"it has landed in {event.table}")
                run = with_shape(run, event)
                self._table(event.table, event.state)
            case ev.Replacing():
                run = with_attempt(run, event.kept)
            case SchemasAdded():
                run = replace(run, plan=replace(run.plan, schemas={**run.plan.schemas, **event.pinned}))
            case ev.Landed():
                if event.table in run.landed:
                    raise self._illegal(event, f"it has landed in {event.table} already")
                run = replace(run, landed={**run.landed, event.table: event.commit})
                run = landed_with(run, {event.table: event.commit.kept})
                self._table(event.table, event.commit.after)
                self._landing(event.table, event.commit.after, run)
            case ev.Accounted():
                run = self._accounted(event, run)
            case ev.AccountFailed():
                run = replace(run, account_failed=event)
            case ev.AccountCleared():
                if run.account_failed is not None and run.account_failed.final:
                    raise self._illegal(event, "its rows have landed, and cannot be compared again")
                run = replace(run, account_failed=None)
            case ev.OffsetsCommitted():
                self.committed.setdefault(event.group, {}).update(event.offsets)
                run = replace(run, offsets_committed=event)
            case ev.Finished():
                run = replace(run, finished=True, ended_at=at, refused=None, attempts_kept=())
            case ev.Abandoning():
                run = landed_with(replace(run, abandoning=True, landed_in=event.landed_in), event.kept)
            case ev.Abandoned():
                run = self._abandoned(event, run, at)
            case _:
                raise self._illegal(event, "no such step")
        self.runs[event.run_id] = run if ended else replace(run, owner=event.owner)

    def _reconfigured(self, event: ev.Reconfigured, run: RunState) -> RunState:
        plan = replace(
            run.plan,
            config_hash=event.config_hash,
            pinned_config=event.pinned_config,
            ranges=event.ranges,
            tables=event.tables,
        )
        if plan.offsets() != run.plan.offsets() or total_length(plan.ranges) != total_length(run.plan.ranges):
            raise self._illegal(event, "its ranges are not those that were planned")
        for path, table in event.tables.items():
            if table is not None:
                self._table(path, table)
        return replace(run, plan=plan)

    def _accounted(self, event: ev.Accounted, run: RunState) -> RunState:
        unbalanced = next((account for account in event.ranges if not account.balanced), None)
        if unbalanced is not None:
            raise self._illegal(event, f"the account of {unbalanced.tp} [{unbalanced.start}, {unbalanced.end}) is off")
        planned = {tp: offsets for tp, offsets in run.plan.offsets().items() if offsets}
        found = {tp: offsets for tp, offsets in offsets_of(event.ranges).items() if offsets}
        if found != planned or total_length(event.ranges) != total_length(run.plan.ranges):
            raise self._illegal(event, "it counts other ranges than were planned")
        added = {}
        for tp, offsets in planned.items():
            before = self.landed.get(tp, EMPTY)
            added[tp] = offsets.subtract(before)
            self.landed[tp] = before.union(offsets)
        return replace(run, accounted=event, added=added)

    def _abandoned(self, event: ev.Abandoned, run: RunState, at: datetime) -> RunState:
        run = landed_with(run, event.kept)
        gone = gone_with(run, event.landed_in)
        now = self.result()
        for tp, offsets in gone.items():
            # Offsets that were reopened since have other records now: they stay landed if other runs landed them.
            self.landed[tp] = self.landed.get(tp, EMPTY).subtract(now.current(run, tp, offsets))
        for path, table in event.tables.items():
            self._table(path, table)
        return replace(run, abandoned=True, ended_at=at, refused=None, attempts_kept=())

    # --- partitions, topics, tables, schemas

    def _schemas_added(self, event: SchemasAdded) -> None:
        try:
            self.lineages = changed_lineages(self.lineages, event.lineages)
        except ValueError as error:
            raise self._illegal(event, str(error)) from None
        self.schema_texts.update(event.texts)

    def _base_pinned(self, event: BasePinned) -> None:
        try:
            self.bases, self.bases_of_files = with_pinned(self.bases, self.bases_of_files, event)
        except ValueError as error:
            raise self._illegal(event, str(error)) from None

    def _boundary_pinned(self, event: ev.BoundaryPinned) -> None:
        for tp, offset in event.offsets.items():
            before = self.boundaries.setdefault((tp, event.time_ms), offset)
            if before != offset:
                raise self._illegal(event, f"the boundary of {tp} at {event.time_ms} is pinned at {before}")
            self.unproved.pop((tp, event.time_ms), None)

    def _seen(self, topics: dict[str, ev.TopicIdentity]) -> None:
        for name, seen in topics.items():
            before = self.topics.get(name)
            if before is not None and (before.topic_id, before.cluster_id) == (seen.topic_id, seen.cluster_id):
                seen = replace(seen, partitions={**before.partitions, **seen.partitions})
            self.topics[name] = seen

    def _rebuilt(self, event: ev.LedgerRebuilt) -> None:
        if self.runs or self.bases or self.landed:
            raise self._illegal(event, "the ledger has what the job has landed")
        self.bases, self.landed, self.reopened = dict(event.bases), dict(event.landed), dict(event.reopened)
        self.reopened_after = {tp: (self.number,) * len(firsts) for tp, firsts in event.reopened.items()}
        self._seen(event.topics)
        for path, table in event.tables.items():
            self._table(path, table)
        lost_runs = event.lost_runs if event.reopened else LostRuns()  # of one generation, whichever release wrote it
        self.state = replace(self.state, lost_ledgers=event.lost, lost_runs=lost_runs)

    def _source_accepted(self, event: ev.SourceAccepted) -> None:
        blocking = self.result().planned_above(event.reopened)
        if blocking is not None:
            raise self._illegal(event, f"run {blocking.run_id} has planned offsets that it reopens")
        for tp, first in event.reopened.items():
            below = OffsetSet.single(0, first)
            self.landed[tp] = self.landed.get(tp, EMPTY).intersect(below)
            self.given_up[tp] = self.given_up.get(tp, EMPTY).intersect(below)
            if tp in self.bases:
                self.bases[tp] = min(self.bases[tp], first)
            before = self.reopened.get(tp, ())
            for known, value in ((self.reopened_in, event.leader_epoch(tp)), (self.reopened_after, self.number)):
                if len(of_tp := known.get(tp, ())) == len(before):
                    known[tp] = (*of_tp, value)
            self.reopened[tp] = (*before, first)
        self.boundaries, self.unproved = (
            {(tp, at): offset for (tp, at), offset in of_kind.items() if offset <= event.reopened.get(tp, offset)}
            for of_kind in (self.boundaries, self.unproved)
        )
        self._seen(event.topics)
        for path, table in event.tables.items():
            self._table(path, table)

    def _table(self, path: str, table: ev.TableState) -> None:
        """Record a table's state unless a newer one is known: runs of several chains record states out of order."""
        before = self.tables.get(path)
        if before is None or before.id != table.id or before.version <= table.version:
            self.tables[path] = table

    def _landing(self, path: str, after: ev.TableState, run: RunState) -> None:
        record = self.table_records.get(path, ev.TableRecord())
        newest = record.landed
        if newest is None or newest.id != after.id or newest.version < after.version:
            plan = run.plan
            record = replace(record, landed=after, app_id=plan.app_id, app_version=plan.app_version)
            self.table_records[path] = replace(record, rules=plan.decoding_rules)

    def _accepted(self, event: ev.TableAccepted) -> None:
        """Replace all earlier states of the table, under every name that it has in the ledger."""
        known = self.tables.get(event.table)
        same = {path for path, table in self.tables.items() if known is not None and table.id == known.id}
        records = []
        for path in same | {event.table}:
            self.tables.pop(path, None)
            records.append(self.table_records.pop(path, ev.TableRecord()))
        if event.state is not None:
            self.tables[event.table] = event.state
            # Rows that were compared are those of the job's runs, and so they have these runs' rules.
            rules = max(record.rules for record in records) if event.verified else ev.TableRecord().rules
            self.table_records[event.table] = ev.TableRecord(examined=event.state, rules=rules)
        for run_id, run in self.runs.items():
            if not run.ended and event.table in run.plan.tables and event.table not in run.landed:
                plan = replace(run.plan, tables={**run.plan.tables, event.table: event.state})
                self.runs[run_id] = replace(run, plan=plan)

    def _summary(self, event: Summary) -> None:
        if self.sequence:
            raise self._illegal(event, "a summary has to be before all other events")
        self._take(replace(event.state, version=self.state.version, ledger_id=self.state.ledger_id))

    def _illegal(self, event: ev.Event, message: str) -> IllegalEvent:
        text = f"{event.KIND} is not allowed here: {message}"
        return IllegalEvent(text, job=self.state.job, chain=event.chain, run=event.run_id or None)
