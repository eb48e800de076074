"""Segment files of a real broker, written by librdkafka or packed anew by the broker, against what librdkafka reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from kseg.segment_reader.decode.batch import frames

pytestmark = pytest.mark.broker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
KEPT = {"retention.ms": "-1"}  # the records' timestamps are old
TXN_INDEX_ENTRY = Struct(">hqqqq")  # version, producer id, first offset, last offset, last stable offset

Row = tuple[int, bytes | None, bytes | None, Any, int, int]


def messages() -> Iterator[dict[str, Any]]:
    for i in range(60):
        yield {
            "key": None if i % 7 == 0 else b"key-%d" % i,
            "value": None if i % 11 == 0 else b"" if i % 5 == 0 else b"value-%d " % i * (i * 7),
            "headers": [("a", b"1"), ("a", None), ("näme", b"\xff\x00")] if i % 3 == 0 else [],
            "timestamp": 1_600_000_000_000 + i * 1000,
        }


def produce(kafka: Any, topic: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "compression.type": codec, "linger.ms": 50})
    for message in messages():
        producer.produce(topic, partition=0, **message)
    assert producer.flush(120) == 0


def consume(kafka: Any, topic: str, level: str) -> list[Row]:
    """What librdkafka reads of partition 0 up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": level,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    rows: list[Row] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return rows
            kind, millis = message.timestamp()
            pairs = [{"key": name, "value": value} for name, value in message.headers() or ()]
            rows.append((message.offset(), message.key(), message.value(), pairs or None, kind - 1, millis))
    finally:
        consumer.close()
    raise TimeoutError(topic)


def segment(kafka: Any, topic: str) -> Path:
    (path,) = (log for folder in kafka.log_dirs for log in Path(folder).glob(f"{topic}-0/*.log"))
    return path


def as_consumed(rows: list[dict[str, Any]]) -> list[Row]:
    return [
        (r["offset"], r["key"], r["value"], r["headers"], r["timestampType"], round(r["timestamp"].timestamp() * 1000))
        for r in rows
    ]


@pytest.mark.rule(129)
@pytest.mark.parametrize("codec", CODECS)
def test_librdkafkas_batches_decode_to_what_it_reads(kafka: Any, both: Callable[..., Any], codec: str) -> None:
    topic = kafka.topic(config=KEPT)
    produce(kafka, topic, codec)
    data = segment(kafka, topic).read_bytes()
    assert {frame.codec for frame in frames(data)} == {CODECS.index(codec)}
    rows = as_consumed(both(data).rows)
    assert rows == consume(kafka, topic, "read_committed")
    assert len(rows) == 60


@pytest.mark.parametrize("codec", CODECS[1:])
def test_batches_that_the_broker_packs_anew(kafka: Any, both: Callable[..., Any], codec: str) -> None:
    topic = kafka.topic(config={"compression.type": codec, "message.timestamp.type": "LogAppendTime", **KEPT})
    produce(kafka, topic, "none")
    data = segment(kafka, topic).read_bytes()
    assert {frame.codec for frame in frames(data)} == {CODECS.index(codec)}
    rows = as_consumed(both(data).rows)
    assert rows == consume(kafka, topic, "read_committed")
    assert {row[4] for row in rows} == {1}


@pytest.mark.rule(127)
def test_transactions_of_several_producers(
    kafka: Any, both: Callable[..., Any], decode_with: Callable[..., Any]
) -> None:
    topic = kafka.topic(config=KEPT)
    producers = []
    for i in range(3):
        config = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"{topic}-{i}", "linger.ms": 0}
        producers.append(Producer(config))
        producers[-1].init_transactions(120)
    for turn in range(6):
        for producer in producers:
            producer.begin_transaction()
        for part in range(3):
            for i, producer in enumerate(producers):
                for n in range(3):
                    producer.produce(topic, b"%d-%d-%d-%d" % (turn, part, i, n), partition=0)
                producer.flush(120)
        for i, producer in enumerate(producers):
            if (turn + i) % 3 == 0:
                producer.abort_transaction(120)
            else:
                producer.commit_transaction(120)
    path = segment(kafka, topic)
    deadline = time.monotonic() + 120
    data = path.read_bytes()
    index = path.with_suffix(".txnindex")
    # The last markers come after EndTxn's answer, and what the index says of them after them.
    while sum(frame.control for frame in frames(data)) < 18 or index.stat().st_size < 6 * TXN_INDEX_ENTRY.size:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        data = path.read_bytes()
    entries = TXN_INDEX_ENTRY.iter_unpack(index.read_bytes())
    aborted = [(producer, first) for _, producer, first, _, _ in entries]
    assert len(aborted) == 6
    out = both(data, aborted=aborted)
    assert as_consumed(out.rows) == consume(kafka, topic, "read_committed")
    assert (out.counts.data, out.counts.aborted, out.counts.control) == (12 * 9, 6 * 9, 18)
    uncommitted = both(data, isolation_level="read_uncommitted")
    assert as_consumed(uncommitted.rows) == consume(kafka, topic, "read_uncommitted")
    end = out.counts.data + out.counts.aborted + out.counts.control
    for middle in range(0, end, 5):
        left = decode_with(data, 0, middle, aborted=aborted)
        right = decode_with(data, middle, end, aborted=aborted)
        assert left.rows + right.rows == out.rows
