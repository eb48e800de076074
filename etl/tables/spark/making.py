"""What Spark's tables are made as, and whether one that is there has the partitions that a job asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from kseg.etl.tables.delta.snapshots import Snapshot
from kseg.etl.tables.delta.table import table_properties
from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet.align import derived_faults, other_partitions
from kseg.etl.tables.parquet.layout import check_layout
from kseg.etl.tables.parquet.schema import COMMENT, SinkSchema
from kseg.etl.tables.protocol import NO_PROPERTIES
from kseg.etl.tables.removal import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def create_table(
    table: str,
    rows: StructType,
    sink: SinkSchema,
    partition_by: Sequence[str],
    cluster_by: Sequence[str],
    properties: Mapping[str, str] = NO_PROPERTIES,
) -> str:
    """The SQL that makes a table. table: as SQL names it. rows: what is landed there.

    Raises ConfigurationError: the table cannot be partitioned or clustered by these columns.
    """
    from pyspark.sql.types import StructField, StructType

    check_layout(sink.columns, partition_by, cluster_by)
    spelled = {field.name.lower(): field.name for field in rows}  # CLUSTER BY resolves names with their case
    comments = {field.name: (field.metadata or {}).get(COMMENT) for field in sink.columns}
    fields = []
    for field in rows:
        comment = comments.get(field.name)
        # A literal is never null, and the table's columns must not become NOT NULL: later rows may differ.
        made = StructField(field.name, field.dataType, metadata={"comment": comment.decode()} if comment else None)
        fields.append(made)
    ddl = f"CREATE TABLE IF NOT EXISTS {table} ({StructType(fields).toDDL()}) USING delta"
    for clause, names in (("PARTITIONED BY", partition_by), ("CLUSTER BY", cluster_by)):
        if names:
            ddl += f" {clause} ({', '.join(quoted(spelled[name.lower()]) for name in names)})"
    return f"{ddl} TBLPROPERTIES ({_listed(properties)})" if properties else ddl


def set_properties(spark: SparkSession, table: str, now: Snapshot, properties: Mapping[str, str]) -> None:
    """Set properties of a table if it has no rows. table: as SQL names it."""
    if not properties.items() <= table_properties(now).items() and now.state().rows == 0:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({_listed(properties)})")


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())


def check_partitions(
    table: str, there: pa.Schema, partitioned_by: Sequence[str], sink: SinkSchema, asked: Sequence[str]
) -> None:
    """there, partitioned_by: of a table that exists. Raises IncompatibleSchema."""
    spelled = {field.name.lower(): field for field in there}
    faults = other_partitions(partitioned_by, asked)
    for column in sink.columns:
        if (field := spelled.get(column.name.lower())) is not None:
            faults += derived_faults(column, field)
    if faults:
        raise IncompatibleSchema(table, faults)
