"""A job's state in the ledger, folded from its events, and the planner's queries on it.

The state is a value. `etl.ledger.fold` computes the next state from events; this module reads and writes no table.

    ┌──── landed ────┬─ given up ─┬──── landed ────┬ ─ ─ open ─ ─ ┬─ landed by a backfill ─┬ ─ ─ open ─ ─
    └ base, pinned by the first run                └ frontier: the next incremental run starts here

An offset has landed if an accounted run has planned it. A run that is planned and neither finished nor abandoned
*reserves* its offsets: it may have landed rows that are not recorded yet, so no other run may plan these offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.events import (
    INCREMENTAL,
    Accounted,
    AccountFailed,
    ByPartition,
    Event,
    GroupOffset,
    Mode,
    OffsetIntervals,
    OffsetsCommitted,
    RangeCounts,
    RunPlan,
    RunRefused,
    Strict,
    TableCommit,
    TableRecord,
    TableState,
    TopicIdentity,
)
from kseg.etl.ledger.lost_runs import LostRuns
from kseg.etl.ledger.ranges import EMPTY, OffsetSet
from kseg.etl.ledger.schemas import Lineage, SchemaText
from kseg.etl.ledger.values import APP_ROOT

Phase = Literal[
    "planned",
    "landing",
    "account-failed",
    "accounted",
    "offsets-committed",
    "finished",
    "abandoning",
    "abandoned",
]

NO_END = 2**63 - 1
"""Above every offset."""

BoundaryKey = tuple[TopicPartition, int]
Boundaries = dict[BoundaryKey, int]


def _boundaries_to_json(boundaries: Boundaries) -> dict[str, dict[str, dict[str, int]]]:
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for (tp, time_ms), offset in boundaries.items():
        nested.setdefault(str(time_ms), {}).setdefault(tp.topic, {})[str(tp.partition)] = offset
    return nested


def _boundaries_from_json(value: Any) -> Any:
    if not isinstance(value, dict) or any(isinstance(key, tuple) for key in value):
        return value
    return {
        (TopicPartition(topic, int(partition)), int(time_ms)): offset
        for time_ms, topics in value.items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


BoundaryOffsets = Annotated[Boundaries, BeforeValidator(_boundaries_from_json), PlainSerializer(_boundaries_to_json)]


@dataclass(frozen=True, slots=True)
class LeaseState(Strict):
    """A chain's lease in the ledger.

    attempt: the number of leases of this chain so far. since: when it was taken; renewed_at: its last renewal (both by
    the holder's clock). duration: seconds.
    """

    chain: str
    owner: str
    attempt: int
    since: datetime
    renewed_at: datetime
    duration: float
    released: bool = False

    @property
    def until(self) -> datetime:
        """The time at which the lease expires unless it is renewed."""
        return self.renewed_at + timedelta(seconds=self.duration)

    def live(self, now: datetime) -> bool:
        """Whether another process needs --take-over to take the lease at this time."""
        return not self.released and now < self.until


@dataclass(frozen=True, slots=True)
class RunState(Strict):
    """One run, from its plan to its end.

    plan: the pinned plan, with the changes of `reconfigured`. owner: the owner of the run's last lease.
    added: offsets that this run was the first to land, when it is accounted.
    kept: for a run that replaces rows, planned offsets whose rows stay; None: unknown.
    attempts_kept: the `kept` of each attempt of a replacement, until the run ends (`ledger.kept_offsets`).
    landed_in: while the run is abandoned, the tables in which it had landed before the removal; None: not recorded.
    archived: a summary has dropped the run's details; plan, commits and counts have only its identity and sums.
    read_again: for an archived redrive or replacement, the offsets that it has read again; dead letters at these
        offsets are not open (`ledger.dead_letters`).
    """

    plan: RunPlan
    planned_at: datetime
    owner: str = ""
    landed: dict[str, TableCommit] = field(default_factory=dict)
    accounted: Accounted | None = None
    account_failed: AccountFailed | None = None
    offsets_committed: OffsetsCommitted | None = None
    refused: RunRefused | None = None
    abandoning: bool = False
    landed_in: tuple[str, ...] | None = None
    kept: ByPartition[OffsetIntervals] | None = None
    attempts_kept: tuple[ByPartition[OffsetIntervals], ...] = ()
    abandoned: bool = False
    finished: bool = False
    ended_at: datetime | None = None
    added: ByPartition[OffsetIntervals] = field(default_factory=dict)
    archived: bool = False
    read_again: ByPartition[OffsetIntervals] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        return self.plan.run_id

    @property
    def chain(self) -> str:
        return self.plan.chain

    @property
    def mode(self) -> Mode:
        return self.plan.mode

    @property
    def config_hash(self) -> str:
        return self.plan.config_hash

    @property
    def sequence(self) -> int:
        """The version of the run's app transaction; in the incremental chain the run's number."""
        return self.plan.app_version

    @property
    def quarantine(self) -> str | None:
        """The quarantine table of the run; None if it has none."""
        if self.plan.quarantine is not None or self.archived:
            return self.plan.quarantine
        routed = {planned.table for planned in self.plan.ranges}
        routed |= {self.plan.dead_letters, *self.plan.routed}
        return next((table for table in self.landed if table not in routed), None)

    @property
    def without_rows(self) -> tuple[str, ...]:
        """Tables to which no row of the run was routed, so it made no commit there; () until it is accounted."""
        return tuple(table for table in self.plan.routed if table not in self.landed) if self.accounted else ()

    @property
    def ended(self) -> bool:
        return self.finished or self.abandoned

    @property
    def phase(self) -> Phase:
        """The run's phase."""
        if self.abandoned:
            return "abandoned"
        if self.finished:
            return "finished"
        if self.abandoning:
            return "abandoning"
        if self.offsets_committed is not None:
            return "offsets-committed"
        if self.accounted is not None:
            return "accounted"
        if self.account_failed is not None:
            return "account-failed"
        return "landing" if self.landed else "planned"


@dataclass(frozen=True, slots=True)
class Archive(Strict):
    """Sums over ended incremental runs that a summary has dropped from the list of runs.

    runs: their number, including abandoned runs; the sums include only finished runs. landed: rows by table.
    """

    runs: int = 0
    rows_in: int = 0
    rows_out: int = 0
    counts: RangeCounts = field(default_factory=RangeCounts)
    landed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobState(Strict):
    """The state of one job in the ledger.

    ledger_id: the ledger's id. version: the Delta version of the ledger table. sequence: number of the last transition,
    which is the version of the ledger's app transaction for this job; 0 before the first.
    runs: by run id, in the order of their planning. incremental_sequence: number of incremental runs planned so far.
    topics, tables: their last recorded states. table_records: other recorded states with which plans compare tables.
    committed: by group, the offsets that kseg last committed or accepted.
    unproved: boundaries that could not be pinned, with the log's start at that time; lower offsets are possibly lost.
    lost_ledgers: ids of the lost ledgers which this one replaces; rows of their runs belong to the job. lost_runs: the
    generations that these runs have read (`ledger.generations`).
    reopened: by partition, the first reopened offset of each accepted change of the source, in order.
    lineages: readers' schemas, by place below `decode`. schema_texts: schemas of a registry, by hash.
    reopened_in: the leader epochs in which these changes were accepted, if they are known. reopened_after: the numbers
    of the last incremental runs before these changes, if all are known (`ledger.generations`).
    expired_letters: offsets of dead letters that retention has deleted, by run (`ledger.expired_letters`).
    bases_of_files: bases that only plans of log files have pinned (`ledger.bases`).
    last_refused: the last error of the incremental chain.
    """

    job: str
    ledger_id: str
    version: int = -1
    sequence: int = 0
    updated_at: datetime | None = None
    runs: dict[str, RunState] = field(default_factory=dict)
    leases: dict[str, LeaseState] = field(default_factory=dict)
    bases: ByPartition[int] = field(default_factory=dict)
    landed_offsets: ByPartition[OffsetIntervals] = field(default_factory=dict)
    given_up_offsets: ByPartition[OffsetIntervals] = field(default_factory=dict)
    boundaries: BoundaryOffsets = field(default_factory=dict)
    topics: dict[str, TopicIdentity] = field(default_factory=dict)
    tables: dict[str, TableState] = field(default_factory=dict)
    committed: dict[str, ByPartition[GroupOffset]] = field(default_factory=dict)
    incremental_sequence: int = 0
    last_refused: RunRefused | None = None
    archive: Archive = field(default_factory=Archive)
    lost_ledgers: tuple[str, ...] = ()
    lost_runs: LostRuns | None = None
    reopened: ByPartition[tuple[int, ...]] = field(default_factory=dict)
    table_records: dict[str, TableRecord] = field(default_factory=dict)
    unproved: BoundaryOffsets = field(default_factory=dict)
    reopened_in: ByPartition[tuple[int, ...]] = field(default_factory=dict)
    reopened_after: ByPartition[tuple[int, ...]] = field(default_factory=dict)
    lineages: dict[str, Lineage] = field(default_factory=dict)
    schema_texts: dict[str, SchemaText] = field(default_factory=dict)
    expired_letters: dict[str, ByPartition[OffsetIntervals]] = field(default_factory=dict)
    bases_of_files: ByPartition[int] = field(default_factory=dict)

    def lease(self, chain: str = INCREMENTAL) -> LeaseState | None:
        """The chain's last lease, released and expired ones included; None if it never had one."""
        return self.leases.get(chain)

    def next_attempt(self, chain: str = INCREMENTAL) -> int:
        """The number of the chain's next lease."""
        before = self.lease(chain)
        return 1 if before is None else before.attempt + 1

    def unfinished(self, chain: str = INCREMENTAL) -> RunState | None:
        """The chain's unfinished run (neither finished nor abandoned), at most one; None if there is none."""
        return next((run for run in reversed(self.runs.values()) if run.chain == chain and not run.ended), None)

    def unfinished_runs(self) -> Iterator[RunState]:
        """The unfinished runs of all chains, in the order of their planning."""
        return (run for run in self.runs.values() if not run.ended)

    def landed(self, tp: TopicPartition) -> OffsetSet:
        """Offsets of all accounted runs."""
        return self.landed_offsets.get(tp, EMPTY)

    def given_up(self, tp: TopicPartition) -> OffsetSet:
        """Offsets skipped without reading them, except those that a run has landed since."""
        return self.given_up_offsets.get(tp, EMPTY).subtract(self.landed(tp))

    def covered(self, tp: TopicPartition) -> OffsetSet:
        """Landed or given up: the offsets that the frontier passes."""
        return self.landed(tp).union(self.given_up_offsets.get(tp, EMPTY))

    def reservations(self, *, except_chain: str | None = None) -> dict[TopicPartition, OffsetSet]:
        """Offsets planned by runs that have not ended, accounted or not; no other run may plan them.

        except_chain: leave out this chain's run.
        """
        intervals: dict[TopicPartition, list[tuple[int, int]]] = {}
        for run in self.unfinished_runs():
            for planned in run.plan.ranges if run.chain != except_chain else ():
                end = self.current_below(planned.tp, self.generation_of(run, planned.tp))
                if planned.start < end:
                    intervals.setdefault(planned.tp, []).append((planned.start, min(planned.end, end)))
        return {tp: OffsetSet.of(of_one) for tp, of_one in intervals.items()}

    def reserved(self, tp: TopicPartition, *, except_chain: str | None = None) -> OffsetSet:
        """`reservations` of one partition. It reads all runs' ranges: for many partitions use `reservations`."""
        return self.reservations(except_chain=except_chain).get(tp, EMPTY)

    def generation(self, tp: TopicPartition) -> int:
        """The number of accepted changes of the source after which offsets of this partition had other records."""
        return len(self.reopened.get(tp, ()))

    def generation_of(self, run: RunState, tp: TopicPartition) -> int:
        """The partition's generation that the run read, to which its rows belong."""
        return run.plan.generations.get(tp, 0)

    def current_below(self, tp: TopicPartition, generation: int) -> int:
        """The first offset whose record has changed since this generation; lower offsets have the same records."""
        return min(self.reopened.get(tp, ())[generation:], default=NO_END)

    def generation_in(self, tp: TopicPartition, leader_epoch: int) -> int:
        """The generation of a copy of the log whose last batch has this leader epoch, or an older one.

        Copies from before an accepted change have only older leader epochs than the log had when it was accepted."""
        epochs = self.reopened_in.get(tp, ())
        if len(epochs) < self.generation(tp):  # of a rebuilt ledger, or of one that an earlier release wrote
            topic = self.topics.get(tp.topic)
            seen = topic.partitions.get(tp.partition) if topic is not None else None
            epochs = (seen.leader_epoch if seen is not None else NO_END,) * self.generation(tp)
        return sum(1 for epoch in epochs if epoch <= leader_epoch)

    def planned_above(self, firsts: Mapping[TopicPartition, int]) -> RunState | None:
        """An unfinished run that has planned these or higher offsets, and is not accounted."""
        return next(
            (
                run
                for run in self.unfinished_runs()
                if run.accounted is None and any(r.end > firsts.get(r.tp, NO_END) for r in run.plan.ranges)
            ),
            None,
        )

    def current(self, run: RunState, tp: TopicPartition, offsets: OffsetSet) -> OffsetSet:
        """Those of these offsets at which the run's rows are still the current records."""
        return offsets.intersect(OffsetSet.single(0, self.current_below(tp, self.generation_of(run, tp))))

    def open_in(self, tp: TopicPartition, start: int, end: int, *, except_chain: str | None = None) -> OffsetSet:
        """The offsets of `[start, end)` that a run may plan to land once: neither landed nor reserved."""
        return self.open_ranges({tp: (start, end)}, except_chain=except_chain)[tp]

    def open_ranges(
        self, bounds: Mapping[TopicPartition, tuple[int, int]], *, except_chain: str | None = None
    ) -> dict[TopicPartition, OffsetSet]:
        """`open_in` for many partitions at once.

        Given-up offsets are included: a backfill may land them; the incremental chain skips them by its frontier.
        """
        reserved = self.reservations(except_chain=except_chain)
        return {
            tp: OffsetSet.single(start, end).subtract(self.landed(tp)).subtract(reserved.get(tp, EMPTY))
            for tp, (start, end) in bounds.items()
        }

    def frontier(self, tp: TopicPartition) -> int | None:
        """The first offset from the base on that is neither landed nor given up; None before a base is pinned."""
        base = self.bases.get(tp)
        return None if base is None else self.covered(tp).contiguous_from(base)

    def boundary(self, tp: TopicPartition, time_ms: int) -> int | None:
        """The offset pinned for this time."""
        return self.boundaries.get((tp, time_ms))

    def neighbours(self, time_ms: int) -> dict[TopicPartition, tuple[int, int | None]]:
        """By partition, the pinned offsets of the nearest earlier and later times; 0 and None if there are none."""
        earlier: dict[TopicPartition, tuple[int, int]] = {}
        later: dict[TopicPartition, tuple[int, int]] = {}
        for (tp, at), offset in self.boundaries.items():
            if at < time_ms and (tp not in earlier or at > earlier[tp][0]):
                earlier[tp] = at, offset
            if at > time_ms and (tp not in later or at < later[tp][0]):
                later[tp] = at, offset
        return {
            tp: (earlier[tp][1] if tp in earlier else 0, later[tp][1] if tp in later else None)
            for tp in earlier.keys() | later.keys()
        }

    def group_offsets(self, group: str) -> dict[TopicPartition, GroupOffset]:
        """The offsets that kseg last committed, or accepted, for this group."""
        return self.committed.get(group, {})

    def next_app_transaction(self, chain: str = INCREMENTAL) -> tuple[str, int]:
        """App id and version of the next run of this chain.

        An abandoned backfill may run again with the same run id. Its version is then increased by one, because the
        abandoned run's commit may still be in the table's log.
        """
        if chain == INCREMENTAL:
            return self.job_app, self.incremental_sequence + 1
        before = self.runs.get(chain)
        return f"{self.job_app}/{chain}", (before.sequence if before is not None else 0) + 1

    @property
    def job_app(self) -> str:
        """App id of the incremental chain; the app ids of other chains begin with it."""
        return f"{APP_ROOT}/{self.ledger_id}/{self.job}"

    def planned_app_version(self, app_id: str) -> int:
        """The version of the last run that this ledger has planned for an app of the job; 0 if there is none.

        A summary keeps this for every app: the incremental chain's number, and each backfill and interval run's id.
        """
        chain = app_id.removeprefix(self.job_app)
        return self.next_app_transaction(chain[1:] or INCREMENTAL)[1] - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Event):
    """The state after all events up to its number, so that a reader need not fold them again.

    It has only sums of runs that ended long ago. Its number is that of the last event that it replaces.
    """

    KIND = "summary"

    state: JobState
