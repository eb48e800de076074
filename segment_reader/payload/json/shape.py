"""What a JSON document is read by: the declared type with each column's format, and the options.

Paths name fields as errors do: `order.items[].price`; `[]` stands for a list's elements and for a map's values. A name
that is more than letters, digits and _ is in backquotes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Literal

import pyarrow as pa

from kseg.segment_reader.payload.ddl import quoted
from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.json.choices import Choice
from kseg.segment_reader.payload.json.formats import (
    BASE64,
    IN_STRING,
    ISO,
    JSON_TEXT,
    Format,
    Zone,
    date_format,
    time_zone,
    timestamp_format,
)

MOST_DEPTH = 200


class Kind(IntEnum):
    """The types that compiled code tells apart."""

    BOOLEAN = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT = 5
    DOUBLE = 6
    DECIMAL = 7
    STRING = 8
    BINARY = 9
    DATE = 10
    TIMESTAMP = 11
    TIMESTAMP_NTZ = 12
    LIST = 13
    MAP = 14
    STRUCT = 15


INTEGERS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
NUMBERS = (*INTEGERS, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)


@dataclass(frozen=True)
class JsonOptions:
    """Options for reading documents.

    timestamp_format, date_format: of all such columns; formats: of those at a path (see `formats`, and above).
    nanoseconds: whether digits of timestamps below a microsecond are an error, or are cut off.
    out_of_range_times: whether dates and timestamps that are not within the years 1 to 9999 are an error, or nulls.
    choices: the structs, by path, whose fields are the members of a choice: an object is one of them.
    time_zone: of timestamp texts that have none (`UTC`, `+02:00`, `Europe/Berlin`); None refuses them.
    unknown_fields: what becomes of fields that no type declares. rescue: the column `rescued` holds them as JSON, as
        they are written, at the place where they were; ignore: they are validated and dropped.
    max_depth: how deep arrays and objects may be nested.
    """

    timestamp_format: str = ISO
    date_format: str = ISO
    formats: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, Choice] = field(default_factory=dict)
    time_zone: str | None = None
    nanoseconds: Literal["fail", "truncate"] = "fail"
    out_of_range_times: Literal["fail", "set_null"] = "fail"
    unknown_fields: Literal["ignore", "rescue"] = "rescue"
    rescued: str = "_kseg_rescued"
    max_depth: int = 128

    def __post_init__(self) -> None:
        if self.unknown_fields not in ("ignore", "rescue"):
            raise InvalidSchema("unknown_fields", f"ignore or rescue, not {self.unknown_fields!r}")
        if not 1 <= self.max_depth <= MOST_DEPTH:
            raise InvalidSchema("max_depth", f"1 to {MOST_DEPTH}, not {self.max_depth}")


@dataclass(frozen=True)
class Shape:
    """One place of the declared type. children: of the fields that `names` has, a list's element, or a map's value.
    choice: of a struct, whose fields are its members."""

    kind: Kind
    type: pa.DataType
    path: str
    names: tuple[str, ...] = ()
    children: tuple[Shape, ...] = ()
    format: Format | None = None
    choice: Choice | None = None

    @property
    def by_name(self) -> dict[str, Shape]:
        return dict(zip(self.names, self.children, strict=True)) if self.kind is Kind.STRUCT else {}


def shape_of(declared: pa.StructType, options: JsonOptions) -> Shape:
    """Raises InvalidSchema for what is not declared soundly: a type, a name, a format, a zone."""
    builder = _Builder(options)
    shape = builder.shape(declared, "", 1)
    if unused := set(options.formats) - builder.formats_used:
        raise InvalidSchema(sorted(unused)[0], "formats names no date, timestamp, number or string")
    if options.unknown_fields == "rescue" and options.rescued in shape.names:
        raise InvalidSchema(options.rescued, "a column of this name is declared: choose another for rescued fields")
    return shape


def row_type(declared: pa.StructType, options: JsonOptions) -> pa.StructType:
    """The type of rows: the declared fields, all nullable, and the rescued ones."""
    fields = [declared.field(number) for number in range(declared.num_fields)]
    if options.unknown_fields == "rescue":
        fields.append(pa.field(options.rescued, pa.string()))
    return pa.struct(fields)


def formats_of(declared: pa.StructType, formats: Mapping[str, str]) -> dict[str, str]:
    """Those of the formats by path whose fields are declared."""
    declared_paths = set(_scalars(declared, ""))
    return {path: name for path, name in formats.items() if path in declared_paths}


def _scalars(kind: pa.DataType, path: str) -> Iterator[str]:
    if pa.types.is_struct(kind):
        for each in kind:
            yield from _scalars(each.type, _below(path, each.name))
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        yield from _scalars(kind.item_type if pa.types.is_map(kind) else kind.value_type, f"{path}[]")
    else:
        yield path


class _Builder:
    def __init__(self, options: JsonOptions) -> None:
        self._options = options
        self._zone: Zone | None = None if options.time_zone is None else time_zone(options.time_zone)
        self._nulls_far = options.out_of_range_times == "set_null"
        self.formats_used: set[str] = set()

    def shape(self, kind: pa.DataType, path: str, depth: int) -> Shape:
        nested = pa.types.is_struct(kind) or pa.types.is_list(kind) or pa.types.is_map(kind)
        if nested and depth > self._options.max_depth:
            raise InvalidSchema(path, f"the type is nested deeper than max_depth, {self._options.max_depth}")
        if pa.types.is_struct(kind):
            fields = [kind.field(number) for number in range(kind.num_fields)]
            names = tuple(each.name for each in fields)
            if len(set(names)) < len(names):
                raise InvalidSchema(
                    path, f"field {sorted(n for n in names if names.count(n) > 1)[0]} is declared twice"
                )
            for each in fields:
                if not each.nullable:
                    raise InvalidSchema(_below(path, each.name), "declared as not null: all fields are nullable")
            children = tuple(self.shape(each.type, _below(path, each.name), depth + 1) for each in fields)
            return Shape(Kind.STRUCT, kind, path, names, children, choice=self._options.choices.get(path))
        if pa.types.is_list(kind):
            element = self.shape(kind.value_type, f"{path}[]", depth + 1)
            return Shape(Kind.LIST, kind, path, children=(element,))
        if pa.types.is_map(kind):
            if not pa.types.is_string(kind.key_type):
                raise InvalidSchema(path, "a map's key must be string")
            value = self.shape(kind.item_type, f"{path}[]", depth + 1)
            return Shape(Kind.MAP, kind, path, children=(value,))
        return self._scalar(kind, path)

    def _scalar(self, kind: pa.DataType, path: str) -> Shape:
        if kind == pa.date32():
            day = date_format(self._name(path, self._options.date_format), path)
            return Shape(Kind.DATE, kind, path, format=replace(day, nulls_far=self._nulls_far))
        if pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"):
            name = self._name(path, self._options.timestamp_format)
            written = timestamp_format(name, self._zone if kind.tz else None, path)
            written = replace(written, cut=self._options.nanoseconds == "truncate", nulls_far=self._nulls_far)
            return Shape(Kind.TIMESTAMP if kind.tz else Kind.TIMESTAMP_NTZ, kind, path, format=written)
        if pa.types.is_decimal128(kind) and kind.scale >= 0:
            return Shape(Kind.DECIMAL, kind, path, format=self._written(path, "decimal", BASE64, IN_STRING))
        if pa.types.is_string(kind):
            return Shape(Kind.STRING, kind, path, format=self._written(path, "string", JSON_TEXT))
        found = _SCALARS.get(kind)
        if found is None:
            raise InvalidSchema(path, f"{kind} is no type that JSON is read to")
        return Shape(found, kind, path, format=self._written(path, "number", IN_STRING) if found in NUMBERS else None)

    def _written(self, path: str, word: str, *known: str) -> Format | None:
        name = self._options.formats.get(path)
        if name is None:
            return None
        self.formats_used.add(path)
        if name not in known:
            others = f"{known[0]} is the only one" if len(known) == 1 else f"{' and '.join(known)} are the only ones"
            raise InvalidSchema(path, f"{name} is no format of a {word}: {others}")
        return Format(name)

    def _name(self, path: str, default: str) -> str:
        self.formats_used.add(path)
        return self._options.formats.get(path, default)


_SCALARS = {
    pa.bool_(): Kind.BOOLEAN,
    pa.int8(): Kind.INT8,
    pa.int16(): Kind.INT16,
    pa.int32(): Kind.INT32,
    pa.int64(): Kind.INT64,
    pa.float32(): Kind.FLOAT,
    pa.float64(): Kind.DOUBLE,
    pa.binary(): Kind.BINARY,
}


def _below(path: str, name: str) -> str:
    return f"{path}.{quoted(name)}" if path else quoted(name)
