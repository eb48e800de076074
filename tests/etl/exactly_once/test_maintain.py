"""OPTIMIZE, VACUUM and the ledger's upkeep change no row, and are nobody's hand: runs, replacements and verification go
on afterwards; what an unfinished run may still commit stays."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable

from kseg.etl.errors import AnotherRunActive, ConfigurationError, Refused, RetriableFailure
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.lease import acquire
from kseg.etl.ledger.store import Ledger
from kseg.etl.ledger.values import TableState
from kseg.etl.operations import maintain as maintenance
from kseg.etl.operations.audit import audit
from kseg.etl.operations.maintain import CHAIN, HOUR, MaintenanceRequest, OtherJobs, cut_off, maintain_job
from kseg.etl.operations.verify import verify
from kseg.etl.tables.delta.maintenance import DeltaMaintenance
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.lease import table_lease
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.spark import maintenance as spark_maintenance
from skips import full_scale_only

NOW = datetime(2026, 1, 10, tzinfo=UTC)
AT_ONCE = {"vacuum": timedelta(0), "allow_short": True}


def maintain(job: Any, *, take_over: bool = False, **request: Any) -> Any:
    return maintain_job(job.job, MaintenanceRequest(**request), take_over=take_over)


@pytest.fixture
def without_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    """VACUUM takes files that were written a moment ago."""
    monkeypatch.setattr(maintenance, "MARGIN", timedelta(0))
    monkeypatch.setattr(spark_maintenance, "BEGINS_WITHIN", timedelta(0))


@pytest.mark.parametrize(
    ("unfinished", "asked", "ago"),
    [
        ([], timedelta(days=7), timedelta(days=7)),
        ([], timedelta(minutes=90), timedelta(minutes=90)),
        ([], timedelta(0), HOUR),  # of a run that is planned while VACUUM works
        ([timedelta(hours=3)], timedelta(days=7), timedelta(days=7)),
        ([timedelta(hours=3)], timedelta(0), timedelta(hours=4)),
        ([timedelta(hours=3), timedelta(days=9)], timedelta(days=7), timedelta(days=9, hours=1)),
    ],
)
def test_no_file_goes_that_a_run_may_commit(unfinished: Any, asked: timedelta, ago: timedelta) -> None:
    runs: Any = [SimpleNamespace(planned_at=NOW - ago) for ago in unfinished]
    assert cut_off(runs, asked, NOW) == NOW - ago


def test_runs_of_all_jobs_in_the_ledger_that_plan_the_table_count(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (tmp_path / "link").symlink_to(lake)
    ours = TableState("id", 3)
    plans = {
        "orders": {"/anywhere": None},
        "by-name": {f"{lake}/t": None},
        "by-link": {f"{tmp_path}/link/t": None},
        "by-id": {"catalog.schema.t": TableState("id", 1)},
        "elsewhere": {f"{lake}/u": TableState("other", 1), "catalog.schema.u": None},
    }
    states = {
        job: SimpleNamespace(
            unfinished_runs=lambda job=job, tables=tables: [
                SimpleNamespace(run_id=job, plan=SimpleNamespace(tables=tables))
            ],
        )
        for job, tables in plans.items()
    }
    ledger: Any = SimpleNamespace(jobs=lambda: sorted(states), read=states.__getitem__)
    found = {run.run_id for run in OtherJobs(ledger, "orders").planning(f"{lake}/t", ours)}
    assert found == {"by-name", "by-link", "by-id"}


def test_a_run_that_is_planned_while_vacuum_works_keeps_its_files(home, records, monkeypatch):
    topic = records.topic(1)
    job = home(topic)
    records.write(topic, 0, 4)
    job.ingest()
    records.write(topic, 0, 4)
    whole = DeltaMaintenance.vacuum
    at_commit, vacuumed = threading.Event(), threading.Event()

    def after_the_run_has_written(self, *args, **options):
        assert at_commit.wait(120)
        return whole(self, *args, **options)

    def observe(step):
        if step.startswith("land:") and step.endswith(":before"):
            at_commit.set()
            assert vacuumed.wait(120)

    monkeypatch.setattr(DeltaMaintenance, "vacuum", after_the_run_has_written)
    with ThreadPoolExecutor(1) as pool:
        maintained = pool.submit(maintain, job, optimize=False, ledger=False, **AT_ONCE)
        maintained.add_done_callback(lambda _: vacuumed.set())
        running = job.ingest(observe=observe)
        assert running.status == "done"
        assert maintained.result().tables[0].vacuumed.files == 0
    assert job.rows() == records.rows(topic)


def test_files_that_somebody_deletes_before_the_commit_are_no_landing(home, records):
    topic = records.topic(1)
    job = home(topic)
    records.write(topic, 0, 4)
    job.ingest()
    records.write(topic, 0, 4)

    def delete_uncommitted(step):
        if step.startswith("land:") and step.endswith(":before"):
            for path in job.orphans():
                (job.folder / "lake" / path).unlink()

    for observe in (delete_uncommitted, None):  # the next attempt finds the commit, and meets the same
        with pytest.raises(Refused, match="were deleted") as refused:
            job.ingest(observe=observe)
        assert refused.value.code == "files-missing"
    (run,) = job.state.unfinished_runs()
    assert not run.landed
    assert len(DeltaAccess(str(job.folder / "lake/first")).missing_files()) == 1
    job.abandon(run.run_id)
    job.ingest()
    assert job.rows() == records.rows(topic)


@pytest.mark.usefixtures("without_margins")
def test_runs_and_replacements_go_on_after_all_of_it(home, records):
    topic = records.topic(2)
    job = home(topic)
    for _ in range(3):
        for partition in range(2):
            records.write(topic, partition, 5)
        job.ingest()
    planned = maintain(job, dry_run=True, **AT_ONCE)
    # Small partitions share a file: one a run.
    assert planned.tables[0].optimized == planned.tables[0].live_before.files == 3
    assert planned.tables[0].version_after == planned.tables[0].version_before == job.table("first").version()
    rows = job.rows()

    report = maintain(job, **AT_ONCE)
    table = report.tables[0]
    assert (table.by, table.live_after.files) == ("delta-rs", 1)
    assert table.optimized == table.live_before.files
    assert table.vacuumed.files == table.optimized, "what the compaction has replaced"
    assert table.stored_after == table.live_after
    assert table.vacuumed.bytes == table.stored_before.bytes + table.live_after.bytes - table.stored_after.bytes
    assert report.ledger.summarised
    assert report.ledger.files_after.files < report.ledger.files_before.files
    assert job.rows() == rows

    records.write(topic, 0, 3)
    assert job.ingest().counts["records"] == 3
    replaced = job.backfill(from_=[f"{topic}:0:0"], to=[f"{topic}:0:7"], mode="replace")
    assert replaced.counts["records"] == 7
    assert job.rows() == records.rows(topic)
    assert verify(job.job).ok
    assert maintain(job, **AT_ONCE).tables[0].live_after.files == 1
    assert job.ingest().status == "nothing-to-do"
    assert job.rows() == records.rows(topic)


def test_another_optimize_of_the_table_meanwhile_doubles_no_row(home, records, monkeypatch):
    """delta-rs commits an OPTIMIZE though another one has replaced the same files since its snapshot."""
    topic = records.topic(1)
    job = home(topic)
    for _ in range(2):
        records.write(topic, 0, 4)
        job.ingest()
    whole = DeltaTable.create_write_transaction

    def after_somebody(self, *args, **options):
        monkeypatch.setattr(DeltaTable, "create_write_transaction", whole)
        job.table("first").optimize.compact()
        return whole(self, *args, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", after_somebody)
    report = maintain(job, ledger=False, vacuum=None)
    assert (report.tables[0].optimized, report.tables[0].live_after.files) == (0, 1)
    assert job.rows() == records.rows(topic)
    assert verify(job.job).ok


class TestZOrder:
    """It is Spark's, also of a table that delta-rs commits to; the two must not meet where Spark overwrites commits."""

    @pytest.fixture
    def topic(self, records):
        return records.topic(1)

    @pytest.fixture
    def job(self, home, records, topic):
        job = home(topic, sink={"single_driver": True})
        for _ in range(2):
            records.write(topic, 0, 3)
            job.ingest()
        return job

    def test_rows_are_ordered_and_runs_go_on(self, job, records, topic):
        records.write(topic, 0, 1)
        job.die("land:first:before")
        with pytest.raises(RetriableFailure, match="may yet commit to the table"):
            maintain(job, z_order=("offset",))
        job.ingest()
        planned = maintain(job, z_order=("offset",), dry_run=True)
        assert (planned.tables[0].by, planned.tables[0].optimized) == ("spark", None)
        report = maintain(job, z_order=("offset",))
        assert (report.tables[0].by, report.tables[0].live_after.files) == ("spark", 1)
        assert "Z-order is done by Spark" in report.notes[0]
        assert job.ingest().status == "nothing-to-do"
        assert job.rows() == records.rows(topic)
        assert verify(job.job).ok

    @full_scale_only
    def test_runs_know_of_it_afterwards(self, job, records, topic):
        maintain(job, z_order=("offset",))
        other = Ledger.open(job.folder / "ledger-of-another-job")
        table = TableLocation.of(job.folder / "lake/first")
        records.write(topic, 0, 1)
        job.change(run={"deadline": "1s"})
        with (
            acquire(other, "another") as chain,
            table_lease(table, chain, wait=timedelta(0)),
            pytest.raises(AnotherRunActive, match="that Spark writes"),
        ):
            job.ingest()
        job.change(run={"deadline": "2m"}).ingest()
        assert job.rows() == records.rows(topic)

    def test_where_spark_overwrites_commits_it_needs_a_single_driver(self, job):
        job.change(sink={"single_driver": False})
        with pytest.raises(ConfigurationError, match="single_driver"):
            maintain(job, z_order=("offset",))
        assert maintain(job).tables[0].by == "delta-rs"


