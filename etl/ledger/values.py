"""The values that events carry: plans, counts, identities, commits. Frozen, and JSON both ways by pydantic.

Where a value is kept by partition, the attribute is a `{TopicPartition: value}` dictionary, and its JSON is nested as
Kafka users know it: `{"orders": {"0": 23}}`. Range ends are exclusive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.decoding.counts import DecodingCounts, added
from kseg.etl.ledger.ranges import OffsetRange, OffsetSet, offsets_of

INCREMENTAL = "incremental"
"""The chain of a job's scheduled runs. Any other chain is called like its only run."""

APP_ROOT: Final = "kseg"
"""First part of the app ids of all runs: `kseg/<ledger id>/<job>`, and `kseg/<ledger id>/<job>/<run id>`."""

Mode = Literal["incremental", "interval", "backfill-missing", "backfill-replace", "backfill-append", "redrive"]

V = TypeVar("V")


def _by_topic(flat: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {}
    for (topic, partition), value in sorted(flat.items(), key=lambda item: item[0]):
        # A plain serializer takes over for everything below it, so the sets' own does not run.
        nested.setdefault(topic, {})[str(partition)] = value.to_json() if isinstance(value, OffsetSet) else value
    return nested


def _by_partition(value: Any) -> Any:
    if not isinstance(value, Mapping) or any(isinstance(key, tuple) for key in value):
        return value
    return {TopicPartition(topic, int(p)): v for topic, partitions in value.items() for p, v in partitions.items()}


ByPartition = Annotated[dict[TopicPartition, V], BeforeValidator(_by_partition), PlainSerializer(_by_topic)]
"""`{TopicPartition: V}` in Python, `{topic: {partition: V}}` in JSON."""

OffsetIntervals = Annotated[
    OffsetSet,
    BeforeValidator(lambda value: value if isinstance(value, OffsetSet) else OffsetSet.from_json(value)),
    PlainSerializer(OffsetSet.to_json),
]
"""An OffsetSet in Python, `[[start, end], …]` in JSON."""


class Strict:
    """Unknown fields are an error: a field that this release does not know may decide something."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


def left_out(*names: str) -> Any:
    """A serializer that leaves these fields out of the JSON where they are None, False or an empty dictionary: an
    earlier release, which does not know them, still reads what does not use them."""

    @model_serializer(mode="wrap")
    def to_json(self: Any, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        empty = {name for name in names if (value := fields.get(name)) is None or value is False or value == {}}
        return {name: value for name, value in fields.items() if name not in empty}

    return to_json


@dataclass(frozen=True, slots=True)
class PlannedRange(Strict):
    """One range that a run has pinned.

    leader_epoch: of the partition's leader when the end was pinned; -1 where the broker returns none.
    table: the target (path or name) that its rows go to; None in a run whose rows are routed by something else than
        their topic (`RunPlan.routes`).
    """

    topic: str
    partition: int
    start: int
    end: int
    leader_epoch: int = -1
    table: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not an offset range: {self.topic}-{self.partition} [{self.start}, {self.end})")

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def length(self) -> int:
        return self.end - self.start

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(self.topic, self.partition, self.start, self.end)


@dataclass(frozen=True, slots=True)
class RangeCounts(Strict):
    """The account of a range, in offsets; the five counts add up to its length, or the account has failed.

    data: records decoded. control: transaction markers. aborted: records of aborted transactions, left out.
    dead_lettered: offsets of what could not be read and went to the quarantine table. absent: offsets that no batch
    held.
    late: of `data`, records whose time lies before the interval that their offset lies in; not among the five.
    decoding: of `data`, what became of them in decoding; None, and not in the JSON, where nothing could be set aside.
    routed: rows by table, where something else than a record's topic decides on it; else empty, and not in the JSON.
    """

    data: int = 0
    control: int = 0
    aborted: int = 0
    dead_lettered: int = 0
    absent: int = 0
    late: int = 0
    decoding: DecodingCounts | None = None
    routed: dict[str, int] = field(default_factory=dict, repr=False)

    _to_json = left_out("decoding", "routed")

    @property
    def rows(self) -> int:
        """Rows that decoding gave: `data` where it sets nothing aside."""
        return self.data if self.decoding is None else self.decoding.decoded

    @property
    def total(self) -> int:
        return self.data + self.control + self.aborted + self.dead_lettered + self.absent

    def __add__(self, other: RangeCounts) -> RangeCounts:
        return RangeCounts(
            self.data + other.data,
            self.control + other.control,
            self.aborted + other.aborted,
            self.dead_lettered + other.dead_lettered,
            self.absent + other.absent,
            self.late + other.late,
            added(self.decoding, other.decoding),
            {
                table: self.routed.get(table, 0) + other.routed.get(table, 0)
                for table in sorted({*self.routed, *other.routed})
            },
        )


@dataclass(frozen=True, slots=True)
class RangeAccount(Strict):
    """One planned range and its counts."""

    topic: str
    partition: int
    start: int
    end: int
    counts: RangeCounts

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def balanced(self) -> bool:
        return self.counts.total == self.end - self.start


@dataclass(frozen=True, slots=True)
class PartitionIdentity(Strict):
    """A partition as it was last seen: the leader's epoch (-1: unknown) and the end offset that a plan saw."""

    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class TopicIdentity(Strict):
    """What distinguishes a topic from another one of the same name.

    topic_id: None where the broker knows no topic ids (before Kafka 2.8); leader epochs have to do then.
    """

    topic_id: UUID | None = None
    cluster_id: str | None = None
    partitions: dict[int, PartitionIdentity] = field(default_factory=dict)

    def after(self, known: TopicIdentity | None) -> TopicIdentity:
        """What is known when this was seen after `known`, of the same topic: files may show less than brokers, and a
        copy of them may be older; neither makes known things unknown."""
        if known is None:
            return self
        before = known.partitions
        latest = {
            number: max(seen, before.get(number, seen), key=lambda one: (one.leader_epoch, one.end_offset))
            for number, seen in self.partitions.items()
        }
        return TopicIdentity(self.topic_id or known.topic_id, self.cluster_id or known.cluster_id, latest)


@dataclass(frozen=True, slots=True)
class SnapshotToken(Strict):
    """What a table format needs besides id and version to name a snapshot; opaque to all but its implementation.

    format: the format's name and the token's version, such as `delta/1`. content: its own text. written_by: the release
    of kseg that wrote the token, for messages.
    """

    format: str
    content: str = ""
    written_by: str = ""


DELTA_SNAPSHOT: Final = SnapshotToken("delta/1")
"""Id and version name a snapshot of a Delta table, so there is no content."""

SNAPSHOT_FORMATS: Final = frozenset({DELTA_SNAPSHOT.format})
"""Formats whose tokens this release can read."""

UNKNOWN_SNAPSHOT_FORMAT: Final = "unknown_snapshot_format"
"""Type of the validation error for any other."""


def _readable(token: SnapshotToken) -> SnapshotToken:
    if token.format not in SNAPSHOT_FORMATS:
        raise PydanticCustomError(
            UNKNOWN_SNAPSHOT_FORMAT,
            "a table's snapshot has the format {format}, written by kseg {written_by}; this release reads {known}",
            {
                "format": token.format,
                "written_by": token.written_by or "(release unknown)",
                "known": ", ".join(sorted(SNAPSHOT_FORMATS)),
            },
        )
    return token


@dataclass(frozen=True, slots=True)
class TableState(Strict):
    """A table as a run saw or left it.

    id: the table's identity, whatever its name (Delta: in its metadata). version: grows with each commit and orders the
    states of one table (Delta: of its log). rows: by its statistics; None where files carry none.

    Its JSON has a `snapshot` unless that is `DELTA_SNAPSHOT`: states of Delta tables are written as they were before
    there were tokens.
    """

    id: str
    version: int
    rows: int | None = None
    snapshot: Annotated[SnapshotToken, AfterValidator(_readable)] = DELTA_SNAPSHOT

    @model_serializer(mode="wrap")
    def _to_json(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        if self.snapshot == DELTA_SNAPSHOT:
            fields.pop("snapshot", None)
        return fields


@dataclass(frozen=True, slots=True)
class TableRecord(Strict):
    """What later plans compare a table with, besides its last state.

    examined: as the last plan saw it, which knew every app transaction of this job up to there. landed: as the newest
    landing left it; app_id, app_version: of that landing, so the table must have this app transaction or a later one.
    """

    examined: TableState | None = None
    landed: TableState | None = None
    app_id: str = ""
    app_version: int = 0


@dataclass(frozen=True, slots=True)
class TableCommit(Strict):
    """One run's commit to one table.

    version: the Delta version that holds the rows. rows: added by this commit (its numRecords added up).
    after: the table as this commit left it (id, version, rows in all), which later plans are compared with.
    removed: rows that the same commit removed (`replace`).
    found: True where a commit of an earlier attempt was found by its app transaction and none was made now.
    kept: of a replacement, the digest of what the attempt that made the commit left as it was
        (`ledger.kept_offsets`); None, and not in the JSON, where that is unknown, and of other runs.
    nulls: in the added rows, by column with statistics (`a.b` for a field of a struct); None where they are not known.
    """

    version: int
    rows: int
    after: TableState
    removed: int = 0
    files: int = 0
    bytes: int = 0
    found: bool = False
    kept: str | None = None
    nulls: dict[str, int] | None = None

    _to_json = left_out("kept", "nulls")


@dataclass(frozen=True, slots=True)
class GroupOffset(Strict):
    """An offset of the consumer group, as committed."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class HeldBack(Strict):
    """Offsets between the last stable offset and the high watermark when the end was pinned."""

    last_stable_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class PinnedSchemas(Strict):
    """What a run decodes keys or values with.

    registry: its URL. reader: the lineage's version, 1 for the first; 0 where kinds of records have their own. writers:
    hashes by id or GUID, as payloads name schemas; "" for what the registry does not know. kinds: the version of each
    kind's lineage. Its JSON has them only where there are any.
    """

    registry: str
    reader: int
    writers: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)

    _to_json = left_out("kinds")


@dataclass(frozen=True, slots=True)
class RunPlan(Strict):
    """Everything that a run pins before it writes anything; an attempt that continues the run reads it from here.

    app_id, app_version: the app transaction of the run's commit in every target table.
    config_hash: of what decides the rows. pinned_config: the job file as JSON, with references in place of secrets.
    topics: identities that were compared. tables: target tables before the run; None: the table did not exist.
    unconfirmed: of files, the high watermark that their broker wrote down last (-1: none), where ranges go beyond it.
    asked: what a backfill or interval run was asked for, as JSON; "" for an incremental run.
    group: the consumer group; commit_offsets: whether the run ends with a commit of the group's offsets.
    marks_late: whether rows have the column `_kseg_late`. late_before_ms: in a run of an interval or a replacement of
        one, the interval's start: records of before are late.
    quarantine: which of the tables takes damaged batches; None: the run stops at damage.
    dead_letters: which of them takes records that cannot be decoded; None, and not in the JSON, where none does.
    generations: of the run's partitions, where above 0 (`JobState.generation`): an address is a topic, a partition, a
        generation and an offset. Its JSON has them only where there are any.
    schemas: of a registry, by lineage. Its JSON has them only where there are any.
    routes: the table of each route, where something else of a record than its topic decides on its table: then a range
        has rows of all of them. Its JSON has them only where there are any.
    """

    run_id: str
    mode: Mode
    chain: str
    app_id: str
    app_version: int
    config_hash: str
    pinned_config: str
    cluster_id: str | None
    topics: dict[str, TopicIdentity]
    ranges: tuple[PlannedRange, ...]
    tables: dict[str, TableState | None]
    held_back: ByPartition[HeldBack] = field(default_factory=dict)
    unconfirmed: ByPartition[int] = field(default_factory=dict)
    asked: str = ""
    group: str | None = None
    commit_offsets: bool = True
    quarantine: str | None = None
    marks_late: bool = False
    late_before_ms: int | None = None
    generations: ByPartition[int] = field(default_factory=dict)
    schemas: dict[str, PinnedSchemas] = field(default_factory=dict)
    dead_letters: str | None = None
    routes: dict[str, str] = field(default_factory=dict)

    _to_json = left_out("generations", "schemas", "dead_letters", "routes")

    @property
    def beside(self) -> frozenset[str]:
        """The tables that take no rows: quarantine and dead letters."""
        return frozenset(table for table in (self.quarantine, self.dead_letters) if table is not None)

    @property
    def routed(self) -> tuple[str, ...]:
        """The tables that each range may have rows of, in the order of their routes; () where a range has one table."""
        return tuple(dict.fromkeys(self.routes.values()))

    def ranges_of(self, tables: Collection[str]) -> tuple[PlannedRange, ...]:
        """The ranges whose records may have rows in any of these tables."""
        if any(table in tables for table in self.routes.values()):
            return self.ranges
        wanted = frozenset(tables)
        return tuple(planned for planned in self.ranges if planned.table in wanted)

    def offsets(self) -> dict[TopicPartition, OffsetSet]:
        """The planned ranges as one set for each partition."""
        return offsets_of(self.ranges)


def app_owners(app_ids: Iterable[str]) -> list[tuple[str, str]]:
    """Ledger id and job of these app transactions, each pair once; an app id that is not of our form has none."""
    parts = (app_id.split("/") for app_id in app_ids)
    return list(dict.fromkeys((part[1], part[2]) for part in parts if len(part) > 2 and part[0] == APP_ROOT))


def closed_app_id(app_id: str) -> str:
    """The app that a table has a transaction of once it is closed to the ledger and job of an app: another ledger was
    made in its place, which does not know what its runs have yet to land. Of all chains: `kseg-closed/<ledger>/<job>`.
    """
    return "/".join([f"{APP_ROOT}-closed", *app_id.split("/")[1:3]])
