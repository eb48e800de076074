"""Rebuilds a lost ledger: landed offsets are read from the tables, so that no record lands twice.

    landed offsets    the offsets of rows in the tables, of dead letters and of quarantined bytes. As far back as the
                      tables' histories go, also the complete ranges of runs that still have rows, including markers,
                      aborted records and records that a transform dropped; and those of runs that have set something
                      aside and landed without a row. For a run with routes to several tables, only the rows and what
                      was set aside, because the run may not have landed in all tables
    the next run      starts at the group's last offset that the lost ledger committed; without one at the first landed
                      offset, or at the start of a run with routes to several tables, or of one that has set something
                      aside: it may have died before its rows. It skips landed offsets, and reads the offsets in between
    the job's rows    rows of the lost ledger's runs: by `_kseg_run`, and the app transactions of the tables

Rows of an older generation (before an accepted change of the source) are used only below the first offset of the newest
generation, as far as histories have it. Offsets between landed ones have no rows, so reading them again lands nothing
twice; but rows that were deleted land again, if no history shows them. This information cannot be restored: bases,
boundaries of intervals, offsets given up, the list of backfills, unfinished runs, and topic ids. So a topic that was
created again is not detected.

Drivers of the lost ledger are fenced, by its transactional id, and by an app transaction that closes each table to the
lost ledger, which every commit checks. What they have landed until then is read as well. All that is refused is refused
before: a lost ledger that is found again would be of no use behind the fence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.lost_runs import LostRuns
from kseg.etl.ledger.ranges import EMPTY, Interval, OffsetSet, union_of
from kseg.etl.ledger.run_ids import mark_of, parse_run_id
from kseg.etl.ledger.state import NO_END
from kseg.etl.ledger.values import APP_ROOT, TableState, app_owners, closed_app_id
from kseg.etl.operations.set_aside import set_aside
from kseg.etl.operations.table_addresses import address_columns, offsets_of_column
from kseg.etl.operations.table_history import TableHistory, has_only
from kseg.etl.planning.group_reconciliation import GroupView, ledger_of
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.planning.source_acceptance import OPTION, first_offsets
from kseg.etl.rows.names import RUN_COLUMN
from kseg.etl.rows.types import ADDRESS_TYPES
from kseg.etl.run.context import JobContext
from kseg.etl.run.group_commit import fence
from kseg.etl.tables.protocol import TableAccess, Target
from kseg.etl.tables.side_kinds import side_tables_of
from kseg.etl.tables.values import RunCommit
from kseg.etl.telemetry.progress import Progress

LOST: Final = "--lost-ledger"
_FENCE: Final = "ledger-rebuilt"
_UNMARKED: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class RebuiltPartition:
    """frontier: the next run's start. landed: the number of landed offsets. committed: the group's offset."""

    topic: str
    partition: int
    base: int
    frontier: int
    landed: int
    committed: int | None


@dataclass(slots=True)
class RebuildReport:
    """The result of `kseg repair --rebuild-ledger`. status: rebuilt, dry-run. lost: ids of the ledgers in question.
    rows, set_aside: the job's rows in its tables, and in the tables of dead letters and of quarantined bytes."""

    job: str
    status: str
    ledger: str
    lost: tuple[str, ...] = ()
    rows: int = 0
    set_aside: int = 0
    partitions: list[RebuiltPartition] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return asdict(self)


