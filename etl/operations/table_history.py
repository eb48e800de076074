"""The runs in a table's history: which ledger and job each belongs to, and which offsets it read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.lost_runs import LostRuns
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import parse_run_id
from kseg.etl.ledger.values import TableState
from kseg.etl.tables.protocol import TableAccess
from kseg.etl.tables.values import CommitRecord


@dataclass(slots=True)
class Change:
    """A partition's newest generation. first: the lowest offset that the history has of it. numbers: by mark, the
    number of its first incremental run.

    If the history does not go back to the generation's first run, the offsets that this run has read are below `first`.
    """

    generation: int
    first: int
    numbers: dict[str, int] = field(default_factory=dict)

    def beside(self, other: Change | None) -> Change:
        """The change of one partition by the histories of two tables."""
        if other is None or other.generation != self.generation:
            return self if other is None or other.generation < self.generation else other
        numbers = {
            mark: min(of_one[mark] for of_one in (self.numbers, other.numbers) if mark in of_one)
            for mark in self.numbers.keys() | other.numbers.keys()
        }
        return Change(self.generation, min(self.first, other.first), numbers)


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The runs in a table's history, by run id. owners: ledger and job. ranges: as the run planned them for the table;
    for one beside the rows all of them. generations: those above 0, by partition. changes: partitions with runs of
    several generations. routed: runs that had rows of one range for several tables. without_rows: runs that landed, and
    had no row for this table."""

    owners: Mapping[str, tuple[str, str]]
    ranges: Mapping[str, Sequence[Sequence[Any]]]
    generations: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    changes: Mapping[TopicPartition, Change] = field(default_factory=dict)
    routed: Collection[str] = ()
    without_rows: Collection[str] = ()

    @classmethod
    def of(cls, access: TableAccess) -> TableHistory:
        """Read the table's history, as far back as it goes."""
        owners: dict[str, tuple[str, str]] = {}
        ranges: dict[str, Sequence[Sequence[Any]]] = {}
        generations: dict[str, dict[TopicPartition, int]] = {}
        routed: set[str] = set()
        without_rows: set[str] = set()
        for commit in access.history():
            details = commit.details
            run = details.get("run", details.get("kseg"))
            if isinstance(run, str) and "mode" in details:
                if run not in owners and _rows(commit) == 0:  # newest first: a backfill may be repeated
                    without_rows.add(run)
                owners[run] = str(details.get("ledger")), str(details.get("job"))
                if planned := details.get("ranges") or details.get("read"):
                    ranges.setdefault(run, planned)
                if "routed" in details:
                    routed.add(run)
                if found := details.get("generations"):
                    generations[run] = {TopicPartition(topic, partition): number for topic, partition, number in found}
        return cls(owners, ranges, generations, _changes(ranges, generations), routed, without_rows)

    @classmethod
    def of_all(cls, tables: Mapping[str, TableAccess]) -> dict[str, TableHistory]:
        """The histories of a job's tables, by name, all with the changes that any of them shows.

        If rows of one partition go to several tables, no run of the newest generation may have had rows for one of
        them.
        """
        found = {name: cls.of(access) for name, access in tables.items()}
        changes: dict[TopicPartition, Change] = {}
        for history in found.values():
            for tp, change in history.changes.items():
                changes[tp] = change.beside(changes.get(tp))
        return {name: replace(history, changes=changes) for name, history in found.items()}

    @classmethod
    def together(cls, histories: Collection[TableHistory]) -> TableHistory:
        """A job's runs as all of its tables show them. histories: as `of_all` gives them."""
        owners: dict[str, tuple[str, str]] = {}
        ranges: dict[str, list[Sequence[Any]]] = {}
        generations: dict[str, dict[TopicPartition, int]] = {}
        changes: dict[TopicPartition, Change] = {}
        for one in histories:
            owners.update(one.owners)
            changes.update(one.changes)
            for run, planned in one.ranges.items():
                ranges.setdefault(run, []).extend(planned)
            for run, numbers in one.generations.items():
                generations.setdefault(run, {}).update(numbers)
        return cls(owners, ranges, generations, changes, {run for one in histories for run in one.routed})

    def is_older(self, run_id: str, tp: TopicPartition) -> bool:
        """Whether a run has read the partition in an older generation than the newest one."""
        change = self.changes[tp]
        if run_id in self.ranges:
            return self.generations.get(run_id, {}).get(tp, 0) < change.generation
        parts = parse_run_id(run_id)
        # Releases that gave ids without a mark had no generations. For a backfill it is unknown: it counts as newest.
        return parts is None or (parts.number is not None and parts.number < change.numbers.get(parts.mark, 0))

    def generations_read(self) -> LostRuns:
        """Which generation the runs have read of each partition with several, as a ledger keeps it."""
        first: dict[str, dict[TopicPartition, int]] = {}
        unnumbered: dict[str, dict[TopicPartition, bool]] = {}
        for run_id in sorted(self.ranges):
            parts = parse_run_id(run_id)
            read = {TopicPartition(topic, partition) for topic, partition, *_ in self.ranges[run_id]}
            for tp in read & self.changes.keys():
                if parts is None:  # of a release without generations
                    continue
                if parts.number is None:
                    unnumbered.setdefault(run_id, {})[tp] = not self.is_older(run_id, tp)
                elif parts.mark not in self.changes[tp].numbers:  # only older ones; later ones may be newer
                    of_mark = first.setdefault(parts.mark, {})
                    of_mark[tp] = max(of_mark.get(tp, 0), parts.number + 1)
        for tp, change in self.changes.items():
            for mark, number in change.numbers.items():
                first.setdefault(mark, {})[tp] = number
        newest = {tp: change.generation for tp, change in self.changes.items()}
        return LostRuns(newest, first, unnumbered)

    def ranges_of(self, run: str) -> Iterator[tuple[TopicPartition, OffsetSet]]:
        """The offsets that a run has read. Only for runs with rows in the table: others may have been abandoned."""
        for topic, partition, start, end in self.ranges.get(run, ()):
            tp = TopicPartition(topic, partition)
            if tp in self.changes and self.is_older(run, tp):
                end = min(end, self.changes[tp].first)
            if offsets := OffsetSet.single(start, end):
                yield tp, offsets


