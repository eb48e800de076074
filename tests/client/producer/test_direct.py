"""Producing, read back by confluent-kafka."""

from __future__ import annotations

import time
import uuid
from typing import Any

import confluent_kafka
import pytest

from kseg.client import CommittedOffset, Fenced, KafkaError, TopicPartition, committed_offsets
from kseg.client.producer import Produced, Producer, produce
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from kseg.segment_reader.encode.batches import Record, encode_batch


def read_back(kafka: Any, tp: TopicPartition, count: int, isolation: str = "read_committed") -> list[Any]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": str(uuid.uuid4()),
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(tp.topic, tp.partition, 0)])
    messages = []
    until = time.monotonic() + 120
    while time.monotonic() < until:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            if len(messages) >= count:
                break
            continue
        messages.append(message)
    consumer.close()
    return messages


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_idempotent_batches_are_read_back(cluster: Any, kafka: Any, compression: str):
    tp = TopicPartition(kafka.topic(), 0)
    now = int(time.time() * 1000)
    records = [
        Record(key=None, value=b"no key", timestamp=now),
        Record(key=b"k", value=None, headers=[("h", b"1"), ("h", None)], timestamp=now + 1),
        Record(key=b"", value=b"x" * 10_000, timestamp=now + 2),
    ]
    producer = Producer(cluster, compression=compression)
    assert producer.send({tp: records}) == {tp: Produced(0, -1)}
    assert producer.send({tp: records}) == {tp: Produced(3, -1)}
    messages = read_back(kafka, tp, 6)
    assert [m.offset() for m in messages] == list(range(6))
    assert [(m.key(), m.value(), m.timestamp()[1]) for m in messages[:3]] == [
        (r.key, r.value, r.timestamp) for r in records
    ]
    assert messages[1].headers() == [("h", b"1"), ("h", None)]


def test_committed_transactions_are_read_and_aborted_ones_are_not(cluster: Any, kafka: Any):
    topic = kafka.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    group = f"group-{uuid.uuid4()}"
    with Producer(cluster, f"tx-{uuid.uuid4()}", compression="lz4") as producer:
        for number, end in enumerate([producer.commit, producer.abort, producer.commit]):
            producer.begin()
            producer.send({first: [Record(value=b"%d" % number)] * 2, second: [Record(value=b"%d" % number)]})
            producer.send({first: [Record(value=b"%d" % number)]})
            if number == 2:
                producer.commit_offsets(group, {first: CommittedOffset(1, 0)})
            end()
    assert [m.value() for m in read_back(kafka, first, 6)] == [b"0"] * 3 + [b"2"] * 3
    assert [m.value() for m in read_back(kafka, second, 2)] == [b"0", b"2"]
    assert len(read_back(kafka, first, 9, "read_uncommitted")) == 9
    assert committed_offsets(cluster, group, [first])[first].offset == 1