def rebuild_ledger(
    job: Job,
    *,
    lost: Sequence[str] = (),
    accepted: Sequence[str] = (),
    dry_run: bool = False,
    take_over: bool = False,
    progress: Progress | None = None,
) -> RebuildReport:
    """Create the job's part of a new ledger from its tables and its group.

    lost: ids of this job's lost ledgers; needed if the tables have several for a job of this name.
    accepted: TOPIC or TOPIC:PARTITION:OFFSET whose log has changed (from an offset on) since rows were landed: these
        rows stay as an older generation, and offsets from there on are read.

    Raises:
        ConfigurationError: rows have no addresses; `accepted` names a log that the job does not read.
        Refused: the ledger already has this job; no rows have landed; it is not clear which ledgers or rows belong to
            this job; rows are beyond the log's end.
    """
    if not job.sink.addresses:
        raise ConfigurationError.of("sink.addresses", "a ledger cannot be rebuilt from rows without addresses")
    with JobContext.open(job, progress, ledger="optional" if dry_run else "create") as context:
        state = context.clients.read_state()
        if state.bases or state.runs:  # a ledger that a refused run has just created contains only its lease
            raise Refused.of("ledger-exists", ledger=job.ledger)
        if dry_run:
            found = _Rebuilding.of(context, lost, accepted)
            found.read_rows()
            return found.report("dry-run")
        with context.run_lease(ev.INCREMENTAL, take_over=take_over) as lease:
            before = _Rebuilding.of(context, lost, accepted)
            before.read_rows()
            before.fence_lost_drivers(lease)
            found = before.read_behind_fence(accepted)
            events = found.events()
            lease.transition(lambda _: events)
        return found.report("rebuilt")


def _command(lost: Sequence[str], accepted: Sequence[str]) -> str:
    """The same command with all ledgers and logs that were named before."""
    named = [f"{LOST} {ledger}" for ledger in lost] + [f"{OPTION} {word}" for word in dict.fromkeys(accepted)]
    return " ".join(["kseg repair JOB --rebuild-ledger", *named])


