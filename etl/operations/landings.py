"""Which run's rows should be at which offsets of a table: the ledger's side of `kseg verify`. Pure functions.

An address may be in a table once for each run that landed it, and never twice for one run:

    claim       a run and a range of offsets that it landed in the table
    standing    not replaced since: the row has to be there
    kept        a later run of mode `replace` could not read the offset again: the row stays, though Kafka may have none
    replaced    a later run of mode `replace` has removed the row; if it read no record at the offset, and an early
                release did not record which rows it kept, the row may still be there
    superseded  an accepted change of the source has given the offset another record: the row stays, and belongs to an
                earlier generation of the partition
    older       offsets of runs whose ranges a summary has dropped: one row each, of a run that is no longer known (also
                offsets that a rebuilt ledger has taken over from a lost one)
    open        offsets of runs that are not accounted for yet: their rows are not final, so nothing is compared
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.dispositions.registry import disposition_of
from kseg.etl.errors import ConfigurationError, listed
from kseg.etl.ledger.ranges import EMPTY, Interval, OffsetSet, common, union_of
from kseg.etl.ledger.state import NO_END, JobState, RunState

ByPartition = dict[TopicPartition, OffsetSet]


Status = Literal["standing", "kept", "replaced", "superseded"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One run's rows in one range of a partition; `end` is exclusive."""

    topic: str
    partition: int
    start: int
    end: int
    run_id: str
    status: Status


@dataclass(frozen=True, slots=True)
class Copies:
    """A range in which each offset has another number of rows than one. copies: the number of runs that have a row of
    it; 0 where there may be one or none."""

    topic: str
    partition: int
    start: int
    end: int
    copies: int


@dataclass(slots=True)
class TableLandings:
    """The rows of one table by the ledger.

    standing, kept, replaced, superseded: by run id. compared: the offsets whose rows are final.
    older: offsets landed by runs whose ranges a summary has dropped, or by a lost ledger's, and not replaced since;
    of_older: all that they landed. older_replaced, older_superseded: offsets at which rows of those runs may be left.
    older_once: whether none of those runs was of mode `append`, so that an offset has one row.
    unknown: offsets that cannot be compared, because a summary has dropped in which table they landed.
    doubtful: offsets of `older` whose records a lost ledger's run may have left out, so that a row may be missing.
    routes: by run id, for runs that had rows of one range for several tables: the routes that lead to this table
    (`sink.routes`). Records with other routes have no row here.
    """

    table: str
    standing: dict[str, ByPartition] = field(default_factory=dict)
    kept: dict[str, ByPartition] = field(default_factory=dict)
    replaced: dict[str, ByPartition] = field(default_factory=dict)
    superseded: dict[str, ByPartition] = field(default_factory=dict)
    compared: ByPartition = field(default_factory=dict)
    older: ByPartition = field(default_factory=dict)
    of_older: ByPartition = field(default_factory=dict)
    older_once: bool = True
    older_replaced: ByPartition = field(default_factory=dict)
    older_superseded: ByPartition = field(default_factory=dict)
    unknown: ByPartition = field(default_factory=dict)
    doubtful: ByPartition = field(default_factory=dict)
    open_runs: list[str] = field(default_factory=list)
    routes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _covered: ByPartition = field(default_factory=dict)

    def land(self, run_id: str, offsets: Mapping[TopicPartition, OffsetSet]) -> None:
        """A run has landed its rows, beside those of earlier runs."""
        self.standing[run_id] = dict(offsets)
        _add(self._covered, offsets)

    def replace(self, offsets: Mapping[TopicPartition, OffsetSet]) -> None:
        """Rows of earlier runs were removed at these offsets."""
        self._move(offsets, self.standing, self.replaced)
        self._move(offsets, self.kept, self.replaced)

    def remove(self, offsets: Mapping[TopicPartition, OffsetSet]) -> None:
        """Does the same as `replace`; rows of runs whose ranges a summary has dropped may be gone as well."""
        self.replace(offsets)
        _add(self.older_replaced, offsets)

    def keep(self, offsets: Mapping[TopicPartition, OffsetSet]) -> None:
        """Rows of earlier runs stay at these offsets, because the offsets could not be read again."""
        self._move(offsets, self.standing, self.kept)
        _add(self.older_replaced, offsets)

    def _move(
        self, offsets: Mapping[TopicPartition, OffsetSet], of: dict[str, ByPartition], to: dict[str, ByPartition]
    ) -> None:
        meeting = common(offsets, self._covered)
        for run_id, partitions in of.items() if meeting else ():
            for tp, moved in common(meeting, partitions).items():
                partitions[tp] = partitions[tp].subtract(moved)
                _add(to.setdefault(run_id, {}), {tp: moved})

    def claims(self) -> Iterator[Claim]:
        """Every claim; those of one run do not overlap."""
        by_status: dict[Status, dict[str, ByPartition]] = {
            "standing": self.standing,
            "kept": self.kept,
            "replaced": self.replaced,
            "superseded": self.superseded,
        }
        for status, by_run in by_status.items():
            for run_id, partitions in by_run.items():
                for tp, offsets in partitions.items():
                    for start, end in offsets:
                        yield Claim(tp.topic, tp.partition, start, end, run_id, status)

    def copies(self) -> Iterator[Copies]:
        """Ranges in which more than one row is due at an offset, or none need be there. Only runs with the same routes
        count together: runs with different routes may have landed a record in different tables, so that one row may be
        all that is due."""
        by_partition: dict[tuple[TopicPartition, tuple[str, ...]], list[OffsetSet]] = {}
        for run_id, partitions in self.standing.items():
            for tp, offsets in partitions.items():
                by_partition.setdefault((tp, self.routes.get(run_id, ())), []).append(offsets)
        for (tp, _), sets in by_partition.items():
            for (start, end), copies in _depths(sets):
                if copies > 1:
                    yield Copies(tp.topic, tp.partition, start, end, copies)
        due = union_of(self.standing.values())
        for tp, offsets in self.doubtful.items():
            for start, end in offsets.subtract(due.get(tp, EMPTY)):
                yield Copies(tp.topic, tp.partition, start, end, 0)


