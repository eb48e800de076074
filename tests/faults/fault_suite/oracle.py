"""What the topics and the tables hold, read by librdkafka and delta-rs: never by the code under test."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from deltalake import DeltaTable

from fault_suite.journal import Address, Partition, digest

STUCK = 15
"""Seconds without a record until another consumer is tried."""

PATIENCE = 180
Headers = tuple[tuple[str, bytes | None], ...]
Content = tuple[bytes, int, Headers]
"""digest of key and value, timestamp (ms), headers"""


class TopicReader:
    """The committed records of some partitions, read once each as they come."""

    def __init__(self, servers: str, partitions: Mapping[str, int]) -> None:
        settings = {"bootstrap.servers": servers, "log_level": 0, "reconnect.backoff.max.ms": 500}
        self._admin = AdminClient(settings)
        self._group_settings = settings
        own = {"group.id": "oracle", "enable.auto.commit": False, "isolation.level": "read_committed"}
        self._settings = {**settings, **own, "enable.partition.eof": False, "auto.offset.reset": "error"}
        self._consumer = Consumer(self._settings)
        self._all = [(topic, number) for topic, count in partitions.items() for number in range(count)]
        self._at = dict.fromkeys(self._all, 0)
        self._consumer.assign([TopicPartition(*tp, 0) for tp in self._all])
        self._lock = threading.RLock()
        self.records: dict[Partition, dict[int, Content]] = {tp: {} for tp in self._all}
        self.keys: dict[Partition, dict[int, bytes | None]] = {tp: {} for tp in self._all}

    def close(self) -> None:
        self._consumer.close()

    def add(self, topic: str, partition: int) -> None:
        """One more partition, from its first record on."""
        with self._lock:
            self.records[topic, partition] = {}
            self.keys[topic, partition] = {}
            self._all = [*self._all, (topic, partition)]
            self._at[topic, partition] = 0
            self._consumer.incremental_assign([TopicPartition(topic, partition, 0)])

    def renew(self, cuts: Mapping[Partition, int]) -> None:
        """From these offsets on, partitions have other records than before: they are read from there."""
        with self._lock:
            at = self._reached()
            self._at = at | {tp: min(cut, at[tp]) for tp, cut in cuts.items()}
            self._begin_again()  # librdkafka keeps ids and epochs of what it has once read
            for tp, cut in cuts.items():
                for kept in (self.records[tp], self.keys[tp]):
                    for offset in [one for one in kept if one >= cut]:
                        del kept[offset]

    def superseded(self, place: Partition) -> frozenset[int]:
        """Offsets of what has been read that compaction may remove: a later record has the same key, or there is no
        key."""
        with self._lock:
            keys = self.keys[place]
            last = {keys[offset]: offset for offset in sorted(keys)}
            return frozenset(offset for offset, key in keys.items() if key is None or offset < last[key])

    def count(self, place: Partition) -> int:
        """How many records a partition has now."""
        consumer = Consumer({**self._settings, "group.id": "oracle-counts", "auto.offset.reset": "earliest"})
        end, found, deadline = self.ends()[place], 0, time.monotonic() + PATIENCE
        try:
            first, _ = consumer.get_watermark_offsets(TopicPartition(*place), 60)
            consumer.assign([TopicPartition(*place, first)])
            while max(consumer.position([TopicPartition(*place)])[0].offset, first) < end:
                assert time.monotonic() < deadline, f"librdkafka does not reach {place} {end}"
                found += sum(message.error() is None for message in consumer.consume(2000, 0.2))
            return found
        finally:
            consumer.close()

    def ends(self, *, stable: bool = True) -> dict[Partition, int]:
        """Each partition's last stable offset, or its high watermark."""
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(*tp): OffsetSpec.latest() for tp in self._all}
        deadline = time.monotonic() + PATIENCE
        while True:
            failure: Exception
            try:
                found = self._admin.list_offsets(asked, isolation_level=level, request_timeout=30)
                ends = {(tp.topic, tp.partition): one.result(60).offset for tp, one in found.items()}
                if min(ends.values()) >= 0:
                    return ends
                failure = AssertionError(f"librdkafka gives no ends, and no error: {ends}")
            except (KafkaException, TimeoutError) as error:  # an answer may take longer than the request's timeout
                failure = error
            if time.monotonic() > deadline:
                raise failure
            time.sleep(0.5)
            # librdkafka's admin client keeps the leaders and epochs that it has once seen.
            self._admin = AdminClient(self._group_settings)

    def read_to(self, ends: Mapping[Partition, int]) -> None:
        """Read on until all of these offsets have been passed."""
        with self._lock:
            moved = time.monotonic()
            deadline = moved + PATIENCE
            while any(self._reached()[tp] < end for tp, end in ends.items()):
                assert time.monotonic() < deadline, f"librdkafka does not reach {dict(ends)}, it is at {self._at}"
                for message in self._consumer.consume(2000, 0.2):
                    if message.error() is None:
                        moved = time.monotonic()
                        headers = tuple(message.headers() or ())
                        content = (digest(message.key(), message.value()), message.timestamp()[1], headers)
                        self.records[message.topic(), message.partition()][message.offset()] = content
                        self.keys[message.topic(), message.partition()][message.offset()] = message.key()
                if time.monotonic() > moved + STUCK:
                    self._begin_again()
                    moved = time.monotonic()

    def _reached(self) -> dict[Partition, int]:
        """The next offset of each partition. A consumer does not say it before it has read one record."""
        for tp in self._consumer.position([TopicPartition(*tp) for tp in self._all]):
            if tp.offset >= 0:
                self._at[tp.topic, tp.partition] = tp.offset
        return self._at

    def _begin_again(self) -> None:
        """By a new consumer: one reads no further where an offset was once out of a log's range."""
        self._consumer.close()
        self._consumer = Consumer(self._settings)
        for tp, at in self._at.items():
            with suppress(KafkaException):
                first, _ = self._consumer.get_watermark_offsets(TopicPartition(*tp), 10)
                self._at[tp] = max(at, first)
        self._consumer.assign([TopicPartition(*tp, at) for tp, at in self._at.items()])

    def group_offsets(self, group: str) -> dict[Partition, int]:
        """The stable offsets that a group has committed. Raises KafkaException where its coordinator is away."""
        consumer = Consumer({**self._group_settings, "group.id": group, "isolation.level": "read_committed"})
        try:
            found = consumer.committed([TopicPartition(*tp) for tp in self._all], timeout=10)
        finally:
            consumer.close()
        if any(tp.error for tp in found):
            raise KafkaException(next(tp.error for tp in found if tp.error))
        return {(tp.topic, tp.partition): tp.offset for tp in found if tp.offset >= 0}