@pytest.mark.usefixtures("without_margins")
def test_files_of_an_unfinished_run_stay_and_go_when_it_has_ended(home, records):
    topic = records.topic(1)
    job = home(topic)
    records.write(topic, 0, 4)
    job.ingest()
    records.write(topic, 0, 4)
    job.die("land:first:before")
    written = job.orphans()
    assert written
    report = maintain(job, **AT_ONCE)
    assert job.orphans() == written
    assert report.tables[0].vacuumed.files == 0
    assert "a run may commit them yet" in report.notes[0]
    job.ingest()
    assert job.rows() == records.rows(topic)
    maintain(job, **AT_ONCE)
    assert job.orphans() == set()


def test_a_table_that_was_moved_is_maintained_where_it_is(home, records):
    """Its old name was missing, and accepting that took the table's state from the ledger."""
    topic = records.topic(1)
    job = home(topic)
    for name in ("first", "second"):
        records.write(topic, 0, 5)
        job.ingest()
        if name == "first":
            (job.folder / "lake/first").rename(job.folder / "lake/second")
            job.change(sink={"path": "./lake/second"})
    report = maintain_job(job.job, MaintenanceRequest())
    assert [Path(table.path).name for table in report.tables] == ["second"]
    assert audit(job.job).ok
    assert verify(job.job).ok


