"""What a job's tables are checked for before its rows are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.tables.errors import NoFileSystem
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.tables.protocol import FileTarget, FrameTarget
from kseg.etl.tables.spark.writer import SparkTarget
from kseg.etl.tables.targets import Targets

ROWS = sink_schema(pa.schema([("id", pa.int64()), ("at", pa.struct([("place", pa.string())]))]), addresses=False)


def no_spark() -> NoReturn:
    raise AssertionError("Spark is not needed")


@pytest.fixture
def targets(tmp_path: Path) -> Callable[..., Targets]:
    """targets(**sink): of a job with the table `orders`."""

    def make(**sink: Any) -> Targets:
        document = {
            "version": 1,
            "name": "orders",
            "kafka": {"bootstrap.servers": "localhost:1"},
            "source": {"topics": ["orders"]},
            "decode": {"value": {"format": "string"}},
            "sink": {"path": str(tmp_path / "orders"), "single_driver": True, **sink},
            "ledger": str(tmp_path / "ledger"),
        }
        document["transform"] = [{"sql": "SELECT * FROM __rows__"}]
        return Targets(load_job(document, env={}), no_spark)

    return make


@pytest.mark.parametrize("key", ["partition_by", "cluster_by"])
@pytest.mark.parametrize("column", ["nope", "at"])
def test_a_new_table_that_cannot_be_laid_out_is_found_at_the_plan(
    targets: Callable[..., Targets], tmp_path: Path, key: str, column: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{column}: ") as caught:
        targets(**{key: ["id", column]}).check_fit(str(tmp_path / "orders"), ROWS, "run")
    assert [fault.path for fault in caught.value.faults] == [f"sink.{key}[1]"]


def test_a_table_that_exists_is_not_compared_with_columns_to_cluster_by(
    targets: Callable[..., Targets], tmp_path: Path
) -> None:
    table = str(tmp_path / "orders")
    write_deltalake(table, ROWS.columns.empty_table())
    assert targets(cluster_by=["nope"]).check_fit(table, ROWS, "run")
    assert not targets(cluster_by=["id"]).check_fit(str(tmp_path / "other"), ROWS, "run"), "Spark makes it"


def test_an_existing_table_without_the_clustering_of_the_job_is_noted(
    targets: Callable[..., Targets], tmp_path: Path
) -> None:
    """Its rows landed through delta-rs, not clustered, and nothing said so."""
    plain, partitioned, new = (str(tmp_path / name) for name in ("plain", "partitioned", "new"))
    write_deltalake(plain, pa.table({"id": [1], "day": ["a"]}))
    write_deltalake(partitioned, pa.table({"id": [1], "day": ["a"]}), partition_by=["day"])
    assert targets(cluster_by=["id"]).layout_notes([plain, partitioned, new]) == [
        f"sink.cluster_by has no effect on {partitioned}, partitioned by day: only a new table can be clustered",
        f"sink.cluster_by has no effect on {plain}, not clustered: `ALTER TABLE … CLUSTER BY (id)` changes that, "
        "a run does not",
    ]
    assert targets().layout_notes([plain]) == []


def test_a_side_table_is_written_by_tasks_whatever_the_layout_of_the_rows_is(
    targets: Callable[..., Targets], tmp_path: Path
) -> None:
    clustered, table = targets(cluster_by=["id"]), str(tmp_path / "letters")
    assert isinstance(clustered.target(table), FrameTarget)
    assert isinstance(clustered.side_target(table, setting="sink.dead_letters"), FileTarget)


def test_a_side_table_that_tasks_cannot_write_is_an_error_of_its_key(
    targets: Callable[..., Targets], tmp_path: Path
) -> None:
    table = str(tmp_path / "letters")
    write_deltalake(table, ROWS.columns.empty_table())
    DeltaTable(table).alter.add_constraint({"positive": "id > 0"})
    for refuse in (targets().side_target, lambda *_, setting: targets().refuse_spark_side_table(table, setting)):
        with pytest.raises(ConfigurationError, match="only Spark's own writer can honour") as caught:
            refuse(table, setting="sink.dead_letters")
        assert [fault.path for fault in caught.value.faults] == ["sink.dead_letters"]


def test_rows_are_ordered_by_spark_alone(targets: Callable[..., Targets], tmp_path: Path) -> None:
    table = str(tmp_path / "orders")
    write_deltalake(table, ROWS.columns.empty_table())
    plain, ordering = targets().maintenance(table), targets().maintenance(table, z_order=True)
    assert (plain.by, plain.because, ordering.by) == ("delta-rs", "", "spark")
    assert "Z-order" in ordering.because


def test_a_table_of_a_catalog_in_a_store_that_spark_does_not_reach_is_refused(
    targets: Callable[..., Targets], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are not read in Spark's place: where they are is known to Spark alone."""

    def unreachable(_: SparkTarget) -> NoReturn:
        raise NoFileSystem.of("sink", "Spark has no file system for s3a://")

    monkeypatch.setattr(SparkTarget, "frame", unreachable)
    with pytest.raises(NoFileSystem):
        targets().frame("lake.orders")
