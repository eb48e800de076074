"""Reading many partitions at once, with fetch sessions, from scripted brokers."""

from __future__ import annotations

import threading
import time
from typing import Any
from uuid import uuid4

import pytest

from kseg.client import (
    AuthorizationFailed,
    BrokerUnavailable,
    KafkaError,
    MessageCutShort,
    OffsetOutOfRange,
    ProtocolFault,
    TopicPartition,
)
from kseg.client.fetch.many_reader import ManyReader, fetch_many
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.connection import ApiVersionsRequest
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse, ListOffsetsRequest
from kseg.client.protocol.messages.metadata import MetadataRequest


def by_count(records: memoryview, offset: int) -> int:
    """In the scripted logs each byte is a record."""
    return offset + len(records)


def logs(partitions: int, size: int = 3) -> dict[tuple[str, int], bytes]:
    return {("t", number): bytes(range(size)) for number in range(partitions)}


def ranges(partitions: int, size: int = 3) -> dict[TopicPartition, tuple[int, int]]:
    return {TopicPartition("t", number): (0, size) for number in range(partitions)}


def read(cluster: Any, wanted: dict[TopicPartition, tuple[int, int]], **more: Any) -> dict[TopicPartition, bytes]:
    found = dict.fromkeys(wanted, b"")
    for tp, fetched in fetch_many(cluster, wanted, by_count, isolation_level="read_committed", **more):
        found[tp] += bytes(fetched.records)
    return found


def named(broker: Any) -> list[list[int]]:
    """The partitions that each request has named."""
    return [[p.partition for topic in seen.request.topics for p in topic.partitions] for seen in fetches(broker)]


def fetches(broker: Any) -> list[Any]:
    return broker.requests(FetchRequest)


def test_many_partitions_are_read_with_one_request_a_round(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1] * 20)
    fakes.sessions(fake, logs(20), step=1)
    found = read(connect(fake.bootstrap_servers), ranges(20))
    assert set(found.values()) == {bytes(range(3))}
    assert len(fetches(fake)) == 3
    assert fake.connections == 2


@pytest.mark.rule(159)
def test_with_a_session_only_those_that_move_on_are_named(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1] * 3)
    sessions = fakes.sessions(fake, logs(3))
    sessions.logs["t", 1] = b""
    with ManyReader(connect(fake.bootstrap_servers), isolation_level="read_committed", max_wait_ms=0) as reader:
        for number in range(3):
            reader.add(TopicPartition("t", number), 0)
        for round_ in range(3):
            for tp, fetched in reader.poll():
                assert not isinstance(fetched, KafkaError)
                reader.seek(tp, by_count(fetched.records, fetched.fetch_offset))
            assert sorted(reader.partitions.values()) == [0, round_ + 1, round_ + 1]
        reader.remove(TopicPartition("t", 0))
        reader.send_fetches()
        assert [tp.partition for tp, _ in reader.poll()] == [1, 2]
    assert named(fake) == [[0, 1, 2], [0, 2], [0, 2], [2]]
    epochs = [(seen.request.session_id, seen.request.session_epoch) for seen in fetches(fake)]
    assert epochs == [(0, 0), (1, 1), (1, 2), (1, 3)]
    assert fetches(fake)[-1].request.forgotten_topics_data[0].partitions == [0]


def test_a_partition_without_news_is_given_without_records_and_with_what_was_known(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1])
    fakes.sessions(fake, logs(1, size=1))
    tp = TopicPartition("t", 0)
    with ManyReader(connect(fake.bootstrap_servers), isolation_level="read_committed") as reader:
        reader.add(tp, 0)
        [(_, first)] = reader.poll()
        reader.seek(tp, 1)
        [(_, second)] = reader.poll()
    assert (bytes(first.records), bytes(second.records)) == (b"\0", b"")
    assert (second.high_watermark, second.fetch_offset) == (1, 1)


