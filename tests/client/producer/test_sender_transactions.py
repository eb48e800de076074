"""The sender in a transaction, against a scripted leader and coordinator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.client.errors import (
    BrokerError,
    DeliveryTimedOut,
    Fenced,
    KafkaError,
    RecordTooLarge,
    RequestTimedOut,
    SequenceLost,
)
from kseg.client.producer.accumulator import Accumulator
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import InitProducerIdRequest, InitProducerIdResponse, ProduceRequest
from kseg.client.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    EndTxnResponse,
)
from kseg.client.transactions.states import IllegalStep, TransactionState

TP = TopicPartition("t", 0)


@pytest.fixture
def transactional(fake: Any, leader: Any, make: Any) -> Callable[..., Any]:
    def start(version: int, **given: Any) -> Any:
        epochs = iter(range(100))
        fake.features = {"transaction.version": version}
        fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=next(epochs)))
        ended = lambda _: EndTxnResponse(producer_id=7, producer_epoch=next(epochs))  # noqa: E731
        fake.on(EndTxnRequest, ended if version == 2 else lambda _: EndTxnResponse())
        producer = make(transactional_id="tx", **given)
        producer.begin()
        return producer

    return start


@pytest.mark.rule(239)
@pytest.mark.parametrize("version", [1, 2])
def test_partitions_join_a_transaction_once(fake: Any, leader: Any, transactional: Any, version: int):
    producer = transactional(version)
    for _ in range(3):
        producer.send("t", b"v").result(30)
    producer.commit()
    assert len(fake.requests(AddPartitionsToTxnRequest)) == (1 if version == 1 else 0)
    assert {a.attributes for a in leader.arrived} == {0x10}
    assert {seen.request.transactional_id for seen in fake.requests(ProduceRequest)} == {"tx"}
    assert {seen.version > 11 for seen in fake.requests(ProduceRequest)} == {version == 2}


@pytest.mark.parametrize("version", [1, 2])
def test_after_a_gap_the_next_transaction_has_a_higher_epoch(fake: Any, leader: Any, transactional: Any, version: int):
    leader.once(None, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
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
def test_sequences_go_on_as_long_as_the_epoch_does(leader: Any, transactional: Any, version: int):
    producer = transactional(version)
    producer.send("t", b"a").result(30)
    producer.commit()
    producer.begin()
    producer.send("t", b"b").result(30)
    producer.commit()
    assert [(a.epoch, a.sequence) for a in leader.arrived] == [(0, 0), (0, 1) if version == 1 else (1, 0)]


def test_deleted_records_do_not_fail_a_transaction(leader: Any, transactional: Any):
    """The leader has forgotten the producer with its last record: counting from 0 in the same epoch is right."""
    leader.once(None, (ErrorCode.UNKNOWN_PRODUCER_ID, 5))
    producer = transactional(1)
    producer.send("t", b"a").result(30)
    leader.logs[TP].producers.clear()
    producer.send("t", b"b").result(30)
    producer.commit()
    assert [(a.epoch, a.sequence) for a in leader.arrived] == [(0, 0), (0, 1), (0, 0)]


def test_leaving_aborts_what_is_open_after_what_is_under_way(fake: Any, leader: Any, transactional: Any):
    producer = transactional(2)
    leader.pause = 0.3
    with producer:
        producer.send("t", b"v")
        until = time.monotonic() + 120
        while not fake.requests(ProduceRequest) and time.monotonic() < until:
            time.sleep(0.01)
    kinds = [type(seen.request) for seen in fake.seen if isinstance(seen.request, ProduceRequest | EndTxnRequest)]
    assert kinds == [ProduceRequest, EndTxnRequest]
    assert not fake.requests(EndTxnRequest)[0].request.committed
    assert leader.log == [b"v"]


def test_an_abort_drops_what_waits(fake: Any, leader: Any, transactional: Any):
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


@pytest.mark.parametrize("version", [1, 2])
def test_a_record_that_expires_while_a_commit_waits_for_it_fails_the_commit(
    fake: Any, leader: Any, transactional: Any, version: int, monkeypatch: Any
):
    """Nothing that the I/O thread does after the record has failed may be needed for it: here it does no more."""
    producer = transactional(version, delivery_timeout_ms=150, request_timeout_ms=100)
    leader.script = lambda _: "silent"
    expire = Accumulator.expire

    def expire_and_stall(self: Accumulator, now: float, error: Any) -> None:
        before = self.failure
        expire(self, now, error)
        if self.failure is not before:
            time.sleep(0.5)

    monkeypatch.setattr(Accumulator, "expire", expire_and_stall)
    lost = producer.send("t", b"v")
    with pytest.raises(DeliveryTimedOut):
        producer.commit()
    assert isinstance(lost.exception(0), DeliveryTimedOut)
    assert not fake.requests(EndTxnRequest)
    producer.abort()
    assert [seen.request.committed for seen in fake.requests(EndTxnRequest)] == [False]


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_after_a_record_that_was_given_up_has_all_of_its_own(
    fake: Any, leader: Any, transactional: Any, version: int
):
    """The lost answer was to a batch that is in the log. The next transaction's first record is another one."""
    producer = transactional(version, delivery_timeout_ms=300, request_timeout_ms=200)
    leader.script = lambda _: "lost after"
    with pytest.raises(DeliveryTimedOut):
        producer.send("t", b"first").result(30)
    leader.script = lambda _: None
    producer.abort()
    producer.begin()
    assert producer.send("t", b"second").result(30).offset == 1
    producer.commit()
    assert leader.log == [b"first", b"second"]


