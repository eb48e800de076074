"""Which tables delta-rs may write to, and which need Spark's own Delta writer.

delta-rs commits files that it has not read: it rejects a table whose features it does not support, and trusts the
caller with the rest. It would commit rows that break a CHECK constraint, leave generated columns empty, and under
column mapping land columns that every reader sees as null. So the rule is the other way round: a feature is fine only
if it is listed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from deltalake import DeltaTable

from kseg.etl.errors import Refused
from kseg.etl.tables.delta import deletion_vectors
from kseg.etl.tables.delta.paths import names_all

RETENTION_PROPERTY = "delta.setTransactionRetentionDuration"

# Writer features (Delta protocol, "Valid Feature Names in Table Features") that require nothing of an append of data
# files, or that are harmless as long as no column or property below makes use of them.
FINE_FEATURES = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "variantType",
    }
)

# Keys in a column's metadata that make a writer do something to the values.
COLUMN_RULES = {
    "delta.generationExpression": "generated column",
    "delta.identity.start": "identity column",
    "delta.invariants": "column invariant",
    "CURRENT_DEFAULT": "column default",
    "__CHAR_VARCHAR_TYPE_STRING": "CHAR or VARCHAR column",
}


# Types of partition columns whose values this package gives no text (`partition_values.value_text`), as JSON.
_WITHOUT_TEXT = frozenset({'"float"', '"double"', '"binary"'})

Z_ORDER_BY_SPARK: Final = (
    "Z-order is done by Spark: delta-rs commits two OPTIMIZE of the same files, and rows are doubled"
)


def spark_reasons(table: DeltaTable) -> tuple[str, ...]:
    """Why only Spark's writer may append to this table; empty where delta-rs may."""
    properties = table.metadata().configuration
    reasons = [f"table feature {name}" for name in sorted(set(_features(table)) - FINE_FEATURES)]
    if properties.get("delta.columnMapping.mode", "none") != "none":
        reasons.append("column mapping")
    reasons += [f"CHECK constraint {k.removeprefix('delta.constraints.')}" for k in properties if "constraints." in k]
    reasons += [f"{what} {name}" for name, what in _column_rules(json.loads(table.schema().to_json()))]
    return tuple(reasons)


def removal_reasons(table: DeltaTable, name: str) -> tuple[str, ...]:
    """Why only Spark's writer may remove some of a file's rows from this table; empty where rewriting files will do.

    Raises:
        Refused: the table is append-only.
    """
    properties = table.metadata().configuration
    refuse_append_only(name, properties)
    reasons = list(spark_reasons(table))
    if properties.get("delta.enableChangeDataFeed", "false").lower() == "true":
        reasons.append("change data feed")  # it needs the removed rows in files of their own
    if deletion_vectors.in_use(table):
        reasons.append("deletion vectors in use")  # removing such a file means naming its vector, which delta-rs cannot
    if not names_all(table):
        reasons.append("paths of files that delta-rs would encode in another way")
    reasons += _local_times(table)
    return tuple(reasons)


def compaction_reasons(table: DeltaTable) -> tuple[str, ...]:
    """Why only Spark may rewrite the table's files, their rows unchanged; empty where that may be done here."""
    reasons = list(spark_reasons(table))
    if deletion_vectors.in_use(table):
        reasons.append("deletion vectors in use")
    columns = {column["name"]: json.dumps(column["type"]) for column in json.loads(table.schema().to_json())["fields"]}
    # A variant's values may lie in columns of the file that the table's schema does not name.
    reasons += [f"variant column {name}" for name, kind in columns.items() if '"variant"' in kind]
    partition_by = table.metadata().partition_columns
    reasons += [f"partition column {name}: {columns[name]}" for name in partition_by if columns[name] in _WITHOUT_TEXT]
    reasons += _local_times(table)
    return tuple(reasons)


def maintenance_reasons(table: DeltaTable) -> tuple[str, ...]:
    """Why only Spark may maintain the table (OPTIMIZE and VACUUM); empty where delta-rs may."""
    reasons = compaction_reasons(table)
    if deletion_vectors.FEATURE not in _features(table):
        return reasons
    # Older versions may have vectors though this one has none. For delta-rs' VACUUM the vectors of removed files are
    # files of no version, and a file that was removed first without a vector and later with one has expired with the
    # first removal.
    return (*reasons, f"table feature {deletion_vectors.FEATURE}")


def _local_times(table: DeltaTable) -> list[str]:
    """Partition columns with times that the log has as text without a zone.

    They are in the zone of the session that wrote them (Delta protocol, "Partition Value Serialization"). delta-rs
    takes them for UTC, and a commit that replaces a file would give its rows another time.
    """
    kinds = {field.name: json.loads(field.type.to_json()) for field in table.schema().fields}
    times = [name for name in table.metadata().partition_columns if kinds[name] == "timestamp"]
    if not times:
        return []
    partitions = table.partitions()
    local = [name for name in times if any(not (one[name] or "Z").endswith("Z") for one in partitions)]
    return [f"partition column {name}: times without a zone in the log" for name in local]


def spark_may_commit(table: DeltaTable) -> bool:
    """Whether Spark makes some of our commits to a table to which delta-rs may append: removals, OPTIMIZE."""
    changes = table.metadata().configuration.get("delta.enableChangeDataFeed") or "false"
    return changes.lower() == "true" or not names_all(table) or bool(maintenance_reasons(table))


def refuse_append_only(table: str, properties: Mapping[str, str | None]) -> None:
    """Refuse to remove rows from a table that forbids it.

    Raises:
        Refused: the table is append-only.
    """
    if (properties.get("delta.appendOnly") or "false").lower() == "true":
        raise Refused.of("table-append-only", table=table)


def refuse_retention(table: str, properties: Mapping[str, str | None]) -> None:
    """Refuse a table that forgets app transactions: a run that is tried again late would land twice.

    Raises:
        Refused: the property is set.
    """
    if value := properties.get(RETENTION_PROPERTY):
        raise Refused.of("transaction-retention-set", {"property": RETENTION_PROPERTY, "value": value}, table=table)


def _features(table: DeltaTable) -> list[str]:
    # Legacy protocols (writer 2 to 6) only imply features of the list above; columns and properties show their use.
    protocol = table.protocol()
    return [*(protocol.writer_features or []), *(protocol.reader_features or [])]


def _column_rules(struct: Mapping[str, Any], parent: str = "") -> Iterator[tuple[str, str]]:
    for column in struct["fields"]:
        name = f"{parent}{column['name']}"
        for key, what in COLUMN_RULES.items():
            if key in (column.get("metadata") or {}):
                yield name, what
        # Nulls in a NOT NULL column are checked while rows are written, but not inside structs.
        if parent and not column["nullable"]:
            yield name, "NOT NULL field"
        yield from _nested(column["type"], f"{name}.")


def _nested(kind: Any, parent: str) -> Iterator[tuple[str, str]]:
    if not isinstance(kind, dict):
        return
    if kind["type"] == "struct":
        yield from _column_rules(kind, parent)
    for key in ("elementType", "keyType", "valueType"):
        yield from _nested(kind.get(key), parent)
