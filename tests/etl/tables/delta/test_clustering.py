"""By which columns a table is clustered, out of commits and checkpoints."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kseg.etl.tables.delta.clustering import DOMAIN, FEATURE, clustering_columns
from kseg.etl.tables.delta.table import DeltaAccess


def columns(path: Path) -> list[str]:
    return list(DeltaAccess(str(path)).clustering_columns())


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_the_last_clustering_counts(policy: str, tmp_path: Path, spark: Any) -> None:
    table = f"delta.`{tmp_path}`"
    spark.sql(
        f"CREATE TABLE {table} (id LONG, day STRING, at STRUCT<place: STRING>) USING delta CLUSTER BY (day)"
        f" TBLPROPERTIES ('delta.checkpointPolicy' = '{policy}', 'delta.columnMapping.mode' = 'name')"
    )
    assert columns(tmp_path) == ["day"]
    spark.sql(f"ALTER TABLE {table} CLUSTER BY (id, at.place)")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN id TO number")
    assert columns(tmp_path) == ["number", "at.place"]
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a', NULL)")
    log = tmp_path / "_delta_log"
    assert list(log.glob("*.checkpoint*"))
    for entry in sorted(log.glob("*.json"))[:3]:
        entry.unlink()
    assert columns(tmp_path) == ["number", "at.place"]
    spark.sql(f"ALTER TABLE {table} CLUSTER BY NONE")
    assert columns(tmp_path) == []


def test_a_table_that_is_not_clustered_has_none(path: str) -> None:
    assert columns(Path(path)) == []


@pytest.mark.parametrize(
    ("configuration", "found"),
    [
        ('{"clusteringColumns": [["id"], ["at", "place"]]}', ("id", "at.place")),
        ('{"clusteringColumns": ["id"]}', ("id",)),
        ('{"clusteringColumns": null}', ()),
        ("[]", ()),
        ("", ()),
    ],
)
def test_what_a_domain_says_is_no_error_in_any_form(configuration: str, found: tuple[str, ...]) -> None:
    table: Any = SimpleNamespace(
        domains={DOMAIN: SimpleNamespace(configuration=configuration)},
        protocol=SimpleNamespace(writer_features=(FEATURE,)),
        metadata=SimpleNamespace(schema={"fields": []}),
    )
    assert clustering_columns(table) == found
