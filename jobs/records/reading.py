"""Records of a partition's log, from brokers or files: from an offset on, or the newest ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import Final
from uuid import UUID

import pyarrow as pa

from kseg.client.offsets import IsolationLevel
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.logs import Logs
from kseg.etl.source.reader import readers
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.decode.jit import is_cached
from kseg.segment_reader.decode.kernel import fill

_ROWS: Final = 1000
#: By so much more is read where markers, aborted and compacted records take the place of others.
_FURTHER: Final = 8


def task_of(logs: Logs, tp: TopicPartition, topic_id: UUID | None, start: int, end: int) -> RangeTask:
    """[start, end) as one task; start < end."""
    (task,) = logs.tasks([RangeTask(tp.topic, tp.partition, start, end)], topics={tp.topic: topic_id})
    return task


def records(
    logs: Logs,
    tp: TopicPartition,
    topic_id: UUID | None,
    start: int,
    end: int,
    isolation_level: IsolationLevel = "read_committed",
) -> Iterator[pa.RecordBatch]:
    """The rows of [start, end) in offset order, in batches of at most 1,000; offsets that are gone are passed over.

    topic_id: of the topic that is read; None if the source has no ids.

    Raises KafkaError, LogFileError, RecordFormatError, TopicRecreated.
    """
    if start >= end:
        return
    options = DecodeOptions(
        isolation_level=isolation_level,
        engine="fast" if is_cached(fill) else "reference",  # compiling takes longer than a sample in plain Python
        on_data_loss="record",
        fetch_ahead=False,
        limits=Limits(max_rows=_ROWS),
    )
    task = task_of(logs, tp, topic_id, start, end)
    with readers([task], logs.origin, options) as reader, closing(iter(reader(task, None))) as rows:  # type: ignore[type-var]
        yield from rows


def newest(
    logs: Logs,
    tp: TopicPartition,
    topic_id: UUID | None,
    start: int,
    end: int,
    count: int,
    isolation_level: IsolationLevel = "read_committed",
) -> list[pa.RecordBatch]:
    """The last `count` rows of [start, end). topic_id: see `records`."""
    span = count
    while True:
        first = max(start, end - span)
        kept: deque[pa.RecordBatch] = deque()
        found = 0
        for batch in records(logs, tp, topic_id, first, end, isolation_level):
            kept.append(batch)
            found += batch.num_rows
            # An end with few records may follow very many.
            while kept and found - kept[0].num_rows >= count:
                found -= kept.popleft().num_rows
        if found >= count or first == start:
            if found > count:
                kept.appendleft(kept.popleft().slice(found - count))
            return [*kept]
        span *= _FURTHER
