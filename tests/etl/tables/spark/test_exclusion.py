"""Where Spark commits in a store in which two drivers could overwrite each other's commit: one driver at a time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.errors import AnotherRunActive
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.lease import acquire
from kseg.etl.ledger.store import Ledger
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.spark import exclusion
from kseg.etl.tables.spark.exclusion import Exclusion
from kseg.etl.tables.spark.writer import SparkTarget
from kseg.etl.tables.values import NewCommit, RunCommit

NO_WAIT = timedelta(0)


def test_two_ledgers_meet_at_the_table_and_a_lost_lease_cancels_the_commit(
    spark: Any, rows: Callable[..., pa.RecordBatch], tmp_path: Path
) -> None:
    def target() -> SparkTarget:
        return SparkTarget(lambda: spark, path=str(tmp_path / "t"), single_driver=True)

    def land(table: SparkTarget, frame: Any, number: int, app: str) -> Any:
        run = RunCommit(f"run-{number}", app, 1)
        return table.land(frame, sink_schema(batch.schema), run)

    batch = rows(0, 10)
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    started = tmp_path / "started"

    def slowly(batches: Any) -> Any:
        for one in batches:
            Path(started).touch()
            time.sleep(30)
            yield one

    slow = frame.coalesce(1).mapInArrow(slowly, frame.schema)
    ours, theirs = target(), target()
    with (
        acquire(Ledger.open(tmp_path / "a"), "orders") as first,
        acquire(Ledger.open(tmp_path / "b"), "orders") as second,
    ):
        with ours.exclusively(first, wait=NO_WAIT):
            ours.ensure(frame, sink_schema(batch.schema), cluster_by=["offset"])
            assert isinstance(land(ours, frame, 1, "kseg/a/orders"), NewCommit)
            with pytest.raises(AnotherRunActive), theirs.exclusively(second, wait=NO_WAIT):
                pass

        def lose() -> None:
            while not started.exists():
                time.sleep(0.1)
            acquire(Ledger.open(tmp_path / "b"), "orders", take_over=True).release()
            with pytest.raises(LeaseLost):
                second.transition(lambda state: [])

        loser = threading.Thread(target=lose)
        loser.start()
        began = time.monotonic()
        with pytest.raises(LeaseLost), theirs.exclusively(second, wait=NO_WAIT):
            land(theirs, slow, 2, "kseg/b/orders")
        assert time.monotonic() - began < 28, "not after the slow task has ended"
        loser.join()
    state = target().state()
    assert state is not None
    assert state.rows == 10
    (log,) = tmp_path.glob("t/_kseg/lease/_delta_log")
    assert log.is_dir()


class FakeLease:
    """A lease that a test loses; of Spark's context, or of a session over Connect, only what `committing` asks."""

    def __init__(self, *, remote: bool = False) -> None:
        self.lost, self.jobs_cancelled = False, 0
        self.stop: Callable[[], None] | None = None
        if remote:
            self.addTag, self.removeTag, self.interruptTag = self.addJobTag, self.removeJobTag, self.cancelJobsWithTag
        else:
            self.sparkContext = self._jvm = self

    def check(self) -> None:
        if self.lost:
            raise LeaseLost("lost")

    @contextlib.contextmanager
    def on_loss(self, function: Callable[[], None]) -> Iterator[None]:
        self.stop = function
        yield

    def lose(self) -> None:
        self.lost = True
        if self.stop is not None:
            self.stop()

    def addJobTag(self, tag: str) -> None: ...

    def removeJobTag(self, tag: str) -> None: ...

    def cancelJobsWithTag(self, tag: str) -> None:
        self.jobs_cancelled += 1


@pytest.mark.parametrize("remote", [False, True])
def test_jobs_that_spark_begins_after_the_lease_was_lost_are_cancelled_too(
    remote: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusion, "CANCEL_EVERY", 0.01)
    lease: Any = FakeLease(remote=remote)
    guarded = Exclusion(lambda: (True, None), lambda: lease)

    def commit() -> None:
        with guarded.committing():
            lease.lose()
            until = time.monotonic() + 10
            while lease.jobs_cancelled < 3 and time.monotonic() < until:
                time.sleep(0.01)
            raise RuntimeError("the job was cancelled")

    with guarded.exclusively(lease, wait=NO_WAIT):
        with pytest.raises(LeaseLost):
            commit()
        cancelled = lease.jobs_cancelled
        time.sleep(0.1)
        assert lease.jobs_cancelled == cancelled >= 3


def test_nothing_begins_with_a_lease_that_is_lost_before_somebody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    lease: Any = FakeLease()
    lease.addJobTag = lambda tag: lease.lose()
    guarded = Exclusion(lambda: (True, None), lambda: lease)
    with pytest.raises(LeaseLost), guarded.exclusively(lease, wait=NO_WAIT), guarded.committing():
        pytest.fail("it began")


@pytest.mark.parametrize(("scheme", "guarded"), [("abfss", False), ("gs", False), ("hdfs", False), ("s3a", True)])
def test_a_store_that_keeps_spark_drivers_apart_needs_no_lease(
    spark: Any, scheme: str, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{scheme}://lake/orders"
    target = SparkTarget(lambda: spark, path=place)
    monkeypatch.setattr(target, "exists", lambda: False)
    assert target._guarded_location() == (False, None)
    monkeypatch.setattr(target, "exists", lambda: True)
    monkeypatch.setattr(target, "_detail", lambda: {"location": place, "tableFeatures": ["clustering"]})
    assert target._guarded_location() == (True, TableLocation.of(place) if guarded else None)
    monkeypatch.setattr(target, "_detail", lambda: {"location": place, "tableFeatures": ["catalogManaged"]})
    assert target._guarded_location() == (True, None), "its catalog decides between two commits"
