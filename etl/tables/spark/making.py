"""What Spark's tables are made as, and whether one that is there has the partitions that a job asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet.align import derived_faults, other_partitions
from kseg.etl.tables.parquet.layout import check_layout
from kseg.etl.tables.parquet.schema import COMMENT, SinkSchema
from kseg.etl.tables.removal import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def create_table(
    table: str, rows: StructType, sink: SinkSchema, partition_by: Sequence[str], cluster_by: Sequence[str]
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
    return ddl


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
