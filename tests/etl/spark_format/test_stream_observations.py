"""A stream's requests to the cluster when it changes between them: records arrive, partitions disappear and return."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.errors import UnknownTopic
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.source import lag
from kseg.etl.source.errors import OffsetsLost
from kseg.etl.source.resolve import LogBounds, OffsetSpec
from kseg.etl.spark_format.stream import KsegStreamReader
from kseg.etl.spark_format.stream_offsets import MissingPartition, StreamOffsets
from kseg.etl.spark_format.stream_options import StreamOptions

TP = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "PAUSES", (0.0, 0.0))


class ChangingLogs:
    """Logs in memory. `listing` is called before offsets are listed: what happens between two requests."""

    def __init__(self, **ends: int) -> None:
        """The end of partition 0 of each topic; the logs start at 0, in leader epoch 0."""
        self.logs = {TopicPartition(topic, 0): LogBounds(0, end, end, leader_epoch=0) for topic, end in ends.items()}
        self.ids = {topic: UUID(int=number) for number, topic in enumerate(ends, 1)}
        self.committed: dict[TopicPartition, int] = {}
        self.left_out: list[TopicPartition] = []
        self.answers = 0
        self.listing: Callable[[], None] = lambda: None

    def append(self, tp: TopicPartition, count: int, leader_epoch: int = 0) -> None:
        end = self.logs[tp].high_watermark + count
        self.logs[tp] = LogBounds(self.logs[tp].start, end, end, leader_epoch=leader_epoch)

    def leave_out(self, tp: TopicPartition, times: int) -> None:
        """The next answers do not list the partition."""
        self.left_out = [tp] * times

    def topics(
        self, *, topics: Any = None, pattern: Any = None, assign: Any = None
    ) -> dict[TopicPartition, TopicMetadata]:
        listed = self.logs.keys() - set(self.left_out[:1])
        for topic in topics or assign or ():
            if TopicPartition(topic, 0) not in listed:
                raise UnknownTopic("the cluster has no such topic", topic=topic)
        if any(numbers != (0,) for numbers in (assign or {}).values()):
            raise UnknownTopic("the topic has no such partition", topic="orders", partition=1)
        self.answers += 1
        self.left_out = self.left_out[1:]
        return {
            tp: TopicMetadata(tp.topic, self.ids[tp.topic], False, {0: PartitionMetadata(0, 1, 0, (1,), (1,))})
            for tp in sorted(listed)
            if (re.search(pattern, tp.topic) if pattern is not None else tp.topic in (topics or assign))
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
    which = {} if options.keys() & {"subscribe", "assign"} else {"subscribePattern": ".*"}
    reader = KsegStreamReader(StreamOptions.parse({"kafka.bootstrap.servers": "localhost:1"} | which | options))
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


# -- partitions that disappear and return

BILLS = TopicPartition("bills", 0)
LOSSY = {"failOnDataLoss": "false"}


def begun(logs: ChangingLogs, **options: str) -> tuple[KsegStreamReader, dict[str, Any]]:
    """A query that has read everything, and the last offsets in its checkpoint."""
    reader = query(logs, **({"startingOffsets": "earliest"} | LOSSY | options))
    return reader, written(next_offsets(reader, written(next_offsets(reader, {}))))


def written(document: dict[str, Any]) -> dict[str, Any]:
    """As Spark's checkpoint gives it back."""
    return json.loads(json.dumps(document))


def batch(reader: KsegStreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, int, int]]]:
    """The next micro-batch: its end offsets and its ranges."""
    end = written(next_offsets(reader, start))
    ranges = [one.tasks[0] for one in reader.partitions(start, end)] if end != start else []
    return end, [(one.topic, one.start, one.end) for one in ranges]


def test_a_partition_missing_from_one_answer_is_continued_where_it_was() -> None:
    logs = ChangingLogs(orders=10, bills=4)
    reader, start = begun(logs)
    away = logs.logs.pop(TP)
    logs.append(BILLS, 1)
    start, ranges = batch(reader, start)
    assert ranges == [("bills", 4, 5)]
    assert "orders" not in start, "other readers of the checkpoint see the partitions that are there"
    assert batch(reader, start) == (start, []), "what is missing gives no further micro-batch"
    logs.logs[TP] = away
    logs.append(TP, 3)
    start, ranges = batch(reader, start)
    assert (start["orders"], ranges) == ({"0": 10}, []), "its start is in the checkpoint before it is read"
    start, ranges = batch(reader, start)
    assert ranges == [("orders", 10, 13)]
    assert "missing" not in start["@kseg"]


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("named", [{"subscribe": "bills,orders"}, {"subscribePattern": ".*"}])
def test_an_answer_without_a_partition_is_asked_for_again(fail: str, named: dict[str, str]) -> None:
    """Otherwise the query fails, or leaves out a range whose end is in the checkpoint already."""
    logs = ChangingLogs(orders=10, bills=4)
    reader, start = begun(logs, failOnDataLoss=fail, **named)
    logs.append(TP, 3)
    logs.leave_out(TP, times=2)
    end = written(next_offsets(reader, start))
    assert end["orders"] == {"0": 13}
    logs.leave_out(TP, times=2)
    (partition,) = reader.partitions(start, end)
    assert (partition.tasks[0].start, partition.tasks[0].end) == (10, 13)  # type: ignore[attr-defined]


