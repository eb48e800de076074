"""Boundaries where the log no longer begins at offset 0, and where markers or aborted records lie among the records."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kseg.client.protocol.partition import TopicPartition as Partition
from kseg.etl.config.times import epoch_millis
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.lease import acquire
from kseg.etl.ledger.store import Ledger
from kseg.etl.operations.interval import interval_status
from kseg.etl.planning.backfill_request import parse_interval
from kseg.etl.planning.interval import BoundaryReader, BoundaryUnproved, IntervalStatus
from kseg.etl.run.context import JobContext

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3_600_000
A_DAY = 24


def at(hours: float) -> int:
    return epoch_millis(FIRST) + int(hours * HOUR)


def hourly(first: int, end: int) -> list[int]:
    return [at(number) for number in range(first, end)]


def day(number: int) -> str:
    start, end = (FIRST + timedelta(days=n) for n in (number, number + 1))
    return f"{start:%Y-%m-%dT%H:%M:%SZ}/{end:%Y-%m-%dT%H:%M:%SZ}"


def status(job: Any, number: int) -> IntervalStatus:
    return interval_status(job, parse_interval(day(number)))


def boundaries(job: Any, number: int) -> list[tuple[int | None, int | None]]:
    found = status(job, number)
    return [(found.starts[tp].offset, found.ends[tp].offset) for tp in sorted(found.ends)]


def pin(job: Any, *events: ev.Event) -> None:
    with acquire(Ledger.open(job.ledger), job.name) as lease:
        lease.transition(lambda _: events)


@pytest.fixture
def cut(kafka: Any) -> Any:
    """cut(topic, partition, before): what retention does."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def do(topic: str, partition: int, before: int) -> None:
        for deleted in admin.delete_records([TopicPartition(topic, partition, before)]).values():
            deleted.result(60)

    return do


@pytest.fixture
def transaction(kafka: Any) -> Any:
    """transaction(topic, *times, commit=True): a transaction of these records, and its marker with the clock's time."""
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"late-{time.monotonic_ns()}"}
    producer, admin = Producer(settings), AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    producer.init_transactions(60)

    def end(topic: str, level: IsolationLevel) -> int:
        asked = {TopicPartition(topic, 0): OffsetSpec.latest()}
        (found,) = admin.list_offsets(asked, isolation_level=level, request_timeout=60).values()
        return int(found.result(60).offset)

    def do(topic: str, *times: int, commit: bool = True) -> None:
        producer.begin_transaction()
        for millis in times:
            producer.produce(topic, b"v", partition=0, timestamp=millis)
        assert producer.flush(60) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(60)
        # A producer is told of the end before the marker is written.
        deadline = time.monotonic() + 60
        while end(topic, IsolationLevel.READ_COMMITTED) < end(topic, IsolationLevel.READ_UNCOMMITTED):
            assert time.monotonic() < deadline, "the marker is missing"
            time.sleep(0.05)

    return do


