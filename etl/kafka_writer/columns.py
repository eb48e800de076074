"""The columns of rows that are written to Kafka: those of Spark's own Kafka sink, and a timestamp.

key        string or binary             without the column: null
value      string or binary             required
topic      string                       required unless the option topic is given, which overrides the column
partition  int                          without it or null: by key as in Java's producer; without a key, random
headers    array<struct<key string, value binary>>
timestamp  timestamp                    from 1970 on; without it or null: the time of writing
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kseg.etl.errors import ConfigurationError, Diagnostic

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TYPES: Mapping[str, tuple[str, ...]] = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The index of each column; None: there is none. Picklable."""

    value: int
    key: int | None
    topic: int | None
    partition: int | None
    headers: int | None
    timestamp: int | None


def row_columns(schema: StructType, topic: str | None) -> RowColumns:
    """The columns of a DataFrame. `topic`: the topic for all rows, if it is given.

    Raises:
        ConfigurationError: columns are missing, unknown or duplicate, or have a wrong type; all are listed.
    """
    faults: list[Diagnostic] = []
    found: dict[str, int] = {}
    for number, column in enumerate(schema.fields):
        name = column.name.lower()
        if name not in _TYPES:
            faults.append(
                Diagnostic(column.name, "is not a column of a Kafka record", f"select only {', '.join(_TYPES)}")
            )
        elif name in found:
            faults.append(Diagnostic(column.name, "is given twice"))
        else:
            found[name] = number
            kind = column.dataType.simpleString()
            if kind not in _TYPES[name]:
                faults.append(Diagnostic(column.name, f"is of type {kind}", f"cast it to {' or '.join(_TYPES[name])}"))
    if "value" not in found:
        faults.append(Diagnostic("value", "is missing", "every record needs the column; it may be null"))
    if topic is None and "topic" not in found:
        faults.append(Diagnostic("topic", "is missing", "give the option topic, or a column of that name"))
    if faults:
        raise ConfigurationError(faults)
    return RowColumns(
        value=found["value"],
        key=found.get("key"),
        topic=None if topic is not None else found["topic"],
        partition=found.get("partition"),
        headers=found.get("headers"),
        timestamp=found.get("timestamp"),
    )
