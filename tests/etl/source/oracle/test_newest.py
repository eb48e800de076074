"""Files that the newest release wrote, in every shape: its own dump tool and an independent consumer say the same.

One broker writes it all, is killed while it writes, and what it leaves behind is read."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kseg.jobs.broker.process import EmbeddedKafka
from kseg.segment_reader.log.damage.check import check_partition
from kseg.segment_reader.log.files.segments import open_log
from kseg.segment_reader.log.files.storage import LocalStorage

pytestmark = pytest.mark.broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ISOLATION = ("read_committed", "read_uncommitted")
SMALL_SEGMENTS = {"internal.segment.bytes": "16384", "retention.ms": "-1"}
COMPACTED = SMALL_SEGMENTS | {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "3600000",
}
#: Topics by their configuration.
TOPICS: dict[str, dict[str, str]] = {
    "codecs": SMALL_SEGMENTS,
    "append-time": SMALL_SEGMENTS | {"message.timestamp.type": "LogAppendTime", "compression.type": "lz4"},
    "transactions": SMALL_SEGMENTS,
    "compacted": COMPACTED,
    "tombstones": COMPACTED | {"delete.retention.ms": "0"},
    "beheaded": SMALL_SEGMENTS,
    "empty": SMALL_SEGMENTS,
    "preallocated": SMALL_SEGMENTS | {"preallocate": "true", "internal.segment.bytes": "200000"},
    "torn": {"retention.ms": "-1"},
    "torn-preallocated": {"retention.ms": "-1", "preallocate": "true", "internal.segment.bytes": "8000000"},
}
WRITTEN_WHEN_KILLED = ("torn", "torn-preallocated")
QUICK = {
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "producer.id.expiration.ms": "3600000",
}


@dataclass
class Left:
    """What the broker left behind: its folder, the rows that were consumed before, by (topic, isolation)."""

    folder: Path
    rows: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)

    def logs(self, topic: str) -> list[Path]:
        log = open_log(LocalStorage(), str(self.folder / f"{topic}-0"), topic, 0)
        return [Path(segment.path) for segment in log.segments]


@pytest.fixture(scope="module")
def left(
    tmp_path_factory: pytest.TempPathFactory, shapes: Any, consume: Callable[..., Any], scale: Callable[[int, int], int]
) -> Left:
    many = scale(1, 8)
    copy = Left(tmp_path_factory.mktemp("left") / "data")
    with EmbeddedKafka(light=True, config=QUICK) as kafka:
        create(kafka.bootstrap_servers)
        held = write(kafka, shapes, many)
        for topic in TOPICS:
            if topic not in WRITTEN_WHEN_KILLED:
                for isolation in ISOLATION:
                    copy.rows[topic, isolation] = consume(kafka.bootstrap_servers, topic, 0, isolation)
        copy.acknowledged = kill_while_writing(kafka, shapes)
        shutil.copytree(kafka.log_dirs[0], copy.folder)
        kafka.restart(1)
        for topic in WRITTEN_WHEN_KILLED:
            for isolation in ISOLATION:
                copy.rows[topic, isolation] = consume(kafka.bootstrap_servers, topic, 0, isolation)
        held.clear()
    return copy


def create(servers: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    new = [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
    for created in admin.create_topics(new, operation_timeout=60).values():
        created.result(60)


def write(kafka: EmbeddedKafka, shapes: Any, many: int) -> list[Any]:
    """All topics but those of the kill. Gives producers whose transactions stay open."""
    servers = kafka.bootstrap_servers
    for number, codec in enumerate(CODECS):
        for topic in ("codecs", "append-time", "beheaded", "preallocated"):
            shapes.plain(servers, topic, codec, range(number * 1000, number * 1000 + 150 * many))
    senders = shapes.transactions(servers, "transactions", "txn", turns=4 * many, count=30)
    senders[0].begin_transaction()
    senders[0].produce("transactions", b"open", b"for ever", 0)
    senders[0].flush(60)
    shapes.plain(servers, "transactions", "lz4", range(60), **{"enable.idempotence": True})
    compact(kafka, shapes, many)
    behead(kafka)
    return senders


def compact(kafka: EmbeddedKafka, shapes: Any, many: int) -> None:
    """Rounds of the same keys, compacted in between, until the cleaner has been over all but the last segment."""
    servers, folder = kafka.bootstrap_servers, kafka.log_dirs[0]
    topics = ("compacted", "tombstones")
    for turn in range(2 if many == 1 else 3):
        for topic in topics:
            shapes.transactions(servers, topic, f"{topic}-{turn}", turns=3 * many, count=40, keys=37)
            numbers = range(turn * 10, turn * 10 + 300)
            shapes.plain(servers, topic, "zstd", numbers, keys=20, **{"enable.idempotence": True})
        for topic in topics:
            shapes.await_cleaner(folder, topic)


def behead(kafka: EmbeddedKafka) -> None:
    """DeleteRecords: the log begins in the middle of a segment, and of a batch. Files tell it a moment later."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    place = TopicPartition("beheaded", 0, 333)
    admin.delete_records([place])[place].result(60)
    checkpoint = kafka.log_dirs[0] / "log-start-offset-checkpoint"
    until = time.monotonic() + 120
    while not checkpoint.exists() or "beheaded 0 333" not in checkpoint.read_text().splitlines():
        assert time.monotonic() < until
        time.sleep(0.1)