def landings(job: Job, state: JobState) -> dict[str, TableLandings]:
    """The landed offsets of each table by the ledger: first the job file's tables, then those that it named before."""
    names = _Names(job, state)
    found: dict[str, TableLandings] = {}
    undecided: list[ByPartition] = []
    first_landed: list[ByPartition] = []
    for run in state.runs.values():
        decided = run.ended or (run.accounted is not None and not run.abandoning)
        if decided and not run.abandoned:
            first_landed.append({tp: state.current(run, tp, offsets) for tp, offsets in run.added.items()})
        for table, planned in names.ranges(run).items():
            found.setdefault(table, TableLandings(table)).routes |= names.routes(run, table)
            here = {tp: now for tp, offsets in planned.items() if (now := state.current(run, tp, offsets))}
            before = {tp: o for tp, of_tp in planned.items() if (o := of_tp.subtract(here.get(tp, EMPTY)))}
            of_table = found.setdefault(table, TableLandings(table))
            if not decided:
                of_table.open_runs.append(run.run_id)
                undecided.append(here)
                continue
            disposition_of(run.plan).claim(of_table, run, here, in_table=names.landed(run, table))
            if before and not run.abandoned:
                of_table.superseded[run.run_id] = before
    _older(job, state, found, names, union_of(first_landed))
    still_open = union_of(undecided)
    for of_table in found.values():
        of_table.compared = {
            tp: decided_ones
            for tp, offsets in union_of([*of_table.standing.values(), *of_table.kept.values(), of_table.older]).items()
            if (decided_ones := offsets.intersect(state.landed(tp)).subtract(still_open.get(tp, EMPTY)))
        }
    current = [table for table in names.tables if table in found]
    return {table: found[table] for table in dict.fromkeys([*current, *found])}