@pytest.mark.rule(160)
@pytest.mark.parametrize("what", ["refused", "evicted", "epoch", "connection"])
def test_a_session_that_is_refused_or_lost_costs_a_full_fetch_and_nothing_else(
    fake: Any, fakes: Any, connect: Any, what: str
):
    fake.add_topic("t", [1] * 3)
    sessions = fakes.sessions(fake, logs(3, size=6))
    happened = False

    def fetch(seen: Any) -> Any:
        nonlocal happened
        if len(fetches(fake)) == 3 and not happened:
            happened = True
            if what == "evicted":
                sessions.evict()
            elif what == "epoch":
                sessions.epochs[seen.request.session_id] += 5
            elif what == "connection":
                return fakes.CLOSE
        return sessions.fetch(seen)

    sessions.refusing = what == "refused"
    fake.on(FetchRequest, fetch)
    found = read(connect(fake.bootstrap_servers, retry_backoff_ms=1), ranges(3, 6))
    assert set(found.values()) == {bytes(range(6))}
    fulls = [seen for seen in fetches(fake) if seen.request.session_epoch == 0]
    assert len(fulls) == (6 if what == "refused" else 2)
    assert all(seen.request.session_epoch >= 0 for seen in fetches(fake))


@pytest.mark.parametrize("version", [4, 6, 7, 12, 13, 18])
def test_every_version_is_read(fake: Any, fakes: Any, connect: Any, version: int):
    fake.ranges[FetchRequest.KEY] = (4, version)
    fake.add_topic("t", [1] * 3)
    fakes.sessions(fake, logs(3))
    assert set(read(connect(fake.bootstrap_servers), ranges(3)).values()) == {bytes(range(3))}
    assert {seen.version for seen in fetches(fake)} == {version}


def test_all_leaders_work_at_the_same_time(fakes: Any, connect: Any):
    brokers = fakes.cluster(3)
    brokers.add_topic("t", [1, 2, 3])
    together = threading.Barrier(3)  # one after the other, the first would wait for ever
    for broker in brokers:
        sessions = fakes.sessions(broker, logs(3, size=2))
        broker.on(FetchRequest, lambda seen, sessions=sessions: (together.wait(30), sessions.fetch(seen))[1])
    cluster = connect(brokers.bootstrap_servers)
    cluster.metadata(["t"])
    assert set(read(cluster, ranges(3, 2)).values()) == {bytes(range(2))}
    assert brokers.requests(FetchRequest) == {1: 2, 2: 2, 3: 2}