class TestWhereTheLogNoLongerBeginsAtItsStart:
    def test_a_boundary_on_the_logs_start_is_refused(self, kafka: Any, write: Any, job_of: Any, cut: Any) -> None:
        topic = kafka.topic(1, {"retention.ms": "-1"})
        write(topic, 0, *hourly(0, 49))
        cut(topic, 0, 12)
        job = job_of(topic)
        with pytest.raises(BoundaryUnproved) as refused:
            status(job, 0)
        assert (refused.value.code, refused.value.exit_code) == ("boundary-unproved", 3)
        assert [r.interval for tp, o in refused.value.partitions.items() for r in o.ranges(tp)] == [(0, 12)]
        assert "on_data_loss: record" in str(refused.value.remedy)
        assert boundaries(job, 1) == [(24, 48)], "an older record is there"
        cut(topic, 0, 24)
        with pytest.raises(BoundaryUnproved):
            status(job, 1)

    def test_with_on_data_loss_record_it_is_closed_and_a_possible_loss(
        self, kafka: Any, write: Any, job_of: Any, cut: Any
    ) -> None:
        topic = kafka.topic(1, {"retention.ms": "-1"})
        write(topic, 0, *hourly(0, 49))
        cut(topic, 0, 12)
        found = status(job_of(topic, source={"on_data_loss": "record"}), 0)
        assert found.closed
        assert found.to_json()["partitions"][0]["possible_loss"] == [[0, 12]]

    def test_an_empty_log_proves_nothing_either(self, kafka: Any, write: Any, job_of: Any, cut: Any) -> None:
        topic = kafka.topic(1, {"retention.ms": "-1"})
        write(topic, 0, *hourly(0, 5))
        cut(topic, 0, 5)
        job = job_of(topic, max_wait="0s")
        with pytest.raises(BoundaryUnproved):
            status(job, 1)
        pin(job, ev.BoundaryPinned(time_ms=at(A_DAY), offsets={Partition(topic, 0): 5}))
        assert boundaries(job, 1) == [(5, 5)], "all that is gone belongs before a boundary that is pinned"

    def test_a_later_boundary_below_the_logs_start_proves_nothing(
        self, kafka: Any, write: Any, job_of: Any, cut: Any
    ) -> None:
        """Day 1 was landed first; day 0 lies between it and what retention has left."""
        topic = kafka.topic(1, {"retention.ms": "-1"})
        write(topic, 0, *hourly(0, 73))
        job = job_of(topic)
        offsets = {Partition(topic, 0): 24}
        pin(job, ev.BoundaryPinned(time_ms=at(A_DAY), offsets=offsets))
        cut(topic, 0, 30)
        with pytest.raises(BoundaryUnproved) as refused:
            status(job, 0)
        assert [r.interval for tp, o in refused.value.partitions.items() for r in o.ranges(tp)] == [(0, 24)]

    def test_a_note_in_the_ledger_is_not_refused_again(self, kafka: Any, write: Any, job_of: Any, cut: Any) -> None:
        topic = kafka.topic(1, {"retention.ms": "-1"})
        write(topic, 0, *hourly(0, 49))
        cut(topic, 0, 12)
        job = job_of(topic)
        pin(job, ev.BoundaryNotPinned(time_ms=at(0), log_starts={Partition(topic, 0): 12}))
        assert boundaries(job, 0) == [(12, 24)]


class TestPartitionsThatCameLater:
    @contextmanager
    def late(self, kafka: Any, write: Any, job: Any, topic: str) -> Iterator[Partition]:
        """A second partition, made when day 1's beginning was pinned for the first."""
        write(topic, 0, *hourly(0, 49))
        pin(job, ev.BoundaryPinned(time_ms=at(A_DAY), offsets={Partition(topic, 0): 24}))
        kafka.add_partitions(topic, 2)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for millis in hourly(20, 50):
            producer.produce(topic, b"v", partition=1, timestamp=millis)
        assert producer.flush(60) == 0
        yield Partition(topic, 1)

    def test_a_groups_offset_is_no_boundary(self, kafka: Any, write: Any, job_of: Any) -> None:
        topic = kafka.topic(1, {"retention.ms": "-1"})
        job = job_of(topic)
        with self.late(kafka, write, job, topic) as tp:
            pin(job, BasePinned(bases={tp: 7}, reason="group"))
            assert boundaries(job, 1) == [(24, 48), (0, 28)], "its first seven records belong to an interval too"

    def test_one_whose_beginning_is_gone_is_unproved(self, kafka: Any, write: Any, job_of: Any, cut: Any) -> None:
        topic = kafka.topic(1, {"retention.ms": "-1"})
        job = job_of(topic)
        with self.late(kafka, write, job, topic) as tp:
            cut(topic, 1, 3)
            with pytest.raises(BoundaryUnproved) as refused:
                status(job, 1)
            assert list(refused.value.partitions) == [tp]


