"""The writer's schema resolved against the reader's.

By the specification's rules of schema resolution, and where columns call for more:

- A field that the writer lacks is null. With `Missing.FILL` it has the reader's default, and one without a default is
  incompatible, as the specification says.
- Every column is nullable, so a written null always fits.
- Types whose columns are the same are read as one another, whatever their kinds are: enums of any name, strings, enums
  and uuids on fixed; bytes and fixed of any size.
- Logical types are resolved too. The specification ignores them, which would read milliseconds as microseconds:
  timestamps and times of day change their unit, decimals their scale, exactly or with an error for the payload; other
  pairs of different logical types (a date as a timestamp) are incompatible. A bare type matches any logical type on it.
- In a reader's union the branch that equals what was written goes before one that it is promoted to; of named types the
  one of the same full name, then the one that has this name as an alias, then one of the same name elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum as PythonEnum
from typing import Final

import pyarrow as pa

from kseg.segment_reader.payload.avro.defaults import encode_default
from kseg.segment_reader.payload.avro.limits import MAX_DEPTH
from kseg.segment_reader.payload.avro.nodes import (
    Binary,
    Boolean,
    Constant,
    Decimal,
    Duration,
    FieldStep,
    Floating,
    Integer,
    Items,
    JsonTextNode,
    MapNode,
    Mismatch,
    Node,
    Null,
    ReaderUnionMember,
    Skipped,
    Structure,
    Symbols,
    Text,
    UuidText,
    WriterUnionNode,
)
from kseg.segment_reader.payload.avro.recursion import tied
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
    PrimitiveKind,
    Schema,
    Union,
    describe,
    is_null,
    simple_name,
)
from kseg.segment_reader.payload.avro.types import arrow_type, is_decimal, joined, members, written_type
from kseg.segment_reader.payload.errors import IncompatibleSchemas, InvalidSchema


class Missing(PythonEnum):
    """The value of a reader's field that the writer's schema lacks."""

    NULL = "null"
    FILL = "fill"


@dataclass(frozen=True, slots=True)
class Resolution:
    """type: the rows', `written_type`. node: fills such a row."""

    type: pa.DataType
    node: Node


def resolve(writer: Schema, reader: Schema, missing: Missing = Missing.NULL) -> Resolution:
    """Resolves the writer's schema against the reader's.

    Raises:
        IncompatibleSchemas: no payload of the writer's schema can be read with the reader's.
        UnsupportedSchema: the reader's schema has no column type.
        InvalidSchema: a default that is needed is no value of its field.
    """
    kind = written_type(reader)
    return Resolution(kind, _Resolver(missing).resolve(writer, reader, "", ""))


# -- logical types

_MILLIS, _MICROS, _NANOS = 1_000_000, 1_000, 1  # nanoseconds

#: Kind of time, unit of the number, unit of the column.
_TIMES: Final = {
    Logical.TIME_MILLIS: ("time", _MILLIS, _MILLIS),
    Logical.TIME_MICROS: ("time", _MICROS, _MICROS),
    Logical.TIMESTAMP_MILLIS: ("timestamp", _MILLIS, _MICROS),
    Logical.TIMESTAMP_MICROS: ("timestamp", _MICROS, _MICROS),
    Logical.TIMESTAMP_NANOS: ("timestamp", _NANOS, _NANOS),
    Logical.LOCAL_TIMESTAMP_MILLIS: ("local-timestamp", _MILLIS, _MICROS),
    Logical.LOCAL_TIMESTAMP_MICROS: ("local-timestamp", _MICROS, _MICROS),
    Logical.LOCAL_TIMESTAMP_NANOS: ("local-timestamp", _NANOS, _NANOS),
}

_INTEGERS: Final = {PrimitiveKind.INT: 32, PrimitiveKind.LONG: 64}
_FLOATS: Final = {PrimitiveKind.FLOAT: 32, PrimitiveKind.DOUBLE: 64}
_SIZED: Final = (PrimitiveKind.BYTES, PrimitiveKind.STRING)

#: What a bare number may be read as, besides itself.
_WIDER: Final = {
    PrimitiveKind.INT: (PrimitiveKind.LONG, PrimitiveKind.FLOAT, PrimitiveKind.DOUBLE),
    PrimitiveKind.LONG: (PrimitiveKind.FLOAT, PrimitiveKind.DOUBLE),
    PrimitiveKind.FLOAT: (PrimitiveKind.DOUBLE,),
}