def test_a_newer_producer_fences_the_older_one(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    name = f"tx-{uuid.uuid4()}"
    older, newer = Producer(cluster, name), Producer(cluster, name)
    older.begin()
    older.send({tp: [Record(value=b"old")]})
    newer.begin()
    with pytest.raises(Fenced) as caught:
        older.send({tp: [Record(value=b"old")]})
    assert not caught.value.retriable
    newer.send({tp: [Record(value=b"new")]})
    newer.commit()
    assert [m.value() for m in read_back(kafka, tp, 1)] == [b"new"]


def test_ready_batches_are_appended_as_they_are(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    batch = encode_batch([Record(value=b"a"), Record(value=b"b")], compression="zstd")
    assert produce(cluster, {tp: batch}) == {tp: Produced(0, -1)}
    assert [m.value() for m in read_back(kafka, tp, 2)] == [b"a", b"b"]


def test_log_append_time_is_told(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(config={"message.timestamp.type": "LogAppendTime"}), 0)
    [produced] = Producer(cluster).send({tp: [Record(value=b"v", timestamp=1)]}).values()
    assert abs(produced.log_append_time - time.time() * 1000) < 60_000


def test_what_the_broker_refuses_names_the_partition(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(config={"max.message.bytes": "1000"}), 0)
    with pytest.raises(KafkaError) as caught:
        Producer(cluster).send({tp: [Record(value=b"v" * 2000)]})
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert (caught.value.topic, caught.value.partition) == tp


def test_nothing_to_send_is_nothing_sent(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    assert Producer(cluster).send({tp: []}) == {}
    assert Producer(cluster).send({}) == {}


def test_a_transactional_producer_needs_a_begin(cluster: Any):
    with pytest.raises(RuntimeError):
        Producer(cluster, "tx").send({TopicPartition("t", 0): [Record(value=b"v")]})
    with pytest.raises(RuntimeError, match="no transactional id"):
        Producer(cluster).commit()


# -- scripted


def produced(code: int = 0) -> Any:
    def answer(seen: Any) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                ProduceResponse.TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        ProduceResponse.PartitionProduceResponse(index=p.index, error_code=code, base_offset=5)
                        for p in topic.partition_data
                    ],
                )
                for topic in seen.request.topic_data
            ]
        )

    return answer


def sequences(fake: Any) -> list[int]:
    """The base sequences of all batches that arrived."""
    sets = [bytes(seen.request.topic_data[0].partition_data[0].records) for seen in fake.requests(ProduceRequest)]
    return [int.from_bytes(batch[53:57], "big") for batch in sets]


@pytest.fixture
def idempotent(fake: Any, connect: Any) -> Producer:
    fake.add_topic("t", [1])
    fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=0))
    fake.on(ProduceRequest, produced())
    return Producer(connect(fake.bootstrap_servers))


TP = TopicPartition("t", 0)


def test_a_lost_answer_is_retried_with_the_same_sequence(fake: Any, fakes: Any, idempotent: Producer):
    fake.on(ProduceRequest, produced(), lambda _: fakes.CLOSE, produced())
    for _ in range(3):
        idempotent.send({TP: [Record(value=b"v")] * 2})
    assert sequences(fake) == [0, 2, 2, 4]


def test_a_duplicate_counts_as_appended(fake: Any, idempotent: Producer):
    fake.on(ProduceRequest, produced(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), produced())
    idempotent.send({TP: [Record(value=b"v")]})
    idempotent.send({TP: [Record(value=b"v")]})
    assert sequences(fake) == [0, 1]


def test_sequences_begin_again_after_the_largest(fake: Any, idempotent: Producer):
    idempotent.send({TP: [Record(value=b"v")]})
    idempotent._sequences[TP] = 2**31 - 1
    idempotent.send({TP: [Record(value=b"v")] * 2})
    idempotent.send({TP: [Record(value=b"v")]})
    assert sequences(fake) == [0, 2**31 - 1, 1]


@pytest.mark.parametrize(("transactional", "features", "version"), [
    (False, {}, 13),
    (True, {"transaction.version": 1}, 11),
    (True, {"transaction.version": 2}, 13),
])  # fmt: skip
def test_the_version_depends_on_the_transactions_protocol(
    fake: Any, connect: Any, transactional: bool, features: dict[str, int], version: int
):
    from kseg.client.protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

    fake.add_topic("t", [1])
    fake.features = features
    fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=0))
    fake.on(AddPartitionsToTxnRequest, lambda _: AddPartitionsToTxnResponse())
    fake.on(ProduceRequest, produced())
    producer = Producer(connect(fake.bootstrap_servers), "tx" if transactional else None)
    if transactional:
        producer.begin()
    producer.send({TP: [Record(value=b"v")]})
    [seen] = fake.requests(ProduceRequest)
    assert seen.version == version
    assert seen.request.acks == -1
    assert len(fake.requests(AddPartitionsToTxnRequest)) == (1 if version == 11 else 0)