def kill_while_writing(kafka: EmbeddedKafka, shapes: Any) -> dict[str, int]:
    """SIGKILL under load, with batches far larger than a page. Gives how many records were acknowledged by topic."""
    acknowledged = dict.fromkeys(WRITTEN_WHEN_KILLED, 0)
    going = threading.Event()
    config = {"batch.num.messages": 10_000, "linger.ms": 1, "message.timeout.ms": 5000}
    senders = [shapes.producer(kafka.bootstrap_servers, "none", **config) for _ in WRITTEN_WHEN_KILLED]

    def told(error: Any, message: Any) -> None:
        if error is None:
            acknowledged[message.topic()] = max(acknowledged[message.topic()], message.offset() + 1)
            if min(acknowledged.values()) > 3000:
                going.set()

    until = time.monotonic() + 240
    while not going.is_set():
        assert time.monotonic() < until
        for sender, topic in zip(senders, WRITTEN_WHEN_KILLED, strict=True):
            try:
                for number in range(200):
                    sender.produce(topic, b"value %d" % number * 20, None, 0, on_delivery=told)
                sender.poll(0)
            except BufferError:  # the broker is behind
                sender.poll(0.1)
    kafka.kill(1)
    for sender in senders:
        sender.purge()
        sender.flush(0)
    return acknowledged


@pytest.mark.parametrize("topic", TOPICS)
def test_the_dump_is_that_of_kafka_s_tool(left: Left, same_as_java: Callable[..., Any], topic: str) -> None:
    if topic not in WRITTEN_WHEN_KILLED:
        every = [log for one in TOPICS if one not in WRITTEN_WHEN_KILLED for log in left.logs(one)]
        entries = same_as_java(left.logs(topic), together=every)
        assert bool(entries) == (topic != "empty")


@pytest.mark.parametrize("isolation", ISOLATION)
@pytest.mark.parametrize("topic", TOPICS)
def test_rows_are_those_that_a_consumer_got(left: Left, files: Any, topic: str, isolation: str) -> None:
    of_files = files(left.folder)
    rows = of_files.read(topic, 0, isolation)
    assert rows == left.rows[topic, isolation]
    assert bool(rows) == (topic != "empty")
    if topic in WRITTEN_WHEN_KILLED:
        assert len(rows) >= left.acknowledged[topic] > 3000
    if topic not in ("compacted", "tombstones"):
        assert sum(outcome.absent for outcome in of_files.outcomes) == 0


@pytest.mark.parametrize("topic", TOPICS)
def test_what_a_broker_left_is_whole(left: Left, topic: str) -> None:
    told = check_partition(LocalStorage(), str(left.folder / f"{topic}-0"), topic, 0, deep=True)
    assert [str(fault) for fault in told.faults] == []