def test_a_moved_leader_is_followed_and_the_others_are_not_held_up(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    brokers.add_topic("t", [1, 1])
    sessions = {number: fakes.sessions(brokers[number], logs(2)) for number in (1, 2)}
    sessions[1].errors["t", 0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster = connect(brokers.bootstrap_servers, retry_backoff_ms=1)
    cluster.metadata(["t"])
    brokers.move_leader("t", 0, 2)
    assert set(read(cluster, ranges(2)).values()) == {bytes(range(3))}
    assert {p for names in named(brokers[2]) for p in names} == {0}


def test_a_leader_that_dies_is_found_elsewhere(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    brokers.add_topic("t", [1, 2])
    for broker in brokers:
        fakes.sessions(broker, logs(2, size=4))
    cluster = connect(brokers.bootstrap_servers, retry_backoff_ms=1)
    found = dict.fromkeys(ranges(2, 4), b"")
    for tp, fetched in fetch_many(cluster, ranges(2, 4), by_count, isolation_level="read_committed"):
        found[tp] += bytes(fetched.records)
        if found[TopicPartition("t", 0)] and brokers[1].topics["t"].partitions[0].leader_id == 1:
            brokers.move_leader("t", 0, 2)
            brokers[1].stop()
    assert set(found.values()) == {bytes(range(4))}


def test_an_unknown_server_error_of_one_partition_passes(fake: Any, fakes: Any, connect: Any):
    """An IOException of the broker, or a read of tiered storage that failed."""
    fake.add_topic("t", [1] * 3)
    sessions = fakes.sessions(fake, logs(3))
    sessions.errors["t", 1] = ErrorCode.UNKNOWN_SERVER_ERROR

    def fetch(seen: Any) -> Any:
        if len(fetches(fake)) > 2:
            sessions.errors.clear()
        return sessions.fetch(seen)

    fake.on(FetchRequest, fetch)
    assert set(read(connect(fake.bootstrap_servers, retry_backoff_ms=1), ranges(3)).values()) == {bytes(range(3))}


def test_one_partition_that_fails_for_good_is_told_and_the_others_go_on(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1] * 3)
    sessions = fakes.sessions(fake, logs(3))
    sessions.errors["t", 1] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with ManyReader(connect(fake.bootstrap_servers), isolation_level="read_committed") as reader:
        for tp in ranges(3):
            reader.add(tp, 0)
        found = dict(reader.poll())
        found |= dict(reader.poll()) if len(found) < 3 else {}
        error = found[TopicPartition("t", 1)]
        assert isinstance(error, AuthorizationFailed)
        assert (error.topic, error.partition) == ("t", 1)
        assert list(reader.partitions) == [TopicPartition("t", 0), TopicPartition("t", 2)]
    with pytest.raises(AuthorizationFailed):
        read(connect(fake.bootstrap_servers), ranges(3))


def test_a_partition_without_a_leader_is_given_up_after_the_deadline(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1, -1])
    fakes.sessions(fake, logs(2))
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=2000, retry_backoff_ms=20)
    started = time.monotonic()
    with pytest.raises(KafkaError, match="no leader") as caught:
        read(cluster, ranges(2))
    assert 0.15 < time.monotonic() - started < 20
    assert caught.value.partition == 1
    assert caught.value.retriable


def test_offsets_outside_of_the_log_are_told_with_its_limits(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1] * 2)
    sessions = fakes.sessions(fake, logs(2))
    sessions.errors["t", 1] = ErrorCode.OFFSET_OUT_OF_RANGE
    fake.on(ListOffsetsRequest, fakes.answers.list_offsets(offset=9))
    with pytest.raises(OffsetOutOfRange) as caught:
        read(connect(fake.bootstrap_servers), {TopicPartition("t", 1): (3, 8)})
    assert (caught.value.log_start, caught.value.partition) == (9, 1)


@pytest.mark.parametrize("strange", ["lacks one", "one too many", "twice", "garbage", "closes"])
def test_an_answer_that_is_none_is_a_fault_of_that_broker(fake: Any, fakes: Any, connect: Any, strange: str):
    fake.add_topic("t", [1] * 3)
    sessions = fakes.sessions(fake, logs(3))

    def answer(seen: Any) -> Any:
        response = sessions.fetch(seen)
        if strange == "lacks one":
            response.responses.pop()
        elif strange == "one too many":
            response.responses[0].partitions[0].partition_index = 7
        elif strange == "twice":
            response.responses.append(response.responses[0])
        elif strange == "garbage":
            return b"\x00\x00\x00\x09garbage!!"
        else:
            return fakes.CLOSE
        return response

    fake.on(FetchRequest, answer)
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=2000, retry_backoff_ms=20)
    with pytest.raises(BrokerUnavailable if strange == "closes" else ProtocolFault):
        read(cluster, ranges(3))


def test_a_silent_broker_is_given_up_after_the_deadline(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.on(FetchRequest, lambda _: fakes.SILENT)
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=2000, request_timeout_ms=500, retry_backoff_ms=10)
    started = time.monotonic()
    with pytest.raises(KafkaError, match="did not respond in time"):
        list(fetch_many(cluster, ranges(1), by_count, isolation_level="read_committed"))
    assert time.monotonic() - started < 20