@pytest.mark.parametrize("version", [1, 2])
def test_beginning_after_a_commit_without_a_response_repeats_the_commit(
    fake: Any, fakes: Any, leader: Any, transactional: Any, version: int
):
    """The other way out, InitProducerId, would abort it, or not: the caller could not know whether to send it again."""
    del fake.ranges[DescribeTransactionsRequest.KEY]
    producer = transactional(version, default_api_timeout_ms=300, request_timeout_ms=100)
    producer.send("t", b"first").result(30)
    fake.on(EndTxnRequest, lambda _: fakes.SILENT)
    for end in (producer.commit, producer.commit, producer.begin):
        with pytest.raises(RequestTimedOut):
            end()
    fake.on(EndTxnRequest, lambda _: EndTxnResponse(producer_id=7, producer_epoch=1 if version == 2 else -1))
    producer.begin()
    producer.send("t", b"second")
    producer.commit()
    assert leader.log == [b"first", b"second"]
    assert {seen.request.committed for seen in fake.requests(EndTxnRequest)} == {True}
    assert len(fake.requests(InitProducerIdRequest)) == 1


def test_an_epoch_that_an_abort_could_not_get_is_requested_by_the_next_begin(
    fake: Any, fakes: Any, leader: Any, transactional: Any
):
    """It names the present epoch, so that it does not fence a producer that has taken over meanwhile (KIP-360)."""
    leader.once(None, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    producer = transactional(1, default_api_timeout_ms=300, request_timeout_ms=100)
    producer.send("t", b"a").result(30)
    assert isinstance(producer.send("t", b"b").exception(30), SequenceLost)
    fake.on(InitProducerIdRequest, lambda _: fakes.SILENT)
    with pytest.raises(RequestTimedOut):
        producer.abort()
    producer.abort()  # it is aborted: only the epoch is missing
    with pytest.raises(RequestTimedOut):
        producer.begin()
    fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=1))
    producer.begin()
    producer.send("t", b"c").result(30)
    producer.commit()
    assert [seen.request.committed for seen in fake.requests(EndTxnRequest)] == [False, True]
    asked = [(seen.request.producer_id, seen.request.producer_epoch) for seen in fake.requests(InitProducerIdRequest)]
    assert asked[0] == (-1, -1)
    assert set(asked[1:]) == {(7, 0)}
    assert (leader.arrived[-1].epoch, leader.arrived[-1].sequence) == (1, 0)


