"""The sender against a scripted leader: what it sends together and when, when it gives up, what errors become."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.client.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerError,
    BufferExhausted,
    DeliveryTimedOut,
    Fenced,
    KafkaError,
    NotEnoughReplicas,
    RecordTooLarge,
    RequestTimedOut,
    UnknownTopic,
    UnsupportedVersion,
)
from kseg.client.producer import KafkaProducer
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.messages.produce import ProduceRequest
from kseg.client.wire.broker import BrokerConnection
from kseg.segment_reader.encode.batches import Record
from kseg.segment_reader.encode.bodies import BatchBody, encode_body
from sending import send_all


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def shorten_delivery_timeout(producer: KafkaProducer) -> None:
    """To 300 ms, when all has happened that could take longer on a busy machine."""
    object.__setattr__(producer.config, "delivery_timeout_ms", 300)
    producer._sender._delivery_timeout = 0.3
    producer._sender._waiter.wake()


# -- what is sent again, where, and for how long


@pytest.mark.rule(147)
def test_an_expired_batch_says_whether_it_may_have_been_written(leader: Any, make: Any):
    leader.once("silent")
    producer = make(request_timeout_ms=100_000, delivery_timeout_ms=100_000)
    delivery = producer.send("t", b"v")
    until(lambda: leader.arrived)
    shorten_delivery_timeout(producer)
    with pytest.raises(DeliveryTimedOut, match="may have been appended") as caught:
        delivery.result(30)
    assert caught.value.sent
    assert (caught.value.topic, caught.value.partition) == ("t", 0)


AFTER_APPEND = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.rule(147)
@pytest.mark.parametrize(("faults", "kind", "sent"), [
    ([ErrorCode.NOT_ENOUGH_REPLICAS], DeliveryTimedOut, False),
    (["lost after", ErrorCode.NOT_ENOUGH_REPLICAS], DeliveryTimedOut, True),
    ([AFTER_APPEND], DeliveryTimedOut, True),
    ([AFTER_APPEND, ErrorCode.NOT_ENOUGH_REPLICAS], DeliveryTimedOut, True),
    ([ErrorCode.REQUEST_TIMED_OUT], DeliveryTimedOut, True),
    ([ErrorCode.TOPIC_AUTHORIZATION_FAILED], AuthorizationFailed, False),
    (["lost after", ErrorCode.TOPIC_AUTHORIZATION_FAILED], AuthorizationFailed, True),
    ([ErrorCode.UNKNOWN_SERVER_ERROR], BrokerError, True),
])  # fmt: skip
def test_an_error_says_whether_any_of_the_requests_may_have_written_it(
    leader: Any, make: Any, faults: list[Any], kind: type[KafkaError], sent: bool
):
    """The last response may say no more than that this one request has not."""
    left = list(faults)
    producer = make(request_timeout_ms=100_000, delivery_timeout_ms=100_000)

    def answer(_: Any) -> Any:
        if len(left) == 1:  # the batch then expires while it waits for another try, not while a request is in flight
            object.__setattr__(producer.config.client, "retry_backoff_ms", 100_000)
        return left.pop(0)

    leader.script = answer
    delivery = producer.send("t", b"v")
    queue = producer._accumulator.queues[TopicPartition("t", 0)]
    until(lambda: delivery.done() or queue.not_before > time.monotonic() + 10)
    shorten_delivery_timeout(producer)
    error = delivery.exception(30)
    assert isinstance(error, kind)
    assert error.sent == sent
    assert ("may have been appended" in str(error)) == sent


def test_what_is_in_flight_when_a_producer_is_closed_may_have_been_written(leader: Any, make: Any):
    leader.script = lambda _: "silent"
    producer = make(linger_ms=60_000, batch_size=10_000, delivery_timeout_ms=100_000, request_timeout_ms=30_000)
    sent = producer.send_body(TopicPartition("t", 0), encode_body([Record(None, b"v", (), 1)]))
    until(lambda: leader.arrived)
    waiting = producer.send("t", b"v")
    producer.close(0)
    assert [delivery.exception(0).sent for delivery in (sent, waiting)] == [True, False]


@pytest.mark.rule(147)
def test_no_leader_for_long_expires_what_waits(fake: Any, leader: Any, make: Any):
    fake.add_topic("t", [-1])
    producer = make(request_timeout_ms=200, delivery_timeout_ms=2000)
    with pytest.raises(DeliveryTimedOut, match="has no leader") as caught:
        producer.send("t", b"v", partition=0).result(30)
    assert not caught.value.sent
    assert leader.arrived == []


@pytest.mark.rule(136)
def test_a_request_that_is_never_answered_is_sent_again_over_a_new_connection(leader: Any, make: Any):
    leader.once("silent")
    producer = make(request_timeout_ms=1500)
    assert producer.send("t", b"v").result(30).offset == 0
    assert len({a.connection for a in leader.arrived}) == 2


@pytest.mark.rule(137)
def test_only_the_partitions_that_failed_are_sent_again(fake: Any, leader_on: Any, make: Any):
    leader = leader_on(fake, partitions=4)
    leader.once({2: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    producer = make(batch_size=10_000, linger_ms=60_000)
    for partition in range(4):
        producer.send("t", b"v", partition=partition)
    producer.flush(30)
    assert [sorted(tp.partition for tp in request) for request in leader.requests] == [[0, 1, 2, 3], [2]]


@pytest.mark.rule(148)
def test_a_leader_that_moved_is_found_and_gets_only_its_own(fake: Any, fakes: Any, leader_on: Any, make: Any):
    """Broker 1 loses a partition to broker 2 and says so: the metadata is asked again, and 2 gets that partition."""
    other = fakes.start()
    other.node_id = 2
    here, there = leader_on(fake, partitions=2), leader_on(other, partitions=2)
    for broker in (fake, other):
        broker.brokers = [(1, fake.host, fake.port), (2, other.host, other.port)]

    def moved(_: Any) -> Any:
        for broker in (fake, other):
            broker.add_topic("t", [1, 2], epoch=1)
        here.script = lambda _: None
        return {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}

    here.script = moved
    producer = make(batch_size=10_000, linger_ms=60_000)
    deliveries = [producer.send("t", b"v", partition=partition) for partition in (0, 1)]
    producer.flush(30)
    assert [d.exception() for d in deliveries] == [None, None]
    assert [[tp.partition for tp in r] for r in here.requests] in ([[0, 1]], [[1, 0]])
    assert [[tp.partition for tp in r] for r in there.requests] == [[1]]


# -- what is sent together, and when


@pytest.mark.rule(56)
def test_one_request_a_broker_carries_many_partitions(fake: Any, leader_on: Any, make: Any, numbered: Any):
    leader = leader_on(fake, partitions=20)
    producer = make(batch_size=10_000, linger_ms=60_000)
    for partition in range(20):
        send_all(producer, "t", numbered(5), partition=partition)
    producer.flush(30)
    assert [sorted(tp.partition for tp in request) for request in leader.requests] == [list(range(20))]


def test_a_request_stays_below_the_size_asked_for_and_no_partition_starves(fake: Any, leader_on: Any, make: Any):
    leader = leader_on(fake, partitions=6)
    producer = make(batch_size=10_000, linger_ms=60_000, max_request_size=3000)
    for partition in range(6):
        producer.send("t", b"x" * 1200, partition=partition)
    producer.flush(30)
    assert [len(request) for request in leader.requests] == [2, 2, 2]
    assert len({tp for request in leader.requests for tp in request}) == 6


@pytest.mark.rule(54, 55, 149)
def test_lingering_collects_what_comes_meanwhile(leader: Any, make: Any, numbered: Any):
    producer = make(batch_size=100_000, linger_ms=1500)
    began = time.monotonic()
    deliveries = send_all(producer, "t", numbered(5))
    time.sleep(0.1)
    deliveries += send_all(producer, "t", numbered(5, 5))
    deliveries[-1].result(30)
    assert time.monotonic() - began >= 1.49
    assert [len(a.values) for a in leader.arrived] == [10]


@pytest.mark.rule(55)
def test_a_full_batch_a_flush_and_a_close_do_not_linger(leader: Any, make: Any):
    producer = make(batch_size=1000, linger_ms=600_000, delivery_timeout_ms=1_000_000)
    full = send_all(producer, "t", [Record(None, b"x" * 500, (), 1)] * 3)
    assert [d.result(30).offset for d in full[:1]] == [0]
    producer.flush(30)
    producer.send("t", b"last")
    producer.close()
    assert leader.log == [b"x" * 500] * 3 + [b"last"]


@pytest.mark.rule(12)
def test_no_more_than_five_requests_are_under_way(leader: Any, make: Any, values: Any, numbered: Any):
    leader.pause = 0.01
    most = 0

    def count(_: Any) -> None:
        nonlocal most
        most = max(most, *(len(link.in_flight) for link in producer._sender._links.values()), 0)

    leader.script = count
    producer = make(max_in_flight_requests_per_connection=5)
    send_all(producer, "t", numbered(60))
    producer.flush(30)
    assert 2 <= most <= 5
    assert leader.log == values(60)


@pytest.mark.rule(149)
def test_a_full_buffer_holds_senders_up_and_then_gives_up(leader: Any, make: Any):
    leader.once("silent")
    producer = make(buffer_memory=1000, request_timeout_ms=60_000)
    producer.send("t", b"x" * 500)  # with all the time that it takes to connect
    object.__setattr__(producer.config, "max_block_ms", 300)
    began = time.monotonic()
    with pytest.raises(BufferExhausted, match=r"buffer\.memory"):
        producer.send("t", b"x" * 500)
    assert 0.29 <= time.monotonic() - began < 20
    with pytest.raises(RecordTooLarge, match=r"buffer\.memory"):
        producer.send("t", b"x" * 2000)


def test_a_topic_is_asked_about_for_as_long_as_sending_may_take(fake: Any, fakes: Any, make: Any):
    fake.on(MetadataRequest, lambda _: fakes.SILENT)
    producer = make(
        max_block_ms=300, request_timeout_ms=600_000, delivery_timeout_ms=600_000, enable_idempotence="false"
    )
    began = time.monotonic()
    with pytest.raises(RequestTimedOut):
        producer.send("t", b"v")
    assert 0.29 <= time.monotonic() - began < 50  # any other question may take a minute


@pytest.mark.rule(144)
def test_a_record_above_the_request_size_is_refused_before_it_is_sent(leader: Any, make: Any):
    with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
        make(max_request_size=1000).send("t", b"x" * 1000)
    assert leader.arrived == []


@pytest.mark.parametrize("wrong", [
    {"value": "text"},
    {"key": 5},
    {"value": [1]},
    {"timestamp": 2**63},
    {"timestamp": -2},
    {"timestamp": 1.5},
    {"partition": 0.0},
    {"headers": [("h", "text")]},
    {"headers": [(None, b"v")]},
    {"headers": [("\ud800", b"v")]},
])  # fmt: skip
def test_a_record_that_cannot_be_is_refused_at_once_and_costs_no_other(leader: Any, make: Any, wrong: dict[str, Any]):
    producer = make(batch_size=10_000, linger_ms=60_000)
    before = producer.send("t", b"before", timestamp=1)
    with pytest.raises((TypeError, ValueError)):
        producer.send("t", **wrong)
    after = producer.send("t", b"after", timestamp=2)
    producer.flush(30)
    assert [before.result(0).offset, after.result(0).offset] == [0, 1]
    assert leader.log == [b"before", b"after"]


def test_bytes_that_their_owner_changes_later_are_sent_as_they_were(leader: Any, make: Any):
    producer = make(batch_size=10_000, linger_ms=60_000)
    value = bytearray(b"before")
    producer.send("t", value)
    value[:] = b"after!"
    producer.flush(30)
    assert leader.log == [b"before"]


def test_a_batch_that_cannot_be_encoded_fails_alone(leader: Any, make: Any):
    producer = make()
    wrong = producer.send_body(TopicPartition("t", 0), BatchBody(b"x", 1, 2**63, 2**63))
    with pytest.raises(KafkaError, match="cannot be encoded"):
        wrong.result(30)
    assert producer.send("t", b"v").result(30).offset == 0


@pytest.mark.parametrize("partition", [-1, 1])
def test_a_batch_for_a_partition_that_is_not_there_is_refused(leader: Any, make: Any, partition: int):
    with pytest.raises(UnknownTopic, match="1 partitions"):
        make().send_body(TopicPartition("t", partition), BatchBody(b"x", 1, 1, 1))
    assert leader.arrived == []


def test_a_login_that_fails_between_two_requests_costs_only_what_was_being_sent(
    leader: Any, make: Any, monkeypatch: Any
):
    """It closes the connection while another request is in flight."""
    producer = make()
    producer.send("t", b"first").result(30)
    arrived, go_on = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        arrived.set()
        go_on.wait(120)

    leader.script = hold
    in_flight = producer.send("t", b"second")
    assert arrived.wait(120)
    send = BrokerConnection.send

    def expired(self: BrokerConnection, request: Any, *given: Any, **named: Any) -> None:
        if isinstance(request, ProduceRequest):
            monkeypatch.setattr(BrokerConnection, "send", send)
            self.close()
            raise AuthenticationFailed("the password was changed")
        send(self, request, *given, **named)

    monkeypatch.setattr(BrokerConnection, "send", expired)
    with pytest.raises(AuthenticationFailed):
        producer.send("t", b"third").result(30)
    leader.script = lambda _: None
    go_on.set()
    assert in_flight.result(30).offset == 1
    assert producer.send("t", b"fourth").result(30).offset == 2
    assert leader.log == [b"first", b"second", b"fourth"]


def test_nothing_can_be_sent_after_closing_and_what_waits_fails(leader: Any, make: Any):
    leader.script = lambda _: "silent"
    producer = make()
    waiting = producer.send("t", b"v")
    with pytest.raises(TimeoutError):
        waiting.result(0.05)
    producer.close(0.1)
    with pytest.raises(BrokerError, match="closed"):
        waiting.result(0)
    with pytest.raises(RuntimeError, match="closed"):
        producer.send("t", b"v")


def test_flushing_has_a_bound(leader: Any, make: Any):
    leader.script = lambda _: "silent"
    producer = make()
    producer.send("t", b"v")
    with pytest.raises(RequestTimedOut):
        producer.flush(0.1)


# -- versions and errors


@pytest.mark.parametrize(("code", "kind"), [
    (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed),
    (ErrorCode.INVALID_REQUIRED_ACKS, BrokerError),
    (ErrorCode.RECORD_LIST_TOO_LARGE, RecordTooLarge),
    (ErrorCode.INVALID_PRODUCER_EPOCH, Fenced),
])  # fmt: skip
def test_an_error_is_typed_and_has_its_address(leader: Any, make: Any, code: ErrorCode, kind: type[KafkaError]):
    leader.script = lambda _: code
    with pytest.raises(kind) as caught:
        make().send("t", b"v").result(30)
    assert (caught.value.code, caught.value.topic, caught.value.partition) == (code, "t", 0)
    assert len(leader.arrived) == 1


@pytest.mark.rule(145)
@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_too_few_replicas_are_waited_for(leader: Any, make: Any, code: ErrorCode):
    leader.once(code, code)
    assert make().send("t", b"v").result(30).offset == 0
    assert len(leader.arrived) == 3
    leader.script = lambda _: code
    with pytest.raises(NotEnoughReplicas):
        make(enable_idempotence="false", retries=1).send("t", b"v").result(30)


def test_a_broker_without_sequences_is_told_before_anything_is_written(fake: Any, leader: Any, make: Any):
    fake.ranges[ProduceRequest.KEY] = (0, 2)
    error = make().send("t", b"v").exception(30)
    assert isinstance(error, UnsupportedVersion)
    assert "enable.idempotence=false" in str(error)
    assert leader.arrived == []


def test_a_broker_without_zstd_is_told_before_anything_is_written(fake: Any, leader: Any, make: Any):
    fake.ranges[ProduceRequest.KEY] = (3, 6)
    with pytest.raises(UnsupportedVersion, match="zstd"):
        make(compression_type="zstd").send("t", b"v").result(30)
    assert leader.arrived == []


@pytest.mark.rule(14)
@pytest.mark.parametrize(("acks", "offset"), [(0, -1), (1, 0)])
def test_a_record_without_an_answer_is_done_when_it_is_written(leader: Any, make: Any, acks: int, offset: int):
    leader.pause = 6 if acks == 0 else 0.2
    told = make(acks=acks).send("t", b"v").result(5 if acks == 0 else 30)
    assert told.offset == offset


@pytest.mark.rule(138)
def test_a_throttled_producer_holds_back(leader: Any, fake: Any, make: Any):
    plain = leader.answer

    def throttle(seen: Any) -> Any:
        answer = plain(seen)
        answer.throttle_time_ms = 300 if len(leader.arrived) == 1 else 0
        return answer

    fake.on(ProduceRequest, throttle)
    producer = make()
    began = time.monotonic()
    producer.send("t", b"a").result(30)
    assert time.monotonic() - began < 30
    producer.send("t", b"b").result(30)
    assert time.monotonic() - began >= 0.3
