"""Reading from brokers before 0.10.1 (Fetch below 3), which cut a message that is larger than what was asked for."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kseg.client import MessageCutShort, PartitionReader, ProtocolFault, TopicPartition
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse
from kseg.segment_reader.encode.batches import Record, encode_message_set

TP = TopicPartition("t", 0)
SMALL = encode_message_set([Record(value=b"s")], magic=1, base_offset=3)
LARGE = encode_message_set([Record(value=b"x" * 5000)], magic=1, base_offset=7)


@pytest.fixture
def reader(fake: Any, connect: Any) -> PartitionReader:
    """A reader on a broker that speaks Fetch up to 2 and holds SMALL and LARGE, as such brokers hand them out."""
    fake.add_topic("t", [1])
    fake.ranges[FetchRequest.KEY] = (0, 2)
    fake.on(FetchRequest, lambda seen: answer(seen, SMALL if offset(seen) < 4 else LARGE))
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=20)
    return PartitionReader(
        cluster, TP, isolation_level="read_committed", max_bytes=1000, max_wait_ms=250, largest_message=6000
    )


def offset(seen: Any) -> int:
    found: int = seen.request.topics[0].partitions[0].fetch_offset
    return found


def limit(seen: Any) -> int:
    found: int = seen.request.topics[0].partitions[0].partition_max_bytes
    return found


def answer(seen: Any, held: bytes, most: int | None = None) -> FetchResponse:
    records = held[: limit(seen) if most is None else most]
    partition = FetchResponse.PartitionData(partition_index=0, records=records, high_watermark=8)
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
    return FetchResponse(responses=[topic])


def test_what_fits_is_handed_on(fake: Any, reader: PartitionReader):
    reader.request(3)
    assert bytes(reader.response().records) == SMALL
    assert [(seen.version, limit(seen)) for seen in fake.requests(FetchRequest)] == [(2, 1000)]


@pytest.mark.rule(152)
def test_a_message_above_the_limit_is_asked_for_again_as_a_whole(fake: Any, reader: PartitionReader):
    reader.request(7)
    fetched = reader.response()
    assert bytes(fetched.records) == LARGE
    assert fetched.fetch_offset == 7
    assert [limit(seen) for seen in fake.requests(FetchRequest)] == [1000, len(LARGE)]


def test_requests_behind_it_are_answered_in_their_order(fake: Any, reader: PartitionReader):
    reader.request(3)
    reader.response()
    for at in (7, 3, 7):
        reader.request(at)
    assert [bytes(reader.response().records) for _ in range(3)] == [LARGE, SMALL, LARGE]


@pytest.mark.rule(152)
def test_above_the_largest_limit_it_is_refused_with_its_size(fake: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.ranges[FetchRequest.KEY] = (0, 2)
    fake.on(FetchRequest, lambda seen: answer(seen, LARGE))
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=20)
    with PartitionReader(
        cluster, TP, isolation_level="read_uncommitted", max_bytes=1000, largest_message=len(LARGE) - 1
    ) as reader:
        reader.request(7)
        with pytest.raises(MessageCutShort, match=r"max\.partition\.fetch\.bytes") as caught:
            reader.response()
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.offset, error.size, error.topic, error.partition) == (7, len(LARGE), "t", 0)
    assert not error.retriable
    assert len(fake.requests(FetchRequest)) == 1


def test_a_limit_below_a_messages_head_is_raised_too(fake: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.ranges[FetchRequest.KEY] = (0, 1)
    fake.on(FetchRequest, lambda seen: answer(seen, LARGE))
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=2000)
    with PartitionReader(cluster, TP, isolation_level="read_uncommitted", max_bytes=5) as reader:
        reader.request(7)
        assert bytes(reader.response().records) == LARGE
    assert [limit(seen) for seen in fake.requests(FetchRequest)] == [5, 1024, len(LARGE)]


def test_an_answer_that_is_cut_without_need_is_a_fault(fake: Any, reader: PartitionReader):
    fake.on(FetchRequest, lambda seen: answer(seen, SMALL, most=20))
    reader.request(3)
    with pytest.raises(ProtocolFault, match="20 of a message's"):
        reader.response()


@pytest.mark.rule(153)
def test_newer_versions_are_not_looked_into(fake: Any, reader: PartitionReader):
    fake.ranges[FetchRequest.KEY] = (0, 3)
    fake.on(FetchRequest, lambda seen: answer(seen, b"not a message"))
    reader.request(3)
    assert bytes(reader.response().records) == b"not a message"


@pytest.mark.parametrize(("version", "stable"), [(3, 8), (4, -1)])
def test_what_is_replicated_is_stable_where_there_are_no_transactions(
    fake: Any, reader: PartitionReader, version: int, stable: int
):
    fake.ranges[FetchRequest.KEY] = (0, version)
    reader.request(3)
    fetched = reader.response()
    assert (fetched.high_watermark, fetched.last_stable_offset) == (8, stable)
