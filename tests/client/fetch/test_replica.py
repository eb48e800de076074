"""Fetching from a replica nearby, and what sends a reader back to the leader; who leads, told by the answer itself."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from kseg.client import AuthorizationFailed, OffsetOutOfRange, PartitionReader, ProtocolFault, TopicPartition
from kseg.client.errors import KafkaError, LogTruncated
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse, ListOffsetsRequest
from kseg.client.protocol.messages.metadata import MetadataRequest

TP = TopicPartition("t", 0)


def by_offset(asked: Any) -> bytes:
    """The record set is the offset asked for."""
    return b"%d" % asked.fetch_offset


@pytest.fixture
def brokers(fakes: Any) -> Any:
    """Broker 1 leads t-0, in rack a, and sends who comes from rack b to broker 2."""
    brokers = fakes.cluster(3)
    brokers.add_topic("t", [1])
    brokers[1].racks.update({1: "a", 2: "b", 3: "c"})
    brokers.on(FetchRequest, fakes.answers.fetch(by_offset))
    preferring = fakes.answers.fetch(None, partition={"preferred_read_replica": 2})
    serving = fakes.answers.fetch(by_offset)
    brokers[1].on(FetchRequest, lambda seen: (preferring if seen.request.rack_id == "b" else serving)(seen))
    return brokers


@pytest.fixture
def reader(brokers: Any, connect: Any) -> PartitionReader:
    cluster = connect(brokers.bootstrap_servers, client_rack="b", retry_backoff_ms=2000, retry_backoff_max_ms=2000)
    return PartitionReader(cluster, TP, isolation_level="read_committed", max_wait_ms=100)


def read(reader: PartitionReader, offset: int) -> bytes:
    reader.request(offset)
    return bytes(reader.response().records)


def racks(broker: Any) -> list[str]:
    return [seen.request.rack_id for seen in broker.requests(FetchRequest)]


@pytest.mark.rule(162)
def test_the_preferred_replica_is_read_from(brokers: Any, reader: PartitionReader):
    assert read(reader, 1) == b"1"
    assert read(reader, 2) == b"2"
    assert brokers.requests(FetchRequest) == {1: 1, 2: 2}
    assert reader.replica == 2


def test_every_open_request_moves_with_the_reader(brokers: Any, reader: PartitionReader):
    for offset in (1, 2, 3):
        reader.request(offset)
    assert [bytes(reader.response().records) for _ in range(3)] == [b"1", b"2", b"3"]
    assert brokers.requests(FetchRequest)[2] == 3


def test_without_a_rack_none_is_told(brokers: Any, connect: Any):
    with PartitionReader(connect(brokers.bootstrap_servers), TP, isolation_level="read_committed") as reader:
        assert read(reader, 1) == b"1"
    assert racks(brokers[1]) == [""]
    assert reader.replica is None


@pytest.mark.parametrize("version", range(3, 11))
def test_versions_that_know_no_racks_read_from_the_leader(brokers: Any, reader: PartitionReader, version: int):
    for broker in brokers:
        broker.ranges[FetchRequest.KEY] = (0, version)
    assert read(reader, 1) == b"1"
    assert brokers.requests(FetchRequest) == {1: 1}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.CORRUPT_MESSAGE,
    ],
)
def test_a_replica_that_cannot_serve_sends_the_reader_back_to_the_leader_at_once(
    brokers: Any, fakes: Any, reader: PartitionReader, code: ErrorCode
):
    read(reader, 1)
    brokers[2].on(FetchRequest, fakes.answers.fetch(code=code))
    asked = sum(brokers.requests(MetadataRequest).values())
    started = time.monotonic()
    assert read(reader, 2) == b"2"
    assert time.monotonic() - started < 10  # no pause: the leader is well
    assert racks(brokers[1]) == ["b", ""]  # or he would send the reader there again
    assert reader.replica is None
    assert sum(brokers.requests(MetadataRequest).values()) == asked
    assert not brokers.requests(ListOffsetsRequest)  # out of the replica's range says nothing of the leader's


@pytest.mark.rule(163)
@pytest.mark.parametrize("how", ["closes", "is gone", "is silent", "talks garbage"])
def test_a_replica_that_fails_sends_the_reader_back_to_the_leader(brokers: Any, fakes: Any, connect: Any, how: str):
    timeout_ms = 300 if how == "is silent" else 30_000
    cluster = connect(brokers.bootstrap_servers, client_rack="b", request_timeout_ms=timeout_ms)
    with PartitionReader(cluster, TP, isolation_level="read_committed", max_wait_ms=50) as reader:
        read(reader, 1)
        answers = {
            "closes": lambda _: fakes.CLOSE,
            "is gone": None,
            "is silent": lambda _: fakes.SILENT,
            "talks garbage": lambda _: b"\x00\x00\x00\x09garbage!!",
        }
        if answers[how] is None:
            brokers[2].stop()
        else:
            brokers[2].on(FetchRequest, answers[how])
        if how == "talks garbage":
            with pytest.raises(ProtocolFault):
                read(reader, 2)
        assert read(reader, 2) == b"2"
        assert reader.replica is None


def test_a_replica_that_is_behind_is_left_on_demand(brokers: Any, fakes: Any, reader: PartitionReader):
    """It answers without records and without an error: only the caller knows that there are more."""
    brokers[2].on(FetchRequest, fakes.answers.fetch(b"", partition={"high_watermark": 1}))
    assert read(reader, 1) == b""
    reader.leave_replica()
    assert read(reader, 1) == b"1"
    assert reader.replica is None
    assert racks(brokers[1]) == ["b", ""]


def test_a_reader_at_the_leader_has_no_replica_to_leave(brokers: Any, reader: PartitionReader):
    reader.leave_replica()
    assert read(reader, 1) == b"1"
    assert racks(brokers[1]) == ["b"]
    assert reader.replica == 2


def test_a_replica_that_the_cluster_does_not_list_is_passed_over(brokers: Any, fakes: Any, reader: PartitionReader):
    preferring = fakes.answers.fetch(None, partition={"preferred_read_replica": 99})
    serving = fakes.answers.fetch(by_offset)
    brokers[1].on(FetchRequest, lambda seen: (preferring if seen.request.rack_id else serving)(seen))
    assert read(reader, 1) == b"1"
    assert brokers.requests(FetchRequest) == {1: 2}


def test_a_refusal_at_the_replica_is_a_refusal(brokers: Any, fakes: Any, reader: PartitionReader):
    brokers[2].on(FetchRequest, fakes.answers.fetch(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(AuthorizationFailed):
        read(reader, 1)


def test_an_offset_out_of_range_at_the_leader_is_what_counts(brokers: Any, fakes: Any, reader: PartitionReader):
    read(reader, 1)
    out = fakes.answers.fetch(code=ErrorCode.OFFSET_OUT_OF_RANGE)
    brokers.on(FetchRequest, out)
    brokers.on(ListOffsetsRequest, fakes.answers.list_offsets(offset=5))
    with pytest.raises(OffsetOutOfRange) as caught:
        read(reader, 99)
    assert caught.value.high_watermark == 5


def test_after_the_metadatas_age_the_leader_is_asked_for_a_replica_again(brokers: Any, connect: Any):
    cluster = connect(brokers.bootstrap_servers, client_rack="b")
    with PartitionReader(cluster, TP, isolation_level="read_committed", max_wait_ms=50) as reader:
        read(reader, 1)
        reader._source._until = 0.0  # as if that time had passed
        read(reader, 2)
        assert reader.replica == 2
    assert racks(brokers[1]) == ["b", "b"]
    assert brokers.requests(FetchRequest) == {1: 2, 2: 2}


def test_metadata_that_is_never_believed_does_not_keep_a_reader_from_its_replica(brokers: Any, connect: Any):
    cluster = connect(brokers.bootstrap_servers, client_rack="b", metadata_max_age_ms=0)
    with PartitionReader(cluster, TP, isolation_level="read_committed", max_wait_ms=50) as reader:
        assert read(reader, 1) == b"1"
    assert brokers.requests(FetchRequest) == {1: 1, 2: 1}


# -- leaders


def test_a_leader_told_by_the_answer_is_read_from_at_once(brokers: Any, fakes: Any, reader: PartitionReader):
    leader = FetchResponse.LeaderIdAndEpoch(leader_id=3, leader_epoch=1)
    endpoint = FetchResponse.NodeEndpoint(node_id=3, host=brokers[3].host, port=brokers[3].port)
    brokers[1].on(
        FetchRequest,
        fakes.answers.fetch(
            code=ErrorCode.NOT_LEADER_OR_FOLLOWER, partition={"current_leader": leader}, node_endpoints=[endpoint]
        ),
    )
    started = time.monotonic()
    assert read(reader, 1) == b"1"
    assert time.monotonic() - started < 10
    assert sum(brokers.requests(MetadataRequest).values()) == 1
    [seen] = brokers[3].requests(FetchRequest)
    assert seen.request.topics[0].partitions[0].current_leader_epoch == 1


@pytest.mark.rule(161)
@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH])
def test_a_leader_of_another_epoch_is_asked_with_the_right_one(fakes: Any, connect: Any, code: ErrorCode):
    brokers = fakes.cluster(1)
    brokers.add_topic("t", [1])

    def other_epoch(seen: Any) -> Any:
        brokers.move_leader("t", 0, 1)
        return fakes.answers.fetch(code=code)(seen)

    brokers.on(FetchRequest, other_epoch, fakes.answers.fetch(by_offset))
    cluster = connect(brokers.bootstrap_servers, retry_backoff_ms=1)
    with PartitionReader(cluster, TP, isolation_level="read_committed") as reader:
        assert read(reader, 1) == b"1"
    epochs = [s.request.topics[0].partitions[0].current_leader_epoch for s in brokers[1].requests(FetchRequest)]
    # A fenced epoch is an old one; an unknown one is news that the broker has not heard yet.
    assert epochs == ([0, 1] if code is ErrorCode.FENCED_LEADER_EPOCH else [0, 0])


# -- truncation


def test_a_log_that_was_truncated_is_told_with_where_it_diverges(brokers: Any, fakes: Any, reader: PartitionReader):
    diverging = FetchResponse.EpochEndOffset(epoch=3, end_offset=40)
    brokers.on(FetchRequest, fakes.answers.fetch(None, partition={"diverging_epoch": diverging}))
    reader.request(50, last_epoch=4)
    with pytest.raises(LogTruncated) as caught:
        reader.response()
    error = caught.value
    assert (error.offset, error.epoch, error.end_offset) == (50, 3, 40)
    assert (error.topic, error.partition) == TP
    assert not error.retriable
    [seen] = brokers[1].requests(FetchRequest)
    assert seen.request.topics[0].partitions[0].last_fetched_epoch == 4


def test_versions_that_cannot_tell_truncation_are_read_without(brokers: Any, connect: Any):
    brokers[1].ranges[FetchRequest.KEY] = (4, 11)
    with PartitionReader(connect(brokers.bootstrap_servers), TP, isolation_level="read_committed") as reader:
        reader.request(5, last_epoch=4)
        assert bytes(reader.response().records) == b"5"


@pytest.mark.rule(155)
def test_a_reader_never_says_that_it_is_a_replica(brokers: Any, connect: Any):
    for version in (4, 12, 18):
        brokers[1].ranges[FetchRequest.KEY] = (4, version)
        with PartitionReader(connect(brokers.bootstrap_servers), TP, isolation_level="read_committed") as reader:
            read(reader, 0)
    for seen in brokers[1].requests(FetchRequest):
        assert (seen.request.replica_id, seen.request.replica_state.replica_id) == (-1, -1)


def test_a_leader_that_sends_us_on_for_ever_ends_with_the_deadline(brokers: Any, fakes: Any, connect: Any):
    brokers[1].on(FetchRequest, fakes.answers.fetch(None, partition={"preferred_read_replica": 77}))
    cluster = connect(brokers.bootstrap_servers, client_rack="b", default_api_timeout_ms=5000, retry_backoff_ms=50)
    with PartitionReader(cluster, TP, isolation_level="read_committed", max_wait_ms=50) as reader:
        reader.request(1)
        with pytest.raises(KafkaError):
            reader.response()
    assert brokers.requests(FetchRequest)[1] < 40


def test_brokers_that_name_one_another_as_leader_are_not_asked_without_a_pause(brokers: Any, fakes: Any, connect: Any):
    epochs = itertools.count(1)

    def elsewhere(seen: Any) -> Any:
        epoch = next(epochs)
        target = brokers[1 + epoch % 2]
        return fakes.answers.fetch(
            code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            partition={"current_leader": FetchResponse.LeaderIdAndEpoch(leader_id=1 + epoch % 2, leader_epoch=epoch)},
            node_endpoints=[FetchResponse.NodeEndpoint(node_id=1 + epoch % 2, host=target.host, port=target.port)],
        )(seen)

    for broker in brokers:
        broker.on(FetchRequest, elsewhere)
    cluster = connect(brokers.bootstrap_servers, default_api_timeout_ms=1000, retry_backoff_ms=50)
    with PartitionReader(cluster, TP, isolation_level="read_committed", max_wait_ms=50) as reader:
        reader.request(1)
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            reader.response()
    assert sum(brokers.requests(FetchRequest).values()) < 40
