"""Reading a partition of the real broker."""

from __future__ import annotations

import time
import uuid
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from kseg.client import (
    LATEST,
    AbortedTransaction,
    OffsetOutOfRange,
    PartitionReader,
    TopicPartition,
    UnknownTopic,
    list_offsets,
)
from kseg.client.admin.topics import create_topic, delete_topic
from kseg.client.fetch.messages import FetchedRecords
from kseg.segment_reader.decode.next_offset import next_offset
from kseg.segment_reader.encode.batches import Record
from sending import begin_with, producer_on, send_batches, send_to


def read_all(reader: PartitionReader, start: int, end: int) -> list[FetchedRecords]:
    """As a task reads a range: the next request goes out before the answer is worked on."""
    answers = []
    offset = start
    reader.request(offset)
    while offset < end:
        answers.append(reader.response())
        offset = next_offset(answers[-1].records, offset)
        if offset < end:
            reader.request(offset)
    return answers


def wait_for_stable(cluster: Any, tp: TopicPartition, offset: int) -> None:
    until = time.monotonic() + 120
    while list_offsets(cluster, {tp: LATEST}, isolation_level="read_committed")[tp].offset < offset:
        assert time.monotonic() < until
        time.sleep(0.02)


def now() -> int:
    return int(time.time() * 1000)


# -- the real broker


@pytest.mark.rule(53, 156, 169)
def test_a_range_is_read_whole_and_in_order(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    with producer_on(cluster) as producer:
        for number in range(20):
            send_batches(producer, {tp: [Record(value=b"%03d" % number * 1000, timestamp=now())] * 10})
    with PartitionReader(cluster, tp, isolation_level="read_committed", max_bytes=100_000) as reader:
        answers = read_all(reader, 0, 200)
    assert len(answers) > 3
    data = b"".join(bytes(answer.records) for answer in answers)
    for number in range(20):
        assert data.count(b"%03d" % number * 1000) >= 10
    assert {answer.high_watermark for answer in answers} == {200}
    assert {answer.log_start_offset for answer in answers} == {0}
    assert answers[0].fetch_offset == 0


@pytest.mark.rule(153)
def test_one_batch_larger_than_every_limit_comes_whole(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    send_to(cluster, {tp: [Record(value=b"x" * 1000, timestamp=now())] * 100})
    with PartitionReader(cluster, tp, isolation_level="read_committed", max_bytes=1) as reader:
        [answer] = read_all(reader, 0, 100)
    assert len(answer.records) > 100_000


@pytest.mark.rule(157, 166)
def test_aborted_transactions_come_along_and_open_ones_do_not(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    aborting = begin_with(cluster, f"tx-{uuid.uuid4()}", {tp: [Record(value=b"aborted", timestamp=now())] * 2})
    producer_id = aborting.producer_id
    aborting.abort()
    wait_for_stable(cluster, tp, 3)  # EndTxn answers before the marker is written
    staying = begin_with(cluster, f"tx-{uuid.uuid4()}", {tp: [Record(value=b"open", timestamp=now())]})
    with PartitionReader(cluster, tp, isolation_level="read_committed") as reader:
        reader.request(1)  # in the middle of the aborted one
        answer = reader.response()
    assert answer.aborted == [AbortedTransaction(producer_id, 0)]
    assert answer.last_stable_offset == 3 < answer.high_watermark
    assert b"aborted" in bytes(answer.records)
    assert b"open" not in bytes(answer.records)
    with PartitionReader(cluster, tp, isolation_level="read_uncommitted") as reader:
        reader.request(1)
        answer = reader.response()
    assert answer.aborted == []
    assert b"open" in bytes(answer.records)
    staying.abort()


@pytest.mark.rule(150)
def test_the_last_fetch_does_not_wait(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    send_to(cluster, {tp: [Record(value=b"v", timestamp=now())]})
    with PartitionReader(cluster, tp, isolation_level="read_committed", max_wait_ms=20_000) as reader:
        started = time.monotonic()
        read_all(reader, 0, 1)  # what is there comes at once, however long the reader would wait for more
        reader.request(1, last=True)
        assert len(reader.response().records) == 0
        assert time.monotonic() - started < 20


@pytest.mark.rule(11, 150)
def test_a_long_poll_ends_when_something_comes(cluster: Any, kafka: Any, connect: Any):
    tp = TopicPartition(kafka.topic(), 0)
    with PartitionReader(cluster, tp, isolation_level="read_committed", max_wait_ms=20_000) as reader:
        reader.request(0, last=True)
        reader.response()
        reader.request(0)
        send_to(connect(kafka.bootstrap_servers), {tp: [Record(value=b"late", timestamp=now())]})
        started = time.monotonic()
        assert b"late" in bytes(reader.response().records)
        assert time.monotonic() - started < 20


@pytest.mark.rule(150)
def test_a_long_poll_without_anything_ends_after_its_wait(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    with PartitionReader(cluster, tp, isolation_level="read_committed", max_wait_ms=300) as reader:
        started = time.monotonic()
        reader.request(0)
        assert len(reader.response().records) == 0
        assert 0.2 < time.monotonic() - started < 20


@pytest.mark.rule(158, 170)
def test_an_offset_outside_of_the_log_is_told_with_its_limits(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    send_to(cluster, {tp: [Record(value=b"v", timestamp=now())] * 10})
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for done in admin.delete_records([confluent_kafka.TopicPartition(*tp, 4)]).values():
        done.result(timeout=30)
    with PartitionReader(cluster, tp, isolation_level="read_committed") as reader:
        for offset in (0, 3, 11):
            reader.request(offset)
            with pytest.raises(OffsetOutOfRange) as caught:
                reader.response()
            error = caught.value
            assert (error.offset, error.log_start, error.high_watermark) == (offset, 4, 10)
            assert (error.topic, error.partition) == tp
            assert not error.retriable
        assert read_all(reader, 4, 10)  # and the reader goes on


def test_a_topic_created_again_is_not_read_as_the_same(cluster: Any):
    name = f"again-{uuid.uuid4()}"
    tp = TopicPartition(name, 0)
    first = create_topic(cluster, name)
    send_to(cluster, {tp: [Record(value=b"first", timestamp=now())]})
    with PartitionReader(cluster, tp, isolation_level="read_committed") as reader:
        read_all(reader, 0, 1)
        delete_topic(cluster, name)
        second = create_topic(cluster, name)
        send_to(cluster, {tp: [Record(value=b"second", timestamp=now())]})
        reader.request(0)
        with pytest.raises(UnknownTopic, match="recreated") as caught:
            reader.response()
    assert not caught.value.retriable
    with (
        pytest.raises(UnknownTopic),
        PartitionReader(cluster, tp, isolation_level="read_committed", topic_id=first) as reader,
    ):
        read_all(reader, 0, 1)
    with PartitionReader(cluster, tp, isolation_level="read_committed", topic_id=second) as reader:
        assert b"second" in bytes(read_all(reader, 0, 1)[0].records)
