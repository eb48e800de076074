"""A reader's schema that grows with its writers': fields are added, and no column changes its type.

    the reader has            the writer has             merged
    no such field             a field                    the writer's field, behind all others
    a field                   no such field              the reader's
    a type                    what it may read           the reader's
    an enum                   an enum                    with the writer's symbols besides
    a string, bytes           another kind of the same   the reader's: an enum, a uuid; fixed of any size
                              column
    a union of several types  one that is not among them one more member
    anything else                                        IncompatibleSchemas, with both types

A record that begins again within itself is JSON text there, which takes whatever later versions of it have.

Records are matched as schema resolution does, and also by the writer's aliases: a field that a writer has renamed
stays one column.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from kseg.segment_reader.payload.avro.recursion import is_recursive, records_in, tied
from kseg.segment_reader.payload.avro.resolution import is_other_member, resolve
from kseg.segment_reader.payload.avro.schema import (
    AvroArray,
    AvroEnum,
    AvroField,
    AvroMap,
    AvroRecord,
    Fixed,
    Logical,
    Named,
    Primitive,
    PrimitiveKind,
    Schema,
    Union,
    describe,
    is_null,
    simple_name,
)
from kseg.segment_reader.payload.avro.shared_types import SharedTypes, named_types
from kseg.segment_reader.payload.avro.types import arrow_type, is_decimal, joined, members
from kseg.segment_reader.payload.ddl import type_name
from kseg.segment_reader.payload.errors import IncompatibleSchemas


def merged(
    reader: Schema, writer: Schema, *, add_fields: bool = True, widen: bool = False, any_name: bool = False
) -> Schema:
    """The reader's schema with what the writer's has besides; the same object where that is nothing.

    add_fields: False leaves fields out that the reader lacks. widen: where the reader's type may be promoted to the
    writer's it becomes that: for a table that is not there yet. any_name: records match whatever they are called, as
    enums always do, those of fields too; the writer's name becomes an alias. Members of a union of several types, which
    their names tell apart, do not.

    Raises:
        IncompatibleSchemas: a column would have to change its type; both are in the message.
        UnsupportedSchema: a type of the two has no column.
    """
    return _Merge(add_fields, widen, any_name).at_the_top(reader, writer)


def columns_of(kind: pa.DataType) -> int:
    """The number of a type's columns: nested ones count too, and a struct counts as its fields."""
    if pa.types.is_struct(kind):
        return sum(columns_of(child.type) for child in kind)
    if pa.types.is_map(kind):
        return columns_of(kind.item_type)
    return columns_of(kind.value_type) if pa.types.is_list(kind) else 1


