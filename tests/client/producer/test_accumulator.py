"""The accumulator by itself: what is true at the moment at which somebody who waits for a batch can go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.client.errors import BrokerError, KafkaError
from kseg.client.producer.accumulator import Accumulator
from kseg.client.producer.batch import ProducerBatch
from kseg.client.producer.config import ProducerConfig
from kseg.client.transactions.producer_identity import TransactionIdentity
from kseg.segment_reader.encode.batches import Record

TP = TopicPartition("t", 0)
ERROR = BrokerError("lost")


def expire(accumulator: Accumulator, batch: ProducerBatch) -> None:
    accumulator.expire(time.monotonic() + 1000, lambda _: ERROR)


def expire_in_flight(accumulator: Accumulator, batch: ProducerBatch) -> None:
    send(accumulator)
    accumulator.expire(time.monotonic() + 1000, lambda _: ERROR)


def refuse(accumulator: Accumulator, batch: ProducerBatch) -> None:
    send(accumulator)
    accumulator.finish(accumulator.queues[TP], batch, ERROR)


def abandon(accumulator: Accumulator, batch: ProducerBatch) -> None:
    accumulator.abandon(ERROR)


def close(accumulator: Accumulator, batch: ProducerBatch) -> None:
    send(accumulator)
    accumulator.abandon(ERROR, also_under_way=True)


def send(accumulator: Accumulator) -> None:
    queue = accumulator.queues[TP]
    [batch] = accumulator.drain([queue], time.monotonic() + 1)
    accumulator.number(queue, batch)


@pytest.mark.parametrize("lose", [expire, expire_in_flight, refuse, abandon, close])
def test_a_lost_record_has_failed_the_transaction_before_anybody_can_wake(
    lose: Callable[[Accumulator, ProducerBatch], None], monkeypatch: Any
):
    """Whoever waits for the batch may commit as soon as the event is set."""
    accumulator = Accumulator(ProducerConfig.from_properties({"bootstrap.servers": "h:1"}), lambda: None)
    accumulator.set_identity(TransactionIdentity("tx", 7, 0))
    delivery = accumulator.append(TP, Record(None, b"v", (), 1), 30)
    [batch] = accumulator.queues[TP].batches
    noted: list[KafkaError | None] = []
    wake = batch.finished.set
    monkeypatch.setattr(batch.finished, "set", lambda: (noted.append(accumulator.failure), wake()))
    lose(accumulator, batch)
    assert noted == [ERROR]
    assert delivery.exception(0) is ERROR
    assert accumulator.sequences_open == (lose in (expire_in_flight, refuse, close))


def test_without_a_transaction_a_lost_record_fails_alone():
    accumulator = Accumulator(ProducerConfig.from_properties({"bootstrap.servers": "h:1"}), lambda: None)
    accumulator.append(TP, Record(None, b"v", (), 1), 30)
    accumulator.abandon(ERROR)
    assert accumulator.failure is None
    accumulator.append(TP, Record(None, b"next", (), 1), 30)
