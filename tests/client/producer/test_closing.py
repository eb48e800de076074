"""What can be done with a producer that is closed, and what closing leaves behind."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.client import CommittedOffset, TopicPartition
from kseg.client.admin.transactions import describe_transactions
from kseg.client.errors import Fenced, RequestTimedOut
from kseg.client.producer import KafkaProducer, ProducerClosed
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from kseg.client.protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
)
from kseg.segment_reader.encode.batches import Record
from kseg.segment_reader.encode.bodies import encode_body

TP = TopicPartition("t", 0)
CALLS: dict[str, Callable[[KafkaProducer], object]] = {
    "send": lambda producer: producer.send("t", b"v"),
    "send to a new topic": lambda producer: producer.send("u", b"v"),
    "send_body": lambda producer: producer.send_body(TP, encode_body([Record(None, b"v", (), 1)])),
    "partitions": lambda producer: producer.partitions("t"),
    "begin": lambda producer: producer.begin(),
    "commit": lambda producer: producer.commit(),
    "abort": lambda producer: producer.abort(),
    "commit_offsets": lambda producer: producer.commit_offsets("g", {TP: CommittedOffset(1)}),
}


def begun(fake: Any, make: Any, version: int, **given: Any) -> KafkaProducer:
    """A producer in a transaction, by the protocol of that `transaction.version`."""
    fake.features = {"transaction.version": version}
    fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=0))
    fake.on(EndTxnRequest, lambda _: EndTxnResponse(producer_id=7, producer_epoch=1 if version == 2 else -1))
    producer: KafkaProducer = make(transactional_id="tx", **given)
    producer.begin()
    return producer


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("used", [False, True])
def test_a_closed_producer_says_so_and_connects_no_more(fake: Any, leader: Any, make: Any, call: str, used: bool):
    fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=0))
    producer = make(transactional_id="tx")
    if used:
        producer.begin()
        producer.partitions("t")
        producer.abort()
    producer.close()
    connections = fake.connections
    with pytest.raises(ProducerClosed, match="closed") as caught:
        CALLS[call](producer)
    assert type(pickle.loads(pickle.dumps(caught.value))) is ProducerClosed
    assert fake.connections == connections


def test_after_closing_nothing_is_written_to_other_files(leader: Any, make: Any, tmp_path: Path):
    """The numbers of a producer's descriptors are those of the files that are opened next."""
    producer = make(transactional_id="tx")
    delivery = make().send("t", b"v")
    delivery.result(30)
    producer.close()
    paths = [tmp_path / str(number) for number in range(20)]
    files = [path.open("wb") for path in paths]
    producer.flush()
    for call in (producer.commit, producer.abort):
        with pytest.raises(ProducerClosed):
            call()
    producer.close()
    for file in files:
        file.close()
    assert {path.read_bytes() for path in paths} == {b""}


def test_a_producer_that_is_closed_during_its_first_send_starts_no_thread(fake: Any, leader: Any, make: Any):
    asked, closed = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def init(_: Any) -> InitProducerIdResponse:
        asked.set()
        closed.wait(120)
        return InitProducerIdResponse(producer_id=7, producer_epoch=0)

    fake.on(InitProducerIdRequest, init)
    producer = make()

    def send() -> None:
        try:
            producer.send("t", b"v")
        except BaseException as error:
            errors.append(error)

    sending, closing = threading.Thread(target=send), threading.Thread(target=producer.close)
    sending.start()
    assert asked.wait(120)
    closing.start()
    while not producer._closed:
        time.sleep(0.01)
    closed.set()
    for thread in (sending, closing):
        thread.join(120)
        assert not thread.is_alive()
    assert [type(error) for error in errors] == [ProducerClosed]
    assert producer._sender._thread.ident is None