@dataclass(slots=True)
class _Rebuilding:
    """tables: existing tables of rows. found: each table's app transactions. lost: this job's lost ledgers.

    named: ledgers in the tables. asked: the changes to accept. began: first offsets of runs that may not have landed in
    all of their tables. accepted: by partition, the offset from which on the log differs from the tables' rows. beside:
    existing tables of dead letters and quarantined bytes. states: of all tables, before they were read. of_unknown:
    landed offsets of runs of which nothing else is known: where they began is not, so no run starts with these.
    lost_runs: the generations that runs have read."""

    context: JobContext
    snapshot: SourceSnapshot
    group: GroupView | None
    tables: dict[str, TableAccess]
    found: dict[str, Mapping[str, int]]
    named: tuple[str, ...]
    lost: tuple[str, ...]
    asked: tuple[str, ...]
    states: Mapping[str, TableState] = field(default_factory=dict)
    landed: dict[TopicPartition, OffsetSet] = field(default_factory=dict)
    reopened: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    began: dict[TopicPartition, int] = field(default_factory=dict)
    accepted: Mapping[TopicPartition, int] = field(default_factory=dict)
    beside: Mapping[str, TableAccess] = field(default_factory=dict)
    of_unknown: dict[TopicPartition, OffsetSet] = field(default_factory=dict)
    lost_runs: LostRuns | None = None
    rows: int = 0
    set_aside: int = 0

    @classmethod
    def of(cls, context: JobContext, lost: Sequence[str], accepted: Sequence[str]) -> _Rebuilding:
        job, snapshot = context.job, context.inputs.snapshot()
        tables: dict[str, TableAccess] = {}
        found: dict[str, Mapping[str, int]] = {}
        states: dict[str, TableState] = {}
        beside = [table for _, table in side_tables_of(job)]
        for table in [*sorted(job.sink.tables_of(snapshot.topics)), *beside]:
            access = context.targets.access(table)
            now = access.state() if access is not None else None
            if access is not None and now is not None:
                tables[table], found[table] = access, access.transactions(APP_ROOT, now)
                states[table] = now
        there = {table: tables.pop(table) for table in beside if table in tables}
        group = context.inputs.group_view(snapshot.partitions)
        owners = {owner for of_table in found.values() for owner in app_owners(of_table)}
        named = tuple(sorted(ledger for ledger, name in owners if name == job.name))
        asked, firsts = tuple(accepted), first_offsets(snapshot, accepted)
        read = (context, snapshot, group, tables, found, named)
        rebuilding = cls(*read, lost=(), asked=asked, states=states, accepted=firsts, beside=there)
        rebuilding.lost = rebuilding._lost_ledgers(lost)
        return rebuilding

    def _lost_ledgers(self, given: Sequence[str]) -> tuple[str, ...]:
        job, named = self.context.job, self.named
        if unknown := sorted(set(given) - set(named)):
            known = ", ".join(named) or "none"
            raise ConfigurationError.of(
                LOST, f"no table has runs of ledger {unknown[0]}", f"the tables have runs of: {known}"
            )
        if not named:
            raise Refused.of("nothing-landed", {"name": job.name})
        if len(named) > 1 and not given:
            raise Refused.of(
                "several-ledgers",
                {
                    "count": len(named),
                    "name": job.name,
                    "ledgers": ", ".join(named),
                    "command": _command(named, self.asked),
                },
            )
        return tuple(sorted(given or named))

    def fence_lost_drivers(self, lease: Lease) -> None:
        """Prevent drivers of a lost ledger from committing offsets, and from landing in any table.

        Every table is closed to the lost ledger, even if it has not landed there. Drivers of releases up to 0.1 do not
        check this: for them, the app transaction of their next incremental run is committed, which is one above the
        newest of all tables.
        """
        context, job = self.context, self.context.job
        targets = {table: self._target(table) for table in self.found}  # one that is refused is, before any is closed
        for ledger in self.lost:
            if job.commits_offsets and job.group_commit == "transactional":
                fence(context.clients.cluster, job, ledger)
            app_id = f"{APP_ROOT}/{ledger}/{job.name}"
            newest = max(versions.get(app_id, 0) for versions in self.found.values())
            for table, target in targets.items():
                with target.exclusively(lease, wait=context.deadline.left()):
                    target.remove_run(RunCommit(_FENCE, closed_app_id(app_id), 1))
                    last = max(newest, context.targets.transaction_version(table, app_id))
                    target.remove_run(RunCommit(_FENCE, app_id, last + 1))

    def read_behind_fence(self, accepted: Sequence[str]) -> _Rebuilding:
        """The same once no lost driver lands any more, nor commits the group's offsets: the tables are read again only
        where anyone has committed since they were read."""
        found = _Rebuilding.of(self.context, self.lost, accepted)
        if has_only({**found.tables, **found.beside}, _FENCE, self.states):
            return replace(self, group=found.group)
        found.read_rows()
        return found

    def _target(self, table: str) -> Target:
        targets = self.context.targets
        if table not in self.beside:
            return targets.target(table)
        setting = next(kind.setting for kind, of_kind in side_tables_of(self.context.job) if of_kind == table)
        return targets.side_target(table, setting=setting)

    def read_rows(self) -> None:
        """Determine the landed offsets from the tables' rows and histories."""
        found: dict[TopicPartition, list[Interval]] = {}  # sorted once: rows may have a range for each offset
        histories = TableHistory.of_all({**self.tables, **self.beside})
        together = TableHistory.together(histories.values())
        # One entry for each change of generation, because later runs continue to count them. The first offsets of
        # earlier generations are not known.
        self.reopened = {tp: (change.first,) * change.generation for tp, change in together.changes.items()}
        self.lost_runs = together.generations_read()
        with_rows: set[str] = set()
        for table, access in self.tables.items():
            self.context.progress.phase(f"read {table}")
            by_run = histories[table]
            seen: set[str] = set()
            for tp, intervals, runs, rows in self._rows(table, access, by_run):
                found.setdefault(tp, []).extend(intervals)
                seen |= runs
                self.rows += rows
            for run in seen:
                for tp, offsets in by_run.ranges_of(run):
                    if run in by_run.routed:
                        self.began[tp] = min(offsets.intervals[0][0], self.began.get(tp, NO_END))
                    else:
                        found.setdefault(tp, []).extend(offsets)
            with_rows |= seen
        self._read_set_aside(histories, together, with_rows, found)
        self.landed = {tp: OffsetSet.of(intervals) for tp, intervals in found.items()}
        for tp, first in self.accepted.items():
            self.landed[tp] = self.landed.get(tp, EMPTY).intersect(OffsetSet.single(0, first))
            self.reopened[tp] = (*self.reopened.get(tp, ()), first)
        for tp, offsets in self.landed.items():
            end = max((last for _, last in offsets), default=0)
            if tp in self.snapshot.bounds and end > self.snapshot.bounds[tp].high_watermark:
                values = {
                    "end": end,
                    "high_watermark": self.snapshot.bounds[tp].high_watermark,
                    "command": _command(self.lost if len(self.named) > 1 else (), (*self.asked, tp.topic)),
                }
                raise Refused.of("rows-beyond-log", values, topic=tp.topic, partition=tp.partition)

    def _read_set_aside(
        self,
        histories: Mapping[str, TableHistory],
        history: TableHistory,
        with_rows: Collection[str],
        found: dict[TopicPartition, list[Interval]],
    ) -> None:
        """Add the offsets of what runs have set aside, which they commit before their rows; and the ranges of such runs
        that then landed in a table without a row for it. history: of all tables together. with_rows: runs that have
        rows in any table."""
        for table, access in self.beside.items():
            self.context.progress.phase(f"read {table}")
            for run, aside in set_aside(table, access).items():
                if not self._is_ours(table, run, history):
                    continue
                self.set_aside += aside.rows
                planned = union_of({tp: read} for tp, read in history.ranges_of(run))
                for tp, read in planned.items():
                    self.began[tp] = min(read.intervals[0][0], self.began.get(tp, NO_END))
                for tp, intervals in aside.offsets.items():
                    if tp.topic not in self.snapshot.topics:
                        continue
                    current = self._current(history, run, tp, OffsetSet.of(intervals))
                    current = current.intersect(planned[tp]) if tp in planned else current
                    found.setdefault(tp, []).extend(current)
                    if tp not in planned and run not in with_rows:
                        self.of_unknown[tp] = self.of_unknown.get(tp, EMPTY).union(current)
                for name in self.tables:
                    if run in histories[name].without_rows and run not in history.routed:
                        for tp, read in histories[name].ranges_of(run):
                            found.setdefault(tp, []).extend(read)

    def _current(self, history: TableHistory, run: str, tp: TopicPartition, offsets: OffsetSet) -> OffsetSet:
        """Those of a run's offsets that still have the same records in the newest generation, as far as it is known."""
        change = history.changes.get(tp)
        if change is None or not history.is_older(run, tp):
            return offsets
        return offsets.intersect(OffsetSet.single(0, change.first))

    def _rows(
        self, table: str, access: TableAccess, history: TableHistory
    ) -> Iterator[tuple[TopicPartition, OffsetSet, set[str], int]]:
        address = address_columns(table, access)
        owned: dict[str | None, bool] = {}
        for batch in self.context.targets.scan(table, [*address, RUN_COLUMN]):
            topics, partitions, offsets = (
                batch.column(name).cast(kind) for name, kind in zip(address, ADDRESS_TYPES, strict=True)
            )
            runs = batch.column(RUN_COLUMN).cast(pa.string())
            found = pc.unique(runs).to_pylist()
            for run_id in found:
                if run_id not in owned:
                    owned[run_id] = self._is_ours(table, run_id, history)
            ours = pa.array([run_id for run_id in found if owned[run_id]], pa.string())
            keep = pc.and_(pc.is_in(runs, ours), pc.is_in(topics, pa.array([*self.snapshot.topics], pa.string())))
            kept = pa.table([topics, partitions, offsets, runs], names=["topic", "partition", "offset", "run"]).filter(
                keep
            )
            for key in kept.select(["topic", "partition"]).group_by(["topic", "partition"]).aggregate([]).to_pylist():
                tp = TopicPartition(key["topic"], key["partition"])
                here = kept.filter(
                    pc.and_(pc.equal(kept["topic"], tp.topic), pc.equal(kept["partition"], tp.partition))
                )
                if (change := history.changes.get(tp)) is not None:
                    older = [run_id for run_id in pc.unique(here["run"]).to_pylist() if history.is_older(run_id, tp)]
                    of_older = pc.is_in(here["run"], pa.array(older, pa.string()))
                    here = here.filter(pc.invert(pc.and_(of_older, pc.greater_equal(here["offset"], change.first))))
                if len(here):
                    yield tp, offsets_of_column(here["offset"]), set(pc.unique(here["run"]).to_pylist()), len(here)

    def _is_ours(self, table: str, run_id: str | None, history: TableHistory) -> bool:
        name = self.context.job.name
        if run_id is None:
            return False
        parts = parse_run_id(run_id)
        if parts is not None:
            return parts.mark in {mark_of(ledger, name) for ledger in self.lost}
        if not _UNMARKED.fullmatch(run_id):
            return False
        known = history.owners.get(run_id)
        if known is not None:
            return known[1] == name and known[0] in self.lost
        others = {owner for owner in app_owners(self.found[table]) if owner[1] != name or owner[0] not in self.lost}
        if not others:
            return True
        ledger, job = min(others)
        raise Refused.of(
            "rows-of-unknown-run", {"job": job, "ledger": ledger}, case="rebuilding", table=table, run=run_id
        )

    # --- what follows from it

    def committed(self, tp: TopicPartition) -> ev.GroupOffset | None:
        """The group's offset, if the lost ledger has committed it."""
        found = self.group.offsets.get(tp) if self.group is not None else None
        if found is None or found.offset < 0 or ledger_of(found.metadata) not in self.lost:
            return None
        if found.offset > self.accepted.get(tp, NO_END):  # of records that are gone
            return None
        return ev.GroupOffset(found.offset, found.metadata or "", found.leader_epoch)

    def bases(self) -> dict[TopicPartition, int]:
        bases = {}
        for tp in self.snapshot.partitions:
            committed = self.committed(tp)
            landed = self.landed.get(tp, EMPTY).subtract(self.of_unknown.get(tp, EMPTY))
            first = min((landed.intervals[0][0] if landed else NO_END), self.began.get(tp, NO_END))
            if committed is not None:
                bases[tp] = committed.offset
            elif first < NO_END:
                bases[tp] = first
        for tp, first in self.accepted.items():
            bases[tp] = min(first, bases.get(tp, first))
        return bases

    def events(self) -> list[ev.Event]:
        context, snapshot = self.context, self.snapshot
        states = {table: access.state() for table, access in {**self.tables, **self.beside}.items()}
        events: list[ev.Event] = [
            ev.LedgerRebuilt(
                lost=self.lost,
                bases=self.bases(),
                landed=dict(self.landed),
                topics={topic: snapshot.identity(topic) for topic in snapshot.topics},
                tables={table: state for table, state in states.items() if state is not None},
                reopened=self.reopened,
                lost_runs=self.lost_runs if self.reopened else None,
            )
        ]
        committed = {tp: offset for tp in snapshot.partitions if (offset := self.committed(tp)) is not None}
        if committed and context.job.group is not None:
            events.append(ev.GroupOffsetsAccepted(group=context.job.group, offsets=committed))
        return events

    def report(self, status: str) -> RebuildReport:
        job = self.context.job
        report = RebuildReport(job.name, status, job.ledger, self.lost, self.rows, self.set_aside)
        for tp, base in sorted(self.bases().items()):
            landed, committed = self.landed.get(tp, EMPTY), self.committed(tp)
            at = committed.offset if committed is not None else None
            frontier = landed.contiguous_from(base)
            report.partitions.append(RebuiltPartition(*tp, base, frontier, landed.length, at))
        if any(one.committed is None for one in report.partitions):
            report.notes.append(
                "where the group has no offset of the lost ledger, the next run reads all offsets that have no row, no "
                "dead letter and no quarantined bytes"
            )
        if self.accepted:
            report.notes.append("rows of reopened offsets stay in their tables, as rows of the older generation")
        return report