class _Resolver:
    def __init__(self, missing: Missing) -> None:
        self._missing = missing
        self._above: list[AvroRecord] = []  # the reader's records around what is resolved

    def resolve(self, writer: Schema, reader: Schema, at: str, to: str) -> Node:
        """at, to: where the two stand, for errors."""
        if isinstance(writer, Union):
            return self._choice(writer, reader, at, to)
        if is_null(writer):
            return Null()
        if isinstance(reader, Union):
            return self._member(writer, reader, at, to)
        match writer, reader:
            case AvroRecord(), AvroRecord() if _named_alike(writer, reader):
                if reader in self._above:
                    return JsonTextNode(writer)
                return self._structure(writer, reader, at or simple_name(writer.name), to or simple_name(reader.name))
            case AvroArray(), AvroArray():
                item = self.resolve(writer.items, reader.items, f"{at}[]", f"{to}[]")
                return Items(item, smallest(writer.items))
            case AvroMap(), AvroMap():
                value = self.resolve(writer.values, reader.values, f"{at}{{}}", f"{to}{{}}")
                return MapNode(value, 1 + smallest(writer.values))
            case AvroEnum(), AvroEnum():
                known = frozenset(reader.symbols)
                return Symbols(tuple(s if s in known else reader.default for s in writer.symbols), writer.symbols)
            case Primitive() | Fixed() | AvroEnum(), Primitive() | Fixed() | AvroEnum():
                node = _value(writer, reader)
                if node is not None:
                    return node
        raise IncompatibleSchemas(at, to, f"{describe(writer)} cannot be read as {describe(reader)}")

    def _choice(self, writer: Union, reader: Schema, at: str, to: str) -> Node:
        branches: list[Node] = []
        causes: list[IncompatibleSchemas] = []
        for n, branch in enumerate(writer.branches):
            try:
                branches.append(self.resolve(branch, reader, f"{at}<{n}>" if len(writer.branches) > 1 else at, to))
            except IncompatibleSchemas as error:
                branches.append(Mismatch(error.reason, branch))
                causes.append(error)
        if causes and len(causes) == len(members(writer)):
            raise causes[0]
        return WriterUnionNode(tuple(branches))

    def _member(self, writer: Schema, reader: Union, at: str, to: str) -> Node:
        """The best branch first: the same type and full name, then one with that name as an alias, then the same type,
        then what it may be promoted to."""
        branches = members(reader)
        one = joined(branches)
        if one is not None:
            return self.resolve(writer, one, at, to)
        cause: IncompatibleSchemas | None = None
        for number in sorted(range(len(branches)), key=lambda n: _distance(writer, branches[n])):
            if is_other_member(writer, branches[number]):
                continue
            try:
                node = self.resolve(writer, branches[number], at, f"{to}<{number}>")
            except IncompatibleSchemas as error:
                cause = cause or error
            else:
                return ReaderUnionMember(number, len(branches), node)
        if len(branches) and cause is not None and _distance(writer, _best(writer, branches)) < 3:
            raise cause  # of the branch that was meant
        raise IncompatibleSchemas(at, to, f"{describe(writer)} cannot be read as {describe(reader)}")

    def _structure(self, writer: AvroRecord, reader: AvroRecord, at: str, to: str) -> Structure:
        self._above.append(reader)
        try:
            return self._steps(writer, reader, at, to)
        finally:
            self._above.pop()

    def _steps(self, writer: AvroRecord, reader: AvroRecord, at: str, to: str) -> Structure:
        columns = _columns(writer, reader)
        there = frozenset(columns.values())
        absent: list[tuple[int, Constant | None]] = [
            (number, self._default(field, at, f"{to}.{field.name}"))
            for number, field in enumerate(reader.fields)
            if number not in there
        ]
        steps = []
        for field in writer.fields:
            column = columns.get(field.name)
            if column is None:
                steps.append(FieldStep(field.name, Skipped(field.schema), None))
            else:
                target = reader.fields[column]
                node = self.resolve(field.schema, target.schema, f"{at}.{field.name}", f"{to}.{target.name}")
                steps.append(FieldStep(field.name, node, column))
        return Structure(tuple(field.name for field in reader.fields), tuple(steps), tuple(absent))

    def _default(self, field: AvroField, at: str, to: str) -> Constant | None:
        if self._missing is Missing.NULL:
            return None
        if field.default is NO_DEFAULT:
            raise IncompatibleSchemas(at, to, f"the writer has no field `{field.name}`, and the reader no default")
        try:
            data = encode_default(field.default, field.schema)
        except ValueError as error:
            raise InvalidSchema(to, f"the default is no value of {describe(field.schema)}: {error}") from None
        return Constant(data, self.resolve(field.schema, field.schema, to, to))