def test_a_topic_that_is_not_subscribed_to_any_more_is_not_asked_for_again() -> None:
    logs = ChangingLogs(orders=10, bills=4)
    _, start = begun(logs)
    for named in ({"subscribe": "bills"}, {"subscribePattern": "^b"}, {"assign": '{"bills":[0]}'}):
        before = logs.answers
        with pytest.raises(Refused):
            next_offsets(query(logs, **named), start)
        assert logs.answers - before == 1


def test_a_missing_partition_is_kept_through_a_run_that_ends_without_it() -> None:
    """With Trigger.AvailableNow a partition that returns after the run has begun is left to the next run."""
    logs = ChangingLogs(orders=10, bills=4)
    reader, start = begun(logs)
    away = logs.logs.pop(TP)
    start, _ = batch(reader, start)
    reader.prepareForTriggerAvailableNow()
    logs.logs[TP] = away
    logs.append(BILLS, 1)
    start, ranges = batch(reader, start)
    assert ranges == []
    reader.prepareForTriggerAvailableNow()
    start, _ = batch(reader, start)
    assert start["orders"] == {"0": 10}


def test_a_missing_topic_that_was_created_again_is_read_from_its_start() -> None:
    logs = ChangingLogs(orders=10, bills=4)
    reader, start = begun(logs)
    away = logs.logs.pop(TP)
    start, _ = batch(reader, start)
    logs.logs[TP] = away
    logs.ids["orders"] = UUID(int=9)
    for options in (LOSSY, {"failOnDataLoss": "true"}):
        reader = query(logs, **options)
        end, ranges = batch(reader, start)
        assert (end["orders"], ranges) == ({"0": 0}, [])
        assert "missing" not in end["@kseg"]


def test_a_missing_partition_that_lost_records_continues_at_its_end() -> None:
    """The leader epoch of its offset is kept with it."""
    logs = ChangingLogs(orders=10, bills=4)
    reader, start = begun(logs)
    del logs.logs[TP]
    start, _ = batch(reader, start)
    logs.logs[TP] = LogBounds(0, 20, 20, leader_epoch=3)
    logs.ends_of_epochs = lambda asked: dict.fromkeys(asked, 7)  # type: ignore[method-assign]
    with pytest.raises(Refused) as caught:
        next_offsets(query(logs, failOnDataLoss="true"), start)
    assert caught.value.code == "log-truncated"
    start, _ = batch(reader, start)
    assert start["orders"] == {"0": 7}


def test_a_missing_partition_is_refused_with_fail_on_data_loss_until_it_is_given_up() -> None:
    logs = ChangingLogs(orders=10, bills=4)
    reader, start = begun(logs)
    del logs.logs[TP]
    strict = query(logs, failOnDataLoss="true")
    with pytest.raises(Refused) as caught:
        next_offsets(strict, start)
    assert caught.value.code == "topic-missing"
    start, _ = batch(reader, start)
    assert next_offsets(strict, start) == start


def test_a_missing_partition_is_forgotten_after_a_week() -> None:
    """A pattern may match topics that are created and deleted each day."""
    logs = ChangingLogs(orders=10, bills=4)
    reader, start = begun(logs)
    away = logs.logs.pop(TP)
    start, _ = batch(reader, start)
    start["@kseg"]["missing"]["orders"]["0"]["since"] -= 8 * 24 * 3_600_000
    logs.logs[TP] = away
    assert next_offsets(reader, start)["orders"] == {"0": 10}, "at a query's restart it is not too late"
    del logs.logs[TP]
    logs.append(BILLS, 1)
    start, _ = batch(reader, start)
    assert "missing" not in start["@kseg"]


def test_missing_partitions_are_written_and_read_with_and_without_an_id() -> None:
    missing = {TP: MissingPartition(10, UUID(int=1), 4, 99), BILLS: MissingPartition(3, None, -1, 98)}
    offsets = StreamOffsets({TopicPartition("carts", 0): 1}, pinned=True, cluster="c", missing=missing)
    assert StreamOffsets.of(written(offsets.document())) == offsets
    strange = {"@kseg": {"cluster": "c", "topics": {}, "missing": {"orders": {"0": 7}}}}
    with pytest.raises(Refused) as caught:
        StreamOffsets.of(strange)
    assert caught.value.code == "checkpoint-unreadable"


# -- named topics that were deleted


@pytest.mark.parametrize("named", [{"subscribe": "bills,orders"}, {"assign": '{"bills":[0],"orders":[0]}'}])
def test_a_named_topic_that_was_deleted_is_refused_or_left_out(named: dict[str, str]) -> None:
    logs = ChangingLogs(orders=10, bills=4)
    reader, start = begun(logs, **named)
    del logs.logs[TP]
    logs.append(BILLS, 1)
    for step in (
        lambda: next_offsets(query(logs, **named), start),
        lambda: query(logs, **named).partitions({**start, "orders": {"0": 9}}, start),
    ):
        with pytest.raises(Refused) as caught:
            step()
        assert caught.value.code == "topic-missing"
    query(logs, **named).prepareForTriggerAvailableNow()
    reader.prepareForTriggerAvailableNow()
    assert reader.reportLatestOffset()["bills"] == {"0": 5}  # type: ignore[index]
    _, ranges = batch(reader, start)
    assert ranges == [("bills", 4, 5)]


def test_a_named_topic_that_the_query_has_not_read_must_exist() -> None:
    logs = ChangingLogs(orders=10)
    _, start = begun(logs)
    for document in ({}, start):
        with pytest.raises(UnknownTopic):
            next_offsets(query(logs, subscribe="orders,bills", **LOSSY), document)
    with pytest.raises(UnknownTopic):
        next_offsets(query(logs, assign='{"orders":[0,1]}', **LOSSY), start)