class _Merge:
    def __init__(self, add_fields: bool, widen: bool, any_name: bool) -> None:
        self._add_fields, self._widen, self._any_name = add_fields, widen, any_name
        # A type that is used twice stays one type.
        self._done: dict[tuple[int, ...], Named] = {}
        self._shared = SharedTypes({})
        self._above: list[AvroRecord] = []  # the reader's records around what is merged
        self._again: dict[int, list[str]] = {}  # what writers call them where they begin again, by identity
        self._recursive = False

    def at_the_top(self, reader: Schema, writer: Schema) -> Schema:
        self._shared = SharedTypes(named_types(reader))
        self._recursive = is_recursive(reader) or is_recursive(writer)
        return self.of(reader, writer, "")

    def of(self, reader: Schema, writer: Schema, place: str) -> Schema:
        if isinstance(reader, Union) or isinstance(writer, Union):
            return self._union(reader, writer, place)
        if is_null(writer):
            return reader
        match reader, writer:
            case AvroRecord(), AvroRecord() if self._any_name or _alike(reader, writer):
                if reader in self._above:
                    self._again.setdefault(id(reader), []).append(writer.name)
                    return reader
                return self._record(reader, writer, place or simple_name(reader.name))
            case AvroArray(), AvroArray():
                items = self.of(reader.items, writer.items, f"{place}[]")
                return reader if items is reader.items else AvroArray(items)
            case AvroMap(), AvroMap():
                values = self.of(reader.values, writer.values, f"{place}{{}}")
                return reader if values is reader.values else AvroMap(values)
            case AvroEnum(), AvroEnum():
                return self._enum(reader, writer)
            case (Primitive() | Fixed() | AvroEnum(), Primitive() | Fixed() | AvroEnum()):
                if not _loses_digits(reader, writer):
                    return _value(reader, writer, place, self._widen)
                if self._widen and not _loses_digits(writer, reader):
                    return _value(writer, reader, place)
        raise _conflict(reader, writer, place)

    def _record(self, reader: AvroRecord, writer: AvroRecord, place: str) -> AvroRecord:
        key = (id(reader), id(writer), *self._above_in(reader))
        if key in self._done:
            known = self._done[key]
            assert isinstance(known, AvroRecord)
            return known
        result = AvroRecord(reader.name)
        if self._recursive:
            self._above.append(reader)
            with self._shared.open(writer, result):
                fields = self._fields(reader, writer, place)
            self._above.pop()
        else:
            fields = self._fields(reader, writer, place)
        aliases = reader.aliases
        for name in (writer.name, *self._again.get(id(reader), ())):
            aliases = _with(aliases, reader.name, name)
        changed = len(fields) != len(reader.fields) or any(
            a is not b for a, b in zip(fields, reader.fields, strict=True)
        )
        if changed or aliases != reader.aliases:
            result.aliases = aliases
            result.fields = tied(fields, reader, result, self._above) if self._recursive else fields
        else:
            result = reader
        self._done[key] = result
        return result

    def _fields(self, reader: AvroRecord, writer: AvroRecord, place: str) -> list[AvroField]:
        fields = list(reader.fields)
        numbers = {field.name: number for number, field in enumerate(fields)}
        written = {field.name for field in writer.fields}
        taken: set[int] = set()
        for field in writer.fields:
            number = _column(field, fields, numbers, written, taken)
            if number is None:
                if self._add_fields:
                    fields.append(AvroField(field.name, self._shared.of(field.schema), field.default, field.aliases))
                continue
            taken.add(number)
            before = fields[number]
            schema = self.of(before.schema, field.schema, f"{place}.{before.name}")
            aliases = _with(before.aliases, before.name, field.name)
            if schema is not before.schema or aliases != before.aliases:
                fields[number] = AvroField(before.name, schema, before.default, aliases)
        return fields

    def _above_in(self, reader: AvroRecord) -> Iterable[int]:
        """The records around it that it contains: where they begin again depends on them."""
        inner = records_in(reader) if self._above else {}
        return (id(record) for record in self._above if id(record) in inner)

    def _enum(self, reader: AvroEnum, writer: AvroEnum) -> AvroEnum:
        key = (id(reader), id(writer))
        if key not in self._done:
            new = tuple(symbol for symbol in writer.symbols if symbol not in reader.symbols)
            aliases = _with(reader.aliases, reader.name, writer.name)
            same = not new and aliases == reader.aliases
            made = AvroEnum(reader.name, (*reader.symbols, *new), aliases, reader.default)
            self._done[key] = reader if same else made
        known = self._done[key]
        assert isinstance(known, AvroEnum)
        return known

    def _union(self, reader: Schema, writer: Schema, place: str) -> Schema:
        ours, theirs = _branches(reader), _branches(writer)
        one = joined(ours) if ours else None
        if not ours:
            return self._shared.of(writer)
        if one is not None:
            inner = one
            for branch in theirs:
                inner = self.of(inner, branch, place)
            if inner is one:
                return reader
            return Union((Primitive(PrimitiveKind.NULL), inner)) if isinstance(reader, Union) else inner
        branches = list(ours)
        matches = _matches(ours, theirs)
        for number, branch in enumerate(theirs):
            if number in matches:
                same = matches[number]
                branches[same] = self.of(branches[same], branch, place)
            elif any(_same_type(mine, branch) for mine in ours) or not any(_takes(mine, branch) for mine in branches):
                branches.append(self._shared.of(branch))
        if len(branches) == len(ours) and all(a is b for a, b in zip(branches, ours, strict=True)):
            return reader
        return Union((Primitive(PrimitiveKind.NULL), *branches))


