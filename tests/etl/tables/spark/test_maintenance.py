"""OPTIMIZE and VACUUM by Spark, of tables with liquid clustering."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.spark.correcting import delete_old_scratch
from kseg.etl.tables.spark.maintenance import SparkMaintenance
from kseg.etl.tables.spark.writer import SparkTarget
from kseg.etl.tables.values import RunCommit

WEEK = timedelta(days=7)


def land(spark: Any, path: Path, batch: pa.RecordBatch) -> SparkTarget:
    """A clustered table with these rows."""
    target = SparkTarget(lambda: spark, path=str(path), single_driver=True)
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    target.ensure(frame, sink_schema(batch.schema), cluster_by=["offset"])
    target.land(frame, sink_schema(batch.schema), RunCommit("run-1", "kseg/ledger/job", 1, {}))
    return target


def vacuum(target: SparkTarget, *, dry_run: bool = False) -> tuple[int, int]:
    """Number and bytes of the deleted files."""
    access = target.access()
    assert access is not None
    done = SparkMaintenance(access, target).vacuum(WEEK, datetime.now(UTC) - WEEK, dry_run=dry_run)
    return done.files, done.bytes


def orphan(folder: Path) -> Path:
    """A file of the year 1970 that no version names."""
    (path := folder / "orphan.parquet").write_bytes(b"12345")
    os.utime(path, (0, 0))
    return path


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "ä%"])
def test_a_table_lies_in_the_folder_that_is_named(
    spark: Any, tmp_path: Path, rows: Callable[..., Any], name: str
) -> None:
    target = land(spark, tmp_path / name, rows(0, 10))
    assert [folder.name for folder in tmp_path.iterdir()] == [name]
    access = target.access()
    assert access is not None
    assert access.location.uri == str(tmp_path / name)
    state = access.state()
    assert state is not None
    assert state.rows == target.frame().count() == target.rows_of_run("run-1") == 10
    lost = orphan(tmp_path / name)
    assert vacuum(target, dry_run=True) == (1, 5)
    assert vacuum(target) == (1, 5)
    assert not lost.exists()
    assert target.frame().count() == 10


def test_a_table_of_a_catalog_at_an_escape_is_refused(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE at_an_escape (a INT) USING delta LOCATION '{tmp_path}/a%20b'")
    try:
        with pytest.raises(ConfigurationError, match="has the escape %20"):
            SparkTarget(lambda: spark, table="at_an_escape", single_driver=True).state()
    finally:
        spark.sql("DROP TABLE at_an_escape")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_table_with_another_one_inside_is_not_vacuumed(
    spark: Any, tmp_path: Path, rows: Callable[..., Any], lander: Callable[..., Any], dry_run: bool
) -> None:
    outer = land(spark, tmp_path / "table", rows(0, 10))
    inner = lander("table/deeper/inside")
    inner.land(rows(0, 10))
    for file in (tmp_path / "table").rglob("*.parquet"):
        os.utime(file, (0, 0))
    with pytest.raises(ConfigurationError, match=r"is not vacuumed: the table .*/deeper/inside lies inside") as caught:
        vacuum(outer, dry_run=dry_run)
    assert "move that table" in (caught.value.faults[0].remedy or "")
    assert len(inner.offsets()) == 10


def test_what_processes_have_left_that_died_while_they_made_a_shape_goes_after_a_day(tmp_path: Path) -> None:
    day_ago = datetime.now(UTC).timestamp() - 25 * 3600
    for name in ("shape-old", "shape-of-today", "race-old"):
        log = tmp_path / "_kseg" / name / "_delta_log"
        log.mkdir(parents=True)
        (log / "0.json").touch()
        if name.endswith("old"):
            for path in (log / "0.json", log, log.parent):
                os.utime(path, (day_ago, day_ago))
    store = TableLocation.of(str(tmp_path)).open()
    assert delete_old_scratch(store) == 1
    assert sorted(path.name for path in (tmp_path / "_kseg").iterdir()) == ["race-old", "shape-of-today"]
    assert delete_old_scratch(TableLocation.of(str(tmp_path / "nowhere")).open()) == 0
