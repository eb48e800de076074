"""Jobs whose source is the log directory of a broker that is gone: the same plan, ledger, landing and verification."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify
from kseg.etl.run.drain import run_drain
from kseg.jobs.broker.process import EmbeddedKafka
from run_steps import FEW_FILE_STEPS, FILE_STEPS
from skips import IN_FULL


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
        for partition in (0, 1, 0, 1):
            for count, fate in ((15, "commit"), (15, None), (5, "abort")):
                records.write(topic, partition, count, transaction=fate)
                records.settle(topic)
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


def test_a_directory_is_drained_in_capped_runs(file_job, left):
    job = file_job(run={"max_bytes": 2000})
    report = run_drain(job.job)
    assert len(report.runs) > 2
    assert [row[:5] for row in job.rows()] == left.consumed
    job.assert_complete(runs=len(report.runs), committed=False)


@pytest.mark.parametrize("step", FILE_STEPS)
def test_a_file_job_killed_at_any_step_is_taken_up(step, file_job, children, scale):
    if step not in scale(FEW_FILE_STEPS, FILE_STEPS):
        pytest.skip(IN_FULL)
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
    assert tuple(answer["steps"]) == FILE_STEPS


# --- how far files count


@pytest.fixture
def copy_of(left: Left, tmp_path: Path) -> Callable[..., Path]:
    """copy_of(confirmed={0: 20}): a copy of the directory whose broker had written these high watermarks down."""

    def make(confirmed: dict[int, int] | None = None) -> Path:
        folder = Path(shutil.copytree(left.log_dir, tmp_path / "copy", ignore=shutil.ignore_patterns(".lock")))
        if confirmed is not None:
            lines = [f"{left.topic} {partition} {offset}" for partition, offset in confirmed.items()]
            (folder / "replication-offset-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
        return folder

    return make


def test_what_lies_above_the_high_watermark_is_told(file_job, left, copy_of):
    job = file_job(source={"segments": {"paths": [str(copy_of({0: 20}))]}})
    told = {(u.partition, u.high_watermark, u.offsets) for u in job.ingest().unconfirmed}
    ends = left.stable
    assert told == {(0, 20, ends[left.topic, 0] - 20), (1, None, ends[left.topic, 1])}
    assert job.rows() == left.counted


def test_a_broker_that_stopped_in_order_leaves_nothing_in_doubt(file_job):
    assert file_job().ingest().unconfirmed == []


@pytest.mark.parametrize(("confirmed", "end"), [(15, 0), (16, 16), (33, 31), (1000, None)])
def test_a_run_may_end_at_the_high_watermark(confirmed, end, file_job, left, copy_of):
    """A transaction whose marker stands above it is not decided: the first one has offsets 0 to 14, marker 15; the next
    plain ones end at 30, and the aborted ones begin at 31."""
    end = left.stable[left.topic, 0] if end is None else end
    job = file_job(source={"segments": str(copy_of({0: confirmed, 1: 0})), "ending_offsets": "high_watermark"})
    report = job.ingest()
    assert {(r.partition, r.end) for r in report.ranges} == ({(0, end)} if end else set())
    assert report.unconfirmed == []
    if end:
        assert job.rows() == [row for row in left.counted if row[1] == 0 and row[2] < end]


def test_without_a_high_watermark_none_can_be_the_end(file_job, copy_of):
    job = file_job(source={"segments": str(copy_of({0: 5})), "ending_offsets": "high_watermark"})
    with pytest.raises(ConfigurationError, match="replication-offset-checkpoint"):
        job.ingest()


@pytest.mark.parametrize(("ending", "name"), [("last_stable", "stable"), ("log_end", "high"), ("latest", "high")])
def test_uncommitted_rows_end_where_the_job_says(ending, name, file_job, left):
    job = file_job(source={"isolation_level": "read_uncommitted", "ending_offsets": ending})
    job.ingest()
    assert job.frontiers() == getattr(left, name)
    within = [row for row in left.all_rows if row[2] < left.stable[row[:2]]]
    assert [row for row in job.rows() if row[2] < left.stable[row[:2]]] == within


# --- the same topic, of the same cluster


def test_another_directory_is_refused_unless_it_is_of_the_same_topic(file_job, left, copy_of):
    folder = copy_of()
    job = file_job(source={"segments": str(folder)})
    job.ingest()
    meta = folder / "meta.properties"
    cluster = meta.read_text()
    meta.write_text(re.sub("cluster.id=.*", "cluster.id=AAAAAAAAAAAAAAAAAAAAAA", cluster))
    assert refused(job) == "another-cluster"
    meta.write_text(cluster)
    identity = folder / f"{left.topic}-0" / "partition.metadata"
    topic_id = identity.read_text()
    for partition in (0, 1):
        (folder / f"{left.topic}-{partition}" / "partition.metadata").write_text(
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n"
        )
    assert refused(job) == "topic-recreated"
    for partition in (0, 1):
        (folder / f"{left.topic}-{partition}" / "partition.metadata").write_text(topic_id)
    assert job.ingest().status == "nothing-to-do"
    log = sorted((folder / f"{left.topic}-0").glob("*.log"))[-1]
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    assert refused(job) == "log-truncated"
    shutil.rmtree(folder / f"{left.topic}-0")
    shutil.rmtree(folder / f"{left.topic}-1")
    assert refused(job) == "topic-missing"
    assert job.rows() == left.counted


def test_files_that_tell_no_ids_are_known_by_their_leader_epochs(file_job, left, copy_of):
    folder = copy_of()
    (folder / "meta.properties").unlink()
    for partition in (0, 1):
        (folder / f"{left.topic}-{partition}" / "partition.metadata").unlink()
        (folder / f"{left.topic}-{partition}" / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
    job = file_job(source={"segments": str(folder)})
    job.ingest()
    assert job.rows() == left.counted
    for partition in (0, 1):
        (folder / f"{left.topic}-{partition}" / "leader-epoch-checkpoint").write_text("0\n1\n2 0\n")
    assert refused(job) == "topic-recreated"
    for partition in (0, 1):
        (folder / f"{left.topic}-{partition}" / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n4 20\n")
    assert refused(job) == "log-truncated"


def refused(job: Any) -> str:
    with pytest.raises(Refused) as caught:
        job.ingest()
    return caught.value.code
