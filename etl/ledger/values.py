"""The values in events: plans, counts, identities, commits. Frozen; pydantic converts them from and to JSON.

Values by partition are a `{TopicPartition: value}` dictionary in Python, and nested in JSON as in Kafka's tools:
`{"orders": {"0": 23}}`. Range ends are exclusive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.decoding.counts import DecodingCounts, added
from kseg.etl.decoding.rules import FIRST, DecodingRules, rules_of
from kseg.etl.ledger.json_form import RulesVersion, Strict, left_out
from kseg.etl.ledger.modes import MODES, Mode
from kseg.etl.ledger.ranges import OffsetRange, OffsetSet, offsets_of

INCREMENTAL = "incremental"
"""The chain of a job's scheduled runs. Any other chain has one run, whose id is the chain's name."""

APP_ROOT: Final = "kseg"
"""First part of the app ids of all runs: `kseg/<ledger id>/<job>`, and `kseg/<ledger id>/<job>/<run id>`."""

V = TypeVar("V")


def _by_topic(flat: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {}
    for (topic, partition), value in sorted(flat.items(), key=lambda item: item[0]):
        # A plain serializer replaces the serializers of nested values, so OffsetSet is converted here.
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


@dataclass(frozen=True, slots=True)
class PlannedRange(Strict):
    """One range that a run has pinned.

    leader_epoch: the partition's leader epoch when the end was pinned; -1 if the broker returns none.
    table: the target table (path or name) of its rows; None if routes are not selected by topic (`RunPlan.routes`).
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
    """The counts of a range, in offsets. The first five counts must add up to the range's length.

    data: records that were read. control: transaction markers. aborted: records of aborted transactions, left out.
    dead_lettered: offsets of unreadable bytes, which are in the quarantine table. absent: offsets without a batch.
    late: those of `data` with a timestamp before the interval of their offset; not one of the five counts.
    decoding: the results of decoding `data`; None, and omitted in JSON, if decoding cannot set records aside.
    routed: rows by table, if routes are not selected by topic; otherwise empty, and omitted in JSON.
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
        """The number of rows after decoding: `data` if decoding sets no records aside."""
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
    """A partition's leader epoch (-1: unknown) and end offset in the last plan."""

    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class TopicIdentity(Strict):
    """Distinguishes a topic from another topic of the same name.

    topic_id: None if the broker has no topic ids (before Kafka 2.8); then only leader epochs are compared.
    """

    topic_id: UUID | None = None
    cluster_id: str | None = None
    partitions: dict[int, PartitionIdentity] = field(default_factory=dict)

    def after(self, known: TopicIdentity | None) -> TopicIdentity:
        """Merge this identity with an earlier one of the same topic; the newest known values are kept.

        Log files may have less information than brokers, and a copy of files may be older.
        """
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
    """Additional data (besides id and version) by which a table format identifies a snapshot.

    Only the format's implementation interprets it. format: the format's name and the token's version, such as
    `delta/1`. content: text of the format. written_by: the release of kseg that wrote the token, for messages.
    """

    format: str
    content: str = ""
    written_by: str = ""


DELTA_SNAPSHOT: Final = SnapshotToken("delta/1")
"""Id and version identify a snapshot of a Delta table, so there is no content."""

SNAPSHOT_FORMATS: Final = frozenset({DELTA_SNAPSHOT.format})
"""Formats whose tokens this release can read."""

UNKNOWN_SNAPSHOT_FORMAT: Final = "unknown_snapshot_format"
"""Type of the validation error for all other formats."""


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
    """A table's state before or after a run.

    id: the table's identity, independent of its name (Delta: the id in its metadata). version: increases with each
    commit and orders the states of one table (Delta: the log's version). rows: the number of rows by the files'
    statistics; None if files lack statistics.

    The JSON omits `snapshot` if it is `DELTA_SNAPSHOT`: states of Delta tables have the same JSON as in releases
    without tokens.
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
    """The recorded states with which later plans compare a table.

    examined: the state in the last plan, which had checked all app transactions of this job up to this state. landed:
    the state after the newest landing. app_id, app_version: the app transaction of that landing; the table must have
    this transaction or a later one. rules: the rules by which the rows of that landing were decoded; without a landing,
    those of rows that were compared when the state was accepted.
    """

    examined: TableState | None = None
    landed: TableState | None = None
    app_id: str = ""
    app_version: int = 0
    rules: RulesVersion = FIRST.version


@dataclass(frozen=True, slots=True)
class TableCommit(Strict):
    """One run's commit to one table.

    version: the Delta version of the commit. rows: rows that the commit added (the sum of numRecords).
    after: the table's state after this commit (id, version, all rows), with which later plans compare the table.
    removed: rows that the same commit removed (`replace`).
    found: whether the commit was made by an earlier attempt and found by its app transaction.
    kept: for a replacement, the digest of the offsets whose rows the committing attempt kept (`ledger.kept_offsets`);
        None, and omitted in JSON, if it is unknown, and for other runs.
    nulls: numbers of nulls in the added rows, by column with statistics (`a.b` for a field of a struct); None if
        unknown.
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
    """The schemas with which a run decodes keys or values.

    registry: the registry's URL. reader: the version of the reader's schema, from 1 on; 0 if each kind of records has
    its own reader's schema. writers: hashes of schemas by the id or GUID in payloads; "" if the registry does not have
    the id. kinds: the version of each kind's reader's schema; omitted in JSON if empty.
    """

    registry: str
    reader: int
    writers: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)

    _to_json = left_out("kinds")


