"""The decoder in plain Python: it defines the rules, and explains what compiled code refuses.

First the grammar of the whole document (`document`), then its values in the order in which they are written: so a
document that is no JSON is MALFORMED, TRUNCATED …, whatever the declared types, and WRONG_TYPE and the like are about
sound documents. Of two errors the first counts.

    null, or a field that is not written     null; the document itself must be an object
    a declared field that is written twice   DUPLICATE_KEY at the second; so is a map's key, when the map is complete
    a field that no type declares            validated; rescued as it is written, or ignored
    string                                   of strings alone: a number or an object is a WRONG_TYPE
    binary                                   base64 (RFC 4648, section 4, with its padding)
    integers, decimals                       exact: 1e3 is 1000, 1.5 is INEXACT
    float, double                            the nearest one; too large is OUT_OF_RANGE
    any of these, with the format `string`   the same of the text of a string, which has nothing but the number
    a struct of a choice's members           an object is the one that its properties show, else a WRONG_TYPE: `choices`
    date, timestamp                          see `formats`; null for a time beyond the calendar, if so declared
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.far_times import TO_NULL
from kseg.segment_reader.payload.json.choices import Choice, Undecided
from kseg.segment_reader.payload.json.document import DocumentMember, JsonToken, Key, Step, Value, bad, parse
from kseg.segment_reader.payload.json.formats import (
    FIRST_DAY,
    IN_STRING,
    INFINITIES,
    LAST_DAY,
    Format,
    days_of,
    instant_in_range,
    micros_of,
    near_text,
)
from kseg.segment_reader.payload.json.numbers import Unfit, decimal, double, integer, scaled, shown, single
from kseg.segment_reader.payload.json.shape import INTEGERS, NUMBERS, JsonOptions, Kind, Shape, row_type, shape_of
from kseg.segment_reader.payload.plain import BadPayload, PlainDecoder, nullable


class JsonReference(PlainDecoder):
    """See `segment_reader.payload.decoder.PayloadDecoder`. declared: a struct of the columns. Raises InvalidSchema."""

    def __init__(self, declared: pa.StructType, options: JsonOptions | None = None) -> None:
        self._options = options or JsonOptions()
        self._shape = shape_of(declared, self._options)
        self._type = row_type(declared, self._options)

    @property
    def type(self) -> pa.StructType:
        return self._type

    def row(self, payload: bytes, skip: int = 0) -> dict[str, Any]:
        document = parse(payload, skip, self._options.max_depth)
        if document.token is not JsonToken.OBJECT:
            raise bad(Status.WRONG_TYPE, [], document.start, f"a row is an object, not {document.token.value}")
        row: dict[str, Any] = convert(document, self._shape, [], payload) or {}
        if self._options.unknown_fields == "rescue":
            text = _unknown(document, self._shape, payload)
            row[self._options.rescued] = None if text is None else text.decode()
        return row


def convert(value: Value, shape: Shape, steps: list[Step], payload: bytes) -> Any:
    """The value as pyarrow takes it for the declared type. steps: the path to it. Raises BadPayload."""
    return nullable(_convert, value, shape, steps, payload)


def _convert(value: Value, shape: Shape, steps: list[Step], payload: bytes) -> Any:
    if value.token is JsonToken.NULL:
        return None
    if shape.kind is Kind.STRUCT:
        return _struct(value, shape, steps, payload)
    if shape.kind is Kind.LIST:
        if value.token is not JsonToken.ARRAY:
            raise _wrong(value, shape, steps)
        child = shape.children[0]
        return [convert(each, child, [*steps, number], payload) for number, each in enumerate(value.elements)]
    if shape.kind is Kind.MAP:
        return _map(value, shape, steps, payload)
    if shape.kind is Kind.STRING and shape.format is not None:
        return payload[value.start : value.end].decode()
    try:
        return scalar(value.token, value.text, shape)
    except Unfit as unfit:
        raise bad(unfit.status, steps, value.start, unfit.reason) from None


def _wrong(value: Value, shape: Shape, steps: list[Step]) -> BadPayload:
    return bad(Status.WRONG_TYPE, steps, value.start, f"{value.token.value} is no {type_name(shape)}")


def _struct(value: Value, shape: Shape, steps: list[Step], payload: bytes) -> dict[str, Any]:
    if value.token is not JsonToken.OBJECT:
        raise _wrong(value, shape, steps)
    if shape.choice is not None:
        return _chosen(value, shape, shape.choice, steps, payload)
    fields = shape.by_name
    row: dict[str, Any] = {}
    for member in value.members:
        if member.name in row:
            row[member.name] = nullable(_twice, member, steps)
        elif member.name in fields:
            row[member.name] = convert(member.value, fields[member.name], [*steps, member.name], payload)
    return row


def _chosen(value: Value, shape: Shape, choice: Choice, steps: list[Step], payload: bytes) -> dict[str, Any]:
    seen: set[str] = set()
    for member in value.members:
        if member.name in choice.names and member.name in seen:
            _twice(member, steps)
        seen.add(member.name)
    try:
        name = choice.member(written(value, payload)).name
    except Undecided as reason:
        raise bad(Status.WRONG_TYPE, steps, value.start, str(reason)) from None
    return {name: _struct(value, shape.by_name[name], [*steps, name], payload)}


def written(value: Value, payload: bytes) -> dict[str, bytes]:
    """An object's values as they are written, by name."""
    return {each.name: payload[each.value.start : each.value.end] for each in value.members}