def test_an_interrupt_while_closing_ends_the_thread_all_the_same(leader: Any, make: Any, monkeypatch: Any):
    leader.script = lambda _: "silent"
    producer = make()
    delivery = producer.send("t", b"v")

    def interrupted(*_: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(producer._accumulator, "flush", interrupted)
    with pytest.raises(KeyboardInterrupt):
        producer.close()
    assert not producer._sender._thread.is_alive()
    assert delivery.done()


@pytest.mark.parametrize("where", ["the lock", "the I/O thread"])
def test_no_delivery_is_open_after_an_interrupt_wherever_it_comes(leader: Any, make: Any, where: str, monkeypatch: Any):
    class Interrupted:
        def __init__(self, lock: Any) -> None:
            self.lock, self.left = lock, 1

        def __enter__(self) -> None:
            if self.left:
                self.left = 0
                raise KeyboardInterrupt
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()

    def interrupted() -> None:
        raise KeyboardInterrupt

    leader.script = lambda _: "silent"
    producer = make()
    delivery = producer.send("t", b"v")
    stop = producer._sender.stop
    if where == "the lock":
        producer._lock = Interrupted(producer._lock)
    else:
        monkeypatch.setattr(producer._sender, "stop", interrupted)
    with pytest.raises(KeyboardInterrupt):
        producer.close(0.1)
    assert delivery.done()
    if where == "the lock":
        assert not producer._sender._thread.is_alive()
    stop()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("within", ["close", "with"])
def test_a_transaction_is_not_aborted_before_a_batch_that_may_still_be_appended(
    fake: Any, leader: Any, make: Any, version: int, within: str, monkeypatch: Any
):
    """The epoch of the first protocol stays the same: a leader would append the batch after the abort's marker."""
    monkeypatch.setattr("kseg.client.producer.kafka_producer._CLEAN_UP_SECONDS", 1.0)
    producer = begun(fake, make, version)
    leader.script = lambda _: "silent"
    producer.send("t", b"v")
    wait_until(lambda: leader.arrived)

    def leave() -> None:
        with producer:
            raise ZeroDivisionError

    if within == "close":
        producer.close(3)
    else:
        with pytest.raises(ZeroDivisionError):
            leave()
    assert [seen.request.committed for seen in fake.requests(EndTxnRequest)] == ([] if version == 1 else [False])


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_closing_does_not_raise_the_fence_that_a_record_has_shown(fake: Any, leader: Any, make: Any, code: ErrorCode):
    producer = begun(fake, make, 1)
    leader.script = lambda _: code
    assert isinstance(producer.send("t", b"v").exception(30), Fenced)
    fake.on(EndTxnRequest, lambda _: EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))
    producer.close()
    assert len(fake.requests(EndTxnRequest)) == (0 if code == ErrorCode.PRODUCER_FENCED else 1)


def test_closing_raises_a_fence_that_nothing_else_has_shown(fake: Any, leader: Any, make: Any):
    producer = begun(fake, make, 1)
    producer.send("t", b"v").result(30)
    fake.on(EndTxnRequest, lambda _: EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))
    with pytest.raises(Fenced):
        producer.close()
    assert producer._closed


def test_all_that_closing_does_shares_one_timeout(fake: Any, fakes: Any, leader: Any, make: Any):
    producer = begun(fake, make, 2)
    leader.script = lambda _: "silent"
    fake.on(EndTxnRequest, lambda _: fakes.SILENT)
    producer.send("t", b"v")
    wait_until(lambda: leader.arrived)
    began = time.monotonic()
    producer.close(1)
    assert time.monotonic() - began < 5  # the abort alone may take so long


def test_closing_does_not_wait_for_a_thread_that_waits_for_memory(fake: Any, leader: Any, make: Any):
    producer = begun(fake, make, 1, buffer_memory=1000)
    leader.script = lambda _: "silent"
    producer.send("t", b"x" * 800)
    wait_until(lambda: leader.arrived)
    errors: list[BaseException] = []

    def send() -> None:
        try:
            producer.send("t", b"x" * 800)
        except BaseException as error:
            errors.append(error)

    sending = threading.Thread(target=send)
    sending.start()
    wait_until(lambda: producer._accumulator._waiting)
    began = time.monotonic()
    producer.close(0.5)
    assert time.monotonic() - began < 30  # max.block.ms is a minute
    sending.join(120)
    assert [type(error) for error in errors] == [ProducerClosed]


@pytest.mark.parametrize("end", [None, 30.0, 0.0])
def test_closing_aborts_an_open_transaction_unless_it_must_not_wait(
    kafka: Any, cluster: Any, producing: Any, read_back: Any, await_markers: Any, end: float | None
):
    """Left open, it would hide later records from readers until it times out."""
    topic = kafka.topic()
    producer = producing(kafka.bootstrap_servers, transactional_id=topic, linger_ms=0)
    producer.begin()
    producer.send(topic, b"v").result(60)
    producer.close(end)

    def state() -> str:
        return str(describe_transactions(cluster, [topic]).or_raise()[topic].state)

    if end == 0:
        assert state() == "Ongoing"
        return
    assert state() in ("PrepareAbort", "CompleteAbort")
    await_markers(kafka.bootstrap_servers, topic)
    assert state() == "CompleteAbort"
    assert read_back(kafka.bootstrap_servers, topic) == []


def test_a_failed_abort_at_the_end_is_raised_after_everything_is_closed(
    fake: Any, leader: Any, make: Any, monkeypatch: Any
):
    fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=0))
    producer = make(transactional_id="tx")
    producer.begin()

    def late(*_: Any, **__: Any) -> None:
        raise RequestTimedOut("late")

    monkeypatch.setattr(type(producer._transaction), "leave", late)
    with pytest.raises(RequestTimedOut):
        producer.close()
    with pytest.raises(ProducerClosed):
        producer.begin()