def read_table(path: str, columns: Iterable[str]) -> pa.Table | None:
    """A table's newest version; None where there is none yet."""
    if not DeltaTable.is_deltatable(path):
        return None
    return DeltaTable(path).to_pyarrow_table(columns=list(columns))


@dataclass
class Tables:
    """The tables of a job."""

    paths: list[str]

    def offsets(self) -> dict[Partition, Counter[int]]:
        """How many rows each offset has."""
        found: dict[Partition, Counter[int]] = defaultdict(Counter)
        for rows in self._read(["topic", "partition", "offset"]):
            for batch in rows.group_by(["topic", "partition", "offset"]).aggregate([([], "count_all")]).to_batches():
                for row in batch.to_pylist():
                    found[row["topic"], row["partition"]][row["offset"]] += row["count_all"]
        return found

    def contents(self) -> dict[Address, list[Content]]:
        """Every row, by its address."""
        found: dict[Address, list[Content]] = defaultdict(list)
        for rows in self._read(["topic", "partition", "offset", "key", "value", "timestamp", "headers"]):
            stamps = pc.cast(rows["timestamp"], pa.timestamp("ms", "UTC"))
            rows = rows.set_column(rows.schema.get_field_index("timestamp"), "timestamp", pc.cast(stamps, pa.int64()))
            for batch in rows.to_batches():
                for row in batch.to_pylist():
                    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
                    content = (digest(row["key"], row["value"]), row["timestamp"], headers)
                    found[row["topic"], row["partition"], row["offset"]].append(content)
        return found

    def _read(self, columns: list[str]) -> list[pa.Table]:
        read = (read_table(path, columns) for path in self.paths)
        return [rows for rows in read if rows is not None]


@dataclass(frozen=True)
class Removed:
    """Records of a partition that were deleted: all before an offset, and single ones that compaction may have removed;
    unlanded: of all these, offsets that might not have landed yet."""

    before: int = 0
    unlanded: frozenset[int] = frozenset()
    compacted: frozenset[int] = frozenset()

    def __contains__(self, offset: int) -> bool:
        return offset < self.before or offset in self.compacted


