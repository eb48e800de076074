"""Jobs whose source is the log directory of a broker that is gone: the same plan, ledger, landing and verification."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from etl.status import status
from etl.verify import verify
from jobs.broker import EmbeddedKafka

STEPS = (
    "lease:before",
    "lease:after",
    "plan:before",
    "plan:after",
    "land:first:before",
    "land:first:committed",
    "land:first:after",
    "account:before",
    "account:after",
    "finish:before",
    "finish:after",
)
"""All steps of a run of files alone, in their order: those of any run but for the commit of a group's offsets."""


@dataclass
class Left:
    """What is known of a broker that is gone: its topic's rows and ends, from delivery reports and a consumer."""

    log_dir: Path
    topic: str
    counted: list[Any]
    all_rows: list[Any]
    stable: dict[tuple[str, int], int]
    high: dict[tuple[str, int], int]
    consumed: list[tuple[str, int, int, bytes | None, bytes | None]] = field(default_factory=list)

    kafka: Any = None

    def rows(self, *topics: str) -> list[Any]:
        return self.counted

    def ends(self, *topics: str) -> dict[tuple[str, int], int]:
        return self.stable


def consume(servers: str, topic: str, partitions: int) -> list[tuple[str, int, int, bytes | None, bytes | None]]:
    """What librdkafka reads under read_committed, up to the last stable offset."""
    settings = {"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer(settings | {"isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    rows, ended = [], set()
    while len(ended) < partitions:
        message = consumer.poll(60)
        assert message is not None
        if message.error():
            ended.add(message.partition())
        else:
            rows.append((topic, message.partition(), message.offset(), message.key(), message.value()))
    consumer.close()
    return sorted(rows)


def leave_open(settings: dict[str, Any], topic: str, partition: int, values: list[bytes]) -> None:
    """A transaction that is neither committed nor aborted when its broker ends."""
    producer = Producer(settings | {"transactional.id": "left-open", "transaction.timeout.ms": 900_000})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def left(
    kafka_of: Callable[..., Any], records_of: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Left]:
    """Two partitions of committed, aborted and plain records; partition 1 ends in an open transaction with plain
    records behind it. The broker is stopped."""
    with EmbeddedKafka(tmp_path_factory.mktemp("left"), light=True) as broker:
        records = records_of(kafka_of(broker))
        topic = records.topic(2, {"segment.bytes": "1048576"})
        records.write_mixed(topic, 2)
        leave_open(records.settings, topic, 1, [b"undecided"] * 3)
        behind = records.write(topic, 1, 5)
        found = Left(
            broker.log_dirs[0],
            topic,
            [row for row in records.rows(topic) if row not in behind],
            records.rows(topic, aborted=True),
            records.ends(topic),
            records.ends(topic, stable=False),
            consume(broker.bootstrap_servers, topic, 2),
            kafka_of(broker),
        )
        broker.stop_node(1)
        yield found


@pytest.fixture
def file_job(home_of: Callable[..., Any], left: Left) -> Callable[..., Any]:
    """A job that reads the directory, with no word of brokers in it."""

    def make(**changes: Any) -> Any:
        source = {"segments": str(left.log_dir)} | changes.pop("source", {})
        return home_of(left, left.topic, kafka=None, group=None, source=source, **changes)

    return make


def test_a_directory_lands_as_a_consumer_read_it(file_job, left):
    job = file_job()
    planned = job.plan()
    assert {(r.partition, r.start, r.end) for r in planned.ranges} == {
        (partition, 0, end) for (_, partition), end in left.stable.items()
    }
    report = job.ingest()
    assert [row[:5] for row in job.rows()] == left.consumed
    job.assert_complete(runs=1, committed=False)
    assert report.group is None
    (held,) = report.held_back
    assert (held.partition, held.last_stable_offset, held.high_watermark) == (
        1,
        left.stable[left.topic, 1],
        left.high[left.topic, 1],
    )
    assert held.seconds is not None

    assert job.ingest().status == "nothing-to-do"
    job.assert_complete(runs=1, committed=False)
    told = verify(job.job)
    assert told.ok
    assert [table.rows for table in told.tables] == [len(left.counted)]
    stands = status(job.job)
    assert stands.lag == 0
    assert {p.partition: p.frontier for p in stands.partitions} == {p: end for (_, p), end in left.stable.items()}


@pytest.mark.parametrize("step", STEPS)
def test_a_file_job_killed_at_any_step_is_taken_up(step, file_job, children):
    job = file_job()
    children.run(job, at=step, signal="SIGKILL").killed()
    report = job.ingest(take_over=True)
    assert report.status == ("nothing-to-do" if step == "finish:after" else "done")
    job.assert_complete(runs=1, committed=False)
    assert job.table("first").version() == 1
    assert job.ingest().status == "nothing-to-do"


def test_the_matrix_has_every_step(file_job, children):
    answer = children.run(file_job()).answer()
    assert answer["exit"] == 0, answer
    assert tuple(answer["steps"]) == STEPS
