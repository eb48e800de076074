"""Logical types of Kafka Connect and Debezium in Avro schemas: `connect.name` -> Avro's own `logicalType`.

Connect's Avro converter writes a type's name as `connect.name` and its parameters as `connect.parameters`. The columns
are those of the same names in Connect's JSON (`segment_reader.payload.connect_schema`). Names that are not known stay
what they rest on.
Source: `io.confluent.connect.avro.AvroData`, `org.apache.kafka.connect.data`, `io.debezium.time`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MOST_DIGITS: Final = 38
"""Most digits of a decimal that a column can have."""

_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"

#: By name: the type that it annotates, and Avro's logical type.
_LOGICAL: Final = {
    "org.apache.kafka.connect.data.Date": ("int", "date"),
    "org.apache.kafka.connect.data.Time": ("int", "time-millis"),
    "org.apache.kafka.connect.data.Timestamp": ("long", "timestamp-millis"),
    "io.debezium.time.Date": ("int", "date"),
    "io.debezium.time.Time": ("int", "time-millis"),
    "io.debezium.time.MicroTime": ("long", "time-micros"),
    "io.debezium.time.Timestamp": ("long", "local-timestamp-millis"),
    "io.debezium.time.MicroTimestamp": ("long", "local-timestamp-micros"),
    "io.debezium.time.NanoTimestamp": ("long", "local-timestamp-nanos"),
    "io.debezium.time.ZonedTimestamp": ("string", "io.debezium.time.ZonedTimestamp"),
}


def with_avros_names(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """A primitive type's node, with the logical type that Connect's name says."""
    name = node.get("connect.name")
    if name == _DECIMAL and node.get("type") == "bytes":
        return _decimal(node)
    base, logical = _LOGICAL.get(name, (None, None)) if isinstance(name, str) else (None, None)
    return {**node, "logicalType": logical} if base == node.get("type") else node


def _decimal(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """A decimal of as many digits as a column has, unless the parameters say how many: the converter's own `precision`
    is 64 for all others. Bytes where a column cannot hold it, as in JSON."""
    found = node.get("connect.parameters")
    given = found if isinstance(found, dict) else {}
    try:
        scale = int(given.get("scale", node.get("scale", 0)))
        precision = int(given.get("connect.decimal.precision", MOST_DIGITS))
    except (ValueError, TypeError):
        return node
    if not 0 <= scale <= precision <= MOST_DIGITS or not precision:
        return {"type": "bytes"}
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
