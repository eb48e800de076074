"""The events of a ledger: one frozen dataclass for each kind of event.

An event records something that *has happened*; it is never changed or deleted. The state of a job is the fold of its
events in their order (`etl.ledger.state`); the fold also rejects events in an invalid order.

    lease      leased, renewed, released
    run        planned, reconfigured, replacing, landed, accounted, account_failed, account_cleared,
               offsets_committed, finished, refused, abandoning, abandoned
    partition  base_pinned (`etl.ledger.bases`), boundary_pinned, boundary_unproved, offsets_given_up,
               offsets_reclaimed, group_offsets_accepted, topic_seen, source_accepted
    table      table_accepted, table_shaped (`etl.ledger.table_shaped`)
    job        ledger_rebuilt, schemas_added (`etl.ledger.schemas`), dead_letters_expired (`etl.ledger.expired_letters`)
    upkeep     summary

Every event has these fields: `chain` (the chain whose lease the writer had: `INCREMENTAL`, or the run id of a backfill
or interval run), `run_id` ("" if the event belongs to no run), and the writer's `owner` and `attempt`. The ledger
counts attempts for each chain, one for each lease. The store adds the job, the sequence number and the time.

Values by partition are a `{TopicPartition: value}` dictionary in Python, and nested in JSON as in Kafka's tools:
`{"orders": {"0": 23}}`. Times are milliseconds since the epoch if the name ends in `_ms`, and otherwise datetimes in
UTC. Range ends are exclusive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.json_form import Strict, left_out
from kseg.etl.ledger.lost_runs import LostRuns
from kseg.etl.ledger.modes import Mode
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.ledger.values import (
    INCREMENTAL,
    ByPartition,
    GroupOffset,
    HeldBack,
    OffsetIntervals,
    PartitionIdentity,
    PinnedSchemas,
    PlannedRange,
    RangeAccount,
    RangeCounts,
    RunPlan,
    TableCommit,
    TableRecord,
    TableState,
    TopicIdentity,
)

GivenUpReason = Literal["retention", "gap", "group-offsets-accepted"]
Equation = Literal["offsets", "rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Strict):
    """Base of all events. `KIND` is the name in the ledger's `kind` column."""

    KIND: ClassVar[str]

    chain: str = INCREMENTAL
    run_id: str = ""
    owner: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased(Event):
    """The chain's lease was taken; `attempt` is one above that of the previous lease.

    duration: seconds until it expires unless renewed. taken_from: owner whose live or expired lease was taken over.
    forced: the lease was live, and was taken with --take-over or from a process that is known to be dead.
    """

    KIND = "leased"

    duration: float
    taken_from: str | None = None
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed(Event):
    """The holder is alive: the lease's duration counts from this event on."""

    KIND = "renewed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(Event):
    """The holder released the lease."""

    KIND = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Event):
    """A run was planned and its ranges pinned. Nothing has been written to its tables yet."""

    KIND = "planned"

    plan: RunPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfigured(Event):
    """An unfinished run that has landed nothing continues with a new configuration and the same ranges.

    `tables` has the states of tables that only the new configuration names; ranges may change their table.
    """

    KIND = "reconfigured"

    config_hash: str
    pinned_config: str
    ranges: tuple[PlannedRange, ...]
    tables: dict[str, TableState | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacing(Event):
    """A run that replaces rows is about to commit. It has read all planned offsets except `kept`.

    The rows of `kept` stay, because their records could not be read again (deleted by retention, absent, damaged).
    """

    KIND = "replacing"

    kept: ByPartition[OffsetIntervals]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed(Event):
    """The run's commit to one table is durable."""

    KIND = "landed"

    table: str
    commit: TableCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounted(Event):
    """Both equations of the counts hold: the run's ranges count as landed.

    ranges: every planned range with its counts. rows_in, rows_out: rows into and out of the transform.
    gaps: absent offsets of topics that are not compacted, accepted by `on_gap: record`; the first few thousand.
    """

    KIND = "accounted"

    ranges: tuple[RangeAccount, ...]
    rows_in: int
    rows_out: int
    gaps: tuple[OffsetRange, ...] = ()

    @property
    def counts(self) -> RangeCounts:
        """The sum of the counts of all ranges."""
        return sum((account.counts for account in self.ranges), RangeCounts())


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFailed(Event):
    """An equation of the counts does not hold. No offsets are committed until `account_cleared`.

    equation: `offsets` (checked before the first table commit) or `rows` (rows of tasks before the first commit, rows
    of tables after the last). final: rows of a transform have landed, and cannot be compared with a second reading: the
    run can only be abandoned. JSON omits `final` if it is false.
    """

    KIND = "account_failed"

    equation: Equation
    reason: str
    ranges: tuple[RangeAccount, ...] = ()
    rows_in: int | None = None
    rows_out: int | None = None
    gaps: tuple[OffsetRange, ...] = ()
    final: bool = False

    _to_json = left_out("final")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCleared(Event):
    """The run may read its ranges and check its counts again: it was repaired, or the configuration has changed."""

    KIND = "account_cleared"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted(Event):
    """The group's offsets were committed; `offsets` has all offsets of the commit."""

    KIND = "offsets_committed"

    group: str
    how: Literal["transactional", "plain"]
    offsets: ByPartition[GroupOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """The run is complete. seconds: by phase, for people.

    engine, engine_reason: where its tasks worked, and why; None if the attempt that finished the run read nothing, or
    if `run.engine` is `spark`.
    """

    KIND = "finished"

    seconds: dict[str, float] = field(default_factory=dict)
    engine: str | None = None
    engine_reason: str | None = None

    _to_json = left_out("engine", "engine_reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRefused(Event):
    """A run ended with an error; a planned run stays unfinished. code: of the refusal, or another error's class."""

    KIND = "refused"

    code: str
    message: str
    remedy: str | None = None
    at: datetime | None = None

    _to_json = left_out("remedy", "at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoning(Event):
    """The removal of the run's rows begins; only `abandoned` may follow. Without this event, a run whose removal was
    interrupted by a crash would count as landed, because its tables have its app transaction.

    landed_in: tables that had the run's app transaction before the removal; afterwards all tables have it. None, and
    omitted in JSON, if an older release wrote the event.
    kept: for a replacement, `TableCommit.kept` of commits without a `landed` event, by table.
    """

    KIND = "abandoning"

    reason: str = ""
    landed_in: tuple[str, ...] | None = None
    kept: dict[str, str] = field(default_factory=dict)

    _to_json = left_out("landed_in", "kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned(Event):
    """The run's rows are removed from all tables; its ranges are open again, and its number is not used again.

    tables: states after the removal. landed_in: tables that had a commit of the run, including commits that the
    attempt did not record before it died. kept: as in `abandoning`, for commits after that event.
    """

    KIND = "abandoned"

    tables: dict[str, TableState] = field(default_factory=dict)
    landed_in: tuple[str, ...] = ()
    reason: str = ""
    kept: dict[str, str] = field(default_factory=dict)

    _to_json = left_out("kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryPinned(Event):
    """The offset to which a time was resolved in each partition, shared by the intervals before and after it."""

    KIND = "boundary_pinned"

    time_ms: int
    offsets: ByPartition[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryNotPinned(Event):
    """Partitions whose boundary was not pinned (`on_data_loss: record`).

    Their boundary would be at the log's start, and retention may have deleted earlier records of the interval.
    log_starts: the log's start of each partition; offsets below it are possibly lost.
    """

    KIND = "boundary_unproved"

    time_ms: int
    log_starts: ByPartition[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsGivenUp(Event):
    """Offsets that the incremental chain skips without reading them. A later backfill may still land them."""

    KIND = "offsets_given_up"

    ranges: tuple[OffsetRange, ...]
    reason: GivenUpReason


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReclaimed(Event):
    """Offsets that were given up and must now be read (the group's offset was set back, and accepted)."""

    KIND = "offsets_reclaimed"

    ranges: tuple[OffsetRange, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsetsAccepted(Event):
    """Group offsets that another client committed were accepted (--accept-group-offsets)."""

    KIND = "group_offsets_accepted"

    group: str
    offsets: ByPartition[GroupOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeen(Event):
    """The identities of topics in a plan; partitions that are missing here keep their earlier values."""

    KIND = "topic_seen"

    topics: dict[str, TopicIdentity]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAccepted(Event):
    """A source that differs from the ledger was accepted (`kseg repair --accept-source`).

    topics: the new identities. reopened: by partition, the first offset that now has another record or none. This
    offset and all higher ones are open again, and the partition's generation increases by one. Nothing changes for
    lower offsets. reason: the codes of the refusals. tables: states after rows of reopened offsets were removed; empty
    if these rows were kept.
    """

    KIND = "source_accepted"

    topics: dict[str, TopicIdentity]
    reopened: ByPartition[int]
    reason: str
    tables: dict[str, TableState] = field(default_factory=dict)

    def leader_epoch(self, tp: TopicPartition) -> int:
        """The partition's leader epoch when the source was accepted; -1: unknown."""
        seen = self.topics.get(tp.topic, TopicIdentity()).partitions
        return seen.get(tp.partition, PartitionIdentity()).leader_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRebuilt(Event):
    """The job's ledger was lost, and the landed offsets were read from its tables (`kseg repair --rebuild-ledger`).

    lost: ids of the lost ledgers. bases: the lowest offset of each partition at which the next run may start. landed:
    offsets that the next run skips. tables: states when they were read. reopened: by partition, the first offsets of
    the source changes that the lost ledgers had accepted, as far as the tables show them. lost_runs: which of these
    generations their runs have read; None where there is but one, and in events of earlier releases. JSON omits both if
    they are empty.
    """

    KIND = "ledger_rebuilt"

    lost: tuple[str, ...]
    bases: ByPartition[int]
    landed: ByPartition[OffsetIntervals]
    topics: dict[str, TopicIdentity]
    tables: dict[str, TableState]
    reopened: ByPartition[tuple[int, ...]] = field(default_factory=dict)
    lost_runs: LostRuns | None = None

    _to_json = left_out("reopened", "lost_runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccepted(Event):
    """A table was accepted in its current state (`kseg repair --accept-table`).

    Landed offsets stay landed. Unfinished runs that planned this table continue with its new state. state: None: the
    table no longer exists. incident: the code of the incident; "" if there was none. verified: whether the rows were
    compared with Kafka before.
    """

    KIND = "table_accepted"

    table: str
    state: TableState | None
    incident: str = ""
    verified: bool = True


__all__ = [
    "INCREMENTAL",
    "Abandoned",
    "Abandoning",
    "AccountCleared",
    "AccountFailed",
    "Accounted",
    "BoundaryNotPinned",
    "BoundaryPinned",
    "ByPartition",
    "Equation",
    "Event",
    "Finished",
    "GivenUpReason",
    "GroupOffset",
    "GroupOffsetsAccepted",
    "HeldBack",
    "Landed",
    "Leased",
    "LedgerRebuilt",
    "Mode",
    "OffsetIntervals",
    "OffsetsCommitted",
    "OffsetsGivenUp",
    "OffsetsReclaimed",
    "PartitionIdentity",
    "PinnedSchemas",
    "Planned",
    "PlannedRange",
    "RangeAccount",
    "RangeCounts",
    "Reconfigured",
    "Released",
    "Renewed",
    "Replacing",
    "RunPlan",
    "RunRefused",
    "SourceAccepted",
    "Strict",
    "TableAccepted",
    "TableCommit",
    "TableRecord",
    "TableState",
    "TopicIdentity",
    "TopicSeen",
]
