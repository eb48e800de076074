"""OPTIMIZE, VACUUM and the ledger's upkeep change no row, and are nobody's hand: runs, replacements and verification go
on afterwards; what an unfinished run may still commit stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kseg.etl.errors import AnotherRunActive, ConfigurationError
from kseg.etl.ledger.lease import acquire
from kseg.etl.operations.maintain import CHAIN, MaintenanceRequest, maintain_job, safe_retention
from kseg.etl.operations.verify import verify

NOW = datetime(2026, 1, 10, tzinfo=UTC)
AT_ONCE = {"vacuum": timedelta(0), "allow_short": True}


def maintain(job: Any, **request: Any) -> Any:
    return maintain_job(job.job, MaintenanceRequest(**request))


@pytest.mark.parametrize(
    ("unfinished", "asked", "hours"),
    [
        ([], timedelta(days=7), 7 * 24),
        ([], timedelta(minutes=90), 2),
        ([timedelta(hours=3)], timedelta(days=7), 7 * 24),
        ([timedelta(hours=3), timedelta(days=9)], timedelta(days=7), 9 * 24 + 1),
    ],
)
def test_no_file_goes_that_an_unfinished_run_may_commit(unfinished: Any, asked: timedelta, hours: int) -> None:
    runs = [SimpleNamespace(planned_at=NOW - ago) for ago in unfinished]
    state: Any = SimpleNamespace(unfinished_runs=lambda: iter(runs))
    assert safe_retention(state, asked, NOW) == timedelta(hours=hours)


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
    assert maintain(job, z_order=("offset",), **AT_ONCE).tables[0].live_after.files == 1
    assert job.ingest().status == "nothing-to-do"
    assert job.rows() == records.rows(topic)


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
    assert "unfinished run" in report.notes[0]
    job.ingest()
    assert job.rows() == records.rows(topic)
    maintain(job, **AT_ONCE)
    assert job.orphans() == set()


def test_what_it_refuses(home, records):
    topic = records.topic(1)
    job = home(topic)
    records.write(topic, 0, 2)
    job.ingest()
    with pytest.raises(ConfigurationError, match="shorter than seven days"):
        maintain(job, vacuum=timedelta(days=6))
    with pytest.raises(ConfigurationError, match="has no column body"):
        maintain(job, z_order=("body",))
    with acquire(job.ledger, job.job.name, CHAIN), pytest.raises(AnotherRunActive):
        maintain(job)


def test_where_spark_alone_writes_no_run_is_active(home, records):
    topic = records.topic(1)
    job = home(topic, sink={"cluster_by": ["offset"], "single_driver": True})
    for _ in range(2):
        records.write(topic, 0, 3)
        job.ingest()
    with acquire(job.ledger, job.job.name), pytest.raises(AnotherRunActive):
        maintain(job)
    assert maintain(job, dry_run=True, **AT_ONCE).tables[0].by == "spark"
    report = maintain(job, **AT_ONCE)
    assert report.tables[0].live_after.files == 1 < report.tables[0].live_before.files
    assert report.tables[0].vacuumed.files == report.tables[0].live_before.files
    records.write(topic, 0, 1)
    job.ingest()
    assert job.rows() == records.rows(topic)