def narrowed(writer: Schema, reader: Schema) -> Schema:
    """The reader's record with the fields that the writer's has, or with its first one if that is none."""
    if not (isinstance(writer, AvroRecord) and isinstance(reader, AvroRecord) and _named_alike(writer, reader)):
        return reader
    kept = sorted(_columns(writer, reader).values()) or [0]
    if len(kept) >= len(reader.fields):
        return reader
    made = replace(reader, fields=[reader.fields[number] for number in kept])
    made.fields = tied(made.fields, reader, made)
    return made


def _columns(writer: AvroRecord, reader: AvroRecord) -> dict[str, int]:
    """Numbers of the reader's fields that the writer has, by the writer's names."""
    written = {field.name for field in writer.fields}
    names = {field.name for field in reader.fields}
    columns: dict[str, int] = {}
    for number, field in enumerate(reader.fields):
        # An alias does not take what another field has by its own name.
        known = [alias for alias in field.aliases if alias in written and alias not in names]
        name = field.name if field.name in written else next(iter(known), None)
        if name is not None and name not in columns:
            columns[name] = number
    return columns


def _named_alike(writer: Named, reader: Named) -> bool:
    """By the name without its namespace, or by an alias."""
    if simple_name(writer.name) == simple_name(reader.name):
        return True
    return any(alias in (writer.name, simple_name(writer.name)) for alias in reader.aliases)


def is_other_member(writer: Schema, reader: Schema) -> bool:
    """Whether a union of several types has these two as members of their own: there, names tell enums and fixed types
    apart, from each other and from all other types."""
    if not isinstance(writer, AvroEnum | Fixed) and not isinstance(reader, AvroEnum | Fixed):
        return False
    if Logical.DECIMAL is getattr(writer, "logical", None) is getattr(reader, "logical", None):
        return False
    if isinstance(writer, AvroEnum | Fixed) and type(writer) is type(reader):
        return not _named_alike(writer, reader)
    return True


def _distance(writer: Schema, reader: Schema) -> int:
    """The distance of a branch of the reader's union from what was written: see `_Resolver._member`."""
    match writer, reader:
        case Primitive(), Primitive():
            return int(writer.logical is not reader.logical) if writer.kind is reader.kind else 4
        case (AvroRecord() | AvroEnum() | Fixed(), AvroRecord() | AvroEnum() | Fixed()) if type(writer) is type(reader):
            if writer.name == reader.name:
                return 0
            if writer.name in reader.aliases:
                return 1
            return 2 if _named_alike(writer, reader) else 3
        case _ if type(writer) is type(reader):
            return 0
    return 5


def _best(writer: Schema, branches: tuple[Schema, ...]) -> Schema:
    return min(branches, key=lambda branch: _distance(writer, branch))


def _value(writer: Primitive | Fixed | AvroEnum, reader: Primitive | Fixed | AvroEnum) -> Node | None:
    """A value without parts; None: they do not match."""
    if isinstance(writer, AvroEnum) or isinstance(reader, AvroEnum):
        return _of_one_column(writer, reader)
    if writer.logical is Logical.DECIMAL and reader.logical is Logical.DECIMAL:
        if is_decimal(reader):
            return Decimal(_size(writer), reader.precision, reader.scale, reader.scale - writer.scale)
        return Binary(_size(writer)) if writer.scale == reader.scale else None
    if isinstance(writer, Fixed) or isinstance(reader, Fixed):
        if not isinstance(writer, Fixed) or not isinstance(reader, Fixed) or writer.size != reader.size:
            return _of_one_column(writer, reader)
    elif writer.kind is not reader.kind:
        return _promoted(writer, reader)
    if writer.logical is not None and reader.logical is not None and writer.logical is not reader.logical:
        if not isinstance(writer, Primitive) or not isinstance(reader, Primitive):
            return None
        return _changed_unit(writer, reader)
    if is_decimal(reader):
        return Decimal(_size(writer), reader.precision, reader.scale)
    if isinstance(reader, Fixed):
        match reader.logical:
            case Logical.UUID:
                return UuidText()
            case Logical.DURATION:
                return Duration()
        return Binary(reader.size)
    return _primitive(reader)


