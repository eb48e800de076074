"""What a response, or none, says about a record: whether it may be in the log."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.client.errors import KafkaError, ProtocolFault
from kseg.client.producer.accumulator import Accumulator
from kseg.client.producer.config import ProducerConfig
from kseg.client.producer.outcomes import may_be_appended
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import ProduceRequest
from kseg.client.wire.broker import BrokerConnection
from kseg.segment_reader.encode.batches import Record

TP = TopicPartition("t", 0)


@pytest.mark.parametrize(("code", "may_be"), [
    (ErrorCode.NONE, True),
    (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, True),
    (ErrorCode.UNKNOWN_SERVER_ERROR, True),
    (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True),
    (ErrorCode.NOT_ENOUGH_REPLICAS, False),
    (ErrorCode.INVALID_RECORD, False),
    (999, True),
])  # fmt: skip
def test_a_code_says_whether_the_batch_may_be_in_the_log(code: int, may_be: bool):
    assert may_be_appended(int(code)) == may_be


@pytest.mark.parametrize("doubts", [0, 1])
@pytest.mark.parametrize("sent", [False, True])
def test_an_error_says_of_each_record_whether_that_one_was_written(doubts: int, sent: bool):
    """The error may be one of another request, or shared by batches that were written and others that were not."""
    accumulator = Accumulator(ProducerConfig.from_properties({"bootstrap.servers": "h:1"}), lambda: None)
    delivery = accumulator.append(TP, Record(None, b"v", (), 1), 30)
    [batch] = accumulator.drain([accumulator.queues[TP]], time.monotonic() + 1)
    batch.doubts = doubts
    error = ProtocolFault("not a response")
    error.sent = sent
    accumulator.finish(accumulator.queues[TP], batch, error)
    found = delivery.exception(0)
    assert isinstance(found, ProtocolFault)
    assert found.sent == bool(doubts)
    assert error.sent == sent
    assert ("may have been appended" in str(found)) == (bool(doubts) and not sent)


def test_metadata_that_cannot_be_read_fail_no_record(leader: Any, make: Any, monkeypatch: Any):
    producer = make()
    cluster = producer._sender._cluster
    ask = cluster.metadata_now

    def garbled(*_: Any) -> None:
        monkeypatch.setattr(cluster, "metadata_now", ask)
        error = ProtocolFault("not a response")
        error.sent = True
        raise error

    monkeypatch.setattr(cluster, "metadata_now", garbled)
    assert producer.send("t", b"v").result(30).offset == 0


def test_a_record_may_be_in_the_log_if_the_thread_ends_right_after_writing_it(leader: Any, make: Any, monkeypatch: Any):
    producer = make()
    send = BrokerConnection.send

    def bug(self: BrokerConnection, request: Any, *given: Any, **named: Any) -> None:
        send(self, request, *given, **named)
        if isinstance(request, ProduceRequest):
            raise ZeroDivisionError

    monkeypatch.setattr(BrokerConnection, "send", bug)
    error = producer.send("t", b"v").exception(30)
    assert isinstance(error, KafkaError)
    assert error.sent
