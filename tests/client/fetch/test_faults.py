"""Reading a partition through everything that a scripted broker can do to a reader."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kseg.client import (
    AuthorizationFailed,
    BrokerError,
    KafkaError,
    LeaderNotAvailable,
    PartitionReader,
    ProtocolFault,
    TopicPartition,
)
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.segment_reader.encode.batches import Record, encode_batch

TP = TopicPartition("t", 0)


def fetched(records: bytes | None = b"", code: int = 0, **fields: Any) -> Callable[[Any], FetchResponse]:
    def answer(seen: Any) -> FetchResponse:
        asked = seen.request.topics[0]
        partition = FetchResponse.PartitionData(
            partition_index=asked.partitions[0].partition, error_code=code, records=records, high_watermark=100
        )
        return FetchResponse(
            responses=[
                FetchResponse.FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=[partition])
            ],
            **fields,
        )

    return answer


def by_offset(seen: Any) -> FetchResponse:
    """The record set is the offset asked for."""
    return fetched(b"%d" % seen.request.topics[0].partitions[0].fetch_offset)(seen)


@pytest.fixture
def reader(fake: Any, connect: Any) -> PartitionReader:
    """A reader of t-0 on the scripted broker."""
    fake.add_topic("t", [1], epoch=4)
    fake.on(FetchRequest, by_offset)
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=30_000, retry_backoff_ms=20)
    return PartitionReader(cluster, TP, isolation_level="read_committed", max_bytes=1000, max_wait_ms=250)


def offsets_asked(broker: Any) -> list[int]:
    return [seen.request.topics[0].partitions[0].fetch_offset for seen in broker.requests(FetchRequest)]


@pytest.mark.rule(155, 167)
def test_what_a_request_says(fake: Any, fakes: Any, reader: PartitionReader):
    reader.request(5)
    reader.response()
    reader.request(6, last=True)
    reader.response()
    first, last = (seen.request for seen in fake.requests(FetchRequest))
    assert (first.session_id, first.session_epoch) == (0, -1)
    assert (first.min_bytes, first.max_wait_ms, first.max_bytes, first.isolation_level) == (1, 250, 1000, 1)
    [partition] = first.topics[0].partitions
    assert (partition.partition, partition.fetch_offset, partition.partition_max_bytes) == (0, 5, 1000)
    assert partition.current_leader_epoch == 4
    assert (last.min_bytes, last.max_wait_ms) == (1, 10)
    assert fake.requests(FetchRequest)[0].version == 18
    assert first.topics[0].topic_id == fakes.TOPIC_ID


def test_topics_without_a_known_id_are_named_and_version_12_is_the_last(fake: Any, reader: PartitionReader):
    fake.add_topic("t", [1], topic_id=uuid.UUID(int=0))
    reader.request(5)
    reader.response()
    [seen] = fake.requests(FetchRequest)
    assert seen.version == 12
    assert seen.request.topics[0].topic == "t"


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_is_read(fake: Any, reader: PartitionReader, version: int):
    fake.ranges[FetchRequest.KEY] = (4, version)
    reader.request(7)
    assert bytes(reader.response().records) == b"7"
    assert fake.requests(FetchRequest)[0].version == version


@pytest.mark.rule(10, 11)
def test_fetches_have_a_connection_of_their_own(fake: Any, reader: PartitionReader):
    reader.request(0)
    reader.response()
    connections = {type(seen.request): seen.connection for seen in fake.seen}
    assert connections[FetchRequest] != connections[MetadataRequest]


@pytest.mark.rule(12, 167)
def test_requests_go_out_before_answers_are_taken(fake: Any, reader: PartitionReader):
    reader.request(0)
    reader.response()
    for offset in (1, 2, 3):
        reader.request(offset)
    until = time.monotonic() + 120
    while len(offsets_asked(fake)) < 4 and time.monotonic() < until:
        time.sleep(0.01)
    assert offsets_asked(fake) == [0, 1, 2, 3]
    assert [bytes(reader.response().records) for _ in range(3)] == [b"1", b"2", b"3"]


def test_null_records_are_none(fake: Any, reader: PartitionReader):
    fake.on(FetchRequest, fetched(None))
    reader.request(0)
    assert bytes(reader.response().records) == b""


@pytest.mark.rule(165)
def test_a_dropped_connection_is_made_again_and_everything_open_is_asked_again(
    fake: Any, fakes: Any, reader: PartitionReader
):
    reader.request(0)
    reader.response()
    fake.on(FetchRequest, lambda _: fakes.CLOSE, by_offset)
    reader.request(1)
    reader.request(2)
    assert [bytes(reader.response().records) for _ in range(2)] == [b"1", b"2"]
    assert offsets_asked(fake)[-2:] == [1, 2]


def test_a_connection_that_broke_unnoticed_is_made_again(fake: Any, reader: PartitionReader):
    reader.request(0)
    reader.response()
    fake.drop_connections()
    time.sleep(0.05)
    reader.request(1)
    assert bytes(reader.response().records) == b"1"


def test_a_silent_broker_is_asked_again_over_a_new_connection(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.on(FetchRequest, lambda _: fakes.SILENT, by_offset)
    cluster = connect(fake.bootstrap_servers, request_timeout_ms=1500)
    with PartitionReader(cluster, TP, isolation_level="read_committed", max_wait_ms=50) as reader:
        reader.request(3)
        assert bytes(reader.response().records) == b"3"
    first, second = fake.requests(FetchRequest)
    assert first.connection != second.connection


@pytest.mark.rule(161)
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_codes_that_pass_are_waited_out(fake: Any, reader: PartitionReader, code: ErrorCode):
    fake.on(FetchRequest, fetched(code=code), by_offset)
    reader.request(3)
    assert bytes(reader.response().records) == b"3"


def test_an_unknown_server_error_that_stays_is_named_after_the_deadline(fake: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.on(FetchRequest, fetched(code=ErrorCode.UNKNOWN_SERVER_ERROR))
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=1500, retry_backoff_ms=20)
    with PartitionReader(cluster, TP, isolation_level="read_committed") as reader:
        reader.request(3)
        with pytest.raises(BrokerError, match="UNKNOWN_SERVER_ERROR") as caught:
            reader.response()
    assert caught.value.retriable
    assert (caught.value.topic, caught.value.partition) == TP
    assert caught.value.broker is not None
    assert len(fake.requests(FetchRequest)) > 3


@pytest.mark.rule(37)
def test_a_moved_leader_is_followed_in_the_middle_of_a_read(fake: Any, fakes: Any, reader: PartitionReader):
    second = fakes.start()
    fake.brokers = second.brokers = [(1, fake.host, fake.port), (2, second.host, second.port)]
    reader.request(0)
    reader.response()

    def moved(seen: Any) -> FetchResponse:
        fake.add_topic("t", [2], epoch=5)
        second.topics = fake.topics
        return fetched(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)(seen)

    fake.on(FetchRequest, moved)
    second.on(FetchRequest, by_offset)
    reader.request(1)
    reader.request(2)
    assert [bytes(reader.response().records) for _ in range(2)] == [b"1", b"2"]
    assert offsets_asked(second) == [1, 2]
    assert second.requests(FetchRequest)[0].request.topics[0].partitions[0].current_leader_epoch == 5


def test_a_leader_that_stays_away_is_named_after_the_deadline(fake: Any, connect: Any):
    fake.add_topic("t", [-1])
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=4000, retry_backoff_ms=20)
    reader = PartitionReader(cluster, TP, isolation_level="read_committed")
    reader.request(0)
    with pytest.raises(LeaderNotAvailable) as caught:
        reader.response()
    assert (caught.value.topic, caught.value.partition) == TP
    assert caught.value.retriable
    assert len(fake.requests(MetadataRequest)) > 3


def test_metadata_older_than_the_plan_is_not_believed(fake: Any, connect: Any):
    fake.add_topic("t", [1], epoch=4)

    def caught_up(seen: Any) -> Any:
        fake.add_topic("t", [1], epoch=6)
        return fake.metadata(seen)

    fake.on(MetadataRequest, fake.metadata, fake.metadata, caught_up)
    fake.on(FetchRequest, by_offset)
    cluster = connect(fake.bootstrap_servers)
    with PartitionReader(cluster, TP, isolation_level="read_committed", leader_epoch=6) as reader:
        reader.request(0)
        reader.response()
    [seen] = fake.requests(FetchRequest)
    assert seen.request.topics[0].partitions[0].current_leader_epoch == 6


def test_an_error_that_does_not_pass_is_raised_at_once_and_named(fake: Any, reader: PartitionReader):
    fake.on(FetchRequest, fetched(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), by_offset)
    reader.request(0)
    with pytest.raises(AuthorizationFailed) as caught:
        reader.response()
    assert (caught.value.topic, caught.value.partition) == TP
    with pytest.raises(RuntimeError, match="without request"):
        reader.response()
    reader.request(1)
    assert bytes(reader.response().records) == b"1"


def test_out_of_range_at_a_leader_that_lags_is_asked_again(fake: Any, reader: PartitionReader):
    def in_range_by_now(seen: Any) -> ListOffsetsResponse:
        [asked] = seen.request.topics[0].partitions
        offset = 0 if asked.timestamp == -2 else 50
        found = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[found])
        return ListOffsetsResponse(topics=[topic])

    fake.on(ListOffsetsRequest, in_range_by_now)
    fake.on(FetchRequest, fetched(code=ErrorCode.OFFSET_OUT_OF_RANGE), by_offset)
    reader.request(40)
    assert bytes(reader.response().records) == b"40"


@pytest.mark.parametrize("strange", ["other topic", "other partition", "nothing", "twice"])
def test_an_answer_about_something_else_is_a_fault(fake: Any, reader: PartitionReader, strange: str):
    def answer(seen: Any) -> FetchResponse:
        response = by_offset(seen)
        topic = response.responses[0]
        if strange == "other topic":
            topic.topic_id = uuid.UUID(int=99)
        elif strange == "other partition":
            topic.partitions[0].partition_index = 1
        elif strange == "nothing":
            response.responses = []
        else:
            topic.partitions *= 2
        return response

    fake.on(FetchRequest, answer)
    reader.request(0)
    with pytest.raises(ProtocolFault, match="lacks the requested partition"):
        reader.response()


def test_a_garbage_answer_is_a_fault(fake: Any, reader: PartitionReader):
    fake.on(FetchRequest, lambda _: b"\x00\x00\x00\x09garbage!!")
    reader.request(0)
    with pytest.raises(ProtocolFault) as caught:
        reader.response()
    assert (caught.value.topic, caught.value.partition) == TP


@pytest.mark.rule(171)
def test_a_throttled_answer_holds_back_the_next_request_and_not_the_caller(fake: Any, reader: PartitionReader):
    fake.on(FetchRequest, fetched(b"data", throttle_time_ms=3000), by_offset)
    reader.request(0)
    answer = reader.response()
    assert (bytes(answer.records), answer.throttle_time_ms) == (b"data", 3000)
    started = time.monotonic()
    reader.request(1)
    assert offsets_asked(fake) == [0]  # it was not waited for: the caller goes on decoding
    assert bytes(reader.response().records) == b"1"
    assert time.monotonic() - started > 0.25


def test_an_answer_emptied_by_throttling_is_asked_for_again(fake: Any, reader: PartitionReader):
    emptied = lambda _: FetchResponse(throttle_time_ms=200)  # noqa: E731
    fake.on(FetchRequest, emptied, by_offset)
    started = time.monotonic()
    reader.request(4)
    answer = reader.response()
    assert (bytes(answer.records), answer.throttle_time_ms) == (b"4", 200)
    assert time.monotonic() - started > 0.15
    assert offsets_asked(fake) == [4, 4]


def test_a_throttle_longer_than_the_deadline_is_waited_for(fake: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.on(FetchRequest, lambda _: FetchResponse(throttle_time_ms=2500), by_offset)
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=2000, retry_backoff_ms=10)
    with PartitionReader(cluster, TP, isolation_level="read_committed", max_wait_ms=50) as reader:
        reader.request(4)
        assert bytes(reader.response().records) == b"4"


def test_small_throttles_do_not_go_on_without_end(fake: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.on(FetchRequest, lambda _: FetchResponse(throttle_time_ms=1))
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=5000, retry_backoff_ms=50)
    with PartitionReader(cluster, TP, isolation_level="read_committed", max_wait_ms=50) as reader:
        reader.request(4)
        with pytest.raises(KafkaError, match="throttles this client"):
            reader.response()
    assert len(offsets_asked(fake)) < 40


def test_a_fetch_of_many_megabytes_is_one_buffer(fake: Any, reader: PartitionReader):
    batch = encode_batch([Record(value=b"x" * 1_000_000)] * 40)
    fake.on(FetchRequest, fetched(batch))
    reader.request(0)
    records = reader.response().records
    assert records == batch
    assert isinstance(records.obj, bytearray)


def test_an_isolation_level_that_is_none_is_refused(cluster: Any):
    with pytest.raises(ValueError, match="isolation level"):
        PartitionReader(cluster, TP, isolation_level="committed")  # type: ignore[arg-type]