@dataclass(frozen=True, slots=True)
class RunPlan(Strict):
    """Everything that a run pins before it writes; an attempt that continues the run uses the same plan.

    app_id, app_version: the app transaction of the run's commit in every target table.
    config_hash: hash of the settings that affect rows. pinned_config: the job file as JSON, with references instead of
        secrets.
    topics: identities that were compared. tables: target tables before the run; None: the table did not exist.
    unconfirmed: for log files, the broker's last checkpointed high watermark (-1: none), if ranges end above it.
    asked: the request of a backfill or interval run, as JSON; "" for an incremental run.
    group: the consumer group; commit_offsets: whether the run ends with a commit of the group's offsets.
    marks_late: whether rows have the column `_kseg_late`. late_before_ms: for an interval run or its replacement, the
        interval's start: earlier records are late.
    quarantine: the table for damaged batches; None: the run stops at damage.
    dead_letters: the table for records that cannot be decoded; None: there is none.
    generations: generations above 0 of the run's partitions (`JobState.generation`): a record's address is its topic,
        partition, generation and offset.
    schemas: schemas of a registry, by lineage.
    routes: the table of each route, if routes are not selected by topic; then a range may have rows for every table.
    decoding_rules: the version of the rules by which the run decodes (`etl.decoding.rules`).
    JSON omits `dead_letters`, `generations`, `schemas` and `routes` if they are empty, and `decoding_rules` if it is 1.
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

    decoding_rules: RulesVersion = FIRST.version

    _to_json = left_out("generations", "schemas", "dead_letters", "routes", decoding_rules=FIRST.version)

    @property
    def rules(self) -> DecodingRules:
        """The rules by which the run decodes."""
        return rules_of(self.decoding_rules)

    @property
    def beside(self) -> frozenset[str]:
        """The tables for other content than rows: quarantine and dead letters."""
        return frozenset(table for table in (self.quarantine, self.dead_letters) if table is not None)

    @property
    def replaces(self) -> bool:
        """Whether the run's commits remove the rows of earlier runs at the offsets that it has read."""
        return MODES[self.mode].replaces

    @property
    def routed(self) -> tuple[str, ...]:
        """The tables for which each range may have rows, in the order of routes; () if each range has one table."""
        return tuple(dict.fromkeys(self.routes.values()))

    def ranges_of(self, tables: Collection[str]) -> tuple[PlannedRange, ...]:
        """The ranges that may have rows for any of these tables."""
        if any(table in tables for table in self.routes.values()):
            return self.ranges
        wanted = frozenset(tables)
        return tuple(planned for planned in self.ranges if planned.table in wanted)

    def offsets(self) -> dict[TopicPartition, OffsetSet]:
        """The planned ranges as one set for each partition."""
        return offsets_of(self.ranges)


def app_owners(app_ids: Iterable[str]) -> list[tuple[str, str]]:
    """Ledger id and job of these app ids, each pair once; app ids of other writers are ignored."""
    parts = (app_id.split("/") for app_id in app_ids)
    return list(dict.fromkeys((part[1], part[2]) for part in parts if len(part) > 2 and part[0] == APP_ROOT))


def closed_app_id(app_id: str) -> str:
    """The app id whose transaction closes a table to an app's ledger and job: `kseg-closed/<ledger>/<job>`.

    A table is closed for all chains when a new ledger replaces the old one, because the new ledger does not know the
    unfinished runs of the old one.
    """
    return "/".join([f"{APP_ROOT}-closed", *app_id.split("/")[1:3]])