def _column(
    field: AvroField, fields: list[AvroField], numbers: dict[str, int], written: set[str], taken: set[int]
) -> int | None:
    """The reader's field that a writer's field is."""
    if field.name in numbers:
        return numbers[field.name]
    by_alias = [n for name, n in numbers.items() if field.name in fields[n].aliases and name not in written]
    by_alias += [numbers[alias] for alias in field.aliases if alias in numbers and alias not in written]
    return next((number for number in by_alias if number not in taken), None)


def _value(
    reader: Primitive | Fixed | AvroEnum, writer: Primitive | Fixed | AvroEnum, place: str, widen: bool = False
) -> Schema:
    if is_null(reader):
        return writer
    if _reads(reader, writer):
        return reader
    if (widen or arrow_type(reader) == arrow_type(writer)) and _reads(writer, reader):
        return writer
    raise _conflict(reader, writer, place)


def _loses_digits(reader: Primitive | Fixed | AvroEnum, writer: Primitive | Fixed | AvroEnum) -> bool:
    """Whether the writer's decimal has digits that the reader's has no place for."""
    if isinstance(reader, AvroEnum) or isinstance(writer, AvroEnum):
        return False
    if Logical.DECIMAL is not reader.logical or Logical.DECIMAL is not writer.logical or not is_decimal(reader):
        return False
    return writer.scale > reader.scale or writer.precision - writer.scale > reader.precision - reader.scale


def _reads(reader: Schema, writer: Schema) -> bool:
    try:
        resolve(writer, reader)
    except IncompatibleSchemas:
        return False
    return True


def _takes(member: Schema, branch: Schema) -> bool:
    """Whether a member of a union of several types takes this branch's values."""
    return not is_other_member(branch, member) and _reads(member, branch)


def _branches(schema: Schema) -> tuple[Schema, ...]:
    return members(schema) if isinstance(schema, Union) else () if is_null(schema) else (schema,)


def _matches(ours: tuple[Schema, ...], theirs: tuple[Schema, ...]) -> dict[int, int]:
    """For each branch of the writer's that the reader's union has, by their numbers, the reader's branch.

    Types of one full name first, then those of an alias, then those of one name without its namespace: a union may
    have several types of one simple name. No branch is that of two, since values of the second would be read as the
    first.
    """
    matches: dict[int, int] = {}
    for alike in (_same_name, _same_alias, _same_type):
        for number, branch in enumerate(theirs):
            if number in matches:
                continue
            free = (n for n, mine in enumerate(ours) if n not in matches.values() and alike(mine, branch))
            found = next(free, None)
            if found is not None:
                matches[number] = found
    return matches


def _same_name(one: Schema, other: Schema) -> bool:
    return _same_type(one, other) and getattr(one, "name", None) == getattr(other, "name", None)


def _same_alias(one: Schema, other: Schema) -> bool:
    if not isinstance(one, AvroRecord | AvroEnum | Fixed) or not isinstance(other, AvroRecord | AvroEnum | Fixed):
        return False
    return _same_type(one, other) and (other.name in one.aliases or one.name in other.aliases)


def _same_type(one: Schema, other: Schema) -> bool:
    match one, other:
        case Primitive(), Primitive():
            return (one.kind, one.logical) == (other.kind, other.logical)
        case (AvroRecord() | AvroEnum() | Fixed(), AvroRecord() | AvroEnum() | Fixed()):
            return type(one) is type(other) and _alike(one, other)
    return type(one) is type(other)


def _alike(reader: Named, writer: Named) -> bool:
    """By the name without its namespace, or by an alias of either."""
    names = {simple_name(writer.name), *map(simple_name, writer.aliases)}
    return simple_name(reader.name) in names or simple_name(writer.name) in map(simple_name, reader.aliases)


def _with(aliases: tuple[str, ...], name: str, other: str) -> tuple[str, ...]:
    """The aliases by which resolution finds a type or field of the other name as well (`resolution._named_alike`)."""
    found = simple_name(other) == simple_name(name) or other in aliases or simple_name(other) in aliases
    return aliases if found else (*aliases, other)


def _conflict(reader: Schema, writer: Schema, place: str) -> IncompatibleSchemas:
    reason = f"{describe(writer)} does not fit the column, which is {describe(reader)}: {type_name(arrow_type(reader))}"
    return IncompatibleSchemas(place, place, reason)
