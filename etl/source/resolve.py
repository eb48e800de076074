"""Resolve a user's topics and offsets to partitions and concrete offsets.

`resolve_topics` determines the partitions, and `resolve_offsets` the offsets at which reading starts or ends in each.
The options have the same meaning as in Spark's Kafka source: a pattern may match anywhere in a topic's name, and never
matches an internal topic; a time means the first record at or after it; -2 is the earliest offset, -1 the latest. Under
read_committed the latest offset is the last stable offset, so that there are no open transactions below an end
(ListOffsets with this isolation level, KIP-98).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import TopicMetadata
from kseg.client.errors import LeaderNotAvailable, UnknownTopic, error_from_code
from kseg.client.groups.offsets import CommittedOffset, committed_offsets
from kseg.client.offsets import (
    EARLIEST,
    LATEST,
    IsolationLevel,
    ListedTime,
    SpecialTimestamp,
    end_of_epoch,
    list_bounds,
    list_offsets,
    list_times,
)
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.times import epoch_millis
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.errors import OffsetsLost, TimeNotFoundError

EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1
"""In a map of offsets, as in Spark's source: the log's ends."""


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each partition, `EARLIEST_OFFSET` or `LATEST_OFFSET`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTime:
    """The first record at or after a time, in milliseconds since 1970, for all partitions or for each.

    Before 1970, a range starts at the log's start, so it has records without a timestamp; it ends at the first record
    that has one.

    otherwise: used if there is no such record: the latest offset, or an error (`TimeNotFoundError`).
    ends: whether a range ends there. In files, records without a timestamp belong both to a range that ends at them and
    to a range that starts at them.
    """

    millis: int | Mapping[TopicPartition, int]
    otherwise: Literal["latest", "error"] = "latest"
    ends: bool = False


EndName = Literal["log_end", "high_watermark", "last_stable"]
"""Ends of a log by name: of files, after the last whole batch; the first offset that may be unreplicated; the first one
that is undecided."""

OffsetSpec = Literal["earliest", "latest", "committed"] | EndName | AtOffsets | AtTime


_TRIES_FOR_ONE_EPOCH = 10

OffsetOrEdge = int | SpecialTimestamp
"""An offset, or EARLIEST or LATEST."""

_EDGES: Mapping[int, OffsetOrEdge] = {EARLIEST_OFFSET: EARLIEST, LATEST_OFFSET: LATEST}

_LEVELS: dict[str, IsolationLevel] = {"high_watermark": "read_uncommitted", "last_stable": "read_committed"}


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The offsets of a partition's log: log start <= last stable offset <= high watermark.

    confirmed: for files, whose end counts as the high watermark: the broker's last checkpointed high watermark, -1 if
    there is none. Records at or above it may never have been replicated. None for brokers.
    leader_epoch: the leader epoch in the responses for both ends; for files, the last one. -1 if unknown.
    """

    start: int
    last_stable: int
    high_watermark: int
    confirmed: int | None = None
    leader_epoch: int = -1


def offset_spec(value: str | datetime | Mapping[str, Any]) -> OffsetSpec:
    """Convert a job file's offset setting (`earliest`, `{orders: {0: 23}}`, a time) to an `OffsetSpec`.

    Raises:
        ConfigurationError: the setting has none of these forms.
    """
    if value in ("earliest", "latest", "committed", "log_end", "high_watermark", "last_stable"):
        return value  # type: ignore[return-value]
    if isinstance(value, Mapping) and set(value) == {"timestamp"} and isinstance(value["timestamp"], datetime):
        value = value["timestamp"]
    if isinstance(value, datetime):
        return AtTime(epoch_millis(value))
    if isinstance(value, Mapping) and all(isinstance(offsets, Mapping) for offsets in value.values()):
        return AtOffsets(
            {TopicPartition(t, int(p)): int(offset) for t, offsets in value.items() for p, offset in offsets.items()}
        )
    raise ConfigurationError.of(
        "", f"{value!r} is not an offset", "earliest, latest, committed, {topic: {partition: offset}} or {timestamp: …}"
    )


def ending(spec: OffsetSpec) -> OffsetSpec:
    """The user's setting, as the end of ranges."""
    return replace(spec, ends=True) if isinstance(spec, AtTime) else spec


