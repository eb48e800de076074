"""The sender against a leader that keeps a log as Kafka's does, and loses answers, refuses and moves as it is told."""

from __future__ import annotations

import random
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from client import TopicPartition
from client.errors import (
    AuthorizationFailed,
    BrokerError,
    BrokerUnavailable,
    BufferExhausted,
    DeliveryTimedOut,
    Fenced,
    KafkaError,
    NotEnoughReplicas,
    RecordTooLarge,
    RequestTimedOut,
    SequenceLost,
    UnsupportedVersion,
)
from client.protocol import ErrorCode
from client.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from segment_reader.batch import RECORD_BATCH, RECORDS_AT
from segment_reader.bodies import Body, records_of
from segment_reader.encode import Record

LARGEST = 2**31 - 1


@dataclass
class Arrived:
    """A batch that arrived: whose it is, its numbers, its values."""

    tp: TopicPartition
    producer_id: int
    epoch: int
    sequence: int
    values: list[bytes | None]
    connection: int
    attributes: int


def parse(tp: TopicPartition, data: bytes, connection: int) -> Arrived:
    head = RECORD_BATCH.unpack_from(data)
    attributes, base_time, latest, producer_id, epoch, sequence, count = (
        head[5], head[7], head[8], head[9], head[10], head[11], head[12]
    )  # fmt: skip
    body = Body(bytes(data[RECORDS_AT:]), count, base_time, latest)
    return Arrived(tp, producer_id, epoch, sequence, [r.value for r in records_of(body)], connection, attributes)


@dataclass
class Log:
    """One partition as its leader keeps it, with what it knows of producers (KIP-98)."""

    values: list[bytes | None] = field(default_factory=list)
    producers: dict[int, tuple[int, deque[tuple[int, int, int]]]] = field(default_factory=dict)

    def append(self, batch: Arrived) -> tuple[int, int]:
        """(error code, base offset)."""
        if batch.producer_id >= 0:
            epoch, last = self.producers.get(batch.producer_id, (-1, deque(maxlen=5)))
            if batch.epoch < epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            if batch.epoch > epoch:
                if batch.sequence != 0 and epoch >= 0:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
                last = deque(maxlen=5)
            end = (batch.sequence + len(batch.values) - 1) % 2**31
            for first, latest, offset in last:
                if (first, latest) == (batch.sequence, end):
                    return 0, offset
            if last and batch.sequence != (last[-1][1] + 1) % 2**31:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            last.append((batch.sequence, end, len(self.values)))
            self.producers[batch.producer_id] = batch.epoch, last
        offset = len(self.values)
        self.values += batch.values
        return 0, offset


class Leader:
    """Answers Produce on a scripted broker. `script` says, request by request, what goes wrong with it."""

    def __init__(self, fake: Any, fakes: Any, partitions: int = 1) -> None:
        self.fake, self.fakes = fake, fakes
        self.logs: dict[TopicPartition, Log] = defaultdict(Log)
        self.arrived: list[Arrived] = []
        self.requests: list[list[TopicPartition]] = []
        self.script: Callable[[list[Arrived]], Any] = lambda _: None
        self.pause = 0.0
        self.ids = iter(range(7, 1000))
        fake.add_topic("t", [1] * partitions)
        fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=next(self.ids), producer_epoch=0))
        fake.on(ProduceRequest, self.answer)

    @property
    def log(self) -> list[bytes | None]:
        return self.logs[TP].values

    def answer(self, seen: Any) -> Any:
        """`script` gives None (append), "lost before", "lost after", an error code, or a map of these by partition."""
        batches = [
            parse(TopicPartition("t", partition.index), partition.records, seen.connection)
            for topic in seen.request.topic_data
            for partition in topic.partition_data
        ]
        self.arrived += batches
        self.requests.append([batch.tp for batch in batches])
        if self.pause:
            time.sleep(self.pause)
        told = self.script(batches)
        if told == "lost before":
            return self.fakes.CLOSE
        if told == "silent":
            return self.fakes.SILENT
        entries = []
        for batch in batches:
            code = told.get(batch.tp.partition) if isinstance(told, dict) else told
            offset, log_start = -1, -1
            if isinstance(code, tuple):
                code, log_start = code
            if code is None or isinstance(code, str):
                code, offset = self.logs[batch.tp].append(batch)
            entries.append(
                ProduceResponse.PartitionProduceResponse(
                    index=batch.tp.partition, error_code=code, base_offset=offset, log_start_offset=log_start
                )
            )
        if told == "lost after" or seen.request.acks == 0:
            return self.fakes.CLOSE if seen.request.acks else self.fakes.SILENT
        topic = seen.request.topic_data[0]
        answer = ProduceResponse.TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=entries
        )
        return ProduceResponse(responses=[answer])


