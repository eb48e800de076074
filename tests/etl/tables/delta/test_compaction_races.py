"""Each row is there once, whatever else is committed while files are compacted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from compacted_tables import compact, files, live, values
from kseg.etl.errors import Refused, RetriableFailure
from kseg.etl.tables.delta.compaction import Compaction
from kseg.etl.tables.errors import NeedsSparkWriter, TableBusy
from kseg.etl.tables.parquet.data_file import DataFile

# --- somebody else commits meanwhile ---------------------------------------------------------------------------------


@pytest.fixture(params=["before the check", "behind it"])
def meanwhile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """`meanwhile(action)`: it happens once, when the files are rewritten and not committed."""
    owner: Any = Compaction if request.param == "before the check" else DeltaTable
    name = "_commit" if owner is Compaction else "create_write_transaction"

    def put(action: Callable[[], Any]) -> None:
        whole, left = getattr(owner, name), [action]

        def after_somebody(self: Any, *args: Any, **options: Any) -> Any:
            if left:
                left.pop()()
            return whole(self, *args, **options)

        monkeypatch.setattr(owner, name, after_somebody)

    return put


@pytest.mark.parametrize(
    "optimize", [lambda table: table.optimize.compact(), lambda table: table.optimize.z_order(["x"])]
)
def test_another_optimize_leaves_each_row_once(path, meanwhile, optimize):
    meanwhile(lambda: optimize(DeltaTable(path)))
    assert compact(path) == 0
    assert values(path) == [*range(6)]
    assert len(live(path)) == 1
    assert len(files(path)) == 6 + 1, "what it has rewritten for nothing is deleted"


def test_another_maintenance_leaves_each_row_once(path, monkeypatch):
    whole, others = Compaction._commit, iter([True])

    def after_another(self):
        if next(others, False):
            assert compact(path) == 6
        return whole(self)

    monkeypatch.setattr(Compaction, "_commit", after_another)
    assert compact(path) == 0
    assert values(path) == [*range(6)]
    assert files(path) >= live(path)
    assert len(files(path)) == 7


def test_sparks_optimize_leaves_each_row_once(path, meanwhile, spark):
    meanwhile(lambda: spark.sql(f"OPTIMIZE delta.`{path}`"))
    assert compact(path) == 0
    assert values(path) == [*range(6)]
    assert spark.read.format("delta").load(path).count() == 6


def test_bins_that_nobody_touched_are_committed(tmp_path, meanwhile):
    path = str(tmp_path / "table")
    for n in range(6):
        write_deltalake(path, pa.table({"p": [n % 2], "x": [n]}), mode="append", partition_by=["p"])
    meanwhile(lambda: DeltaTable(path).optimize.compact(partition_filters=[("p", "=", "1")]))
    assert compact(path) == 3
    assert values(path) == [*range(6)]
    assert len(live(path)) == 2
    assert len(files(path)) == 6 + 2


def test_rows_that_are_appended_stay(path, meanwhile):
    meanwhile(lambda: write_deltalake(path, pa.table({"x": [6]}), mode="append"))
    assert compact(path) == 6
    assert values(path) == [*range(7)]
    assert len(live(path)) == 2


def test_a_delete_is_not_undone(path, meanwhile):
    meanwhile(lambda: DeltaTable(path).delete("x = 3"))
    assert compact(path) == 0
    assert values(path) == [0, 1, 2, 4, 5]
    assert compact(path) == 5
    assert values(path) == [0, 1, 2, 4, 5]


def test_an_overwrite_is_not_undone(path, meanwhile):
    meanwhile(lambda: write_deltalake(path, pa.table({"x": [7]}), mode="overwrite"))
    assert compact(path) == 0
    assert values(path) == [7]


def test_rows_that_spark_marks_as_deleted_do_not_come_back(path, meanwhile, spark):
    """The file keeps its path: it has a deletion vector then."""
    for n in range(6, 9):
        write_deltalake(path, pa.table({"x": [n, n + 100]}), mode="append")

    def delete() -> None:
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        spark.sql(f"DELETE FROM delta.`{path}` WHERE x = 107")

    meanwhile(delete)
    before = files(path)
    with pytest.raises(NeedsSparkWriter, match="deletion vectors"):
        compact(path)
    assert 107 not in [row["x"] for row in spark.read.format("delta").load(path).collect()]
    assert files(path) == before


def test_new_files_that_a_vacuum_deleted_are_not_committed(path, monkeypatch):
    whole = Compaction._commit

    def after_a_vacuum(self):
        for name in files(path) - live(path):
            (Path(path) / name).unlink()
        return whole(self)

    monkeypatch.setattr(Compaction, "_commit", after_a_vacuum)
    assert compact(path) == 0
    assert values(path) == [*range(6)]


def test_old_files_that_another_maintenance_deleted_are_passed_over(path, monkeypatch):
    """Another OPTIMIZE replaced them, and VACUUM deleted them, before they were read."""
    whole, others = Compaction._rewrite, iter([True])

    def after_others(self, *args):
        if next(others, False):
            table = DeltaTable(path)
            table.optimize.compact()
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        return whole(self, *args)

    monkeypatch.setattr(Compaction, "_rewrite", after_others)
    assert compact(path) == 0
    assert values(path) == [*range(6)]


def test_a_data_file_that_is_missing_is_told(path):
    (Path(path) / sorted(live(path))[0]).unlink()
    before = files(path)
    with pytest.raises(Refused, match="a data file is missing") as refused:
        compact(path)
    assert refused.value.code == "files-missing"
    assert files(path) == before


# --- answers that are lost -------------------------------------------------------------------------------------------


@pytest.fixture
def lost_answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`lost_answer(then)`: of the first commit. then: what happens right after it."""

    def put(then: Callable[[], Any] = lambda: None) -> None:
        whole, first = DeltaTable.create_write_transaction, iter([True])

        def committed_but_no_answer(self, *args, **options):
            whole(self, *args, **options)
            if next(first, False):
                then()
                raise OSError("connection reset")

        monkeypatch.setattr(DeltaTable, "create_write_transaction", committed_but_no_answer)

    return put


