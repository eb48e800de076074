"""Types of a Delta table's columns made wider, in place and for good: its files stay as they are (Delta protocol, "Type
Widening"). Two commits, each of which may be made again; a table between them is a sound table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kseg.etl.errors import ConfigurationError, RetriableFailure
from kseg.etl.rows.widening import Widening
from kseg.etl.tables.removal import quoted
from kseg.segment_reader.payload.ddl import type_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENABLED: Final = "delta.enableTypeWidening"
NO_ZONE: Final = "delta.feature.timestampNtz"
"""A feature that Delta enables by itself for new tables alone."""


def widen(
    spark: SparkSession, sql_name: str, name: str, changes: Sequence[Widening], properties: Mapping[str, str]
) -> None:
    """Change the types. sql_name: the table in SQL. name: as messages call it. properties: that it has.

    Raises:
        ConfigurationError: Delta does not allow it, such as below a CHECK constraint.
        RetriableFailure: another writer committed first.
    """
    from pyspark.errors import PySparkException

    wanted = {ENABLED: "true"} if properties.get(ENABLED, "").lower() != "true" else {}
    if any(change.after == pa.timestamp("us") for change in changes):
        wanted[NO_ZONE] = "supported"
    types = ", ".join(f"{'.'.join(map(quoted, one.path))} TYPE {type_text(one.after)}" for one in changes)
    try:
        if wanted:
            listed = ", ".join(f"'{key}' = '{value}'" for key, value in wanted.items())
            spark.sql(f"ALTER TABLE {sql_name} SET TBLPROPERTIES ({listed})")
        spark.sql(f"ALTER TABLE {sql_name} ALTER COLUMN {types}")
    except PySparkException as error:
        reason = str(error).strip().split("\n")[0]
        if "Concurrent" in str(error):
            raise RetriableFailure(f"another writer committed in between: {reason}", table=name) from error
        raise ConfigurationError.of(
            "sink.widen",
            f"cannot widen {', '.join(map(str, changes))} in {name}: {reason}",
            "cast the columns in the transform, or land in a new table",
        ) from error