TP = TopicPartition("t", 0)


def once(*faults: Any) -> Callable[[list[Arrived]], Any]:
    """These, one a request, then none."""
    left = iter(faults)
    return lambda _: next(left, None)


@pytest.fixture
def leader(fake: Any, fakes: Any) -> Leader:
    return Leader(fake, fakes)


@pytest.fixture
def make(fake: Any, producing: Any) -> Callable[..., Any]:
    quick = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "linger_ms": 0, "batch_size": 0}
    return lambda **given: producing(fake.bootstrap_servers, **(quick | given))


def numbered(count: int, first: int = 0) -> list[Record]:
    return [Record(None, b"%05d" % n, (), 1) for n in range(first, first + count)]


def values(count: int) -> list[bytes]:
    return [record.value or b"" for record in numbered(count)]


# -- what is kept over faults


@pytest.mark.parametrize("fault", ["lost before", "lost after"])
@pytest.mark.parametrize("at", [1, 3, 7])
def test_a_lost_answer_leads_to_no_duplicate_and_no_disorder(leader: Leader, make: Any, fault: str, at: int):
    leader.script = once(*[None] * at, fault)
    producer = make()
    deliveries = producer.send_all("t", numbered(40))
    producer.flush(30)
    assert leader.log == values(40)
    assert [d.result().offset for d in deliveries] == list(range(40))


def test_the_sequence_stays_the_same_on_a_retry(leader: Leader, make: Any):
    leader.script = once(None, "lost after")
    producer = make(max_in_flight_requests_per_connection=1)
    for number in range(3):
        producer.send_all("t", numbered(1, number))
        producer.flush(30)
    assert [(a.producer_id, a.epoch, a.sequence) for a in leader.arrived] == [(7, 0, n) for n in (0, 1, 1, 2)]


