"""App transactions of all apps at once, out of commits and checkpoints of every form."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from kseg.etl.errors import RetriableFailure
from kseg.etl.tables.delta.transactions import MOST_COMMITS, transactions_of
from kseg.etl.tables.parquet.storage import TableLocation

APP = "kseg/l/job"


def append(path: Path, **versions: int) -> None:
    transactions = [Transaction(app.replace("_", "/"), version) for app, version in versions.items()]
    properties = CommitProperties(app_transactions=transactions or None)
    write_deltalake(path, pa.table({"n": [1]}), mode="append", commit_properties=properties)


def found(path: Path, after: int | None = None) -> dict[str, int]:
    return transactions_of(TableLocation.of(path).open(), APP, DeltaTable(path).version(), after)


def log(path: Path) -> Path:
    return path / "_delta_log"


def test_the_last_transaction_of_each_app_counts(tmp_path: Path) -> None:
    append(tmp_path, kseg_l_job=1, kseg_l_job_b1=1)
    append(tmp_path, kseg_l_job=2, kseg_l_job2=9, kseg_x_job=9)
    assert found(tmp_path) == {APP: 2, f"{APP}/b1": 1}
    assert found(tmp_path, after=0) == {APP: 2}
    assert found(tmp_path, after=1) == {}
    DeltaTable(tmp_path).create_checkpoint()
    append(tmp_path, kseg_l_job=3)
    assert found(tmp_path) == {APP: 3, f"{APP}/b1": 1}


def test_all_are_read_where_the_log_does_not_reach_back(tmp_path: Path) -> None:
    append(tmp_path, kseg_l_job=1, kseg_l_job_b1=1)
    append(tmp_path)
    DeltaTable(tmp_path).create_checkpoint()
    append(tmp_path)
    (log(tmp_path) / f"{1:020d}.json").unlink()
    assert found(tmp_path, after=1) == {}
    assert found(tmp_path, after=0) == {APP: 1, f"{APP}/b1": 1}
    (log(tmp_path) / f"{2:020d}.json").unlink()
    with pytest.raises(RetriableFailure):
        transactions_of(TableLocation.of(tmp_path).open(), APP, 2)


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_checkpoints_of_spark_are_read(policy: str, tmp_path: Path, spark: Any) -> None:
    """In parts, or with sidecars."""
    path = str(tmp_path / "table")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (n LONG) USING delta"
        f" TBLPROPERTIES ('delta.checkpointPolicy' = '{policy}', 'delta.checkpointInterval' = '3')"
    )
    part_size = "spark.databricks.delta.checkpoint.partSize"
    spark.conf.set(part_size, "2")
    try:
        for n in range(4):
            rows = spark.range(1).withColumnRenamed("id", "n")
            rows.write.format("delta").option("txnAppId", f"{APP}/b{n}").option("txnVersion", 1).mode("append").save(
                path
            )
    finally:
        spark.conf.unset(part_size)
    checkpoints = list(log(Path(path)).glob(f"{3:020d}.checkpoint.*"))
    assert len(checkpoints) > 1 or policy == "v2", "in parts"
    for version in range(4):
        (log(Path(path)) / f"{version:020d}.json").unlink()
    assert transactions_of(TableLocation.of(path).open(), APP, 4) == {f"{APP}/b{n}": 1 for n in range(4)}


def test_thousands_of_old_transactions_take_no_time(tmp_path: Path) -> None:
    append(tmp_path, kseg_l_job=1, **{f"kseg_l_job_b{n}": 1 for n in range(5000)})
    DeltaTable(tmp_path).create_checkpoint()
    for _ in range(3 * MOST_COMMITS):
        append(tmp_path)
    begun = time.perf_counter()
    assert len(found(tmp_path, after=0)) == 5001
    assert found(tmp_path, after=3 * MOST_COMMITS - 5) == {}
    assert time.perf_counter() - begun < 2


def test_transactions_are_read_in_an_object_store(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bucket by the names of two schemes."""
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    append(tmp_path / "t", kseg_l_job=1, kseg_l_job_b1=1)
    DeltaTable(tmp_path / "t").create_checkpoint()
    append(tmp_path / "t", kseg_l_job=2)
    shutil.copytree(tmp_path / "t", s3.folder / tmp_path.name)
    for scheme in ("s3", "s3a"):
        store = TableLocation.of(f"{scheme}://logs/{tmp_path.name}").open()
        assert transactions_of(store, APP, 1) == {APP: 2, f"{APP}/b1": 1}
        assert transactions_of(store, APP, 1, after=0) == {APP: 2}
