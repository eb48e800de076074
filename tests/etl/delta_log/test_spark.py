"""Tables by Delta on Spark, version by version: Spark, delta-rs and ours say the same.

Deletion vectors, V2 checkpoints and those in parts, typed statistics, column mapping, in-commit timestamps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from kseg.etl.delta_log.actions import AddFile
from kseg.etl.delta_log.replay import LogSnapshot
from kseg.etl.delta_log.table_log import DeltaLog
from kseg.etl.ledger.log_files import log_folder
from kseg.etl.ledger.values import TableState
from kseg.etl.tables.delta.log import commits_back
from kseg.etl.tables.delta.snapshots import Snapshot as DeltaRsSnapshot
from kseg.etl.tables.delta.table import DeltaAccess

PROPERTIES = {
    "classic": {"checkpointInterval": "3"},
    "v2, vectors": {
        "checkpointPolicy": "v2",
        "checkpointInterval": "4",
        "columnMapping.mode": "name",
        "enableDeletionVectors": "true",
        "enableInCommitTimestamps": "true",
    },
    "vectors": {"enableDeletionVectors": "true", "checkpointInterval": "4"},
    "typed statistics": {"checkpoint.writeStatsAsStruct": "true", "checkpoint.writeStatsAsJson": "false"},
}
IN_PARTS = "spark.databricks.delta.checkpoint.partSize"
APP = "kseg/l/job"


def ours_at(path: Path, version: int) -> LogSnapshot:
    folder = log_folder(str(path))
    assert folder is not None
    found = DeltaLog(folder).at(version)
    assert found is not None
    return found


def files_of(snapshot: LogSnapshot) -> list[AddFile]:
    return [file for batch in snapshot.files.batches() for file in batch]


def make(spark: Any, path: Path, kind: str, steps: int) -> None:
    """A table with appends of two applications, and deletions."""
    table, choice = f"delta.`{path}`", random.Random(kind)
    listed = ", ".join(f"'delta.{name}' = '{value}'" for name, value in PROPERTIES[kind].items())
    spark.sql(f"CREATE TABLE {table} (n LONG, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({listed})")
    spark.conf.set(IN_PARTS, "3" if kind == "classic" else "1000")
    try:
        for number in range(1, steps):
            if number % 3 == 0:
                spark.sql(f"DELETE FROM {table} WHERE n % 7 = {choice.randrange(7)}")
            else:
                rows = spark.range(number * 10, number * 10 + 10, 1, 2).selectExpr("id AS n", "'a b%20ü' AS p")
                app = f"{APP}/b" if choice.random() < 0.3 else APP
                writer = rows.write.format("delta").option("txnAppId", app).option("txnVersion", number)
                writer.mode("append").save(str(path))
    finally:
        spark.conf.unset(IN_PARTS)


def test_a_table_of_spark_is_read_as_spark_and_delta_rs_read_it(
    tmp_path: Path, spark: Any, scale: Callable[[Any, Any], Any]
) -> None:
    for kind in scale(["v2, vectors"], [*PROPERTIES]):
        make(spark, tmp_path / kind, kind, scale(6, 40))
        check_versions(spark, tmp_path / kind, kind)


def check_versions(spark: Any, path: Path, kind: str) -> None:
    access, newest = DeltaAccess(str(path)), DeltaRsSnapshot(str(path))
    for version in range(newest.version() + 1):
        theirs = DeltaRsSnapshot(str(path), version=version)
        ours = ours_at(path, version)
        assert access.state_at(version) == theirs.state()
        paths = pa.table(theirs.get_add_actions())["path"].to_pylist()
        assert sorted(unquote(file.path) for file in files_of(ours)) == sorted(map(unquote, paths))
        known = {app: theirs.transaction_version(app) for app in (APP, f"{APP}/b")}
        expected = {app: number for app, number in known.items() if number is not None}
        assert access.transactions(APP, theirs.state()) == expected
        assert {app: one.version for app, one in ours.transactions.items()} == expected
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("version", "operation").collect()
    commits = list(commits_back(access.log, newest.version()))
    assert [(commit.version, commit.operation) for commit in commits] == [tuple(row) for row in history]
    table = spark.read.format("delta").load(str(path))
    assert access.state_at(newest.version()) == TableState(ours.metadata.id, newest.version(), table.count())
    assert {file.path.rpartition("/")[2] for file in files_of(ours)} == {
        name.rpartition("/")[2] for name in table.inputFiles()
    }
    assert "vectors" not in kind or any(file.deleted_rows for file in files_of(ours))
    assert kind == "typed statistics" or ours.files.checkpoint is not None