def test_nothing_follows_the_first_batch_before_it_is_there(leader: Leader, make: Any):
    """A leader takes any sequence from a producer that it does not know: the second batch must not be the first."""
    leader.script = once(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    leader.pause = 0.02
    producer = make()
    producer.send_all("t", numbered(10))
    producer.flush(30)
    assert leader.log == values(10)
    assert [a.sequence for a in leader.arrived[:3]] == [0, 0, 1]


@pytest.mark.parametrize("seed", range(6))
def test_records_arrive_once_and_in_order_whatever_goes_wrong(fake: Any, fakes: Any, make: Any, scale: Any, seed: int):
    leader = Leader(fake, fakes, partitions=3)
    chance = random.Random(seed)
    faults = ["lost before", "lost after", ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE]
    faults += [ErrorCode.NOT_ENOUGH_REPLICAS, {0: ErrorCode.REQUEST_TIMED_OUT}, {1: ErrorCode.KAFKA_STORAGE_ERROR}]
    # Not UNKNOWN_PRODUCER_ID: a leader that has just appended a batch and disowns its producer makes duplicates.
    leader.script = lambda _: chance.choice(faults) if chance.random() < 0.2 else None
    producer = make(batch_size=chance.choice([0, 100, 400]))
    count = scale(150, 2000)
    deliveries = {p: producer.send_all("t", numbered(count), partition=p) for p in range(3)}
    producer.flush(60)
    for partition in range(3):
        assert leader.logs[TopicPartition("t", partition)].values == values(count)
        assert [d.result().offset for d in deliveries[partition]] == list(range(count))


def test_without_sequences_a_lost_answer_may_duplicate(leader: Leader, make: Any):
    leader.script = once("lost after")
    producer = make(enable_idempotence="false")
    producer.send("t", b"v").result(30)
    assert leader.log == [b"v", b"v"]
    assert {a.producer_id for a in leader.arrived} == {-1}


def test_without_retries_a_lost_answer_is_told(leader: Leader, make: Any):
    leader.script = once("lost after")
    with pytest.raises(BrokerUnavailable):
        make(enable_idempotence="false", retries=0).send("t", b"v").result(30)
    assert leader.log == [b"v"]


def test_sequences_wrap_after_the_largest(leader: Leader, make: Any):
    producer = make(batch_size=10_000, linger_ms=20)
    producer.send("t", b"first").result(30)
    leader.logs[TP].producers[7][1].append((LARGEST - 1, LARGEST - 1, 0))
    producer._accumulator.queues[TP].sequences.next = LARGEST
    for _ in range(2):
        producer.send_all("t", numbered(3))
        producer.flush(30)
    assert [a.sequence for a in leader.arrived] == [0, LARGEST, 2]
    assert leader.log == [b"first", *values(3), *values(3)]


def test_a_duplicate_counts_as_delivered_without_an_offset(leader: Leader, make: Any):
    leader.script = once(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    told = make().send("t", b"v").result(30)
    assert (told.offset, told.base_offset) == (-1, -1)


def test_a_gap_starts_the_partition_anew_under_a_higher_epoch(leader: Leader, make: Any):
    """A batch that is refused for good leaves a gap; those behind it are refused, and then written all the same."""
    leader.script = once(None, ErrorCode.INVALID_RECORD)
    leader.pause = 0.02
    producer = make()
    deliveries = producer.send_all("t", numbered(10))
    producer.flush(30)
    failed = [n for n, d in enumerate(deliveries) if d.exception() is not None]
    assert failed == [1]
    assert leader.log == [v for n, v in enumerate(values(10)) if n != 1]
    assert {a.epoch for a in leader.arrived} == {0, 1}
    assert next(a.sequence for a in leader.arrived if a.epoch == 1) == 0


def test_an_exhausted_epoch_takes_a_new_producer_id(leader: Leader, make: Any):
    producer = make()
    producer.send("t", b"a").result(30)
    producer._accumulator.queues[TP].sequences.producer_epoch = 2**15 - 1
    leader.logs[TP].producers[7] = (2**15 - 1, leader.logs[TP].producers[7][1])
    leader.script = once(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    producer.send("t", b"b").result(30)
    assert leader.log == [b"a", b"b"]
    assert (leader.arrived[-1].producer_id, leader.arrived[-1].epoch, leader.arrived[-1].sequence) == (8, 0, 0)


def test_a_forgotten_producer_id_is_asked_about_until_the_log_start_is_told(leader: Leader, make: Any):
    leader.script = once(None, (ErrorCode.UNKNOWN_PRODUCER_ID, -1), (ErrorCode.UNKNOWN_PRODUCER_ID, 1))
    producer = make()
    producer.send("t", b"a").result(30)
    producer.send("t", b"b").result(30)
    assert [(a.epoch, a.sequence) for a in leader.arrived] == [(0, 0), (0, 1), (0, 1), (1, 0)]


def test_an_expired_batch_says_whether_it_may_have_been_written(leader: Leader, make: Any):
    leader.script = once("silent")
    producer = make(request_timeout_ms=100_000, delivery_timeout_ms=100_000)
    object.__setattr__(producer.config, "delivery_timeout_ms", 300)
    producer._sender._delivery_timeout = 0.3
    with pytest.raises(DeliveryTimedOut, match="may have been appended") as caught:
        producer.send("t", b"v").result(30)
    assert caught.value.sent
    assert (caught.value.topic, caught.value.partition) == ("t", 0)


def test_no_leader_for_long_expires_what_waits(fake: Any, leader: Leader, make: Any):
    fake.add_topic("t", [-1])
    producer = make(request_timeout_ms=200, delivery_timeout_ms=400)
    with pytest.raises(DeliveryTimedOut, match="has no leader") as caught:
        producer.send("t", b"v", partition=0).result(30)
    assert not caught.value.sent
    assert leader.arrived == []


def test_a_request_that_is_never_answered_is_sent_again_over_a_new_connection(leader: Leader, make: Any):
    leader.script = once("silent")
    producer = make(request_timeout_ms=200)
    assert producer.send("t", b"v").result(30).offset == 0
    assert len({a.connection for a in leader.arrived}) == 2


def test_only_the_partitions_that_failed_are_sent_again(fake: Any, fakes: Any, make: Any):
    leader = Leader(fake, fakes, partitions=4)
    leader.script = once({2: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    producer = make(batch_size=10_000, linger_ms=200)
    for partition in range(4):
        producer.send("t", b"v", partition=partition)
    producer.flush(30)
    assert [sorted(tp.partition for tp in request) for request in leader.requests] == [[0, 1, 2, 3], [2]]


def test_a_leader_that_moved_is_found_and_gets_only_its_own(fake: Any, fakes: Any, make: Any):
    """Broker 1 loses a partition to broker 2 and says so: the metadata is asked again, and 2 gets that partition."""
    other = fakes.start()
    other.node_id = 2
    here, there = Leader(fake, fakes, partitions=2), Leader(other, fakes, partitions=2)
    for broker in (fake, other):
        broker.brokers = [(1, fake.host, fake.port), (2, other.host, other.port)]

    def moved(_: Any) -> Any:
        for broker in (fake, other):
            broker.add_topic("t", [1, 2], epoch=1)
        here.script = lambda _: None
        return {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}

    here.script = moved
    producer = make(batch_size=10_000, linger_ms=200)
    deliveries = [producer.send("t", b"v", partition=partition) for partition in (0, 1)]
    producer.flush(30)
    assert [d.exception() for d in deliveries] == [None, None]
    assert [[tp.partition for tp in r] for r in here.requests] in ([[0, 1]], [[1, 0]])
    assert [[tp.partition for tp in r] for r in there.requests] == [[1]]


# -- what is sent together, and when


def test_one_request_a_broker_carries_many_partitions(fake: Any, fakes: Any, make: Any):
    leader = Leader(fake, fakes, partitions=20)
    producer = make(batch_size=10_000, linger_ms=300)
    for partition in range(20):
        producer.send_all("t", numbered(5), partition=partition)
    producer.flush(30)
    assert [sorted(tp.partition for tp in request) for request in leader.requests] == [list(range(20))]


def test_a_request_stays_below_the_size_asked_for_and_no_partition_starves(fake: Any, fakes: Any, make: Any):
    leader = Leader(fake, fakes, partitions=6)
    producer = make(batch_size=10_000, linger_ms=100, max_request_size=3000)
    for partition in range(6):
        producer.send("t", b"x" * 1200, partition=partition)
    producer.flush(30)
    assert [len(request) for request in leader.requests] == [2, 2, 2]
    assert len({tp for request in leader.requests for tp in request}) == 6


def test_lingering_collects_what_comes_meanwhile(leader: Leader, make: Any):
    producer = make(batch_size=100_000, linger_ms=300)
    began = time.monotonic()
    deliveries = producer.send_all("t", numbered(5))
    time.sleep(0.1)
    deliveries += producer.send_all("t", numbered(5, 5))
    deliveries[-1].result(30)
    assert time.monotonic() - began >= 0.29
    assert [len(a.values) for a in leader.arrived] == [10]


def test_a_full_batch_a_flush_and_a_close_do_not_linger(leader: Leader, make: Any):
    producer = make(batch_size=1000, linger_ms=600_000, delivery_timeout_ms=1_000_000)
    full = producer.send_all("t", [Record(None, b"x" * 500, (), 1)] * 3)
    assert [d.result(30).offset for d in full[:1]] == [0]
    producer.flush(30)
    producer.send("t", b"last")
    producer.close()
    assert leader.log == [b"x" * 500] * 3 + [b"last"]


def test_no_more_than_five_requests_are_under_way(leader: Leader, make: Any):
    leader.pause = 0.01
    most = 0

    def count(_: Any) -> None:
        nonlocal most
        most = max(most, *(len(link.under_way) for link in producer._sender._links.values()), 0)

    leader.script = count
    producer = make(max_in_flight_requests_per_connection=5)
    producer.send_all("t", numbered(60))
    producer.flush(30)
    assert 2 <= most <= 5
    assert leader.log == values(60)


def test_a_full_buffer_holds_senders_up_and_then_gives_up(leader: Leader, make: Any):
    leader.script = once("silent")
    producer = make(buffer_memory=1000, max_block_ms=300, request_timeout_ms=5000)
    producer.send("t", b"x" * 500)
    began = time.monotonic()
    with pytest.raises(BufferExhausted, match=r"buffer\.memory"):
        producer.send("t", b"x" * 500)
    assert 0.29 <= time.monotonic() - began < 5
    with pytest.raises(RecordTooLarge, match=r"buffer\.memory"):
        producer.send("t", b"x" * 2000)


def test_a_record_above_the_request_size_is_refused_before_it_is_sent(leader: Leader, make: Any):
    with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
        make(max_request_size=1000).send("t", b"x" * 1000)
    assert leader.arrived == []


def test_nothing_can_be_sent_after_closing_and_what_waits_fails(leader: Leader, make: Any):
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


def test_flushing_has_a_bound(leader: Leader, make: Any):
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
def test_an_error_is_typed_and_has_its_address(leader: Leader, make: Any, code: ErrorCode, kind: type[KafkaError]):
    leader.script = lambda _: code
    with pytest.raises(kind) as caught:
        make().send("t", b"v").result(30)
    assert (caught.value.code, caught.value.topic, caught.value.partition) == (code, "t", 0)
    assert len(leader.arrived) == 1


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_too_few_replicas_are_waited_for(leader: Leader, make: Any, code: ErrorCode):
    leader.script = once(code, code)
    assert make().send("t", b"v").result(30).offset == 0
    assert len(leader.arrived) == 3
    leader.script = lambda _: code
    with pytest.raises(NotEnoughReplicas):
        make(enable_idempotence="false", retries=1).send("t", b"v").result(30)


def test_a_broker_without_sequences_is_told_before_anything_is_written(fake: Any, leader: Leader, make: Any):
    fake.ranges[ProduceRequest.KEY] = (0, 2)
    error = make().send("t", b"v").exception(30)
    assert isinstance(error, UnsupportedVersion)
    assert "enable.idempotence=false" in str(error)
    assert leader.arrived == []


def test_a_broker_without_zstd_is_told_before_anything_is_written(fake: Any, leader: Leader, make: Any):
    fake.ranges[ProduceRequest.KEY] = (3, 6)
    with pytest.raises(UnsupportedVersion, match="zstd"):
        make(compression_type="zstd").send("t", b"v").result(30)
    assert leader.arrived == []


@pytest.mark.parametrize(("acks", "offset"), [(0, -1), (1, 0)])
def test_a_record_without_an_answer_is_done_when_it_is_written(leader: Leader, make: Any, acks: int, offset: int):
    leader.pause = 6 if acks == 0 else 0.2
    told = make(acks=acks).send("t", b"v").result(5 if acks == 0 else 30)
    assert told.offset == offset


def test_a_throttled_producer_holds_back(leader: Leader, fake: Any, make: Any):
    plain = leader.answer

    def throttle(seen: Any) -> Any:
        answer = plain(seen)
        answer.throttle_time_ms = 300 if len(leader.arrived) == 1 else 0
        return answer

    fake.on(ProduceRequest, throttle)
    producer = make()
    producer.send("t", b"a").result(30)
    began = time.monotonic()
    producer.send("t", b"b").result(30)
    assert time.monotonic() - began >= 0.25


# -- in a transaction


@pytest.fixture
def transactional(fake: Any, leader: Leader, make: Any) -> Callable[..., Any]:
    def start(version: int, **given: Any) -> Any:
        epochs = iter(range(100))
        fake.features = {"transaction.version": version}
        fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=next(epochs)))
        fake.on(AddPartitionsToTxnRequest, lambda _: AddPartitionsToTxnResponse())
        ended = lambda _: EndTxnResponse(producer_id=7, producer_epoch=next(epochs))  # noqa: E731
        fake.on(EndTxnRequest, ended if version == 2 else lambda _: EndTxnResponse())
        producer = make(transactional_id="tx", **given)
        producer.begin()
        return producer

    return start


@pytest.mark.parametrize("version", [1, 2])
def test_partitions_join_a_transaction_once(fake: Any, leader: Leader, transactional: Any, version: int):
    producer = transactional(version)
    for _ in range(3):
        producer.send("t", b"v").result(30)
    producer.commit()
    assert len(fake.requests(AddPartitionsToTxnRequest)) == (1 if version == 1 else 0)
    assert {a.attributes for a in leader.arrived} == {0x10}
    assert {seen.request.transactional_id for seen in fake.requests(ProduceRequest)} == {"tx"}
    assert {seen.version > 11 for seen in fake.requests(ProduceRequest)} == {version == 2}


@pytest.mark.parametrize("version", [1, 2])
def test_after_a_gap_the_next_transaction_has_a_higher_epoch(
    fake: Any, leader: Leader, transactional: Any, version: int
):
    leader.script = once(None, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    producer = transactional(version)
    producer.send("t", b"a").result(30)
    assert isinstance(producer.send("t", b"b").exception(30), SequenceLost)
    with pytest.raises(SequenceLost):
        producer.commit()
    producer.abort()
    assert [seen.request.committed for seen in fake.requests(EndTxnRequest)] == [False]
    inits = fake.requests(InitProducerIdRequest)
    assert [(s.request.producer_id, s.request.producer_epoch) for s in inits] == (
        [(-1, -1), (7, 0)] if version == 1 else [(-1, -1)]
    )
    producer.begin()
    producer.send("t", b"c").result(30)
    producer.commit()
    assert (leader.arrived[-1].epoch, leader.arrived[-1].sequence) == (1, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_sequences_go_on_as_long_as_the_epoch_does(leader: Leader, transactional: Any, version: int):
    producer = transactional(version)
    producer.send("t", b"a").result(30)
    producer.commit()
    producer.begin()
    producer.send("t", b"b").result(30)
    producer.commit()
    assert [(a.epoch, a.sequence) for a in leader.arrived] == [(0, 0), (0, 1) if version == 1 else (1, 0)]


def test_deleted_records_do_not_fail_a_transaction(leader: Leader, transactional: Any):
    """The leader has forgotten the producer with its last record: counting from 0 in the same epoch is right."""
    leader.script = once(None, (ErrorCode.UNKNOWN_PRODUCER_ID, 5))
    producer = transactional(1)
    producer.send("t", b"a").result(30)
    leader.logs[TP].producers.clear()
    producer.send("t", b"b").result(30)
    producer.commit()
    assert [(a.epoch, a.sequence) for a in leader.arrived] == [(0, 0), (0, 1), (0, 0)]


def test_leaving_aborts_what_is_open_after_what_is_under_way(fake: Any, leader: Leader, transactional: Any):
    producer = transactional(2)
    leader.pause = 0.3
    with producer:
        producer.send("t", b"v")
        time.sleep(0.1)
    kinds = [type(seen.request) for seen in fake.seen if isinstance(seen.request, ProduceRequest | EndTxnRequest)]
    assert kinds == [ProduceRequest, EndTxnRequest]
    assert not fake.requests(EndTxnRequest)[0].request.committed
    assert leader.log == [b"v"]


def test_an_abort_drops_what_waits(fake: Any, leader: Leader, transactional: Any):
    producer = transactional(2, linger_ms=60_000, batch_size=100_000)
    waiting = producer.send("t", b"v")
    producer.abort()
    with pytest.raises(BrokerError, match="aborted"):
        waiting.result(0)
    assert leader.arrived == []
    producer.begin()
    producer.send("t", b"next")
    producer.commit()
    assert leader.log == [b"next"]
