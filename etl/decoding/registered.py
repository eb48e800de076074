"""Schemas as a registry has them -> the type of the rows that they describe, and a decoder of single payloads.

For commands without a job. Avro, JSON Schema and Protobuf become the types that docs/reference/types.md lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kseg.client.registry.schemas import Resolved
from kseg.etl.decoding.formats.registry import of_registry_type
from kseg.etl.rows.types import UnlandableType, delta_type
from kseg.etl.rows.widening import can_write
from kseg.segment_reader.payload.ddl import quoted
from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.errors import UnsupportedSchema

FIRST_MESSAGE = (0,)
"""The first message of a Protobuf file, as frames name it."""


def registered_type(schema: Resolved, message: tuple[int, ...] = FIRST_MESSAGE) -> pa.DataType:
    """The type of its rows as they are landed: a struct of the columns for records.

    message: which one of a Protobuf file.

    Raises PayloadSchemaError: it is no schema, or has no column type.
    """
    try:
        return delta_type(of_registry_type(schema.schema.type)[1].row_type(schema, message))
    except UnlandableType as error:
        raise UnsupportedSchema("", str(error)) from None


def registered_decoder(schema: Resolved, message: tuple[int, ...] = FIRST_MESSAGE) -> PayloadDecoder:
    """The decoder of payloads without their frame, made from the writer's schema alone. Raises PayloadSchemaError."""
    return of_registry_type(schema.schema.type)[1].decoder(schema, message)


@dataclass(frozen=True, slots=True)
class Differences:
    """How two types differ, by path. changed: both types, where values of the second do not fit the first."""

    added: tuple[tuple[str, pa.DataType], ...]
    missing: tuple[str, ...]
    changed: tuple[tuple[str, pa.DataType, pa.DataType], ...]


def differences(before: pa.DataType, after: pa.DataType) -> Differences:
    """The differences of two landed types. Fields are compared by name, at any depth: `items[].price`."""
    found = list(_differences(before, after, ""))
    return Differences(
        tuple((path, new) for path, old, new in found if old is None and new is not None),
        tuple(path for path, _, new in found if new is None),
        tuple((path, old, new) for path, old, new in found if old is not None and new is not None),
    )


def _differences(
    before: pa.DataType, after: pa.DataType, path: str
) -> Iterator[tuple[str, pa.DataType | None, pa.DataType | None]]:
    types = pa.types
    if types.is_struct(before) and types.is_struct(after):
        old, new = ({child.name: child.type for child in kind} for kind in (before, after))
        for name in [*old, *(name for name in new if name not in old)]:
            below = f"{path}.{quoted(name)}" if path else quoted(name)
            if name in old and name in new:
                yield from _differences(old[name], new[name], below)
            else:
                yield below, old.get(name), new.get(name)
    elif types.is_list(before) and types.is_list(after):
        yield from _differences(before.value_type, after.value_type, f"{path}[]")
    elif types.is_map(before) and types.is_map(after) and before.key_type == after.key_type:
        yield from _differences(before.item_type, after.item_type, f"{path}{{}}")
    elif not can_write(after, before):
        yield path, before, after
