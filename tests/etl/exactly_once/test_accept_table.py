"""A table is accepted as it is (`kseg repair --accept-table`), and what runs do then."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from kseg.etl.errors import Refused
from kseg.etl.operations.accept_table import accept_table
from kseg.jobs.cli import cli
from skips import full_scale_only


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


def delete(job: Any) -> None:
    shutil.rmtree(job.folder / "lake" / "first")


def make_anew(job: Any) -> None:
    rows = job.table("first").to_pyarrow_table()
    delete(job)
    for part in (rows.slice(0, 7), rows.slice(7, 5), rows.slice(12)):
        write_deltalake(job.folder / "lake" / "first", pa.table(part), mode="append")


def clean_log(job: Any) -> None:
    """What Delta does with entries that a checkpoint replaces, once they are old."""
    write_deltalake(job.table("first"), job.table("first").to_pyarrow_table().slice(0, 0), mode="append")
    job.table("first").create_checkpoint()
    for version in range(job.table("first").version()):
        (job.folder / "lake" / "first" / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)


def test_a_table_restored_forward_again_is_accepted(job, topic, records):
    """All rows are there, and only its history says that they were not."""
    before = job.rows()
    version = job.table("first").version()
    restore(job)
    job.table("first").restore(version)
    assert job.rows() == before
    with pytest.raises(Refused) as caught:
        job.ingest()
    assert (caught.value.code, "--accept-table" in str(caught.value.remedy)) == ("table-restored", True)
    assert job.accept_table("first", dry_run=True).status == "dry-run"
    report = job.accept_table("first")
    assert (report.status, report.incident, report.verified) == ("accepted", "table-restored", True)
    assert report.rows == len(before)
    assert job.accept_table("first").status == "nothing-to-do"
    records.write(topic, 0, 3)
    job.ingest()
    job.assert_complete(runs=3)


@full_scale_only
def test_a_table_of_a_catalog_is_accepted_by_its_name(topic, home, records, spark, lasting_catalog):
    job = home(topic)
    name = f"spark_catalog.default.{job.document['name'].replace('-', '_')}"
    job.change(sink={"path": None, "table": name, "single_driver": True})
    try:
        job.ingest()
        records.write(topic, 0, 5)
        job.ingest()
        # Not by Spark, whose RESTORE takes fifty stages: what counts is that the table's log tells of it.
        location = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["location"].removeprefix("file:")
        for version in (1, 2):
            DeltaTable(location).restore(version)
        with pytest.raises(Refused) as caught:
            job.ingest()
        assert caught.value.code == "table-restored"
        report = accept_table(job.job, name)
        assert (report.status, report.verified, report.rows) == ("accepted", True, len(records.rows(topic)))
        records.write(topic, 0, 5)
        assert job.ingest().status == "done"
        assert spark.table(name).count() == len(records.rows(topic))
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_the_command_accepts_a_table(job):
    restore(job)
    words = ["repair", str(job.file), "--accept-table", str(job.folder / "lake" / "first"), "--json"]
    refused = CliRunner().invoke(cli, words)
    assert (refused.exit_code, json.loads(refused.stdout)["error"]["code"]) == (3, "table-differs")
    accepted = CliRunner().invoke(cli, [*words, "--no-verify"])
    assert accepted.exit_code == 0, accepted.output
    told = json.loads(accepted.stdout)
    assert (told["status"], told["incident"], told["verified"]) == ("accepted", "table-restored", False)
    assert job.ingest().status == "nothing-to-do"


def test_a_table_that_lost_rows_is_accepted_on_demand_alone(job, topic, records):
    restore(job)
    with pytest.raises(Refused) as caught:
        job.accept_table("first")
    assert caught.value.code == "table-differs"
    assert "--no-verify" in str(caught.value.remedy)
    report = job.accept_table("first", verify_rows=False)
    assert (report.status, report.verified) == ("accepted", False)
    records.write(topic, 1, 3)
    job.ingest()
    assert len(job.rows()) == len(records.rows(topic)) - 5, "what has landed does not land again by itself"
    end = records.ends(topic)[topic, 0]
    job.backfill(from_=[f"{topic}:0:0"], to=[f"{topic}:0:{end}"], mode="replace")
    assert job.rows() == records.rows(topic)


def test_a_legal_delete_is_accepted_after_the_log_was_cleaned(job, topic, records):
    """Until then the log tells that it was a DELETE; without it, nobody knows whose rows are gone."""
    job.table("first").delete("offset < 3")
    clean_log(job)
    records.write(topic, 0, 3)
    with pytest.raises(Refused) as caught:
        job.ingest()
    assert caught.value.code == "table-lost-rows"
    job.accept_table("first", verify_rows=False)
    job.ingest()
    assert job.rows() == [row for row in records.rows(topic) if row[2] >= 3]


def test_a_table_made_anew_with_all_rows_is_accepted_with_its_new_id(job, topic, records):
    make_anew(job)
    known = next(iter(job.state.tables.values())).id
    report = job.accept_table("first")
    assert (report.status, report.incident, report.verified) == ("accepted", "table-recreated", True)
    assert next(iter(job.state.tables.values())).id != known
    records.write(topic, 0, 3)
    job.ingest()
    job.assert_complete(runs=3, swept=False)


def test_a_dropped_table_is_accepted_and_made_again(job, topic, records):
    delete(job)
    with pytest.raises(Refused) as caught:
        job.accept_table("first")
    assert caught.value.code == "table-missing"
    job.accept_table("first", verify_rows=False)
    records.write(topic, 0, 3)
    job.ingest()
    assert len(job.rows()) == 3


def test_a_table_put_back_from_a_copy_is_accepted(job, topic, records):
    shutil.copytree(job.folder / "lake" / "first", job.folder / "copy")
    records.write(topic, 0, 7)
    job.ingest()
    delete(job)
    shutil.copytree(job.folder / "copy", job.folder / "lake" / "first")
    with pytest.raises(Refused) as caught:
        job.accept_table("first")
    assert caught.value.code == "table-differs"
    assert job.accept_table("first", verify_rows=False).incident == "table-went-back"
    records.write(topic, 0, 3)
    job.ingest()
    assert len(job.rows()) == len(records.rows(topic)) - 7


@pytest.mark.parametrize("verified", [True, False])
def test_a_table_that_lacks_data_files_is_not_accepted_and_the_way_out_leads_out(verified, job, topic, records):
    gone = pa.table(job.table("first").get_add_actions())["path"][0].as_py()
    (job.folder / "lake" / "first" / gone).unlink()
    with pytest.raises(Refused) as caught:
        job.accept_table("first", verify_rows=verified)
    assert caught.value.code == "table-lacks-files"
    assert gone in str(caught.value)
    assert "repair()" in str(caught.value.remedy)
    job.table("first").repair()
    ends = records.ends(topic)
    ranges = [(f"{topic}:{n}:0", f"{topic}:{n}:{ends[topic, n]}") for n in range(2)]
    job.backfill(from_=[start for start, _ in ranges], to=[end for _, end in ranges], mode="replace")
    assert job.accept_table("first", verify_rows=verified).status == "nothing-to-do"
    assert job.ingest().status == "nothing-to-do"
    assert job.rows() == records.rows(topic)


def test_an_unfinished_run_goes_on_with_the_accepted_table(job, topic, records):
    records.write(topic, 1, 5)
    job.die("plan:after")
    version = job.table("first").version()
    restore(job)
    job.table("first").restore(version)
    job.accept_table("first")
    job.ingest()
    job.assert_complete(runs=3)


@pytest.mark.parametrize("step", ["land:first:committed", "land:first:after"])
def test_a_run_with_rows_in_the_table_is_abandoned_before_that_is_accepted(step, job, topic, records):
    """The table may have lost the run's app transaction, and then its rows would land again."""
    records.write(topic, 1, 5)
    job.die(step)
    run = job.state.unfinished()
    make_anew(job)
    with pytest.raises(Refused) as caught:
        job.accept_table("first")
    assert caught.value.code == "run-unfinished"
    job.abandon(run.run_id)
    job.accept_table("first")
    job.ingest()
    assert job.rows() == records.rows(topic)


def test_a_table_landed_with_a_later_ledger_cannot_be_accepted(job, topic, records):
    shutil.copytree(job.folder / "ledger", job.folder / "copy")
    records.write(topic, 0, 5)
    end = records.ends(topic)[topic, 0]
    job.backfill(from_=[f"{topic}:0:{end - 5}"], to=[f"{topic}:0:{end}"])
    shutil.rmtree(job.folder / "ledger")
    shutil.copytree(job.folder / "copy", job.folder / "ledger")
    version = job.table("first").version()
    restore(job)
    job.table("first").restore(version)
    with pytest.raises(Refused) as caught:
        job.accept_table("first", verify_rows=False)
    assert caught.value.code == "ledger-older-than-table"