class TestMarkersAndAbortedRecords:
    def test_a_pipeline_that_lags_keeps_its_days(self, kafka: Any, job_of: Any, transaction: Any) -> None:
        """A transaction a day: each marker has the clock's time, and is a record at or after each of the days."""
        topic = kafka.topic(1, {"retention.ms": "-1"})
        for number in range(4):
            transaction(topic, *hourly(number * A_DAY, (number + 1) * A_DAY))
        job = job_of(topic, allowed_lateness="6h")
        assert [boundaries(job, number) for number in range(3)] == [[(0, 25)], [(25, 50)], [(50, 75)]]
        assert status(job, 1).ends[Partition(topic, 0)].rule == "watermark"

    def test_a_marker_is_no_sign_of_a_watermark(self, kafka: Any, job_of: Any, transaction: Any) -> None:
        topic = kafka.topic(1, {"retention.ms": "-1"})
        transaction(topic, *hourly(0, 20))
        job = job_of(topic, max_wait="36500d")
        assert boundaries(job, 0) == [(0, None)]
        transaction(topic, at(A_DAY))
        assert boundaries(job, 0) == [(0, 21)]

    @pytest.mark.parametrize(("level", "expected"), [("read_committed", 6), ("read_uncommitted", 3)])
    def test_aborted_records_count_where_they_are_read(
        self, kafka: Any, write: Any, job_of: Any, transaction: Any, level: str, expected: int
    ) -> None:
        topic = kafka.topic(1, {"retention.ms": "-1"})
        write(topic, 0, *hourly(0, 3))
        transaction(topic, at(30), at(31), commit=False)
        write(topic, 0, at(A_DAY), at(25))
        job = job_of(topic, source={"isolation_level": level})
        assert boundaries(job, 0) == [(0, expected)]

    def test_a_marker_at_the_logs_start_proves_nothing(
        self, kafka: Any, write: Any, job_of: Any, transaction: Any, cut: Any
    ) -> None:
        topic = kafka.topic(1, {"retention.ms": "-1"})
        transaction(topic, *hourly(0, 3))
        write(topic, 0, *hourly(3, 30))
        cut(topic, 0, 3)
        with pytest.raises(BoundaryUnproved):
            status(job_of(topic), 0)


class TestFiles:
    """A copy of the partition's folder, with the log start that its broker had written down."""

    @pytest.fixture
    def files_of(self, kafka: Any, tmp_path: Path, job_of: Any) -> Any:
        def make(topic: str, log_start: int = 0, **interval: str) -> Any:
            copy = tmp_path / "copy"
            shutil.copytree(kafka.log_dirs[0] / f"{topic}-0", copy / f"{topic}-0")
            (copy / "log-start-offset-checkpoint").write_text(f"0\n1\n{topic} 0 {log_start}\n")
            return job_of(topic, source={"segments": str(copy)}, **interval)

        return make

    def test_markers_and_aborted_records_decide_nothing(
        self, kafka: Any, files_of: Any, write: Any, transaction: Any
    ) -> None:
        topic = kafka.topic(1, {"retention.ms": "-1"})
        transaction(topic, *hourly(0, 24))
        transaction(topic, at(30), commit=False)
        transaction(topic, *hourly(24, 48))
        write(topic, 0, *hourly(48, 50))
        job = files_of(topic)
        assert [boundaries(job, number) for number in (0, 1)] == [[(0, 27)], [(27, 52)]]

    def test_a_boundary_on_the_logs_start_is_refused(self, kafka: Any, files_of: Any, write: Any) -> None:
        topic = kafka.topic(1, {"retention.ms": "-1"})
        write(topic, 0, *hourly(0, 49))
        job = files_of(topic, 12)
        with pytest.raises(BoundaryUnproved):
            status(job, 0)
        assert boundaries(job, 1) == [(24, 48)]


def test_the_logs_are_read_once_for_a_snapshot(kafka: Any, write: Any, job_of: Any, monkeypatch: Any) -> None:
    """A plan is decided again whenever another run has written to the ledger."""
    topic = kafka.topic(1, {"retention.ms": "-1"})
    write(topic, 0, *hourly(0, 30))
    job = job_of(topic)
    with JobContext.open(job) as context:
        asked: list[int] = []
        logs, state = context.clients.logs, context.clients.read_state()
        first_at = type(logs).first_at
        monkeypatch.setattr(
            type(logs), "first_at", lambda *args, **options: asked.append(args[1]) or first_at(*args, **options)
        )
        reader, bounds = BoundaryReader(logs, job), context.inputs.snapshot().bounds
        for _ in range(3):
            assert [d.offset for d in reader.offsets(state, bounds, at(A_DAY), ends=True).values()] == [24]
        assert asked == [at(A_DAY)]
        reader.offsets(state, dict(bounds), at(A_DAY), ends=True)
        assert asked == [at(A_DAY)] * 2, "another snapshot is another look"
