"""The producer on older releases: the format goes by the version, and librdkafka reads it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from kseg.client import TopicPartition
from kseg.client.admin.topics import delete_records
from kseg.client.errors import KafkaError, UnsupportedVersion
from kseg.segment_reader.decode.batch import RECORD_BATCH
from kseg.segment_reader.encode.batches import Record
from sending import send_all
from skips import full_scale_only

pytestmark = pytest.mark.broker

NOW = 1_767_225_600_000
#: Release, the magic that its brokers store, codecs that they take.
RELEASES = [
    ("0.9.0.1", 0, ["none", "lz4", "gzip", "snappy"]),
    ("0.10.2.2", 1, ["none", "lz4", "gzip", "snappy"]),
    pytest.param("1.1.1", 2, ["none", "lz4"], marks=full_scale_only),
]


def read(servers: str, topic: str, count: int, release: str) -> list[Any]:
    old = {"api.version.request": False, "broker.version.fallback": release} if release.startswith("0.9") else {}
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest", "check.crcs": True} | old
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    until = time.monotonic() + 60
    while len(found) < count and time.monotonic() < until:
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
    consumer.close()
    return found


@pytest.mark.parametrize(("release", "magic", "codecs"), RELEASES)
def test_the_format_goes_by_the_version(
    kafka_release: Callable[[str], Any], producing: Any, scale: Any, release: str, magic: int, codecs: list[str]
):
    codecs = codecs[: scale(2, 4)]
    kafka = kafka_release(release)
    topic = kafka.topic(config={"retention.ms": "-1"})
    given: dict[str, object] = {}
    if release.startswith("0.9"):  # which never tells its versions: each producer waits for them
        given = {"broker_version_fallback": "0.9.0", "api_version_request_timeout_ms": 1000}
    if magic < 2:
        given["enable_idempotence"] = "false"
    records = [Record(None, None, (), NOW), Record(b"", b"", (), NOW + 1)]
    records += [Record(b"%d" % n, b"value %d" % n, (), NOW + n) for n in range(2, 40)]
    offsets = []
    for codec in codecs:
        producer = producing(kafka.bootstrap_servers, compression_type=codec, batch_size=500, linger_ms=50, **given)
        deliveries = send_all(producer, topic, records)
        producer.flush(60)
        offsets += [delivery.result(0).offset for delivery in deliveries]
    expected = records * len(codecs)
    assert offsets == list(range(len(expected)))
    messages = read(kafka.bootstrap_servers, topic, len(expected), release)
    assert [(m.offset(), m.key(), m.value()) for m in messages] == [
        (offset, record.key, record.value) for offset, record in enumerate(expected)
    ]
    if magic:
        assert [m.timestamp()[1] for m in messages] == [record.timestamp for record in expected]
    log = next(iter(sorted(kafka.log_dirs[0].glob(f"{topic}-0/*.log")))).read_bytes()
    assert log[16] == magic

    error: KafkaError | None = (
        producing(kafka.bootstrap_servers, compression_type="zstd", **given).send(topic, b"v").exception(60)
    )
    assert isinstance(error, UnsupportedVersion)
    if magic < 2:
        with_headers = producing(kafka.bootstrap_servers, **given).send(topic, b"v", headers=[("h", b"1")])
        assert isinstance(with_headers.exception(60), UnsupportedVersion)
        idempotent = {name: value for name, value in given.items() if name != "enable_idempotence"}
        with pytest.raises(UnsupportedVersion):
            producing(kafka.bootstrap_servers, **idempotent).send(topic, b"v").result(60)


@pytest.mark.rule(141)
def test_a_producer_whose_records_were_deleted_begins_anew(
    kafka_release: Callable[[str], Any], connect: Any, producing: Any
):
    """A leader before Kafka 2.4 forgets who wrote what it has deleted, and refuses what follows; where its log starts
    tells the producer that nothing is lost (KIP-360)."""
    kafka = kafka_release("1.1.1")
    topic = kafka.topic(config={"retention.ms": "-1"})
    producer = producing(kafka.bootstrap_servers, linger_ms=0)
    written = [producer.send(topic, b"%d" % number).result(60).offset for number in range(3)]
    delete_records(connect(kafka.bootstrap_servers), {TopicPartition(topic, 0): 3}).or_raise()
    written += [producer.send(topic, b"%d" % number).result(60).offset for number in range(3, 6)]
    assert written == list(range(6))
    log = next(iter(sorted(kafka.log_dirs[0].glob(f"{topic}-0/*.log")))).read_bytes()
    heads, at = [], 0
    while at < len(log):
        heads.append(RECORD_BATCH.unpack_from(log, at))
        at += 12 + heads[-1][1]
    (producer_id,) = {head[9] for head in heads}
    assert producer_id >= 0
    assert [(head[0], head[10], head[11]) for head in heads] == [
        (0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 1, 0), (4, 1, 1), (5, 1, 2)
    ]  # fmt: skip
