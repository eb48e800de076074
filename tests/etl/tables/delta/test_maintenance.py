"""OPTIMIZE and VACUUM by delta-rs: of which tables."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, TableFeatures

from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.conditional_put import StoreChecks
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.delta.maintenance import DeltaMaintenance
from kseg.etl.tables.delta.table import DeltaAccess


def test_tables_that_may_have_had_deletion_vectors_are_left_to_spark(tmp_path: Path) -> None:
    """delta-rs deletes vectors, and files with vectors, that versions within the retention need."""
    access = DeltaAccess(str(tmp_path / "t"))
    table = DeltaTable.create(access.name, Schema.from_arrow(pa.schema({"x": pa.int64()})))
    assert DeltaMaintenance.spark_reasons(access) == ()
    table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    assert DeltaMaintenance.spark_reasons(access) == ("table feature deletionVectors",)


def test_the_tables_own_retention_is_its_property(tmp_path: Path) -> None:
    target = DeltaTarget(str(tmp_path / "t"))
    table = DeltaTable.create(target.name, Schema.from_arrow(pa.schema({"x": pa.int64()})))
    maintenance = DeltaMaintenance(target, StoreChecks())
    assert maintenance.retention() is None
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 30 days"})
    assert maintenance.retention() == timedelta(days=30)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 1 month"})
    with pytest.raises(ConfigurationError, match="has the unit month"):
        maintenance.retention()