def _older(
    job: Job, state: JobState, found: dict[str, TableLandings], names: _Names, first_landed: ByPartition
) -> None:
    archived = [run for run in state.runs.values() if run.archived and not run.abandoned]
    once = not state.lost_ledgers and not any(disposition_of(run.plan).adds_copies for run in archived)
    landed_in = {names.of(table) for table in state.archive.landed}
    landed_in |= {names.of(table) for run in archived for table in run.landed}
    moved = bool(landed_in - set(names.tables) - {job.quarantine, job.dead_letters} - names.beside)
    for of_table in found.values():
        if archived or state.archive.runs or state.lost_ledgers:
            of_table.older_superseded = {
                tp: OffsetSet.single(min(firsts), NO_END)
                for tp, firsts in state.reopened.items()
                if names.current.get(tp.topic) == of_table.table
            }
        else:
            of_table.older_replaced.clear()
    for tp, landed in state.landed_offsets.items():
        older = landed.subtract(first_landed.get(tp, EMPTY))
        if not older:
            continue
        if job.sink.routed:
            for name in names.tables:  # a run's routes are dropped with its ranges
                of_table = found.setdefault(name, TableLandings(name))
                of_table.unknown[tp] = older
                of_table.of_older[tp] = older
            continue
        table = names.current.get(tp.topic)
        if table is None:
            continue
        of_table = found.setdefault(table, TableLandings(table))
        of_table.older_once = once
        of_table.of_older[tp] = older
        if moved:
            of_table.unknown[tp] = older
        else:
            replaced = of_table.older_replaced.get(tp, EMPTY)
            of_table.older[tp] = older = older.subtract(replaced)
            of_table.older_replaced[tp] = replaced
            if state.lost_ledgers and job.drops_tombstones:
                of_table.doubtful[tp] = older
            if tp in of_table.older_superseded:
                taken = older.union(replaced)
                of_table.older_superseded[tp] = of_table.older_superseded[tp].subtract(taken)


def _add(sums: ByPartition, more: Mapping[TopicPartition, OffsetSet]) -> None:
    for tp, offsets in more.items():
        sums[tp] = sums.get(tp, EMPTY).union(offsets)


def _depths(sets: list[OffsetSet]) -> Iterator[tuple[Interval, int]]:
    """The pieces of these sets' union, each with the number of sets that hold it."""
    changes: dict[int, int] = {}
    for offsets in sets:
        for start, end in offsets:
            changes[start] = changes.get(start, 0) + 1
            changes[end] = changes.get(end, 0) - 1
    depth, last = 0, 0
    for offset in sorted(changes):
        if depth:
            yield (last, offset), depth
        depth, last = depth + changes[offset], offset


class _Names:
    """Maps each table to one name: names with the same table id in the ledger are one table, named as in the job file.

    tables: those of the job file. current: by topic, the table of the job file that it lands in, unless rows are
    routed by other values. beside: tables of runs that get no rows of records.
    """

    def __init__(self, job: Job, state: JobState) -> None:
        self.current: dict[str, str] = {}
        topics = sorted({tp.topic for tp, offsets in state.landed_offsets.items() if offsets})
        for topic in topics if not job.sink.routed else ():
            with suppress(ConfigurationError):  # no route takes it any more
                self.current[topic] = str(job.sink.target(topic))
        self.tables = job.sink.tables_of(topics) if job.sink.routed else tuple(dict.fromkeys(self.current.values()))
        ids = {known.id: name for name in self.tables if (known := state.tables.get(name)) is not None}
        self._called = {name: ids.get(known.id, name) for name, known in state.tables.items()}
        self._ranges: dict[str, dict[str, ByPartition]] = {}
        self.beside = {table for run in state.runs.values() for table in run.plan.beside}

    def of(self, table: str) -> str:
        return self._called.get(table, table)

    def landed(self, run: RunState, table: str) -> bool:
        return any(self.of(name) == table for name in (*run.landed, *(run.landed_in or ())))

    def routes(self, run: RunState, table: str) -> dict[str, tuple[str, ...]]:
        """The run's routes that lead to a table, by its run id; empty if rows are routed by topic."""
        found = tuple(sorted(route for route, name in run.plan.routes.items() if self.of(name) == table))
        return {run.run_id: found} if found else {}

    def ranges(self, run: RunState) -> dict[str, ByPartition]:
        """The run's planned offsets by table; all of them for each table if rows are routed by other values than their
        topic. Ranges that an early release planned name no table: they belong to their topic's current table."""
        if run.plan.routed:
            return {self.of(table): run.plan.offsets() for table in run.plan.routed if run.plan.ranges}
        if run.run_id not in self._ranges:
            intervals: dict[str, dict[TopicPartition, list[Interval]]] = {}
            for planned in run.plan.ranges:
                table = self.of(planned.table) if planned.table is not None else self.current.get(planned.topic)
                if table is not None and planned.start < planned.end:
                    of_table = intervals.setdefault(table, {})
                    of_table.setdefault(planned.tp, []).append((planned.start, planned.end))
            self._ranges[run.run_id] = {
                table: {tp: OffsetSet.of(of_one) for tp, of_one in partitions.items()}
                for table, partitions in intervals.items()
            }
        return self._ranges[run.run_id]