def _of_one_column(writer: Primitive | Fixed | AvroEnum, reader: Primitive | Fixed | AvroEnum) -> Node | None:
    """A value whose kind is another than the reader's: what counts is the column. None: it has another column."""
    column = arrow_type(reader)
    if arrow_type(writer) != column and column != pa.binary():
        return None
    match writer:
        case AvroEnum(symbols=symbols):
            return Symbols(symbols, symbols)
        case Fixed(logical=Logical.UUID):
            return UuidText() if column == pa.string() else None
        case Fixed() if arrow_type(writer) == column:
            return Binary(writer.size)
        case Primitive(kind=PrimitiveKind.STRING):
            return Text() if column == pa.string() else Binary(None)
        case Primitive(kind=PrimitiveKind.BYTES) if not is_decimal(writer):
            return Binary(None)
    return None


def _size(schema: Primitive | Fixed) -> int | None:
    return schema.size if isinstance(schema, Fixed) else None


def _primitive(schema: Primitive) -> Node:
    kind = schema.kind
    if kind in _INTEGERS:
        unit = _TIMES.get(schema.logical) if schema.logical else None
        return Integer(_INTEGERS[kind], kind, unit[1] // unit[2] if unit else 1)
    if kind in _FLOATS:
        return Floating(_FLOATS[kind], kind)
    if kind is PrimitiveKind.BOOLEAN:
        return Boolean()
    if kind is PrimitiveKind.STRING:
        return Text()
    return Null() if kind is PrimitiveKind.NULL else Binary(None)


def _promoted(writer: Primitive, reader: Primitive) -> Node | None:
    if writer.logical and reader.logical:
        return _changed_unit(writer, reader)
    if writer.kind in _SIZED and reader.kind in _SIZED:
        # a decimal's or a uuid's own form is no text, and no bytes, of another kind
        if writer.logical is Logical.DECIMAL or reader.logical is not None:
            return None
        return Text() if reader.kind is PrimitiveKind.STRING else Binary(None)
    if reader.kind not in _WIDER.get(writer.kind, ()):
        return None
    if writer.kind is PrimitiveKind.FLOAT:
        return Floating(32, reader.kind)
    own = _primitive(reader)
    return Integer(_INTEGERS[writer.kind], reader.kind, own.multiply if isinstance(own, Integer) else 1)


def _changed_unit(writer: Primitive, reader: Primitive) -> Node | None:
    """Times of one kind, of different units."""
    if (
        writer.logical not in _TIMES
        or reader.logical not in _TIMES
        or writer.kind not in (reader.kind, PrimitiveKind.INT)
    ):
        return None
    kind, unit, _ = _TIMES[writer.logical]
    wanted, _, column = _TIMES[reader.logical]
    if kind != wanted:
        return None
    return Integer(_INTEGERS[writer.kind], reader.kind, max(unit // column, 1), max(column // unit, 1))


# -- sizes


def smallest(schema: Schema) -> int:
    """The fewest bytes that a value takes; less for records that contain themselves, or are nested very deep."""
    return _smallest(schema, {}, 0)


def _smallest(schema: Schema, known: dict[int, int], depth: int) -> int:
    match schema:
        case Primitive(kind=kind):
            return {PrimitiveKind.NULL: 0, PrimitiveKind.FLOAT: 4, PrimitiveKind.DOUBLE: 8}.get(kind, 1)
        case Fixed():
            return schema.size
        case AvroRecord():
            if id(schema) not in known:
                known[id(schema)] = 0
                if depth < MAX_DEPTH:
                    known[id(schema)] = sum(_smallest(field.schema, known, depth + 1) for field in schema.fields)
            return known[id(schema)]
        case Union():
            return 1 + min(_smallest(branch, known, depth) for branch in schema.branches)
    return 1