def test_the_time_between_two_polls_is_no_time_without_a_response(fake: Any, fakes: Any, connect: Any):
    """A large response stays in the sockets' buffers meanwhile, and arrives only while it is received."""
    fake.add_topic("t", [1])
    sessions = fakes.sessions(fake, logs(1))
    fake.on(FetchRequest, lambda seen: (time.sleep(2.5), sessions.fetch(seen))[1])
    cluster = connect(fake.bootstrap_servers, request_timeout_ms=1500)
    with ManyReader(cluster, isolation_level="read_committed", max_wait_ms=0) as reader:
        reader.add(TopicPartition("t", 0), 0)
        reader.send_fetches()
        time.sleep(2)
        [(_, fetched)] = reader.poll()
    assert bytes(fetched.records) == b"\0"
    assert len(fetches(fake)) == 1


def test_a_throttled_answer_is_waited_for_and_no_data_is_missed(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1] * 2)
    sessions = fakes.sessions(fake, logs(2))
    fake.on(FetchRequest, lambda _: FetchResponse(throttle_time_ms=250), sessions.fetch)
    started = time.monotonic()
    assert set(read(connect(fake.bootstrap_servers), ranges(2)).values()) == {bytes(range(3))}
    assert time.monotonic() - started > 0.2


def test_a_partition_left_out_of_a_full_response_is_not_taken_for_an_empty_one(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1] * 2)
    sessions = fakes.sessions(fake, logs(2, size=8))

    def only_the_first_with_records(seen: Any) -> Any:
        response = sessions.fetch(seen)
        full = [p for topic in response.responses for p in topic.partitions if p.records]
        for partition in full[1:]:
            partition.records = b""
        return response

    fake.on(FetchRequest, only_the_first_with_records)
    assert set(read(connect(fake.bootstrap_servers), ranges(2, 8)).values()) == {bytes(range(8))}


@pytest.mark.parametrize("version", [6, 18])
def test_without_a_session_partitions_whose_records_fill_the_response_take_turns(
    fake: Any, fakes: Any, connect: Any, version: int
):
    fake.ranges[FetchRequest.KEY] = (4, version)
    fake.add_topic("t", [1] * 3)
    sessions = fakes.sessions(fake, logs(3))
    sessions.refusing = True

    def full_after_the_first(seen: Any) -> Any:
        response = sessions.fetch(seen)
        for topic in response.responses[1:]:
            topic.partitions[0].records = b""
        return response

    fake.on(FetchRequest, full_after_the_first)
    assert set(read(connect(fake.bootstrap_servers), ranges(3)).values()) == {bytes(range(3))}
    assert [names[0] for names in named(fake)] == [0, 1, 2] * 3