def test_what_it_refuses(home, records):
    topic = records.topic(1)
    job = home(topic, sink={"single_driver": True})
    records.write(topic, 0, 2)
    job.ingest()
    with pytest.raises(ConfigurationError, match="shorter than seven days"):
        maintain(job, vacuum=timedelta(days=6))
    with pytest.raises(ConfigurationError, match="has no column body"):
        maintain(job, z_order=("body",))
    with acquire(job.ledger, job.job.name, CHAIN), pytest.raises(AnotherRunActive):
        maintain(job)


def test_the_place_of_a_maintenance_that_died_is_taken(home, records, monkeypatch):
    topic = records.topic(1)
    job = home(topic)
    records.write(topic, 0, 2)
    job.ingest()
    whole, taken = maintenance._maintain_table, []

    def taken_over(*args: Any) -> Any:
        """The first maintenance is suspended before its first table."""
        if not taken:
            taken.append(True)
            with pytest.raises(AnotherRunActive):
                maintain(job)
            assert maintain(job, take_over=True).tables
        return whole(*args)

    monkeypatch.setattr(maintenance, "_maintain_table", taken_over)
    with pytest.raises(LeaseLost):
        maintain(job)
    assert maintain(job).tables


@pytest.mark.usefixtures("without_margins")
@full_scale_only
def test_where_spark_alone_writes_no_run_is_active(home, records):
    """Neither of this job nor of another ledger: the table has a lease of its own."""
    topic = records.topic(1)
    job = home(topic, sink={"cluster_by": ["offset"], "single_driver": True})
    for _ in range(2):
        records.write(topic, 0, 3)
        job.ingest()
    other = Ledger.open(job.folder / "ledger-of-another-job")
    table = TableLocation.of(job.folder / "lake/first")
    with acquire(other, "another") as chain, table_lease(table, chain, wait=timedelta(0)):
        with pytest.raises(AnotherRunActive, match="that Spark writes"):
            maintain(job)
        records.write(topic, 0, 1)
        with pytest.raises(AnotherRunActive, match="that Spark writes"):
            job.change(run={"deadline": "1s"}).ingest()
    job.change(run={"deadline": "2m"})
    with acquire(job.ledger, job.job.name):
        assert maintain(job, dry_run=True, **AT_ONCE).tables[0].by == "spark"
    report = maintain(job, **AT_ONCE)
    assert report.tables[0].live_after.files == 1 < report.tables[0].live_before.files
    assert report.tables[0].vacuumed.files == report.tables[0].live_before.files
    records.write(topic, 0, 1)
    job.ingest()  # what could not have the table
    job.ingest()
    assert job.rows() == records.rows(topic)
