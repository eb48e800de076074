"""Types of a writer's schema that the reader's schema has as well become one object.

A schema that is written as JSON has one definition for each full name. A second copy of the same type would need
another name there, and a union's branch is found by its full name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kseg.segment_reader.payload.avro.limits import MAX_DEPTH
from kseg.segment_reader.payload.avro.schema import (
    AvroArray,
    AvroEnum,
    AvroField,
    AvroMap,
    AvroRecord,
    Fixed,
    Named,
    Primitive,
    Schema,
    Union,
)


def named_types(schema: Schema) -> dict[str, Named]:
    """The named types of a schema by full name; the first one of each name, in the order of their fields."""
    found: dict[str, Named] = {}
    visited: set[int] = set()
    pending: list[Schema] = [schema]
    while pending:
        own = pending.pop()
        if isinstance(own, AvroRecord | AvroEnum | Fixed):
            if id(own) in visited:
                continue
            visited.add(id(own))
            found.setdefault(own.name, own)
        pending += reversed(list(_parts(own)))
    return found


class SharedTypes:
    """Replaces types that are equal to the known one of their full name. A type used twice stays one type."""

    def __init__(self, known: Mapping[str, Named]) -> None:
        self._known = known
        # With the replaced types themselves: an id is that of another object once its own is gone.
        self._made: dict[int, tuple[Named, Named]] = {}

    @contextmanager
    def open(self, schema: AvroRecord, made: AvroRecord) -> Iterator[None]:
        """While a record is made of this one, what contains it contains the one that is made."""
        before = self._made.get(id(schema))
        self._made[id(schema)] = schema, made
        try:
            yield
        finally:
            del self._made[id(schema)]
            if before is not None:
                self._made[id(schema)] = before

    def of(self, schema: Schema) -> Schema:
        """The schema with known types; records around them are copies."""
        return self._of(schema, 0)

    def _of(self, schema: Schema, depth: int) -> Schema:
        match schema:
            case AvroArray():
                return AvroArray(self._of(schema.items, depth))
            case AvroMap():
                return AvroMap(self._of(schema.values, depth))
            case Union():
                return Union(tuple(self._of(branch, depth) for branch in schema.branches))
            case Primitive():
                return schema
        if id(schema) in self._made:
            return self._made[id(schema)][1]
        known = self._known.get(schema.name)
        if known is not None and same_type(known, schema):
            self._made[id(schema)] = schema, known
            return known
        if not isinstance(schema, AvroRecord) or depth >= MAX_DEPTH:  # deeper ones have no column type
            return schema
        copy = AvroRecord(schema.name, schema.aliases)
        self._made[id(schema)] = schema, copy
        copy.fields += [
            AvroField(field.name, self._of(field.schema, depth + 1), field.default, field.aliases)
            for field in schema.fields
        ]
        return copy


def same_type(one: Schema, other: Schema) -> bool:
    """Whether two schemas are equal in all that is kept of them: names, fields, aliases, defaults."""
    compared: set[tuple[int, int]] = set()
    pending = [(one, other)]
    while pending:
        ours, theirs = pending.pop()
        if ours is theirs or (id(ours), id(theirs)) in compared:
            continue
        compared.add((id(ours), id(theirs)))
        if _own(ours) != _own(theirs):
            return False
        pending += zip(_parts(ours), _parts(theirs), strict=True)
    return True


def _own(schema: Schema) -> tuple[object, ...]:
    """A schema's own attributes, without the types in it."""
    match schema:
        case Primitive():
            return Primitive, schema
        case AvroRecord():
            # as text, since to Python the defaults 1, 1.0 and true are equal
            fields = [(field.name, field.aliases, repr(field.default)) for field in schema.fields]
            return AvroRecord, schema.name, schema.aliases, fields
        case AvroEnum():
            return AvroEnum, schema.name, schema.aliases, schema.symbols, schema.default
        case Fixed():
            logical = (schema.logical, schema.precision, schema.scale)
            return Fixed, schema.name, schema.aliases, schema.size, *logical
        case Union():
            return Union, len(schema.branches)
    return (type(schema),)


def _parts(schema: Schema) -> Iterator[Schema]:
    match schema:
        case AvroRecord():
            yield from (field.schema for field in schema.fields)
        case AvroArray():
            yield schema.items
        case AvroMap():
            yield schema.values
        case Union():
            yield from schema.branches
