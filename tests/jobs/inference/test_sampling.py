"""How much of a topic a sample reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from kseg.client.cluster.metadata import TopicMetadata
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.source.resolve import LogBounds
from kseg.jobs.inference import sampling


class Logs:
    """A topic of many partitions with 100 records each."""

    def topics(self, topics: list[str]) -> dict[TopicPartition, Any]:
        topic = TopicMetadata(topics[0], None, False, {})
        return {TopicPartition(topics[0], number): topic for number in range(1000)}

    def bounds(self, partitions: list[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        return {tp: LogBounds(0, 100, 100) for tp in partitions}


def test_large_records_of_many_partitions_are_bounded_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each partition at least a batch was kept, however much there was already."""

    def records(logs: Any, tp: TopicPartition, topic_id: Any, start: int, end: int) -> Iterator[pa.RecordBatch]:
        for offset in range(start, end):
            yield pa.record_batch({"key": [b"k"], "value": [bytes(1000)], "offset": [offset]})

    monkeypatch.setattr(sampling, "records", records)
    monkeypatch.setattr(
        sampling, "newest", lambda logs, tp, topic_id, start, end, count: records(logs, tp, topic_id, end - count, end)
    )
    monkeypatch.setattr(sampling, "_MOST_BYTES", 20_000)
    found = sampling.sample(Logs(), "orders")  # type: ignore[arg-type]
    assert found.size < 22_000
    assert (found.partitions, found.offsets) == (1000, 100_000)
