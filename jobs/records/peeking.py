"""Selects and orders the records of `kseg peek`: by time across partitions, by offset within one."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from kseg.client.offsets import IsolationLevel
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.source.logs import Logs
from kseg.jobs.records.reading import newest, records

_POLL_SECONDS: Final = 0.5
#: Partitions that are read at the same time, each over connections, or from files, of its own.
_MOST_OPEN: Final = 64
_LEAST_PIECE: Final = 100
_LARGEST_PIECE: Final = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """offset: an offset, -N for the last N of each partition, or earliest or latest. count: None shows all."""

    offset: int | str
    count: int | None
    partitions: tuple[int, ...] = ()
    isolation_level: IsolationLevel = "read_committed"


def peek(
    logs: Logs,
    topics: Sequence[str],
    wanted: Wanted,
    *,
    follow: bool = False,
    beyond: Callable[[TopicPartition, int], None] = lambda place, end: None,
) -> Iterator[dict[str, Any]]:
    """Rows of Kafka's columns, timestamps in milliseconds since 1970.

    follow: then those that arrive, without end. beyond: told of partitions that end before the wanted offset, or at it.

    Raises UnknownTopic, KafkaError, LogFileError, RecordFormatError, TopicRecreated.
    """
    found = (
        logs.topics(assign=dict.fromkeys(topics, wanted.partitions))
        if wanted.partitions
        else logs.topics(topics=topics)
    )
    places = {tp: topic.topic_id for tp, topic in sorted(found.items())}
    bounds = logs.bounds(places)
    committed = wanted.isolation_level == "read_committed"
    ends = {tp: bounds[tp].last_stable if committed else bounds[tp].high_watermark for tp in places}
    last = isinstance(wanted.offset, int) and wanted.offset < 0
    for tp in places:
        if not follow and isinstance(wanted.offset, int) and wanted.offset >= max(1, ends[tp]):
            beyond(tp, ends[tp])
    read = records if len(places) <= _MOST_OPEN else _in_pieces
    parts = [_rows(logs, tp, topic_id, bounds[tp].start, ends[tp], wanted, read) for tp, topic_id in places.items()]
    merged = heapq.merge(*parts, key=_time)
    if last and wanted.count is not None:
        yield from list(merged)[-wanted.count :]
    else:
        yield from islice(merged, wanted.count)
    while follow:
        time.sleep(_POLL_SECONDS)
        for tp, seen in logs.bounds(places).items():
            end = seen.last_stable if committed else seen.high_watermark
            yield from _all(records(logs, tp, places[tp], ends[tp], end, wanted.isolation_level))
            ends[tp] = max(ends[tp], end)


def _rows(
    logs: Logs,
    tp: TopicPartition,
    topic_id: UUID | None,
    start: int,
    end: int,
    wanted: Wanted,
    read: Callable[..., Iterator[pa.RecordBatch]],
) -> Iterator[dict[str, Any]]:
    offset = wanted.offset
    if offset == "latest":
        return iter(())
    if isinstance(offset, int) and offset < 0:
        return _all(newest(logs, tp, topic_id, start, end, -offset, wanted.isolation_level))
    first = start if offset == "earliest" else max(start, int(offset))
    return _all(read(logs, tp, topic_id, first, end, wanted.isolation_level))


def _in_pieces(
    logs: Logs, tp: TopicPartition, topic_id: UUID | None, start: int, end: int, isolation_level: IsolationLevel
) -> Iterator[pa.RecordBatch]:
    """The same as `records`, with nothing open between two pieces."""
    size = _LEAST_PIECE
    while start < end:
        until = min(end, start + size)
        yield from list(records(logs, tp, topic_id, start, until, isolation_level))
        start, size = until, min(2 * size, _LARGEST_PIECE)


def _all(batches: Any) -> Iterator[dict[str, Any]]:
    for batch in batches:
        assert isinstance(batch, pa.RecordBatch)
        times = batch["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())  # Python has no year 10000
        yield from batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", times).to_pylist()


def _time(row: dict[str, Any]) -> int:
    time: int | None = row["timestamp"]
    return time or 0