def has_only(tables: Mapping[str, TableAccess], run: str, since: Mapping[str, TableState]) -> bool:
    """Whether all commits to these tables since their states are in the histories, and are of this run; False where
    there is another table than those with a state."""
    return tables.keys() == since.keys() and all(_has_only(tables[name], run, since[name]) for name in tables)


def _has_only(access: TableAccess, run: str, since: TableState) -> bool:
    now = access.state()
    if now is None or now.id != since.id:
        return False
    commits = list(access.history(since))
    return len(commits) == now.version - since.version and all(
        commit.details.get("run", commit.details.get("kseg")) == run for commit in commits
    )


def _rows(commit: CommitRecord) -> int | None:
    """The rows that a run's commit landed; None if the history does not say."""
    if isinstance(rows := commit.details.get("rows"), int):
        return rows
    return None if None in commit.added.values() else sum(rows or 0 for rows in commit.added.values())


def _changes(
    ranges: Mapping[str, Sequence[Sequence[Any]]], generations: Mapping[str, Mapping[TopicPartition, int]]
) -> dict[TopicPartition, Change]:
    found: dict[TopicPartition, Change] = {}
    for run_id, of_run in generations.items():
        for topic, partition, start, _ in ranges[run_id]:
            tp = TopicPartition(topic, partition)
            number = of_run.get(tp, 0)
            change = found.get(tp)
            if change is None or change.generation < number:
                change = found[tp] = Change(number, start)
            if change.generation > number:
                continue
            change.first = min(change.first, start)
            parts = parse_run_id(run_id)
            if parts is not None and parts.number is not None:
                change.numbers[parts.mark] = min(parts.number, change.numbers.get(parts.mark, parts.number))
    return {tp: change for tp, change in found.items() if change.generation}