# --- rows, counted by run


@dataclass(frozen=True, slots=True)
class CountFault:
    """Runs whose rows together are not as many as the ledger says. due, there: numbers of rows."""

    runs: tuple[str, ...]
    due: int
    there: int


def miscounted(
    found: TableLandings, state: JobState, there: Mapping[str | None, int], *, job: Job, exact: bool
) -> tuple[list[CountFault], list[str]]:
    """Runs whose number of rows differs from the ledger's; and notes on runs that cannot be compared.

    there: number of rows in the table by run id. exact: missing rows are a fault, too; otherwise only surplus rows are,
    because rows whose offsets cannot be read any more may have been deleted on purpose.
    """
    names = _Names(job, state)
    groups = _Groups()
    landed: dict[str, tuple[int, int]] = {}
    vague: set[str] = set()
    of_unknown: set[str] = set()  # those that have removed rows of runs that are not known here
    replaces = [run for run in state.runs.values() if disposition_of(run.plan).removes]
    for run in state.runs.values():
        commits = [commit for table, commit in run.landed.items() if names.of(table) == found.table]
        rows, removed = sum(c.rows for c in commits), sum(c.removed for c in commits)
        here = names.ranges(run).get(found.table, {})
        if not commits and not here:
            continue
        groups.add(run.run_id)
        landed[run.run_id] = (0 if run.abandoned else rows), removed
        removes = disposition_of(run.plan).removes
        undecided = not run.ended and (run.accounted is None or run.abandoning)
        superseded = run.run_id in found.superseded
        if undecided or superseded or (run.archived and replaces) or (removes and run.abandoned and not commits):
            vague.add(run.run_id)
        if removes and (commits or run.abandoned):
            for other in state.runs.values():
                if other is run:
                    break
                if other.run_id in landed and _meet(names.ranges(other).get(found.table, {}), here):
                    groups.join(run.run_id, other.run_id)
            if _meet(found.of_older, here):
                of_unknown.add(run.run_id)
    faults, notes = [], []
    for members in groups.all():
        due = sum(landed[run_id][0] - landed[run_id][1] for run_id in members)
        are = sum(there.get(run_id, 0) for run_id in members)
        too_many = [
            CountFault((run_id,), landed[run_id][0], there.get(run_id, 0))
            for run_id in members
            if there.get(run_id, 0) > landed[run_id][0] and run_id not in vague
        ]
        faults += too_many
        if (vague | of_unknown).intersection(members):
            if exact:
                notes.append(f"rows of {_named(members)} could not be compared with the ledger's counts")
        elif exact and not too_many and are != due:
            faults.append(CountFault(tuple(members), due, are))
    return faults, notes


def _named(runs: list[str]) -> str:
    return ("run " if len(runs) == 1 else "runs ") + listed(runs, most=5)


def _meet(one: Mapping[TopicPartition, OffsetSet], other: Mapping[TopicPartition, OffsetSet]) -> bool:
    return any(offsets.intersect(other.get(tp, EMPTY)) for tp, offsets in one.items())


class _Groups:
    """Groups of runs connected by replacements: of the rows that these removed, only the sum over runs is known."""

    def __init__(self) -> None:
        self._of: dict[str, list[str]] = {}

    def add(self, run_id: str) -> None:
        self._of[run_id] = [run_id]

    def join(self, one: str, other: str) -> None:
        first, second = self._of[other], self._of[one]
        if first is second:
            return
        first += second
        for run_id in second:
            self._of[run_id] = first

    def all(self) -> list[list[str]]:
        return list({id(group): group for group in self._of.values()}.values())
