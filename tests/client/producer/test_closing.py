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
from kseg.client.errors import RequestTimedOut
from kseg.client.producer import KafkaProducer, ProducerClosed
from kseg.client.protocol.messages.produce import InitProducerIdRequest, InitProducerIdResponse
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

    def late(*_: Any) -> None:
        raise RequestTimedOut("late")

    monkeypatch.setattr(type(producer._transaction), "__exit__", late)
    with pytest.raises(RequestTimedOut):
        producer.close()
    with pytest.raises(ProducerClosed):
        producer.begin()