def _twice(member: DocumentMember, steps: list[Step]) -> Any:
    raise bad(Status.DUPLICATE_KEY, [*steps, member.name], member.start, "the field is written twice")


def _map(value: Value, shape: Shape, steps: list[Step], payload: bytes) -> list[tuple[str, Any]]:
    if value.token is not JsonToken.OBJECT:
        raise _wrong(value, shape, steps)
    child = shape.children[0]
    pairs = [(each.name, convert(each.value, child, [*steps, Key(each.name)], payload)) for each in value.members]
    seen: set[str] = set()
    for member in value.members:
        if member.name in seen:
            error = bad(Status.DUPLICATE_KEY, [*steps, Key(member.name)], member.start, "the key is written twice")
            error.place = error.place.removesuffix("[]")  # all of the map
            raise error
        seen.add(member.name)
    return pairs


#: RFC 8259, section 6.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def scalar(token: JsonToken, text: str, shape: Shape) -> Any:
    """A value of no nested type. Dates are days, timestamps microseconds. Raises Unfit."""
    kind, name = shape.kind, type_name(shape)
    if kind is Kind.BOOLEAN and token in (JsonToken.TRUE, JsonToken.FALSE):
        return token is JsonToken.TRUE
    if token is JsonToken.STRING and kind in NUMBERS and shape.format is not None:
        if shape.format.name != IN_STRING:
            return _base64_decimal(text, shape)
        if _NUMBER.fullmatch(text) is None:
            raise Unfit(Status.WRONG_TYPE, f"{shown(text)!r} is no number: a {name} of format string is expected")
        token = JsonToken.NUMBER
    if token is JsonToken.STRING and kind in _OF_TEXT:
        return _OF_TEXT[kind](text, shape)
    if token is JsonToken.NUMBER and kind is not Kind.STRING and kind is not Kind.BINARY:
        if kind in INTEGERS:
            return integer(text, INTEGERS[kind], name)
        if kind is Kind.DECIMAL:
            return decimal(text, shape.type.precision, shape.type.scale, name)
        if kind is Kind.DOUBLE:
            return double(text)
        if kind is Kind.FLOAT:
            return single(text)
        if kind is not Kind.BOOLEAN and shape.format is not None and shape.format.pattern is None:
            return _epoch(text, shape)
    raise Unfit(Status.WRONG_TYPE, f"{token.value} is no {name}{_hint(token, shape)}")


def _epoch(text: str, shape: Shape) -> int | None:
    assert shape.format is not None
    name = f"{shape.format.name} of a {type_name(shape)}"
    try:
        value = scaled(text, shape.format.shift, 19, name, cut=shape.format.cut)
    except Unfit as unfit:
        if unfit.status is Status.OUT_OF_RANGE and shape.format.nulls_far:
            return None
        raise
    if not (FIRST_DAY <= value <= LAST_DAY if shape.kind is Kind.DATE else instant_in_range(value)):
        if shape.format.nulls_far:
            return None
        reason = f"{shown(text)} as {shape.format.name} is not within the years 1 to 9999{TO_NULL}"
        raise Unfit(Status.OUT_OF_RANGE, reason)
    return value


def _base64(text: str, shape: Shape) -> bytes:
    try:
        found = base64.b64decode(text.encode(), validate=True)
    except binascii.Error:
        found = None
    if found is None or base64.b64encode(found) != text.encode():
        raise Unfit(Status.WRONG_TYPE, f"{shown(text)!r} is no base64")
    return found


def _base64_decimal(text: str, shape: Shape) -> Decimal:
    found = _base64(text, shape)
    if not found:
        raise Unfit(Status.WRONG_TYPE, "'' is no number: base64 of at least one byte is expected")
    unscaled = int.from_bytes(found, "big", signed=True)
    if abs(unscaled) >= 10**shape.type.precision:
        raise Unfit(Status.OUT_OF_RANGE, f"base64 {shown(text)!r} has too many digits for {type_name(shape)}")
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -shape.type.scale))


