"""What a run does when its table is not as the ledger left it."""

from __future__ import annotations

import shutil
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.errors import ConfigurationError, Refused


@pytest.fixture
def job(topic, any_home, records):
    """A job with two finished runs."""
    job = any_home(topic)
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


def test_a_run_is_abandoned_although_one_of_its_tables_was_dropped(any_home, records):
    kept, dropped = records.topic(1), records.topic(1)
    for topic in (kept, dropped):
        records.write(topic, 0, 5)
    job = any_home(kept, dropped)
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


# --- two names, older copies


def test_two_routes_to_one_table_by_two_names_are_refused(any_home, records):
    """The second route's rows would count as landed with the first's."""
    a, b = records.topic(1), records.topic(1)
    for topic in (a, b):
        records.write(topic, 0, 10)
    job = any_home(a, b)
    (job.folder / "lake").mkdir()
    (job.folder / "alias").symlink_to(job.folder / "lake")
    job.change(sink={"routes": {a: {"path": "./lake/first"}, "*": {"path": "./alias/first"}}})
    with pytest.raises(ConfigurationError) as caught:
        job.ingest()
    assert "lake/first" in str(caught.value)
    assert "alias/first" in str(caught.value)
    assert not job.state.runs
    job.change(sink={"routes": {a: {"path": "./lake/first"}, "*": {"path": "./lake/first"}}})
    job.ingest()
    assert job.rows("first") == records.rows(a, b)


def test_a_path_and_a_catalog_name_of_one_table_are_refused(home, records, spark, lasting_catalog):
    a, b = records.topic(1), records.topic(1)
    for topic in (a, b):
        records.write(topic, 0, 10)
    job = home(a, sink={"path": "./lake/first"})
    job.ingest()
    name = f"spark_catalog.default.{job.document['name'].replace('-', '_')}"
    spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{job.folder / 'lake' / 'first'}'")
    routes = {a: {"path": "./lake/first"}, "*": {"table": name}}
    job.change(source={"topics": [a, b]}, sink={"path": None, "routes": routes, "single_driver": True})
    try:
        with pytest.raises(ConfigurationError) as caught:
            job.ingest()
        assert name in str(caught.value)
    finally:
        spark.sql(f"DROP TABLE {name}")
    assert job.rows("first") == records.rows(a)


def test_a_name_in_a_catalog_that_is_only_in_memory_is_refused_before_a_plan(home, records):
    topic = records.topic(1)
    records.write(topic, 0, 3)
    job = home(topic)
    job.change(sink={"path": None, "table": "default.orders", "single_driver": True})
    for decide in (job.plan, job.ingest):
        with pytest.raises(ConfigurationError, match=r"spark\.sql\.catalogImplementation"):
            decide()
    assert job.state.runs == {}


def test_two_names_that_become_one_table_after_the_plan_are_refused(any_home, records):
    """Neither had an id or a common place when the run was planned."""
    a, b = records.topic(1), records.topic(1)
    for topic in (a, b):
        records.write(topic, 0, 10)
    job = any_home(a, b)

    def link(step: str) -> None:
        if step == "plan:after":
            (job.folder / "lake" / "first").mkdir(parents=True)
            (job.folder / "lake" / "rest").symlink_to(job.folder / "lake" / "first")

    with pytest.raises(ConfigurationError):
        job.ingest(observe=link)
    assert job.rows("first") == []
    with pytest.raises(ConfigurationError):
        job.ingest()
    (job.folder / "lake" / "rest").unlink()
    job.ingest()
    job.assert_complete(runs=1)


def test_a_table_put_back_from_a_copy_is_refused_although_others_overtook_it(job, topic, any_home, records):
    shutil.copytree(job.folder / "lake" / "first", job.folder / "copy")
    records.write(topic, 0, 7)
    job.ingest()
    delete(job)
    shutil.copytree(job.folder / "copy", job.folder / "lake" / "first")
    other = any_home(records.topic(1), sink={"path": str(job.folder / "lake" / "first")})
    for _ in range(2):
        records.write(other.topics[0], 0, 5)
        other.ingest()
    records.write(topic, 0, 3)
    offsets = job.group_offsets()
    for refused in (job.ingest, job.plan):
        with pytest.raises(Refused) as caught:
            refused()
        assert caught.value.code == "table-older-than-ledger"
    assert job.group_offsets() == offsets


def test_a_table_put_back_under_an_unfinished_run_is_refused(job, topic, any_home, records):
    shutil.copytree(job.folder / "lake" / "first", job.folder / "copy")
    records.write(topic, 0, 7)
    job.ingest()
    records.write(topic, 0, 3)
    job.die("plan:after")
    delete(job)
    shutil.copytree(job.folder / "copy", job.folder / "lake" / "first")
    for _ in range(3):
        write_deltalake(job.table("first"), job.table("first").to_pyarrow_table().slice(0, 0), mode="append")
    with pytest.raises(Refused) as caught:
        job.ingest()
    assert caught.value.code == "table-older-than-ledger"


def test_another_writer_s_commit_is_not_finished_as_the_run_s(job, topic, any_home, records):
    """`kseg repair --finish` counted that commit, which had as many rows, and the run's were lost."""
    shutil.copytree(job.folder / "lake" / "first", job.folder / "copy")
    records.write(topic, 0, 7)
    job.die("land:first:after")
    run = job.state.unfinished()
    version = job.table("first").version()
    delete(job)
    shutil.copytree(job.folder / "copy", job.folder / "lake" / "first")
    other = any_home(records.topic(1), sink={"path": str(job.folder / "lake" / "first")})
    records.write(other.topics[0], 0, 7)
    other.ingest()
    assert job.table("first").version() == version
    with pytest.raises(Refused) as caught:
        job.finish(run.run_id)
    assert caught.value.code == "table-older-than-ledger"
    assert not job.state.runs[run.run_id].ended
    job.abandon(run.run_id)
    job.accept_table("first", verify_rows=False)
    assert job.ingest().counts["records"] == 7
    assert len(job.rows("first")) == len(records.rows(topic)) + 7
