from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kseg.etl.ledger.log_files import LocalLog
from kseg.etl.tables.delta.cleanup import clean_up as delete_unnamed
from kseg.etl.tables.delta.cleanup import tables_inside
from kseg.etl.tables.file_names import FileOwner
from kseg.etl.tables.values import FileCount, RunCommit

APP = "kseg/ledger/job"


def clean_up(target, run_id, versions=None, number=1, **more) -> FileCount:
    return delete_unnamed(
        target.load(), target.log, target.location.open(), FileOwner(run_id, number), versions, **more
    )


def data_files(table) -> set[str]:
    return {str(path.relative_to(table.path)) for path in Path(table.path).rglob("*.parquet")}


@pytest.mark.parametrize("partition_by", [[], ["partition", "_kseg_run"]])
def test_files_of_attempts_that_lost_are_deleted(lander, rows, partition_by):
    table = lander()
    batch = pa.concat_batches([rows(0, 10), rows(0, 10, partition=1)])
    landed = table.write([batch], partition_by=partition_by)
    lost = table.write([batch], attempt=1)
    others = table.write([batch], "run-1-2")
    version = table.commit(landed).commit.version
    swept = clean_up(table.target, "run-1", [version])
    assert swept == FileCount(len(lost), sum(f.size for f in lost))
    assert data_files(table) == {f.path for f in (*landed, *others)}
    assert clean_up(table.target, "run-1", [version]) == FileCount()


def test_files_of_another_table_inside_the_folder_stay(lander, rows):
    """Also those of the same run, which the outer table's commit does not name."""
    table, inside = lander(), lander("table/deeper/inside")
    landed, others = table.write([rows(0, 10)]), inside.write([rows(10, 20)])
    version = table.commit(landed).commit.version
    inside.commit(others)
    assert clean_up(table.target, "run-1", [version]) == FileCount()
    assert len(inside.offsets()) == len(table.offsets()) == 10


def test_tables_inside_are_found_also_in_partitions(lander, rows):
    table = lander()
    table.land(pa.concat_batches([rows(0, 10), rows(0, 10, partition=1)]), partition_by=["partition", "_kseg_run"])
    store = table.target.location.open()
    assert tables_inside(store.fs, store.root) == []
    for name in ("partition=1/x", "a/b/c", "a/b/c/d"):
        lander(f"table/{name}").land(rows(0, 1))
    assert tables_inside(store.fs, store.root) == [f"{table.path}/a/b/c", f"{table.path}/partition=1/x"]


def test_the_log_is_searched_where_no_version_is_known(lander, rows):
    table = lander()
    landed, lost = table.write([rows(0, 10)]), table.write([rows(0, 10)], attempt=1)
    table.commit(landed)
    table.land(rows(10, 20), run_id="run-2", number=2)
    assert clean_up(table.target, "run-1").files == len(lost)
    assert len(table.offsets()) == 20


def test_the_log_is_searched_no_further_back_than_the_run(lander, rows, monkeypatch):
    """Each log entry is a request, and a table may have many thousands of them."""
    table = lander()
    for number in range(2, 7):
        before = table.land(rows(0, 10), run_id=f"run-{number}", number=1, app=f"{APP}/run-{number}").commit.after
    landed, lost = table.write([rows(0, 10)]), table.write([rows(0, 10)], attempt=1)
    table.commit(landed)
    read = []

    def noted(folder, name, first=0, length=None):
        read.append(int(name[:20]))
        return LocalLog._read(folder, name, first, length)

    monkeypatch.setattr(LocalLog, "read", noted)
    assert clean_up(table.target, "run-1", after=before.version).files == len(lost)
    assert read == [before.version + 1]


def test_compacted_files_of_the_run_stay_for_readers_of_older_versions(lander, rows):
    table = lander()
    first = table.land(rows(0, 10))
    table.land(rows(10, 20), run_id="run-2", number=2)
    table.target.load().optimize.compact()
    assert clean_up(table.target, "run-1", [first.commit.version]) == FileCount()
    assert table.target.state_at(first.commit.version).rows == 10


def test_nothing_is_deleted_before_a_commit_is_found(lander, rows):
    table = lander()
    files = table.write([rows(0, 10)])
    assert clean_up(table.target, "run-1") == FileCount()
    assert clean_up(table.target, "run-1", [0]) == FileCount()
    assert clean_up(table.target, "run-1", [7]) == FileCount()
    assert data_files(table) == {f.path for f in files}


def test_nothing_is_deleted_where_a_commit_of_the_run_cannot_be_read(lander, rows):
    table = lander()
    first = table.land(rows(0, 10))
    lost = table.write([rows(0, 10)], attempt=1)
    second = table.target.remove_run(RunCommit("run-1", APP, 1))
    versions = [first.commit.version, second.version]
    table.target.load().create_checkpoint()
    for version in range(second.version):
        (Path(table.path) / f"_delta_log/{version:020d}.json").unlink()
    before = data_files(table)
    assert clean_up(table.target, "run-1", versions) == FileCount()
    assert data_files(table) == before >= {f.path for f in lost}


def test_a_removed_run_leaves_the_files_that_older_versions_need(lander, rows):
    table = lander()
    first = table.land(rows(0, 10))
    lost = table.write([rows(0, 10)], attempt=1)
    second = table.target.remove_run(RunCommit("run-1", APP, 1))
    assert clean_up(table.target, "run-1", [first.commit.version, second.version]).files == len(lost)
    assert table.target.state_at(first.commit.version).rows == 10


def test_a_missing_table_has_nothing_to_clean_up(lander):
    assert clean_up(lander().target, "run-1") == FileCount()


def test_files_of_a_later_plan_of_the_same_run_stay(lander, rows):
    """A backfill that is abandoned and repeated has the same run id: an abandonment that was suspended before its
    clean-up deleted the files of the new attempt, before they were committed."""
    table = lander()
    table.land(rows(0, 10))
    removed = table.target.remove_run(RunCommit("run-1", APP, 1))
    again = table.write([rows(0, 10)], number=2)
    assert clean_up(table.target, "run-1", number=1, unversioned=True) == FileCount()
    table.commit(again, number=2)
    assert len(table.offsets()) == 10
    assert removed.removed == 10


@pytest.mark.parametrize("unversioned", [False, True])
def test_files_of_earlier_releases_are_deleted_where_the_caller_knows_whose_they_are(lander, rows, unversioned):
    table = lander()
    table.land(rows(0, 10))
    old = table.write([rows(0, 10)], attempt=1, number=None)
    assert clean_up(table.target, "run-1", unversioned=unversioned).files == (len(old) if unversioned else 0)
    assert len(table.offsets()) == 10
