"""A stream's requests to the cluster when it changes between them: records arrive, partitions disappear and return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.source.errors import OffsetsLost
from kseg.etl.source.resolve import LogBounds, OffsetSpec
from kseg.etl.spark_format.stream import KsegStreamReader
from kseg.etl.spark_format.stream_offsets import StreamOffsets
from kseg.etl.spark_format.stream_options import StreamOptions

TP = TopicPartition("orders", 0)


class ChangingLogs:
    """Logs in memory. `listing` is called before offsets are listed: what happens between two requests."""

    def __init__(self, **ends: int) -> None:
        """The end of partition 0 of each topic; the logs start at 0, in leader epoch 0."""
        self.logs = {TopicPartition(topic, 0): LogBounds(0, end, end, leader_epoch=0) for topic, end in ends.items()}
        self.ids = {topic: UUID(int=number) for number, topic in enumerate(ends, 1)}
        self.committed: dict[TopicPartition, int] = {}
        self.listing: Callable[[], None] = lambda: None

    def append(self, tp: TopicPartition, count: int, leader_epoch: int = 0) -> None:
        end = self.logs[tp].high_watermark + count
        self.logs[tp] = LogBounds(self.logs[tp].start, end, end, leader_epoch=leader_epoch)

    def topics(self, **_: Any) -> dict[TopicPartition, TopicMetadata]:
        return {
            tp: TopicMetadata(tp.topic, self.ids[tp.topic], False, {0: PartitionMetadata(0, 1, 0, (1,), (1,))})
            for tp in sorted(self.logs)
        }

    def bounds(self, partitions: Any) -> dict[TopicPartition, LogBounds]:
        return {tp: self.logs[tp] for tp in partitions}

    def offsets(self, spec: OffsetSpec, partitions: Any, **_: Any) -> dict[TopicPartition, int]:
        self.listing()
        if spec == "committed":
            return {tp: self.committed[tp] for tp in partitions}
        return {tp: self.logs[tp].start if spec == "earliest" else self.logs[tp].last_stable for tp in partitions}

    def cluster_id(self, topics: Any) -> str:
        return "c"

    def ends_of_epochs(self, asked: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: self.logs[tp].high_watermark for tp in asked}

    def tasks(self, ranges: Any, **_: Any) -> tuple[Any, ...]:
        return tuple(ranges)


def query(logs: Any, **options: str) -> KsegStreamReader:
    base = {"kafka.bootstrap.servers": "localhost:1", "subscribePattern": ".*"}
    if "subscribe" in options:
        del base["subscribePattern"]
    reader = KsegStreamReader(StreamOptions.parse(base | options))
    reader._logs = logs
    return reader


def next_offsets(reader: KsegStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, ReadAllAvailable())


# -- the first micro-batch


def test_a_record_that_arrives_while_a_new_query_lists_its_start_is_no_loss() -> None:
    logs = ChangingLogs(orders=10)
    logs.listing = lambda: logs.append(TP, 3, leader_epoch=1)
    found = StreamOffsets.of(next_offsets(query(logs), {}))
    assert (found.offsets, found.epochs) == ({TP: 13}, {TP: 1}), "the epoch is not older than the offset"


def test_a_group_that_commits_while_a_new_query_starts_at_its_offset_is_no_loss() -> None:
    logs = ChangingLogs(orders=10)

    def consumed() -> None:
        logs.append(TP, 3)
        logs.committed[TP] = 13

    logs.listing = consumed
    reader = query(logs, **{"startingOffsets": "committed", "kafka.group.id": "g"})
    assert next_offsets(reader, {})["orders"] == {"0": 13}


def test_retention_while_a_new_query_lists_its_start_is_no_loss() -> None:
    """An offset that was just listed is not one that a user or a group has named."""
    logs = ChangingLogs(orders=10)
    reader = query(logs, startingOffsets="earliest")
    listed = logs.offsets

    def then_retention(*args: Any, **rest: Any) -> dict[TopicPartition, int]:
        found = listed(*args, **rest)
        logs.logs[TP] = LogBounds(4, 10, 10, leader_epoch=0)
        return found

    logs.offsets = then_retention  # type: ignore[method-assign]
    assert next_offsets(reader, {})["orders"] == {"0": 4}


@pytest.mark.parametrize(("committed", "reason"), [(2, "retention"), (11, "truncation")])
def test_a_group_s_offset_outside_of_the_log_is_a_loss(committed: int, reason: str) -> None:
    logs = ChangingLogs(orders=10)
    logs.logs[TP] = LogBounds(3, 10, 10)
    logs.committed[TP] = committed
    options = {"startingOffsets": "committed", "kafka.group.id": "g"}
    with pytest.raises(OffsetsLost) as caught:
        next_offsets(query(logs, **options), {})
    assert caught.value.reason == reason
    found = next_offsets(query(logs, failOnDataLoss="false", **options), {})
    assert found["orders"] == {"0": min(max(committed, 3), 10)}
