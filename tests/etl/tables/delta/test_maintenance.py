"""OPTIMIZE and VACUUM by delta-rs: of which tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, Schema, TableFeatures

from kseg.etl.tables.delta.maintenance import DeltaMaintenance
from kseg.etl.tables.delta.table import DeltaAccess


def test_tables_that_may_have_had_deletion_vectors_are_left_to_spark(tmp_path: Path) -> None:
    """delta-rs deletes vectors, and files with vectors, that versions within the retention need."""
    access = DeltaAccess(str(tmp_path / "t"))
    table = DeltaTable.create(access.name, Schema.from_arrow(pa.schema({"x": pa.int64()})))
    assert DeltaMaintenance.spark_reasons(access) == ()
    table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    assert DeltaMaintenance.spark_reasons(access) == ("table feature deletionVectors",)