def _date(text: str, shape: Shape) -> int | None:
    assert shape.format is not None
    days = days_of(text, shape.format)
    if isinstance(days, str):
        far = _is_far(text, shape.format, days_of)
        if far and shape.format.nulls_far:
            return None
        hint = TO_NULL if far else ""
        raise Unfit(Status.WRONG_TYPE, f"{shown(text)!r} is no date of format {shape.format.name}{hint}")
    return days


def _timestamp(text: str, shape: Shape) -> int | None:
    assert shape.format is not None
    found = partial(micros_of, instant=shape.kind is Kind.TIMESTAMP)
    micros = found(text, shape.format)
    if not isinstance(micros, str):
        return micros
    far = micros == "range" or _is_far(text, shape.format, found)
    if far and shape.format.nulls_far:
        return None
    hint = TO_NULL if far else ""
    written, name = repr(shown(text)), type_name(shape)
    status, reason = {
        "format": (Status.WRONG_TYPE, f"{written} is no {name} of format {shape.format.name}{hint}"),
        "no zone": (Status.WRONG_TYPE, f"{written} has no time zone, and none is declared for such texts"),
        "zone": (Status.WRONG_TYPE, f"{written} has a time zone: declare timestamp, not timestamp_ntz"),
        "gap": (Status.WRONG_TYPE, f"clocks of {shape.format.zone} never show {written}"),
        "fraction": (
            Status.INEXACT,
            f"{written} has digits below a microsecond: nanoseconds: truncate leaves them out",
        ),
        "range": (Status.OUT_OF_RANGE, f"{written} is not within the years 1 to 9999 of UTC{hint}"),
    }[micros]
    raise Unfit(status, reason)


def _is_far(text: str, format: Format, found: Callable[[str, Format], int | str]) -> bool:
    """Whether the text is sound but for its year, or says that there is no end."""
    near = near_text(text, format)
    return text in INFINITIES or (
        near is not None and found(near, format) not in ("format", "zone", "no zone", "fraction")
    )


_OF_TEXT: dict[Kind, Callable[[str, Shape], Any]] = {
    Kind.STRING: lambda text, shape: text,
    Kind.BINARY: _base64,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMP_NTZ: _timestamp,
}


def type_name(shape: Shape) -> str:
    """The type in Spark's words, a nested one in short."""
    if shape.kind is Kind.DECIMAL:
        return f"decimal({shape.type.precision},{shape.type.scale})"
    return _NAMES[shape.kind]


_NAMES = {
    Kind.BOOLEAN: "boolean",
    Kind.INT8: "tinyint",
    Kind.INT16: "smallint",
    Kind.INT32: "int",
    Kind.INT64: "bigint",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BINARY: "binary, which is base64 in a string",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMP_NTZ: "timestamp_ntz",
    Kind.LIST: "array",
    Kind.MAP: "map, which is an object",
    Kind.STRUCT: "struct, which is an object",
}


def _hint(token: JsonToken, shape: Shape) -> str:
    return f" of format {shape.format.name}" if shape.format and token in (JsonToken.NUMBER, JsonToken.STRING) else ""


def _unknown(value: Value, shape: Shape, payload: bytes) -> bytes | None:
    """The document without what is declared: unknown fields as they are written, at their places. None: there are none.

    Lists keep their elements' numbers: `null` stands for one without unknown fields that others follow.
    """
    if value.token is JsonToken.OBJECT and shape.kind in (Kind.STRUCT, Kind.MAP):
        if shape.choice is not None:
            try:
                name = shape.choice.member(written(value, payload)).name
            except Undecided:  # it is null
                return payload[value.start : value.end]
            return _unknown(value, shape.by_name[name], payload)
        fields = shape.by_name
        members = [_member(each, fields.get(each.name), shape, payload) for each in value.members]
        kept = [text for text in members if text is not None]
        return b"{" + b",".join(kept) + b"}" if kept else None
    if value.token is JsonToken.ARRAY and shape.kind is Kind.LIST:
        elements = [_unknown(each, shape.children[0], payload) for each in value.elements]
        while elements and elements[-1] is None:
            elements.pop()
        return b"[" + b",".join(text or b"null" for text in elements) + b"]" if elements else None
    return None


def _member(member: DocumentMember, field: Shape | None, shape: Shape, payload: bytes) -> bytes | None:
    if shape.kind is Kind.MAP:
        field = shape.children[0]
    if field is None:
        return payload[member.start : member.value.end]
    below = _unknown(member.value, field, payload)
    return None if below is None else payload[member.start : member.end] + b":" + below
