"""Where logs begin and end, on the real broker; and the shapes that only older brokers have."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kseg.client import (
    EARLIEST,
    LATEST,
    EpochEnd,
    ListedOffset,
    SpecialTimestamp,
    TopicPartition,
    end_of_epoch,
    list_offsets,
)
from kseg.client.admin.topics import delete_records
from kseg.client.errors import BrokerError, RequestTimedOut
from kseg.client.offsets import list_bounds, list_times
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.fetch import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kseg.client.wire.broker import BrokerConnection
from kseg.segment_reader.encode.batches import Record
from sending import begin_with, send_to


@pytest.mark.rule(174, 175)
def test_where_a_log_begins_ends_and_where_a_time_does(cluster: Any, kafka: Any):
    topic = kafka.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    now = int(time.time() * 1000)
    send_to(cluster, {first: [Record(value=b"v", timestamp=now + 10 * n) for n in range(5)]})

    def ask(*, isolation_level: str = "read_committed", **wanted: Any) -> dict[TopicPartition, ListedOffset]:
        return list_offsets(cluster, {first: wanted["a"], second: wanted["b"]}, isolation_level=isolation_level)

    assert [found.offset for found in ask(a=EARLIEST, b=EARLIEST).values()] == [0, 0]
    assert {tp: found.offset for tp, found in ask(a=LATEST, b=LATEST).items()} == {first: 5, second: 0}
    found = ask(a=now + 11, b=now)
    assert found[first] == ListedOffset(2, now + 20, 0)
    assert found[second] == ListedOffset(-1, -1, -1)
    assert ask(a=now + 1000, b=now)[first].offset == -1


BEFORE_1970 = [-1, -2, -3, -4, -5, -6, -3_600_000, -(2**62)]


@pytest.mark.rule(174, 175)
@pytest.mark.parametrize("millis", BEFORE_1970)
def test_a_time_before_1970_is_no_special_timestamp(cluster: Any, kafka: Any, millis: int):
    """-1 to -6 have other meanings for brokers; what is below them is an error there."""
    topic = kafka.topic(partitions=3)
    first, second, third = (TopicPartition(topic, number) for number in range(3))
    now = int(time.time() * 1000)
    untimed, timed = Record(value=b"v"), [Record(value=b"v", timestamp=now + n) for n in range(3)]
    send_to(cluster, {first: [untimed] * 2, second: timed})
    send_to(cluster, {first: timed})
    found = list_offsets(cluster, dict.fromkeys((first, second, third), millis), isolation_level="read_committed")
    assert found == {
        first: ListedOffset(2, now, 0),
        second: ListedOffset(0, now, 0),
        third: ListedOffset(-1, -1, -1),
    }


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [*((mark, mark.value) for mark in SpecialTimestamp), *((millis, 0) for millis in BEFORE_1970), (0, 0), (7, 7)],
)
def test_the_timestamp_of_a_request(fake: Any, fakes: Any, connect: Any, wanted: Any, sent: int):
    fake.add_topic("t", [1])
    fake.on(ListOffsetsRequest, fakes.answers.list_offsets(offset=5))
    list_offsets(connect(fake.bootstrap_servers), {TopicPartition("t", 0): wanted}, isolation_level="read_committed")
    assert [seen.request.topics[0].partitions[0].timestamp for seen in fake.requests(ListOffsetsRequest)] == [sent]


@pytest.mark.rule(157, 177)
def test_latest_is_the_last_stable_offset_under_read_committed(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    transaction = begin_with(cluster, f"tx-{uuid.uuid4()}", {tp: [Record(value=b"open")] * 3})
    assert list_offsets(cluster, {tp: LATEST}, isolation_level="read_committed")[tp].offset == 0
    assert list_offsets(cluster, {tp: LATEST}, isolation_level="read_uncommitted")[tp].offset == 3
    transaction.abort()


@pytest.mark.rule(157, 174, 177)
def test_the_bounds_of_a_log_are_asked_for_without_waiting_in_between(
    cluster: Any, kafka: Any, monkeypatch: pytest.MonkeyPatch
):
    topic = kafka.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    send_to(cluster, {first: [Record(value=b"v")] * 4})
    transaction = begin_with(cluster, f"tx-{uuid.uuid4()}", {first: [Record(value=b"open")] * 3})
    delete_records(cluster, {first: 2})
    under_way = []
    receive = BrokerConnection.receive

    def count(connection: BrokerConnection, **options: Any) -> Any:
        under_way.append(connection.in_flight)
        return receive(connection, **options)

    cluster.metadata([topic])
    monkeypatch.setattr(BrokerConnection, "receive", count)
    found = list_bounds(cluster, [first, second])
    assert [tuple(listed.offset for listed in found[tp]) for tp in (first, second)] == [(2, 4, 7), (0, 0, 0)]
    assert under_way == [3, 2, 1]
    monkeypatch.undo()
    transaction.abort()


@pytest.mark.rule(174, 177)
def test_a_search_by_time_has_the_end_from_before_it(fake: Any, connect: Any):
    """What the second request no longer finds, or finds behind that end, was written in between."""
    asked = []

    def answer(seen: Any) -> ListOffsetsResponse:
        wanted = seen.request.topics[0].partitions[0].timestamp
        asked.append((wanted, seen.request.isolation_level))
        part = ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=0, offset=7 if wanted == LATEST.value else -1, timestamp=-1, leader_epoch=0
        )
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[part])])

    fake.add_topic("t", [1])
    fake.on(ListOffsetsRequest, answer)
    tp = TopicPartition("t", 0)
    found = list_times(connect(fake.bootstrap_servers), {tp: 500}, isolation_level="read_committed")
    assert (found[tp].end.offset, found[tp].first.offset) == (7, -1)
    assert asked == [(LATEST.value, 1), (500, 1)]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_partition_of_which_one_bound_is_an_error_is_asked_for_all_of_them_again(
    fake: Any, connect: Any, number: int
):
    """A bound of another moment could lie on the wrong side of the others."""
    codes = [ErrorCode.NONE] * 3
    codes[number] = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def answer(seen: Any) -> ListOffsetsResponse:
        count = len(fake.requests(ListOffsetsRequest))
        parts = [
            ListOffsetsResponse.ListOffsetsPartitionResponse(
                partition_index=asked.partition_index,
                error_code=codes[count - 1] if asked.partition_index == 1 and count <= 3 else ErrorCode.NONE,
                offset=count,
            )
            for asked in seen.request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=parts)])

    fake.add_topic("t", [1, 1])
    fake.on(ListOffsetsRequest, answer)
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1)
    found = list_bounds(cluster, [TopicPartition("t", 0), TopicPartition("t", 1)])
    assert [[listed.offset for listed in bounds] for bounds in found.values()] == [[1, 2, 3], [4, 5, 6]]
    asked = [
        [p.partition_index for p in seen.request.topics[0].partitions] for seen in fake.requests(ListOffsetsRequest)
    ]
    assert asked == [[0, 1]] * 3 + [[1]] * 3


def test_an_unknown_server_error_of_an_offset_passes(fake: Any, fakes: Any, connect: Any):
    """An IOException of the broker, or a read of tiered storage that failed."""
    failed = fakes.answers.list_offsets(ErrorCode.UNKNOWN_SERVER_ERROR)
    fake.add_topic("t", [1])
    fake.on(ListOffsetsRequest, failed, fakes.answers.list_offsets(offset=5))
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1, default_api_timeout_ms=2000)
    tp = TopicPartition("t", 0)
    assert list_offsets(cluster, {tp: 123}, isolation_level="read_committed")[tp].offset == 5
    fake.on(ListOffsetsRequest, failed)
    with pytest.raises(BrokerError, match="UNKNOWN_SERVER_ERROR") as caught:
        list_offsets(cluster, {tp: 123}, isolation_level="read_committed")
    assert caught.value.retriable


def test_an_unknown_server_error_of_a_leader_epochs_end_passes(fake: Any, connect: Any):
    def ended(code: int) -> Callable[[Any], OffsetForLeaderEpochResponse]:
        result = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        end = result.EpochEndOffset(partition=0, error_code=code, leader_epoch=3, end_offset=7)
        return lambda _: OffsetForLeaderEpochResponse(topics=[result(topic="t", partitions=[end])])

    fake.add_topic("t", [1])
    fake.on(OffsetForLeaderEpochRequest, ended(ErrorCode.UNKNOWN_SERVER_ERROR), ended(0))
    tp = TopicPartition("t", 0)
    assert end_of_epoch(connect(fake.bootstrap_servers, retry_backoff_ms=1), {tp: 3}) == {tp: EpochEnd(3, 7)}


def test_a_connection_that_could_not_send_all_is_not_used_again(
    cluster: Any, kafka: Any, monkeypatch: pytest.MonkeyPatch
):
    """The answer to what it had sent would be taken for that of the next request."""
    tp = TopicPartition(kafka.topic(), 0)
    cluster.metadata([tp.topic])
    send, failed = BrokerConnection.send, []

    def fails_once(connection: BrokerConnection, *request: Any, **options: Any) -> None:
        if connection.in_flight and not failed:
            failed.append(connection)
            raise RequestTimedOut("the broker throttles this client")
        send(connection, *request, **options)

    monkeypatch.setattr(BrokerConnection, "send", fails_once)
    assert [listed.offset for listed in list_bounds(cluster, [tp])[tp]] == [0, 0, 0]
    assert failed[0].closed


def test_an_isolation_level_that_is_none_is_refused(cluster: Any):
    with pytest.raises(ValueError, match="serializable"):
        list_offsets(cluster, {}, isolation_level="serializable")  # type: ignore[arg-type]


@pytest.mark.rule(156)
@pytest.mark.parametrize("version", [0, 1])
def test_where_there_are_no_transactions_the_last_stable_offset_is_the_high_watermark(
    fake: Any, connect: Any, version: int
):
    def answer(seen: Any) -> ListOffsetsResponse:
        part = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=0)
        if version == 0:
            part.old_style_offsets = [9]
        else:
            part.offset = 9
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[part])])

    fake.add_topic("t", [1])
    fake.ranges[ListOffsetsRequest.KEY] = (0, version)
    fake.on(ListOffsetsRequest, answer)
    tp = TopicPartition("t", 0)
    found = list_offsets(connect(fake.bootstrap_servers), {tp: LATEST}, isolation_level="read_committed")
    assert found[tp].offset == 9
    [seen] = fake.requests(ListOffsetsRequest)
    assert (seen.version, seen.request.isolation_level) == (version, 0)


def test_nothing_asked_is_nothing_answered(cluster: Any):
    assert list_offsets(cluster, {}, isolation_level="read_committed") == {}
    assert end_of_epoch(cluster, {}) == {}


@pytest.mark.rule(299)
def test_the_end_of_a_leader_epoch(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    send_to(cluster, {tp: [Record(value=b"v")] * 4})
    assert end_of_epoch(cluster, {tp: 0}) == {tp: EpochEnd(0, 4)}
    assert end_of_epoch(cluster, {tp: 7}) == {tp: EpochEnd(-1, -1)}
