"""Answers without records prove nothing: a range's rest is absent where a later batch says so, and nowhere else."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kseg.client import ProtocolFault, RequestTimedOut, TopicPartition
from kseg.client.fetch.absence import first_offset
from kseg.client.fetch.many_reader import fetch_many
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse
from kseg.segment_reader.decode.next_offset import next_offset
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set

TP = TopicPartition("t", 0)
RECORDS = [Record(b"k", b"v", timestamp=1)] * 10
UNCOMMITTED, COMMITTED = 0, 1


def answer(seen: Any, records: bytes, *, visible: int = 10) -> FetchResponse:
    (topic,) = seen.request.topics
    partition = FetchResponse.PartitionData(
        partition_index=0, records=records, high_watermark=visible, last_stable_offset=visible, log_start_offset=0
    )
    return FetchResponse(
        responses=[
            FetchResponse.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[partition])
        ]
    )


@pytest.fixture
def broker(fake: Any) -> Any:
    fake.add_topic("t", [1])
    return fake


def read(cluster: Any, end: int = 10) -> list[bytes]:
    found = fetch_many(cluster, {TP: (0, end)}, next_offset, isolation_level="read_committed")
    return [bytes(fetched.records) for _, fetched in found]


def test_empty_answers_below_the_high_watermark_are_asked_again(broker: Any, connect: Any):
    """As a broker answers whose remote read took too long."""
    batch = encode_batch(RECORDS)
    empty = [lambda seen: answer(seen, b"")] * 7
    broker.on(FetchRequest, *empty, lambda seen: answer(seen, batch))
    assert read(connect(broker.bootstrap_servers)) == [batch]


def test_empty_answers_without_end_are_an_error_that_may_pass(broker: Any, connect: Any):
    def fetch(seen: Any) -> FetchResponse:
        time.sleep(0.02)
        return answer(seen, b"")

    broker.on(FetchRequest, fetch)
    with pytest.raises(RequestTimedOut, match="no records for 2 s at offset 0, the range ends at 10") as caught:
        read(connect(broker.bootstrap_servers, default_api_timeout_ms=2000))
    assert (caught.value.topic, caught.value.partition, caught.value.retriable) == ("t", 0, True)


@pytest.fixture
def busy(fake: Any, fakes: Any, connect: Any) -> Any:
    """A cluster whose broker sends ten records of t-0, one each 0.3 s, then nothing once, and then those of t-1."""
    fake.add_topic("t", [1, 1])
    sessions = fakes.sessions(fake, {("t", 0): bytes(10), ("t", 1): b""})

    def fetch(seen: Any) -> FetchResponse:
        time.sleep(0.3)
        if len(fake.requests(FetchRequest)) > 11:
            sessions.logs["t", 1] = bytes(10)
        return sessions.fetch(seen)

    fake.on(FetchRequest, fetch)
    return connect(fake.bootstrap_servers, default_api_timeout_ms=2000)


@pytest.mark.parametrize("work", [0, 2.5])
def test_a_partition_is_not_given_up_while_others_fill_the_responses(busy: Any, work: float):
    """work: seconds that the caller takes for the last records of t-0."""
    found = {TopicPartition("t", number): 0 for number in range(2)}
    ranges = dict.fromkeys(found, (0, 10))
    for tp, fetched in fetch_many(
        busy, ranges, lambda records, at: at + len(records), isolation_level="read_committed"
    ):
        found[tp] += len(fetched.records)
        if list(found.values()) == [10, 0]:
            time.sleep(work)
    assert list(found.values()) == [10, 10]


def test_a_later_batch_that_is_not_decided_yet_proves_that_the_rest_is_absent(broker: Any, connect: Any):
    beyond = encode_batch(RECORDS, base_offset=12)
    broker.on(FetchRequest, lambda seen: answer(seen, b"" if seen.request.isolation_level == COMMITTED else beyond))
    assert read(connect(broker.bootstrap_servers)) == [beyond]
    asked = [seen.request for seen in broker.requests(FetchRequest) if seen.request.isolation_level == UNCOMMITTED]
    assert [request.topics[0].partitions[0].fetch_offset for request in asked] == [0]


def test_a_batch_before_the_ranges_end_proves_nothing(broker: Any, connect: Any):
    inside = encode_batch(RECORDS[:1], base_offset=9)
    broker.on(FetchRequest, lambda seen: answer(seen, b"" if seen.request.isolation_level == COMMITTED else inside))
    with pytest.raises(RequestTimedOut):
        read(connect(broker.bootstrap_servers, default_api_timeout_ms=2000))


def test_bytes_without_a_whole_batch_are_asked_for_again_and_no_empty_answer(broker: Any, connect: Any):
    batch = encode_batch([Record(b"k", b"v" * 3_000_000, timestamp=1)])

    def fetch(seen: Any) -> FetchResponse:
        return answer(seen, batch[: seen.request.topics[0].partitions[0].partition_max_bytes], visible=1)

    broker.on(FetchRequest, fetch)
    assert read(connect(broker.bootstrap_servers), end=1) == [batch]


def test_bytes_without_a_whole_batch_that_had_been_asked_for_are_a_fault(broker: Any, connect: Any):
    batch = encode_batch(RECORDS)
    broker.on(FetchRequest, lambda seen: answer(seen, batch[:-1]))
    with pytest.raises(ProtocolFault, match=rf"offset 0 has {len(batch) - 1} of a message's {len(batch)}") as error:
        read(connect(broker.bootstrap_servers))
    assert (error.value.topic, error.value.partition) == ("t", 0)


def test_where_a_record_set_begins():
    assert first_offset(memoryview(encode_batch(RECORDS, base_offset=7))) == 7
    assert first_offset(memoryview(encode_message_set(RECORDS, magic=1, base_offset=7))) == 7
    assert first_offset(memoryview(encode_message_set(RECORDS, magic=1, base_offset=7, compression="gzip"))) is None
    assert first_offset(memoryview(b"")) is None
