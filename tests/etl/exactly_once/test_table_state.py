"""What a run does when its table is not as the ledger left it."""

from __future__ import annotations

import shutil
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.errors import Refused


@pytest.fixture
def topic(records: Any) -> str:
    topic: str = records.topic(2)
    records.write_mixed(topic, 2, rounds=1)
    return topic


@pytest.fixture
def job(topic, home, records):
    """A job with two finished runs."""
    job = home(topic)
    job.ingest()
    records.write(topic, 0, 5)
    job.ingest()
    return job


def restore(job: Any) -> None:
    job.table("first").restore(1)


def overwrite(job: Any) -> None:
    write_deltalake(job.table("first"), pa.table(job.table("first").to_pyarrow_table().slice(3)), mode="overwrite")


def delete(job: Any) -> None:
    shutil.rmtree(job.folder / "lake" / "first")


def make_anew(job: Any) -> None:
    rows = job.table("first").to_pyarrow_table()
    delete(job)
    for part in (rows.slice(0, 7), rows.slice(7, 5), rows.slice(12)):
        write_deltalake(job.folder / "lake" / "first", pa.table(part), mode="append")


@pytest.mark.parametrize(
    ("happened", "code"),
    [
        (restore, "table-restored"),
        (overwrite, "table-overwritten"),
        (delete, "table-missing"),
        (make_anew, "table-recreated"),
    ],
)
def test_a_table_that_lost_its_history_is_refused(happened, code, job, topic, records):
    happened(job)
    version = DeltaTable(job.folder / "lake" / "first").version() if happened is not delete else None
    records.write(topic, 1, 5)
    offsets = job.group_offsets()
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            job.ingest()
        assert caught.value.code == code
    assert [run.phase for run in job.state.runs.values()] == ["finished", "finished"], "it must not plan"
    assert job.group_offsets() == offsets
    if version is not None:
        assert job.table("first").version() == version


@pytest.mark.parametrize("happened", [restore, overwrite, delete])
def test_a_table_that_lost_its_history_after_the_plan_is_refused(happened, job, topic, records):
    records.write(topic, 1, 5)
    job.die("land:first:before")
    happened(job)
    offsets = job.group_offsets()
    with pytest.raises(Refused) as caught:
        job.ingest()
    assert caught.value.code.startswith("table-")
    assert job.group_offsets() == offsets
    assert job.state.unfinished().phase == "planned"


@pytest.mark.parametrize("step", ["land:first:committed", "land:first:after", "account:before"])
def test_a_table_restored_over_the_commit_of_an_unfinished_run_is_refused(step, job, topic, records):
    """The app transaction of the run survives the RESTORE, and its rows do not."""
    records.write(topic, 1, 5)
    job.die(step)
    restore(job)
    offsets = job.group_offsets()
    with pytest.raises(Refused) as caught:
        job.ingest()
    assert caught.value.code == "table-restored"
    assert job.group_offsets() == offsets


def test_what_others_do_rightly_is_no_incident(job, topic, records):
    """Deletes, appends of others, compaction and vacuum go on while the job runs, also between a plan and its end."""
    table = job.table("first")
    table.delete("offset = 3")
    rows = [row for row in records.rows(topic) if row[2] != 3]
    assert job.rows() == rows
    records.write(topic, 1, 5)
    job.die("land:first:before")
    table = job.table("first")
    table.optimize.compact()
    job.ingest()
    job.table("first").vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert job.rows() == [row for row in records.rows(topic) if row[2] != 3]
    assert job.group_offsets() == records.ends(topic)


# --- abandoning a run whose tables changed


def test_a_run_without_rows_is_abandoned_over_an_append_only_table(job, topic, records):
    job.table("first").alter.set_table_properties({"delta.appendOnly": "true"})
    records.write(topic, 0, 5)
    job.die("plan:after")
    run = job.state.unfinished()
    job.change(source={"isolation_level": "read_uncommitted"})
    job.ingest()
    assert job.state.runs[run.run_id].phase == "abandoned"
    assert job.rows() == records.rows(topic)


def test_rows_in_an_append_only_table_stay_until_it_allows_their_removal(job, topic, records):
    records.write(topic, 0, 5)
    job.die("land:first:after")
    before = job.rows()
    job.table("first").alter.set_table_properties({"delta.appendOnly": "true"})
    run = job.state.unfinished()
    with pytest.raises(Refused) as caught:
        job.abandon(run.run_id)
    assert caught.value.code == "table-append-only"
    assert job.rows() == before
    job.table("first").alter.set_table_properties({"delta.appendOnly": "false"})
    assert job.abandon(run.run_id).status == "abandoned"
    assert len(job.rows()) == len(before) - 5


def test_a_run_is_abandoned_although_one_of_its_tables_was_dropped(home, records):
    kept, dropped = records.topic(1), records.topic(1)
    for topic in (kept, dropped):
        records.write(topic, 0, 5)
    job = home(kept, dropped)
    job.ingest()
    for topic in (kept, dropped):
        records.write(topic, 0, 5)
    job.die("plan:after")
    shutil.rmtree(job.folder / "lake" / "rest")
    run = job.state.unfinished()
    job.change(source={"topics": [kept]}, sink={"routes": {"*": None}})
    job.ingest()
    assert job.state.runs[run.run_id].phase == "abandoned"
    assert job.rows("first") == records.rows(kept)
    assert job.tables == ["first"], "the fence is no reason to make the table again"


def test_abandoning_does_not_hide_what_happened_to_the_table(job, topic, records):
    """The removal's own commit comes after the RESTORE: recorded as the table's state, it would excuse it."""
    records.write(topic, 1, 5)
    job.die("land:first:before")
    restore(job)
    job.abandon(job.state.unfinished().run_id)
    with pytest.raises(Refused) as caught:
        job.ingest()
    assert caught.value.code == "table-restored"
