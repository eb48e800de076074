"""Batches that are encoded already, read back by confluent-kafka."""

from __future__ import annotations

from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.client.errors import OutcomeUnknown, RecordTooLarge
from kseg.client.producer import Produced, produce
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import ProduceRequest
from kseg.segment_reader.encode.batches import Record, encode_batch

TP = TopicPartition("t", 0)


def test_ready_batches_are_appended_as_they_are(cluster: Any, kafka: Any, read_back: Any):
    tp = TopicPartition(kafka.topic(), 0)
    batch = encode_batch([Record(value=b"a"), Record(value=b"b")], compression="zstd")
    assert produce(cluster, {tp: batch}) == {tp: Produced(0, -1)}
    assert [m.value() for m in read_back(kafka.bootstrap_servers, *tp)] == [b"a", b"b"]


def test_what_the_broker_refuses_names_the_partition(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(config={"max.message.bytes": "1000"}), 0)
    with pytest.raises(RecordTooLarge) as caught:
        produce(cluster, {tp: encode_batch([Record(value=b"v" * 2000)])})
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert (caught.value.topic, caught.value.partition) == tp


# -- scripted


def test_a_batch_that_the_leader_has_already_counts_as_appended(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.on(ProduceRequest, fakes.answers.produce(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
    batch = encode_batch([Record(value=b"v")], producer_id=5, producer_epoch=0, base_sequence=3)
    assert list(produce(connect(fake.bootstrap_servers), {TP: batch})) == [TP]
    [seen] = fake.requests(ProduceRequest)
    assert (seen.version, seen.request.acks, seen.request.transactional_id) == (13, -1, None)


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
@pytest.mark.parametrize("ids", [{}, {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}])
def test_a_batch_that_the_leader_has_and_its_replicas_have_not_is_sent_again_only_with_a_producer_id(
    fake: Any, fakes: Any, connect: Any, code: ErrorCode, ids: dict[str, int]
):
    fake.add_topic("t", [1])
    fake.on(ProduceRequest, fakes.answers.produce(code), fakes.answers.produce())
    cluster, batch = connect(fake.bootstrap_servers, retry_backoff_ms=1), encode_batch([Record(value=b"v")], **ids)
    if ids:
        assert produce(cluster, {TP: batch}) == {TP: Produced(7, -1)}
        return
    with pytest.raises(OutcomeUnknown, match=code.name) as caught:
        produce(cluster, {TP: batch})
    assert (caught.value.topic, caught.value.partition, len(fake.requests(ProduceRequest))) == ("t", 0, 1)