NOTHING_REMOVED = Removed()


@dataclass(frozen=True)
class Former:
    """A record whose offset another one has now: the log was truncated, or its topic made anew. Its rows stay.

    least, most: how many rows it must have, and may have.
    """

    content: Content
    least: int
    most: int


@dataclass
class Findings:
    """What a run of the suite came to. All but the first three counts must be 0.

    moments: how often group and tables were compared while everything ran; ahead: how often the group had an offset
    whose records were not all in the tables. lost: acknowledged records that the topic has not, which no reader could
    land. unexpected: outcomes of commands that the profile does not allow.
    """

    rows: int = 0
    faults: int = 0
    moments: int = 0
    gaps: int = 0
    duplicates: int = 0
    mismatches: int = 0
    ahead: int = 0
    lost: int = 0
    unexpected: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, kind: str, count: int, example: object) -> None:
        if count:
            setattr(self, kind, getattr(self, kind) + count)
            self.examples.append(f"{kind}: {example}")

    @property
    def sound(self) -> bool:
        must_be_zero = [one.name for one in fields(self) if one.name not in ("rows", "faults", "moments", "examples")]
        return not any(getattr(self, name) for name in must_be_zero)

    def __str__(self) -> str:
        return (
            f"rows checked {self.rows}, faults injected {self.faults}, gaps {self.gaps}, "
            f"duplicates {self.duplicates}, mismatches {self.mismatches}, group ahead of table {self.ahead} "
            f"(of {self.moments} moments), lost by Kafka {self.lost}, unexpected outcomes {self.unexpected}"
        )


def compare(
    findings: Findings,
    acknowledged: Mapping[Address, bytes],
    topic: Mapping[Partition, Mapping[int, Content]],
    rows: Mapping[Address, list[Content]],
    again: Counter[Address],
    removed: Mapping[Partition, Removed] | None = None,
    former: Mapping[Address, Sequence[Former]] | None = None,
) -> None:
    """Compare journal, topic and tables. again: how often appending backfills landed an address once more.

    removed: what was deleted from the topic after the oracle had read it. Such a record need not be landed again, and
    not at all where it had not landed when it was deleted. former: records that others have replaced, by address.
    """
    gone, replaced = removed or {}, former or {}
    findings.rows += sum(map(len, rows.values()))
    missing = [at for at, ones in replaced.items() if any(rows.get(at, []).count(o.content) < o.least for o in ones)]
    rows = {at: _current(found, replaced.get(at, ())) for at, found in rows.items()}
    rows = {at: found for at, found in rows.items() if found}

    def fewest(at: Address) -> int:
        deleted = gone.get(at[:2], NOTHING_REMOVED)
        return 1 + again[at] if at[2] not in deleted else 0 if at[2] in deleted.unlanded else 1

    records = {(*tp, offset): content for tp, found in topic.items() for offset, content in found.items()}
    lost = [at for at, content in acknowledged.items() if at not in records or records[at][0] != content]
    gaps = missing + [at for at in records if len(rows.get(at, ())) < fewest(at)]
    duplicates = [at for at, found in rows.items() if len(found) > 1 + again[at] or at not in records]
    mismatches = [at for at, found in rows.items() if at in records and any(one != records[at] for one in found)]
    for kind, found in {"lost": lost, "gaps": gaps, "duplicates": duplicates, "mismatches": mismatches}.items():
        findings.note(kind, len(found), sorted(found)[:5])


def _current(found: list[Content], former: Sequence[Former]) -> list[Content]:
    """The rows of an address without those that former records may have."""
    left = list(found)
    for one in former:
        for _ in range(min(one.most, left.count(one.content))):
            left.remove(one.content)
    return left


def ahead_of(
    group: Mapping[Partition, int],
    topic: Mapping[Partition, Mapping[int, Content]],
    rows: Mapping[Partition, Any],
    removed: Mapping[Partition, Removed] | None = None,
) -> dict[Partition, list[int]]:
    """Offsets below the group's whose records no table has, by partition, but for those that were deleted before they
    had landed. rows: read after the group's offsets."""
    legal = {tp: gone.unlanded for tp, gone in (removed or {}).items()}
    missing = {
        tp: [
            offset
            for offset in topic[tp]
            if offset < end and not rows.get(tp, {}).get(offset) and offset not in legal.get(tp, ())
        ]
        for tp, end in group.items()
    }
    return {tp: offsets for tp, offsets in missing.items() if offsets}
