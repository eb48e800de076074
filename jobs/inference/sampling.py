"""A sample of a topic: the first and the last records of each partition, read with read_committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from kseg.etl.source.logs import Logs
from kseg.jobs.records.reading import newest, records

#: Records from each end of a partition; with many partitions `_MOST` in all, but at least `_LEAST` from each end.
PER_END: Final = 1000
_MOST: Final = 20_000
_LEAST: Final = 10
_MOST_BYTES: Final = 256 << 20


@dataclass
class Sample:
    """Keys and values of n records, in the same order. offsets: number of offsets in all partitions. size: bytes."""

    partitions: int = 0
    offsets: int = 0
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    size: int = 0

    @property
    def records(self) -> int:
        return len(self.values)


def sample(logs: Logs, topic: str, per_end: int = PER_END) -> Sample:
    """Sample a topic.

    Raises:
        UnknownTopic: there is no such topic.
        KafkaError: a request to the brokers failed.
        RecordFormatError: a batch cannot be decoded.
    """
    topics = logs.topics(topics=[topic])
    partitions = sorted(topics)
    bounds = logs.bounds(partitions)
    count = max(_LEAST, min(per_end, _MOST // (2 * max(1, len(partitions)))))
    found = Sample(len(partitions))
    for tp in partitions:
        start, end, topic_id = bounds[tp].start, bounds[tp].last_stable, topics[tp].topic_id
        found.offsets += end - start
        if found.size > _MOST_BYTES:
            continue
        after, left = start, count
        for batch in records(logs, tp, topic_id, start, end):
            rows = batch.slice(0, left)
            _take(found, rows)
            left -= rows.num_rows
            if rows.num_rows:
                after = rows.column("offset")[rows.num_rows - 1].as_py() + 1
            if left <= 0 or found.size > _MOST_BYTES:
                break
        if left <= 0 and found.size <= _MOST_BYTES:
            for batch in newest(logs, tp, topic_id, after, end, count):
                _take(found, batch)
    return found


def _take(found: Sample, rows: pa.RecordBatch) -> None:
    found.keys += rows.column("key").to_pylist()
    found.values += rows.column("value").to_pylist()
    found.size += rows.nbytes