def resolve_topics(
    cluster: Cluster,
    *,
    topics: Collection[str] | None = None,
    pattern: str | None = None,
    assign: Mapping[str, Collection[int]] | None = None,
) -> dict[TopicPartition, TopicMetadata]:
    """The partitions that `topics`, `pattern` or `assign` select, sorted, each with its topic's metadata.

    topics: names; all must exist.
    pattern: a regular expression that may match anywhere in the name; internal topics are left out. No match is no
        error.
    assign: these partitions of these topics; all must exist.

    Raises:
        UnknownTopic: a named topic or partition does not exist, or the broker does not know it yet (retriable;
            `etl.source.lag`).
        ConfigurationError: not exactly one of the three is given, or the pattern is not a regular expression.
        KafkaError: a request to the cluster failed.
    """
    if sum(way is not None for way in (topics, pattern, assign)) != 1:
        raise ConfigurationError("select partitions in exactly one way: by topics, a pattern or an assignment")
    if pattern is not None:
        return _partitions(_matching(cluster, pattern))
    found = _partitions(_named(cluster, topics if topics is not None else list(assign or ())))
    if assign is None:
        return found
    wanted = [TopicPartition(topic, number) for topic, numbers in assign.items() for number in sorted(set(numbers))]
    for partition in wanted:
        if partition not in found:
            raise UnknownTopic(
                "the topic has no such partition",
                retriable=True,  # as far as this broker knows
                topic=partition.topic,
                partition=partition.partition,
            )
    return {partition: found[partition] for partition in sorted(wanted)}


def _matching(cluster: Cluster, pattern: str) -> list[TopicMetadata]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"{pattern!r} is not a regular expression: {error}") from error
    known = cluster.metadata(None).topics.values()
    names = [topic.name for topic in known if not topic.is_internal and expression.search(topic.name)]
    return _named(cluster, names) if names else []


def _named(cluster: Cluster, names: Collection[str]) -> list[TopicMetadata]:
    known = cluster.metadata(sorted(set(names))).topics
    result = []
    for name in sorted(set(names)):
        topic = known.get(name)
        if topic is None:
            raise UnknownTopic("the cluster has no such topic", topic=name)
        if topic.error:
            raise error_from_code(int(topic.error), "Metadata", topic=name)
        result.append(topic)
    return result


def _partitions(topics: list[TopicMetadata]) -> dict[TopicPartition, TopicMetadata]:
    return {TopicPartition(topic.name, number): topic for topic in topics for number in sorted(topic.partitions)}


def resolve_offsets(
    cluster: Cluster,
    spec: OffsetSpec,
    partitions: Collection[TopicPartition],
    *,
    isolation_level: IsolationLevel,
    group: str | None = None,
    unnamed: Literal["earliest", "latest", "refuse"] = "refuse",
    fail_on_data_loss: bool = False,
) -> dict[TopicPartition, int]:
    """A concrete offset for every partition, as of now.

    Offsets given by the user are not checked: the caller must check that they are inside the log (`log_bounds`).

    group: the group of `committed`; a partition without a committed offset starts at its earliest offset.
    unnamed: the offset of partitions that `AtOffsets` does not name; Spark's source refuses them.
    fail_on_data_loss: see `unread`.

    Raises:
        ConfigurationError: `committed` without a group; `log_end`; `AtOffsets` with other partitions than these.
        TimeNotFoundError: there is no record at or after the time of `AtTime(otherwise="error")`.
        OffsetsLost: as `unread`.
        KafkaError: a request to the brokers failed.
    """
    wanted = sorted(partitions)
    marks: Mapping[TopicPartition, OffsetOrEdge]
    if isinstance(spec, AtOffsets):
        marks = named_offsets(spec.offsets, wanted, unnamed)
    elif isinstance(spec, AtTime):
        marks = _at_time(cluster, spec, wanted, isolation_level)
    elif spec == "committed":
        marks = _committed(cluster, group, wanted, fail_on_data_loss)
    elif spec == "log_end":
        raise ConfigurationError.of("source.ending_offsets", "brokers serve no records above the high watermark")
    else:
        marks = dict.fromkeys(wanted, EARLIEST if spec == "earliest" else LATEST)
        isolation_level = _LEVELS.get(spec, isolation_level)
    edges = {partition: mark for partition, mark in marks.items() if isinstance(mark, SpecialTimestamp)}
    listed = list_offsets(cluster, edges, isolation_level=isolation_level) if edges else {}
    return {
        partition: listed[partition].offset if isinstance(mark, SpecialTimestamp) else mark
        for partition, mark in marks.items()
    }


def log_bounds(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogBounds]:
    """Log start, last stable offset and high watermark of every partition, as of now, with their leader epoch.

    The epoch is taken from the ListOffsets responses. An epoch from metadata may be older than the offsets; its end
    would then be below them, as if the log had been truncated (KIP-320).

    Raises:
        LeaderNotAvailable: leaders changed repeatedly between the requests.
        KafkaError: a request to the cluster failed.
    """
    found: dict[TopicPartition, LogBounds] = {}
    left = sorted(partitions)
    for _ in range(_TRIES_FOR_ONE_EPOCH):
        if not left:
            break
        found |= {
            p: LogBounds(start.offset, stable.offset, high.offset, leader_epoch=high.leader_epoch)
            for p, (start, stable, high) in list_bounds(cluster, left).items()
            if stable.leader_epoch == high.leader_epoch
        }
        left = [p for p in left if p not in found]
    if left:
        raise LeaderNotAvailable("the leader changed repeatedly", topic=left[0].topic, partition=left[0].partition)
    return {p: found[p] for p in sorted(partitions)}