def test_leaving_does_not_wait_long_for_an_epoch_that_nobody_uses(
    fake: Any, fakes: Any, leader: Any, transactional: Any
):
    leader.once(None, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    producer = transactional(1)
    producer.send("t", b"a").result(30)
    assert isinstance(producer.send("t", b"b").exception(30), SequenceLost)
    fake.on(InitProducerIdRequest, lambda _: fakes.SILENT)
    began = time.monotonic()
    with pytest.raises(SequenceLost), producer:
        producer.commit()
    assert time.monotonic() - began < 25  # any other request may take a minute
    assert [seen.request.committed for seen in fake.requests(EndTxnRequest)] == [False]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_record_that_another_thread_sends_is_not_written_after_the_end(
    fake: Any, leader: Any, transactional: Any, version: int, end: str, monkeypatch: Any
):
    """After EndTxn, a first record would open a transaction that nobody ends."""
    producer = transactional(version)
    producer.send("t", b"first").result(30)
    appending, go_on = threading.Event(), threading.Event()
    append = producer._accumulator.append

    def slow(*given: Any) -> Any:
        appending.set()
        go_on.wait(120)
        return append(*given)

    monkeypatch.setattr(producer._accumulator, "append", slow)
    deliveries: list[Any] = []
    sending = threading.Thread(target=lambda: deliveries.append(producer.send("t", b"second")))
    sending.start()
    assert appending.wait(120)
    timer = threading.Timer(0.5, go_on.set)
    timer.start()
    getattr(producer, end)()
    for thread in (sending, timer):
        thread.join(120)
        assert not thread.is_alive()
    producer.flush(30)
    assert deliveries[0].done()
    kinds = [type(seen.request) for seen in fake.seen if isinstance(seen.request, ProduceRequest | EndTxnRequest)]
    assert kinds[-1] is EndTxnRequest
    assert leader.log[:1] == [b"first"]
    assert end == "abort" or leader.log == [b"first", b"second"]


def test_a_response_to_a_record_that_was_given_up_changes_nothing_in_the_next_transaction(
    fake: Any, leader: Any, transactional: Any
):
    """The leader has forgotten the producer: for a present batch this means to count from 0 again. In the next
    transaction that would repeat a sequence number, and a record would be taken for a duplicate and dropped."""
    producer = transactional(1, request_timeout_ms=100_000, delivery_timeout_ms=100_000)
    arrived, go_on = threading.Event(), threading.Event()

    def late(_: Any) -> Any:
        arrived.set()
        go_on.wait(120)
        return (ErrorCode.UNKNOWN_PRODUCER_ID, 0)

    leader.script = late
    given_up = producer.send("t", b"given up")
    assert arrived.wait(120)
    object.__setattr__(producer.config, "delivery_timeout_ms", 1)
    producer._waiter.wake()
    assert isinstance(given_up.exception(30), DeliveryTimedOut)
    object.__setattr__(producer.config, "delivery_timeout_ms", 100_000)
    producer.abort()
    producer.begin()
    leader.script = lambda _: None
    first = producer.send("t", b"first")
    until = time.monotonic() + 120
    while producer._accumulator.queues[TP].sequences is None:  # until it is sent, behind the one that was given up
        assert time.monotonic() < until
        time.sleep(0.01)
    go_on.set()
    first.result(30)
    for value in (b"second", b"third"):
        producer.send("t", value).result(30)
    producer.commit()
    assert leader.log == [b"first", b"second", b"third"]


def test_a_producer_whose_thread_has_failed_accepts_no_record_in_later_transactions_either(
    leader: Any, transactional: Any, monkeypatch: Any
):
    """Nobody would send it: flush and commit would wait for ever."""
    producer = transactional(2)

    def bug(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(producer._sender, "_receive", bug)
    with pytest.raises(KafkaError, match="I/O thread"):
        producer.send("t", b"v").result(30)
    producer.abort()
    assert producer._transaction.state is TransactionState.READY
    producer.begin()
    with pytest.raises(KafkaError, match="I/O thread"):
        producer.send("t", b"v")
    producer.flush(30)
    producer.abort()


def test_an_abort_may_be_repeated(leader: Any, transactional: Any):
    """As by an error handler around one that has aborted already."""
    producer = transactional(2)
    leader.once(ErrorCode.INVALID_RECORD)
    assert producer.send("t", b"v").exception(30) is not None
    for _ in range(2):
        producer.abort()


def test_what_has_failed_a_transaction_does_not_matter_after_its_end(fake: Any, leader: Any, transactional: Any):
    """Another new epoch would be needless, and brokers before 2.5 cannot give any."""
    leader.once(None, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    producer = transactional(1)
    producer.send("t", b"a").result(30)
    assert isinstance(producer.send("t", b"b").exception(30), SequenceLost)
    for _ in range(2):
        producer.abort()
    with pytest.raises(IllegalStep, match=r"call begin\(\) first"):
        producer.commit()
    producer.begin()
    producer.send("t", b"c").result(30)
    producer.abort()
    assert len(fake.requests(InitProducerIdRequest)) == 2


def test_an_interrupt_after_the_first_record_does_not_hide_it_from_the_commit(
    fake: Any, leader: Any, transactional: Any, monkeypatch: Any
):
    """Without an EndTxn the transaction would stay open, although `commit` returned."""
    producer = transactional(2)
    append = producer._accumulator.append

    def interrupted(*given: Any) -> None:
        append(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(producer._accumulator, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        producer.send("t", b"v")
    producer.commit()
    assert leader.log == [b"v"]
    assert [seen.request.committed for seen in fake.requests(EndTxnRequest)] == [True]


@pytest.mark.parametrize("version", [1, 2])
def test_a_record_that_is_not_accepted_is_no_part_of_a_transaction_of_the_second_protocol(
    fake: Any, leader: Any, transactional: Any, version: int
):
    """The coordinator has never heard of that one, and would reject its end."""
    producer = transactional(version, buffer_memory=1000)
    with pytest.raises(RecordTooLarge):
        producer.send("t", b"x" * 2000)
    producer.commit()
    assert len(fake.requests(EndTxnRequest)) == (1 if version == 1 else 0)


def test_an_abort_that_is_not_possible_any_more_says_why(fake: Any, leader: Any, transactional: Any):
    producer = transactional(2)
    producer.send("t", b"v").result(30)
    fake.on(EndTxnRequest, lambda _: EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))
    for end in (producer.commit, producer.abort):
        with pytest.raises(Fenced):
            end()