def test_the_preferred_replica_is_read_from_and_left_when_it_fails(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    brokers.add_topic("t", [1, 1])
    leader, replica = fakes.sessions(brokers[1], logs(2)), fakes.sessions(brokers[2], logs(2))

    def send_away(seen: Any) -> Any:
        response = leader.fetch(seen)
        if seen.request.rack_id:
            for topic in response.responses:
                for partition in topic.partitions:
                    partition.records, partition.preferred_read_replica = None, 2
        return response

    brokers[1].on(FetchRequest, send_away)
    cluster = connect(brokers.bootstrap_servers, client_rack="b", retry_backoff_ms=1)
    assert set(read(cluster, ranges(2)).values()) == {bytes(range(3))}
    assert brokers.requests(FetchRequest) == {1: 1, 2: 3}
    replica.errors["t", 0] = ErrorCode.OFFSET_NOT_AVAILABLE
    assert set(read(cluster, ranges(2)).values()) == {bytes(range(3))}


@pytest.fixture
def lagging(fakes: Any, connect: Any) -> Any:
    """A cluster in whose rack broker 2 has only the first record of t-0 and of t-1; the leader, broker 1, has three."""
    brokers = fakes.cluster(2)
    brokers.add_topic("t", [1, 1])
    leader = fakes.sessions(brokers[1], logs(2))
    fakes.sessions(brokers[2], logs(2, size=1))

    def send_away(seen: Any) -> Any:
        response = leader.fetch(seen)
        if seen.request.rack_id:
            for topic in response.responses:
                for partition in topic.partitions:
                    partition.records, partition.preferred_read_replica = None, 2
        return response

    brokers[1].on(FetchRequest, send_away)
    return connect(brokers.bootstrap_servers, client_rack="b", default_api_timeout_ms=3000, retry_backoff_ms=1)


def test_a_replica_that_is_behind_a_range_is_left_for_the_leader(lagging: Any):
    assert set(read(lagging, ranges(2)).values()) == {bytes(range(3))}


def test_a_partition_that_is_added_again_does_not_return_to_the_replica_that_it_left(lagging: Any):
    tp = TopicPartition("t", 0)
    found = b""
    with ManyReader(lagging, isolation_level="read_committed") as reader:
        for offset in range(3):
            reader.add(tp, offset)
            [(_, fetched)] = reader.poll()
            if offset == 1:
                assert (bytes(fetched.records), fetched.broker, fetched.high_watermark) == (b"", 2, 1)
                reader.remove(tp)
                reader.leave_replica(tp)
                reader.add(tp, offset)
                [(_, fetched)] = reader.poll()
            found += bytes(fetched.records)
            reader.remove(tp)
    assert found == bytes(range(3))


def test_a_broker_that_refuses_every_session_is_given_up_after_the_deadline(fake: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.on(FetchRequest, lambda _: FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=2000, retry_backoff_ms=20)
    started = time.monotonic()
    with pytest.raises(KafkaError, match="INVALID_FETCH_SESSION_EPOCH"):
        read(cluster, ranges(1))
    assert time.monotonic() - started < 20
    assert len(fetches(fake)) < 100


def test_brokers_that_no_longer_respond_hold_many_topics_no_longer_than_one(fake: Any, fakes: Any, connect: Any):
    """Metadata of each topic is requested by itself, and each request could wait for `request.timeout.ms`."""
    wanted = [TopicPartition(f"t{number}", 0) for number in range(30)]
    for tp in wanted:
        fake.add_topic(tp.topic, [1], topic_id=uuid4())
    fakes.sessions(fake, {tuple(tp): b"" for tp in wanted})
    cluster = connect(fake.bootstrap_servers, request_timeout_ms=300, default_api_timeout_ms=600)
    failed: list[Any] = []
    with ManyReader(cluster, isolation_level="read_committed", max_wait_ms=0) as reader:
        for tp in wanted:
            reader.add(tp, 0)
        assert len(reader.poll()) == len(wanted)
        for request in (ApiVersionsRequest, MetadataRequest, FetchRequest):
            fake.on(request, lambda _: fakes.SILENT)
        fake.drop_connections()
        started = time.monotonic()
        while len(failed) < len(wanted):
            failed += [error for _, error in reader.poll() if isinstance(error, KafkaError)]
    assert time.monotonic() - started < 5


def test_a_message_that_no_fetch_gets_whole_is_told_and_the_others_are_read(fake: Any, fakes: Any, connect: Any):
    fake.ranges[FetchRequest.KEY] = (0, 2)
    fake.add_topic("t", [1, 1])
    cut = (0).to_bytes(8, "big") + (2**30).to_bytes(4, "big") + b"..."
    whole = (0).to_bytes(8, "big") + (3).to_bytes(4, "big") + b"abc"
    fake.on(FetchRequest, fakes.answers.fetch(lambda asked: whole if asked.partition else cut))
    cluster = connect(fake.bootstrap_servers)
    found: dict[TopicPartition, Any] = {}
    with ManyReader(cluster, isolation_level="read_uncommitted") as reader:
        for tp in ranges(2):
            reader.add(tp, 0)
        while len(found) < 2:
            found |= dict(reader.poll())
    assert isinstance(found[TopicPartition("t", 0)], MessageCutShort)
    assert bytes(found[TopicPartition("t", 1)].records) == whole


def test_nothing_to_read_is_nothing(fake: Any, connect: Any):
    cluster = connect(fake.bootstrap_servers)
    assert list(fetch_many(cluster, {}, by_count, isolation_level="read_committed")) == []
    assert read(cluster, {TopicPartition("t", 0): (5, 5)}) == {TopicPartition("t", 0): b""}
    assert not fake.seen