def named_offsets(
    offsets: Mapping[TopicPartition, int], wanted: list[TopicPartition], unnamed: str
) -> dict[TopicPartition, OffsetOrEdge]:
    """The user's offset for each partition, or an end of its log.

    Raises ConfigurationError if the map has other partitions than these.
    """
    strangers = sorted(offsets.keys() - set(wanted))
    missing = sorted(set(wanted) - offsets.keys()) if unnamed == "refuse" else []
    if strangers or missing:
        bad = [f"has {', '.join(map(str, strangers))}, which are not read"] if strangers else []
        bad += [f"lacks {', '.join(map(str, missing))}"] if missing else []
        raise ConfigurationError.of(
            "", f"a map of offsets {' and '.join(bad)}", "name every partition that is read; -2 is earliest, -1 latest"
        )
    edge = EARLIEST_OFFSET if unnamed == "earliest" else LATEST_OFFSET
    found = {partition: offsets.get(partition, edge) for partition in wanted}
    return {partition: _EDGES.get(offset, offset) for partition, offset in found.items()}


def named_times(spec: AtTime, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The user's time for each partition. Raises ConfigurationError if a map has other partitions than these."""
    if isinstance(spec.millis, int):
        return dict.fromkeys(wanted, spec.millis)
    if spec.millis.keys() != set(wanted):
        missing = ", ".join(str(p) for p in wanted if p not in spec.millis)
        strangers = ", ".join(str(p) for p in sorted(spec.millis.keys() - set(wanted)))
        raise ConfigurationError.of(
            "", f"a map of times does not fit the partitions (missing: {missing or '-'}; not read: {strangers or '-'})"
        )
    return {partition: spec.millis[partition] for partition in wanted}


def _at_time(
    cluster: Cluster, spec: AtTime, wanted: list[TopicPartition], isolation_level: IsolationLevel
) -> dict[TopicPartition, int]:
    times = named_times(spec, wanted)
    if not wanted:
        return {}
    found = first_records(cluster, times, isolation_level=isolation_level, ends=spec.ends)
    for partition in wanted:
        if found[partition].first.offset < 0 and spec.otherwise == "error":
            raise TimeNotFoundError(
                f"no record at or after {times[partition]} (milliseconds since 1970)",
                remedy='start earlier, or set startingOffsetsByTimestampStrategy to "latest"',
                topic=partition.topic,
                partition=partition.partition,
            )
    # An end that was listed after the search could be above records that were not visible to it.
    return {p: first.offset if first.offset >= 0 else end.offset for p, (end, first) in found.items()}


def first_records(
    cluster: Cluster, times: Mapping[TopicPartition, int], *, isolation_level: IsolationLevel, ends: bool
) -> dict[TopicPartition, ListedTime]:
    """The first record at or after a time (ms) of each partition, as `list_times` finds it.

    A range that starts before 1970 starts with the log, because a search by time skips records without a timestamp.

    ends: whether ranges end there.
    """
    from_log_start = {tp for tp, millis in times.items() if millis < 0} if not ends else set()
    wanted = {tp: EARLIEST if tp in from_log_start else millis for tp, millis in times.items()}
    found = list_times(cluster, wanted, isolation_level=isolation_level)
    empty = {tp for tp in from_log_start if found[tp].first.offset >= found[tp].end.offset}
    return {tp: one._replace(first=one.first._replace(offset=-1)) if tp in empty else one for tp, one in found.items()}


def unread(
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int],
    *,
    fail_on_data_loss: bool,
) -> dict[TopicPartition, int]:
    """The first offset of each partition that a group has not read; -1 where it has committed none.

    This is the committed offset. But if the leader epoch of the last record that the group has read ended below it, the
    log was truncated there, and has other records from that end on (KIP-320).

    ends: the ends of the commits' leader epochs; -1: unknown.

    Raises:
        OffsetsLost: a log was truncated below the committed offset, with `fail_on_data_loss`.
    """
    found: dict[TopicPartition, int] = {}
    for tp, (offset, *_) in committed.items():
        end = ends.get(tp, -1)
        truncated = 0 <= end < offset
        if truncated and fail_on_data_loss:
            raise OffsetsLost(tp.topic, tp.partition, end, offset, "truncation")
        found[tp] = end if truncated else offset
    return found


def _committed(
    cluster: Cluster, group: str | None, wanted: list[TopicPartition], fail_on_data_loss: bool
) -> dict[TopicPartition, OffsetOrEdge]:
    if not group:
        raise ConfigurationError("committed offsets need a group")
    if not wanted:
        return {}
    committed = committed_offsets(cluster, group, wanted)
    epochs = {p: found.leader_epoch for p, found in committed.items() if found.offset >= 0 <= found.leader_epoch}
    ends = {p: end.end_offset for p, end in end_of_epoch(cluster, epochs).items()} if epochs else {}
    marks = unread(committed, ends, fail_on_data_loss=fail_on_data_loss)
    return {p: mark if (mark := marks.get(p, -1)) >= 0 else EARLIEST for p in wanted}
