"""Avro schema -> Arrow type: docs/reference/types.md is the rule.

Only types that Spark and Delta have, all nullable, and nothing that would round or drop a value: what has no exact
column type keeps its number (times of day, nanoseconds) or its bytes (a decimal of more than 38 digits).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from kseg.segment_reader.payload import row_schema
from kseg.segment_reader.payload.avro.limits import MAX_DEPTH
from kseg.segment_reader.payload.avro.schema import (
    AvroArray,
    AvroEnum,
    AvroMap,
    AvroRecord,
    Fixed,
    Logical,
    Primitive,
    PrimitiveKind,
    Schema,
    Union,
    is_null,
    simple_name,
)
from kseg.segment_reader.payload.errors import UnsupportedSchema

#: Of all levels. A few records that contain each other many times can name more columns than memory holds.
MAX_COLUMNS: Final = 100_000
MAX_PRECISION: Final = 38

INSTANT: Final = pa.timestamp("us", tz="UTC")
WALL_CLOCK: Final = pa.timestamp("us")
DURATION: Final = pa.struct([("months", pa.int64()), ("days", pa.int64()), ("millis", pa.int64())])

_KINDS: Final = {
    PrimitiveKind.NULL: pa.null(),
    PrimitiveKind.BOOLEAN: pa.bool_(),
    PrimitiveKind.INT: pa.int32(),
    PrimitiveKind.LONG: pa.int64(),
    PrimitiveKind.FLOAT: pa.float32(),
    PrimitiveKind.DOUBLE: pa.float64(),
    PrimitiveKind.BYTES: pa.binary(),
    PrimitiveKind.STRING: pa.string(),
}

_LOGICALS: Final = {
    Logical.UUID: pa.string(),
    Logical.DATE: pa.date32(),
    Logical.TIME_MILLIS: pa.int32(),
    Logical.TIME_MICROS: pa.int64(),
    Logical.TIMESTAMP_MILLIS: INSTANT,
    Logical.TIMESTAMP_MICROS: INSTANT,
    Logical.TIMESTAMP_NANOS: pa.int64(),
    Logical.LOCAL_TIMESTAMP_MILLIS: WALL_CLOCK,
    Logical.LOCAL_TIMESTAMP_MICROS: WALL_CLOCK,
    Logical.LOCAL_TIMESTAMP_NANOS: pa.int64(),
    Logical.DURATION: DURATION,
    Logical.ZONED_TIMESTAMP: INSTANT,
}
_WRITTEN: Final = {**_LOGICALS, Logical.ZONED_TIMESTAMP: pa.string()}

_LONG, _DOUBLE = Primitive(PrimitiveKind.LONG), Primitive(PrimitiveKind.DOUBLE)


def arrow_type(schema: Schema) -> pa.DataType:
    """The type of a schema's column; for a record at the top, of the rows.

    Where a record begins again that contains itself, its value is JSON text.

    Raises UnsupportedSchema: more columns than MAX_COLUMNS, or records that are nested too deep.
    """
    return _Builder(_LOGICALS).build(schema, "", ())


def written_type(schema: Schema) -> pa.DataType:
    """The type of `arrow_type`, with instants that are written as texts as these texts
    (`segment_reader.payload.avro.zoned`)."""
    return _Builder(_WRITTEN).build(schema, "", ())


def row_type(schema: Schema) -> row_schema.RowType:
    """The same as `arrow_type`, as a tree of fields; a union's members beside the one that is written are unwritten.

    Raises UnsupportedSchema.
    """
    arrow_type(schema)
    return _row_type(schema, ())


def _row_type(schema: Schema, above: tuple[AvroRecord, ...]) -> row_schema.RowType:
    match schema:
        case AvroArray():
            return row_schema.Array(_row_type(schema.items, above))
        case AvroMap():
            return row_schema.Map(pa.string(), _row_type(schema.values, above))
        case AvroRecord() if schema in above:
            return row_schema.JsonText()
        case AvroRecord():
            inner = (*above, schema)
            fields = (row_schema.RowField(field.name, _row_type(field.schema, inner)) for field in schema.fields)
            return row_schema.RowRecord(tuple(fields))
        case Union():
            branches = members(schema)
            one = joined(branches) if branches else Primitive(PrimitiveKind.NULL)
            if one is not None:
                return _row_type(one, above)
            kinds = enumerate(_row_type(branch, above) for branch in branches)
            return row_schema.RowRecord(
                tuple(row_schema.RowField(f"member{n}", kind, unwritten="null") for n, kind in kinds)
            )
    return row_schema.from_arrow(arrow_type(schema))


def members(union: Union) -> tuple[Schema, ...]:
    """A union's branches but null. More than one become a struct of member0, member1, … unless `joined`."""
    return tuple(branch for branch in union.branches if not is_null(branch))


def joined(branches: tuple[Schema, ...]) -> Schema | None:
    """The one type that all of these are read as: of int and long, long; of float and double, double."""
    if len(branches) == 1:
        return branches[0]
    plain = {b.kind for b in branches if isinstance(b, Primitive) and b.logical is None}
    if len(plain) == len(branches):
        if plain == {PrimitiveKind.INT, PrimitiveKind.LONG}:
            return _LONG
        if plain == {PrimitiveKind.FLOAT, PrimitiveKind.DOUBLE}:
            return _DOUBLE
    return None


def is_decimal(schema: Primitive | Fixed) -> bool:
    """Whether it is a decimal that a column can have."""
    return schema.logical is Logical.DECIMAL and schema.precision <= MAX_PRECISION


class _Builder:
    def __init__(self, logicals: Mapping[Logical, pa.DataType]) -> None:
        self._logicals = logicals
        self._columns = 0

    def _of_logical(self, logical: Logical | None, plain: pa.DataType) -> pa.DataType:
        return plain if logical is None or logical is Logical.DECIMAL else self._logicals[logical]

    def build(self, schema: Schema, place: str, above: tuple[AvroRecord, ...]) -> pa.DataType:
        self._columns += 1
        if self._columns > MAX_COLUMNS:
            raise UnsupportedSchema(place, f"the schema has more than {MAX_COLUMNS:,} columns")
        match schema:
            case Primitive() | Fixed() if is_decimal(schema):
                return pa.decimal128(schema.precision, schema.scale)
            case Primitive():
                return self._of_logical(schema.logical, _KINDS[schema.kind])
            case Fixed():
                return self._of_logical(schema.logical, pa.binary())
            case AvroEnum():
                return pa.string()
            case AvroArray():
                return pa.list_(self.build(schema.items, f"{place}[]", above))
            case AvroMap():
                return pa.map_(pa.string(), self.build(schema.values, f"{place}{{}}", above))
            case AvroRecord():
                if schema in above:
                    return pa.string()
                place = place or simple_name(schema.name)
                inner = (*above, schema)
                if len(inner) > MAX_DEPTH:
                    raise UnsupportedSchema(place, f"records are nested more than {MAX_DEPTH} deep")
                return pa.struct([(f.name, self.build(f.schema, f"{place}.{f.name}", inner)) for f in schema.fields])
            case Union():
                branches = members(schema)
                if not branches:
                    return pa.null()
                one = joined(branches)
                if one is not None:
                    return self.build(one, place, above)
                kinds = [self.build(branch, f"{place}<{n}>", above) for n, branch in enumerate(branches)]
                return pa.struct([(f"member{n}", kind) for n, kind in enumerate(kinds)])
