"""CREATE TABLE statement of Spark's tables, and a check of existing partitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kseg.etl.errors import ConfigurationError
from kseg.etl.rows.names import LATE_COLUMN
from kseg.etl.tables.delta.snapshots import Snapshot
from kseg.etl.tables.delta.table import table_properties, table_schema
from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet.align import derived_faults, fits, other_partitions
from kseg.etl.tables.parquet.layout import check_layout
from kseg.etl.tables.parquet.schema import COMMENT, SinkSchema
from kseg.etl.tables.removal import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table as Spark makes it for a job's rows. rows: what is landed there."""

    rows: StructType
    sink: SinkSchema
    partition_by: tuple[str, ...]
    cluster_by: tuple[str, ...]
    properties: Mapping[str, str]

    def create(self, table: str) -> str:
        """The SQL that makes it. table: as SQL names it.

        Raises ConfigurationError: the table cannot be partitioned or clustered by these columns.
        """
        from pyspark.sql.types import StructField, StructType

        check_layout(self.sink.columns, self.partition_by, self.cluster_by)
        spelled = {field.name.lower(): field.name for field in self.rows}  # CLUSTER BY resolves names with their case
        comments = {field.name: (field.metadata or {}).get(COMMENT) for field in self.sink.columns}
        fields = []
        for field in self.rows:
            comment = comments.get(field.name)
            # A literal is never null, and the table's columns must not become NOT NULL: later rows may differ.
            made = StructField(field.name, field.dataType, metadata={"comment": comment.decode()} if comment else None)
            fields.append(made)
        ddl = f"CREATE TABLE IF NOT EXISTS {table} ({StructType(fields).toDDL()}) USING delta"
        for clause, names in (("PARTITIONED BY", self.partition_by), ("CLUSTER BY", self.cluster_by)):
            if names:
                ddl += f" {clause} ({', '.join(quoted(spelled[name.lower()]) for name in names)})"
        return f"{ddl} TBLPROPERTIES ({_listed(self.properties)})" if self.properties else ddl

    def differs(self, there: Snapshot, clustered_by: Sequence[str], *, merge: bool) -> bool:
        """Whether a table has another shape. merge: further columns of the table are welcome."""
        from pyspark.sql.types import StructType

        layout = [*there.metadata().partition_columns], [*clustered_by]
        if [_lower(names) for names in layout] != [_lower(self.partition_by), _lower(self.cluster_by)]:
            return True
        if merge:
            columns = table_schema(there)
            return any(found is None for _, _, found in fits(self.sink, columns))
        made = StructType.fromJson(json.loads(there.schema().to_json()))
        return _types(made) != _types(self.rows)


def add_late_column(spark: SparkSession, sql_name: str, name: str, check_lease: Callable[[], None]) -> None:
    """Add the column of late records to an older table. If two drivers do this at once, one finds it there.

    sql_name: the table in SQL. name: as messages call it. check_lease: called before the change.

    Raises ConfigurationError: Delta does not allow it.
    """
    from pyspark.errors import PySparkException

    def there() -> bool:
        return LATE_COLUMN in (name.lower() for name in spark.table(sql_name).columns)

    try:
        if not there():
            check_lease()
            spark.sql(f"ALTER TABLE {sql_name} ADD COLUMNS ({LATE_COLUMN} BOOLEAN)")
    except PySparkException as error:
        if not there():
            reason = str(error).strip().split("\n")[0]
            raise ConfigurationError.of("sink", f"cannot add {LATE_COLUMN} to {name}: {reason}") from error


def set_properties(spark: SparkSession, table: str, now: Snapshot, properties: Mapping[str, str]) -> None:
    """Set properties that a table does not have. table: as SQL names it."""
    if not properties.items() <= table_properties(now).items():
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({_listed(properties)})")


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())


def _lower(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]


def _types(columns: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in columns]


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
