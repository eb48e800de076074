"""What the delivery of an encoded batch says after the producer has split the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.client.errors import AuthorizationFailed, DeliveryTimedOut, KafkaError, RecordTooLarge
from kseg.client.producer.batch import BatchDelivery, DeliveredBatch, ProducerBatch
from kseg.client.protocol.error_codes import ErrorCode
from kseg.segment_reader.encode.batches import Record
from kseg.segment_reader.encode.bodies import encode_body

TP = TopicPartition("t", 0)


def rejecting_above(largest: int, then: Any = None, *, after: bytes | None = None) -> Callable[[list[Any]], Any]:
    """A script for the leader: batches of more records are too large. Once it has seen `after`: `then`."""
    seen: list[bytes | None] = []

    def script(batches: list[Any]) -> Any:
        [batch] = batches
        if len(batch.values) > largest:
            return ErrorCode.MESSAGE_TOO_LARGE
        reached = after is not None and after in seen
        seen.extend(batch.values)
        return then if reached else None

    return script


@pytest.mark.parametrize(("then", "kind"), [
    (ErrorCode.MESSAGE_TOO_LARGE, RecordTooLarge),
    (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed),
    (ErrorCode.NOT_ENOUGH_REPLICAS, DeliveryTimedOut),
])  # fmt: skip
def test_a_split_batch_is_not_delivered_if_its_last_part_fails(
    leader: Any, make: Any, numbered: Any, values: Any, then: ErrorCode, kind: type[KafkaError]
):
    leader.script = rejecting_above(1, then, after=b"00002")
    delivery = make(delivery_timeout_ms=3000, request_timeout_ms=1000).send_body(TP, encode_body(numbered(4)))
    with pytest.raises(kind) as caught:
        delivery.result(30)
    assert leader.log == values(3)
    assert caught.value.sent
    assert "other records of its batch may have been appended" in str(caught.value)


def test_a_split_batch_of_which_nothing_was_appended_says_so(leader: Any, make: Any, numbered: Any):
    leader.script = rejecting_above(0)
    error = make().send_body(TP, encode_body(numbered(4))).exception(30)
    assert isinstance(error, RecordTooLarge)
    assert not error.sent
    assert "may have been appended" not in str(error)


def test_a_split_batch_ends_at_its_last_record_although_others_wrote_in_between(
    leader: Any, make: Any, numbered: Any, values: Any
):
    split = rejecting_above(2)

    def script(batches: list[Any]) -> Any:
        if batches[0].values[0] == b"00003":
            leader.log.append(b"another producer's")
        return split(batches)

    leader.script = script
    delivery = make().send_body(TP, encode_body(numbered(5)))
    assert delivery.result(30) == DeliveredBatch("t", 0, 0, 5, -1)
    assert delivery.done()
    assert leader.log == [*values(3), b"another producer's", b"00003", b"00004"]


def test_a_split_batch_is_done_only_with_its_last_part():
    batch = ProducerBatch(TP, 0.0, encode_body([Record(None, b"a", (), 1), Record(None, b"b", (), 1)]))
    delivery = BatchDelivery(batch)
    first, second = batch.split()
    first.succeed(7, -1)
    assert not delivery.done()
    with pytest.raises(TimeoutError):
        delivery.result(0)
    second.succeed(8, -1)
    assert delivery.done()
    assert delivery.result(0) == DeliveredBatch("t", 0, 7, 8, -1)
