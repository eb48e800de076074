"""The sequences that the sender gives: over any fault, records are written once and in their order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.client.errors import AuthorizationFailed, BrokerUnavailable, DeliveryTimedOut
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from sending import send_all

LARGEST = 2**31 - 1
LARGEST_EPOCH = 2**15 - 1
TP = TopicPartition("t", 0)


@pytest.mark.rule(233)
@pytest.mark.parametrize("fault", ["lost before", "lost after"])
@pytest.mark.parametrize("at", [1, 3, 7])
def test_a_lost_answer_leads_to_no_duplicate_and_no_disorder(
    leader: Any, make: Any, fault: str, at: int, values: Any, numbered: Any
):
    leader.once(*[None] * at, fault)
    producer = make()
    deliveries = send_all(producer, "t", numbered(40))
    producer.flush(30)
    assert leader.log == values(40)
    assert [d.result().offset for d in deliveries] == list(range(40))


@pytest.mark.rule(131)
def test_the_sequence_stays_the_same_on_a_retry(leader: Any, make: Any, numbered: Any):
    leader.once(None, "lost after")
    producer = make(max_in_flight_requests_per_connection=1)
    for number in range(3):
        send_all(producer, "t", numbered(1, number))
        producer.flush(30)
    assert [(a.producer_id, a.epoch, a.sequence) for a in leader.arrived] == [(7, 0, n) for n in (0, 1, 1, 2)]


def test_nothing_follows_the_first_batch_before_it_is_there(leader: Any, make: Any, values: Any, numbered: Any):
    """A leader takes any sequence from a producer that it does not know: the second batch must not be the first."""
    leader.once(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    leader.pause = 0.02
    producer = make()
    send_all(producer, "t", numbered(10))
    producer.flush(30)
    assert leader.log == values(10)
    assert [a.sequence for a in leader.arrived[:3]] == [0, 0, 1]


FAULTS = [
    "lost before",
    "lost after",
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    {0: ErrorCode.REQUEST_TIMED_OUT},
    {1: ErrorCode.KAFKA_STORAGE_ERROR},
    (ErrorCode.UNKNOWN_PRODUCER_ID, -1),
    "deleted",
]


@pytest.mark.rule(53)
@pytest.mark.parametrize("seed", range(8))
def test_records_arrive_once_and_in_order_whatever_goes_wrong(
    fake: Any, leader_on: Any, make: Any, numbered: Any, scale: Any, seed: int
):
    """Faults at random. "deleted": all that is acknowledged is deleted, and the leader knows the producer no more; half
    of the seeds have a leader that then refuses it, half one that takes whatever comes."""
    leader = leader_on(fake, partitions=3)
    for partition in range(3):
        leader.logs[TopicPartition("t", partition)].refuses_strangers = seed % 2 == 0
    chance = random.Random(seed)
    deliveries: dict[int, list[Any]] = {}

    def script(batches: list[Any]) -> Any:
        fault = chance.choice(FAULTS) if chance.random() < 0.2 else None
        if fault != "deleted":
            return fault
        for log, number, batch in ((leader.logs[b.tp], int(b.values[0]), b) for b in batches):
            # Only what the producer knows to be there: else the records would come again, from any client.
            known = deliveries.get(batch.tp.partition, [])[:number]
            if len(log.values) == number == len(known) and all(delivery.done() for delivery in known):
                log.delete_all()
        return None

    leader.script = script
    producer = make(batch_size=chance.choice([0, 100, 400]))
    records = numbered(scale(150, 2000))
    for partition in range(3):
        deliveries[partition] = send_all(producer, "t", records, partition=partition)
    producer.flush(60)
    for partition in range(3):
        assert leader.logs[TopicPartition("t", partition)].values == [record.value for record in records]
        assert [d.result().offset for d in deliveries[partition]] == list(range(len(records)))


def test_a_batch_whose_answer_was_lost_is_known_again_however_often_it_is_refused(
    leader: Any, make: Any, numbered: Any, values: Any
):
    """A leader knows the last five batches of a producer: a sixth behind one that may be there would hide it, and it
    would be taken for a gap and written twice."""
    producer = make()
    send_all(producer, "t", numbered(1))
    producer.flush(30)
    refused: list[int] = []

    def script(batches: list[Any]) -> Any:
        if batches[0].sequence != 1 or len(refused) > 6:
            return None
        refused.append(1)
        if len(refused) == 1:
            return "lost after"
        if len(refused) == 2:  # from here on there is more to send
            send_all(producer, "t", numbered(38, 2))
        return ErrorCode.NOT_ENOUGH_REPLICAS

    leader.script = script
    send_all(producer, "t", numbered(1, 1))
    while len(leader.log) < 40:
        producer.flush(30)
    assert leader.log == values(40)
    assert {batch.epoch for batch in leader.arrived} == {0}


@pytest.mark.rule(233)
def test_without_sequences_a_lost_answer_may_duplicate(leader: Any, make: Any):
    leader.once("lost after")
    producer = make(enable_idempotence="false")
    producer.send("t", b"v").result(30)
    assert leader.log == [b"v", b"v"]
    assert {a.producer_id for a in leader.arrived} == {-1}


def test_without_retries_a_lost_answer_is_told(leader: Any, make: Any):
    leader.once("lost after")
    with pytest.raises(BrokerUnavailable):
        make(enable_idempotence="false", retries=0).send("t", b"v").result(30)
    assert leader.log == [b"v"]


@pytest.mark.rule(235)
def test_sequences_wrap_after_the_largest(leader: Any, make: Any, values: Any, numbered: Any):
    producer = make(batch_size=10_000, linger_ms=60_000)
    producer.send("t", b"first")
    producer.flush(30)
    leader.logs[TP].producers[7][1].append((LARGEST - 1, LARGEST - 1, 0))
    producer._accumulator.queues[TP].sequences.next = LARGEST
    for _ in range(2):
        send_all(producer, "t", numbered(3))
        producer.flush(30)
    assert [a.sequence for a in leader.arrived] == [0, LARGEST, 2]
    assert leader.log == [b"first", *values(3), *values(3)]


def test_a_duplicate_counts_as_delivered_without_an_offset(leader: Any, make: Any):
    leader.once(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    told = make().send("t", b"v").result(30)
    assert (told.offset, told.base_offset) == (-1, -1)


def test_a_gap_starts_the_partition_anew_under_a_higher_epoch(leader: Any, make: Any, values: Any, numbered: Any):
    """A batch that is refused for good leaves a gap; those behind it are refused, and then written all the same."""
    leader.once(None, ErrorCode.INVALID_RECORD)
    leader.pause = 0.02
    producer = make()
    deliveries = send_all(producer, "t", numbered(10))
    producer.flush(30)
    failed = [n for n, d in enumerate(deliveries) if d.exception() is not None]
    assert failed == [1]
    assert leader.log == [v for n, v in enumerate(values(10)) if n != 1]
    assert {a.epoch for a in leader.arrived} == {0, 1}
    assert next(a.sequence for a in leader.arrived if a.epoch == 1) == 0


def exhaust(producer: Any, leader: Any) -> None:
    """The next batch needs a new producer id."""
    producer.send("t", b"a").result(30)
    producer._accumulator.queues[TP].sequences.producer_epoch = LARGEST_EPOCH
    leader.logs[TP].producers[7] = (LARGEST_EPOCH, leader.logs[TP].producers[7][1])
    leader.once(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_an_exhausted_epoch_takes_a_new_producer_id(leader: Any, make: Any):
    producer = make()
    exhaust(producer, leader)
    producer.send("t", b"b").result(30)
    assert leader.log == [b"a", b"b"]
    assert (leader.arrived[-1].producer_id, leader.arrived[-1].epoch, leader.arrived[-1].sequence) == (8, 0, 0)


def test_a_new_producer_id_is_requested_until_a_broker_gives_one(fake: Any, fakes: Any, leader: Any, make: Any):
    producer = make(default_api_timeout_ms=100)
    exhaust(producer, leader)
    lost = [lambda _: fakes.CLOSE] * 20
    fake.on(InitProducerIdRequest, *lost, lambda _: InitProducerIdResponse(producer_id=8, producer_epoch=0))
    assert producer.send("t", b"b").result(30).offset == 1
    assert leader.log == [b"a", b"b"]
    assert (leader.arrived[-1].producer_id, leader.arrived[-1].epoch, leader.arrived[-1].sequence) == (8, 0, 0)


def test_a_record_for_which_there_is_no_producer_id_expires(fake: Any, fakes: Any, leader: Any, make: Any):
    producer = make(request_timeout_ms=200, delivery_timeout_ms=500)
    exhaust(producer, leader)
    fake.on(InitProducerIdRequest, lambda _: fakes.CLOSE)
    with pytest.raises(DeliveryTimedOut):
        producer.send("t", b"b").result(30)
    fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=8, producer_epoch=0))
    assert producer.send("t", b"c").result(30).offset == 1


def test_a_producer_id_that_is_refused_fails_what_needs_it_and_nothing_else(fake: Any, leader_on: Any, make: Any):
    leader = leader_on(fake, partitions=2)
    producer = make()
    producer._choose = lambda *_: 0
    exhaust(producer, leader)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(error_code=code))
    with pytest.raises(AuthorizationFailed):
        producer.send("t", b"b").result(30)
    assert producer.send("t", b"other", partition=1).result(30).offset == 0


@pytest.mark.rule(141)
def test_a_forgotten_producer_id_is_asked_about_until_the_log_start_is_told(leader: Any, make: Any):
    """A leader that is just moving away does not know where its log starts."""
    producer = make()
    producer.send("t", b"a").result(30)
    leader.logs[TP].refuses_strangers = True
    leader.logs[TP].delete_all()
    leader.once((ErrorCode.UNKNOWN_PRODUCER_ID, -1))
    assert producer.send("t", b"b").result(30).offset == 1
    assert [(a.epoch, a.sequence) for a in leader.arrived] == [(0, 0), (0, 1), (0, 1), (1, 0)]


def test_a_record_after_one_that_was_given_up_is_not_taken_for_it(leader: Any, make: Any):
    """The answers were lost and the batch is in the log: the next record has the sequence after it, not the same."""
    leader.script = lambda _: "lost after"
    producer = make(delivery_timeout_ms=300, request_timeout_ms=200)
    first = producer.send("t", b"first")
    error = first.exception(30)
    assert isinstance(error, DeliveryTimedOut)
    assert error.sent
    leader.script = lambda _: None
    assert producer.send("t", b"second").result(30).offset == 1
    assert leader.log == [b"first", b"second"]
