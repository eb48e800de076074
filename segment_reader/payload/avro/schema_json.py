"""A checked schema as JSON again: complete in itself, whatever references it was parsed with.

Two types of one name, which a merged schema may have, get namespaces of their own, and their name as an alias: schema
resolution compares names without their namespaces, and prefers the full name in a union.
"""

from __future__ import annotations

import json
from typing import Any

from kseg.segment_reader.payload.avro.schema import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroMap,
    AvroRecord,
    Fixed,
    Logical,
    Named,
    Primitive,
    Schema,
    simple_name,
)


def schema_text(schema: Schema) -> str:
    """Text that `parse_schema` makes the same schema of."""
    return json.dumps(_Writer().node(schema, ""), separators=(",", ":"), ensure_ascii=False)


class _Writer:
    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()

    def node(self, schema: Schema, namespace: str) -> Any:
        """namespace: the enclosing one, which names without dots belong to."""
        match schema:
            case Primitive(kind, None):
                return kind.value
            case Primitive(kind, logical, precision, scale):
                return {"type": kind.value, **_logical(logical, precision, scale)}
            case AvroArray():
                return {"type": "array", "items": self.node(schema.items, namespace)}
            case AvroMap():
                return {"type": "map", "values": self.node(schema.values, namespace)}
            case AvroRecord() | AvroEnum() | Fixed():
                if id(schema) in self._names:
                    return _reference(self._names[id(schema)], namespace)
                return self._define(schema)
        return [self.node(branch, namespace) for branch in schema.branches]

    def _define(self, schema: Named) -> dict[str, Any]:
        name = schema.name
        number = 1
        while name in self._taken:
            number += 1
            name = f"other{number}.{simple_name(schema.name)}"
        self._taken.add(name)
        self._names[id(schema)] = name
        own = name.rpartition(".")[0]
        document: dict[str, Any] = {"name": simple_name(name), "namespace": own}
        renamed = name != schema.name and schema.name not in schema.aliases
        aliases = (*schema.aliases, schema.name) if renamed else schema.aliases
        if aliases:
            document["aliases"] = [_reference(alias, own) for alias in aliases]
        match schema:
            case AvroRecord():
                return {"type": "record", **document, "fields": [self._field(field, own) for field in schema.fields]}
            case AvroEnum():
                document |= {"type": "enum", "symbols": list(schema.symbols)}
                return document if schema.default is None else {**document, "default": schema.default}
        return {
            "type": "fixed",
            **document,
            "size": schema.size,
            **_logical(schema.logical, schema.precision, schema.scale),
        }

    def _field(self, field: AvroField, namespace: str) -> dict[str, Any]:
        document: dict[str, Any] = {"name": field.name, "type": self.node(field.schema, namespace)}
        if field.default is not NO_DEFAULT:
            document["default"] = field.default
        if field.aliases:
            document["aliases"] = list(field.aliases)
        return document


def _reference(name: str, namespace: str) -> str:
    """A full name where names without dots belong to this namespace."""
    return f".{name}" if namespace and "." not in name else name


def _logical(logical: Logical | None, precision: int, scale: int) -> dict[str, Any]:
    if logical is None:
        return {}
    digits = {"precision": precision, "scale": scale} if logical is Logical.DECIMAL else {}
    return {"logicalType": logical.value, **digits}
