"""The events of a ledger: one frozen dataclass for each kind of event.

An event says that something *has happened*; it is never changed or taken back. What a job's ledger means is the fold
of its events in their order (`etl.ledger.state`), which also says what may follow what.

    lease      leased, renewed, released
    run        planned, reconfigured, replacing, landed, accounted, account_failed, account_cleared,
               offsets_committed, finished, refused, abandoning, abandoned
    partition  base_pinned, boundary_pinned, boundary_unproved, offsets_given_up, offsets_reclaimed,
               group_offsets_accepted, topic_seen, source_accepted
    table      table_accepted
    job        ledger_rebuilt, schemas_added (`etl.ledger.schemas`), dead_letters_expired (`etl.ledger.expired_letters`)
    upkeep     summary

Every event carries `chain` (whose lease it was written under: `INCREMENTAL`, or the run id of a backfill or interval
run), `run_id` ("" where it belongs to no run), and `owner` and `attempt`, which say who wrote it: attempts are counted
per chain by the ledger, one a lease. The store adds the job, the sequence number and the time.

Where a value is kept by partition, the attribute is a `{TopicPartition: value}` dictionary, and its JSON is nested as
Kafka users know it: `{"orders": {"0": 23}}`. All times are milliseconds since the epoch where the name ends in `_ms`
and aware UTC datetimes elsewhere; all range ends are exclusive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.ledger.values import (
    INCREMENTAL,
    ByPartition,
    GroupOffset,
    HeldBack,
    Mode,
    OffsetIntervals,
    PartitionIdentity,
    PinnedSchemas,
    PlannedRange,
    RangeAccount,
    RangeCounts,
    RunPlan,
    Strict,
    TableCommit,
    TableRecord,
    TableState,
    TopicIdentity,
    left_out,
)

BaseReason = Literal["group", "configured", "earliest", "accepted"]
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
    """The chain's lease was taken; `attempt` is one above that of the lease before.

    duration: seconds until it expires unless renewed. taken_from: owner whose live or expired lease was taken over.
    forced: it was live, and taken by --take-over or from a process known to be dead.
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
    """The holder gave the lease back."""

    KIND = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Event):
    """A run was pinned. Nothing has been written to any table for it yet."""

    KIND = "planned"

    plan: RunPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfigured(Event):
    """An unfinished run that has landed nothing goes on with a new configuration; its ranges stay as planned.

    A table that only the new configuration names comes with its state; ranges may change their table.
    """

    KIND = "reconfigured"

    config_hash: str
    pinned_config: str
    ranges: tuple[PlannedRange, ...]
    tables: dict[str, TableState | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacing(Event):
    """A run that replaces rows is about to commit. It has read all planned offsets but `kept`, whose rows stay: nothing
    was read to take their place (lost to retention, absent, damaged)."""

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
    """Both equations of the account hold; the run's ranges count as landed from here on.

    ranges: every planned range with its counts. rows_in, rows_out: into and out of the transform.
    gaps: absent offsets of topics that are not compacted, where `on_gap: record` let them pass; the first few thousand.
    """

    KIND = "accounted"

    ranges: tuple[RangeAccount, ...]
    rows_in: int
    rows_out: int
    gaps: tuple[OffsetRange, ...] = ()

    @property
    def counts(self) -> RangeCounts:
        """Added up over all ranges."""
        return sum((account.counts for account in self.ranges), RangeCounts())


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFailed(Event):
    """An equation of the account does not hold. Lasting: nothing is committed over it until it is cleared.

    equation: `offsets` (before the first table commit) or `rows` (of tasks before the first, of tables after the last).
    final: a transform's rows have landed, so that reading again would compare them with nothing: the run can only be
    abandoned. Its JSON has it only where it is so.
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
    """The run may read its ranges and account again: it was repaired, or the configuration has changed."""

    KIND = "account_cleared"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted(Event):
    """The group's offsets were committed; `offsets` has every offset of the commit."""

    KIND = "offsets_committed"

    group: str
    how: Literal["transactional", "plain"]
    offsets: ByPartition[GroupOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """The run is complete. seconds: by phase, for people."""

    KIND = "finished"

    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRefused(Event):
    """A run ended with an error; a note: it stays unfinished. code: of a refusal; of another error its class."""

    KIND = "refused"

    code: str
    message: str
    remedy: str | None = None
    at: datetime | None = None

    _to_json = left_out("remedy", "at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoning(Event):
    """Removing the run's rows begins. Without this event, a run whose removal was interrupted by a crash would count
    as landed, because of its app transaction. Only `abandoned` may follow.

    landed_in: tables whose snapshot had the run's app transaction before anything was removed; afterwards all have it.
    None, and not in the JSON, where an older release wrote the event.
    kept: of a replacement, `TableCommit.kept` of the commits that no `landed` records, by table.
    """

    KIND = "abandoning"

    reason: str = ""
    landed_in: tuple[str, ...] | None = None
    kept: dict[str, str] = field(default_factory=dict)

    _to_json = left_out("landed_in", "kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned(Event):
    """The run's rows are gone from all tables; its ranges are open again and its number stays used.

    tables: their states after the removal. landed_in: those that had a commit of the run, also one that its attempt
    did not record before it died. kept: as in `abandoning`, of commits that came after it.
    """

    KIND = "abandoned"

    tables: dict[str, TableState] = field(default_factory=dict)
    landed_in: tuple[str, ...] = ()
    reason: str = ""
    kept: dict[str, str] = field(default_factory=dict)

    _to_json = left_out("kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePinned(Event):
    """The job's first offset in each partition. Pinned once; only `accepted` (group offsets) may move a base."""

    KIND = "base_pinned"

    bases: ByPartition[int]
    reason: BaseReason


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryPinned(Event):
    """The offset that a point in time means in each partition, shared by the intervals on both of its sides."""

    KIND = "boundary_pinned"

    time_ms: int
    offsets: ByPartition[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryUnproved(Event):
    """Partitions whose boundary was not pinned: it would lie on the log's start, so that records of the interval may
    have been removed before (`on_data_loss: record`).

    log_starts: of these partitions, as they were then; what lay below is a possible loss.
    """

    KIND = "boundary_unproved"

    time_ms: int
    log_starts: ByPartition[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsGivenUp(Event):
    """Offsets that the incremental chain passes over without reading them. A later backfill may still land them."""

    KIND = "offsets_given_up"

    ranges: tuple[OffsetRange, ...]
    reason: GivenUpReason


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReclaimed(Event):
    """Offsets given up before that are to be read after all (the group's offset was set back and accepted)."""

    KIND = "offsets_reclaimed"

    ranges: tuple[OffsetRange, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsetsAccepted(Event):
    """Group offsets that the framework did not commit were accepted (--accept-group-offsets)."""

    KIND = "group_offsets_accepted"

    group: str
    offsets: ByPartition[GroupOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeen(Event):
    """Topics as a plan saw them; partitions that are not named keep what was known."""

    KIND = "topic_seen"

    topics: dict[str, TopicIdentity]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAccepted(Event):
    """A source that is not what the ledger knew was accepted (`kseg repair --accept-source`).

    topics: as they are known from here on. reopened: by partition the first offset that means another record than
    before, or none; it and all above it are open again, and the partition's generation is one higher. Offsets below it
    keep what the ledger knows of them. reason: the codes of what a run refused before. tables: their states after rows
    of reopened offsets were removed from them; empty where those rows were kept.
    """

    KIND = "source_accepted"

    topics: dict[str, TopicIdentity]
    reopened: ByPartition[int]
    reason: str
    tables: dict[str, TableState] = field(default_factory=dict)

    def leader_epoch(self, tp: TopicPartition) -> int:
        """The partition's when it was accepted; -1: not known."""
        seen = self.topics.get(tp.topic, TopicIdentity()).partitions
        return seen.get(tp.partition, PartitionIdentity()).leader_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRebuilt(Event):
    """The job's ledger was lost, and what has landed was read from its tables (`kseg repair --rebuild-ledger`).

    lost: ids of the ledgers whose runs have landed it. bases: where the next run of each partition starts at the
    earliest. landed: offsets that it passes over. tables: their states when they had been read. reopened: by partition
    where each change of the source began that the lost ledgers had accepted, as far as tables show; not in the JSON
    where they show none.
    """

    KIND = "ledger_rebuilt"

    lost: tuple[str, ...]
    bases: ByPartition[int]
    landed: ByPartition[OffsetIntervals]
    topics: dict[str, TopicIdentity]
    tables: dict[str, TableState]
    reopened: ByPartition[tuple[int, ...]] = field(default_factory=dict)

    _to_json = left_out("reopened")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccepted(Event):
    """A table was accepted as it is, whatever happened to it (`kseg repair --accept-table`).

    The offsets that the job has landed stay landed. Runs that have not ended and planned this table go on with its new
    state. state: None: there is no table any more. incident: what had happened, a code; "" where nothing had.
    verified: whether its rows were compared with Kafka before.
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
    "BasePinned",
    "BaseReason",
    "BoundaryPinned",
    "BoundaryUnproved",
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