def test_a_commit_whose_answer_was_lost_is_not_made_twice(path, lost_answer):
    lost_answer()
    assert compact(path) == 6
    assert DeltaTable(path).version() == 6
    assert values(path) == [*range(6)]
    assert files(path) >= live(path)


def test_files_of_such_a_commit_stay_though_another_has_replaced_them(path, lost_answer):
    def others() -> None:
        write_deltalake(path, pa.table({"x": [6]}), mode="append")
        DeltaTable(path).optimize.compact()

    lost_answer(others)
    assert compact(path) == 6
    assert values(path) == [*range(7)]
    older = DeltaTable(path, version=6)
    assert sorted(pa.table(older.scan(["x"]))["x"].to_pylist()) == [*range(6)]


def test_files_that_a_commit_may_yet_hold_stay(path, monkeypatch):
    """The store takes the commit after the deadline: what was sent may come late."""
    whole, late = DeltaTable.create_write_transaction, []

    def no_answer(self, *args, **options):
        late.append(lambda: whole(self, *args, **options))
        raise OSError("timed out")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", no_answer)
    with pytest.raises(TableBusy) as busy:
        compact(path, deadline=0.1)
    assert busy.value.retriable
    late[0]()
    assert values(path) == [*range(6)]
    assert len(live(path)) == 1


def test_one_that_gives_up_before_a_commit_leaves_no_file(path, monkeypatch):
    before = files(path)

    def failing(self):
        raise RetriableFailure("away")

    monkeypatch.setattr(Compaction, "_load", failing)
    with pytest.raises(RetriableFailure):
        compact(path)
    monkeypatch.undo()
    monkeypatch.setattr(DataFile, "close", lambda *_: failing(None))
    with pytest.raises(RetriableFailure):
        compact(path)
    assert files(path) == before
