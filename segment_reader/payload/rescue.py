"""Rescued fields: fields that rows have and the table lacks, as JSON text (docs/reference/types.md, "Rescued fields").

Payloads are first decoded with all fields of their writer's schema, by the usual kernel. Fields that the table lacks
are then removed from the rows, column by column, and become JSON text in an additional column:

    writer's rows     {id, note, items: [{sku, color}]}      the table has      {id, items: [{sku}]}
    rescued           {"note":"a","items":[{"color":"red"}]}

Values are exact: whole numbers and decimals have all their digits, floats the fewest digits that restore them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kseg.segment_reader.payload.ddl import quoted
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError
from kseg.segment_reader.payload.errors import InvalidSchema, TooLargeForOneBatch, UnsupportedSchema
from kseg.segment_reader.payload.row_schema import Array, JsonText, Map, RowField, RowRecord, RowType, aligned, to_arrow

RESCUED: Final = "_kseg_rescued"

_AT_ONCE: Final = 1 << 20
"""How many values are converted to text at the same time: about 100 MB in rows without lists."""

_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAYS: Final = range(1 - _EPOCH, date.max.toordinal() - _EPOCH + 1)
_START: Final = datetime(1970, 1, 1)
_DAY: Final = 86_400_000_000
_SPECIAL: Final = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def with_rescued(kind: pa.DataType) -> pa.StructType:
    """The type of rows with the column of rescued fields.

    Raises:
        UnsupportedSchema: the rows are not records. InvalidSchema: they have a field of that name.
    """
    if not pa.types.is_struct(kind):
        raise UnsupportedSchema("", f"unknown_fields: rescue needs records, and these are values of type {kind}")
    if kind.get_field_index(RESCUED) >= 0:
        raise InvalidSchema(RESCUED, "is the name of the column of rescued fields")
    return pa.struct([*kind, pa.field(RESCUED, pa.string())])


class RescuingDecoder:
    """A `segment_reader.payload.decoder.PayloadDecoder` whose rows have the reader's fields, and a column of JSON text.

    The text has the writer's other fields. own: the decoder to rows of the writer's type.
    """

    def __init__(self, own: PayloadDecoder, writer: RowRecord, reader: RowRecord) -> None:
        self._own, self._writer, self._reader = own, writer, reader
        self.type = with_rescued(to_arrow(reader))

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        decoded = self._own.decode(payloads, skip=skip)
        text = rescued(decoded.rows, self._writer, self._reader)
        columns = [*aligned(decoded.rows, self._writer, self._reader).flatten(), text]
        rows = pa.StructArray.from_arrays(columns, fields=list(self.type), mask=decoded.rows.is_null())
        return DecodedPayloads(rows, decoded.status)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        return self._own.explain(payload, skip=skip)


def unknown_paths(writer: RowType, reader: RowType, path: str = "") -> Iterator[str]:
    """The writer's fields that the reader's type lacks, as `note`, `items[].color`.

    `row_schema.merged` must accept the two types.
    """
    match writer, reader:
        case RowRecord(), RowRecord():
            known = {field.key: field.type for field in reader.fields}
            for field in writer.fields:
                below = f"{path}.{quoted(field.name)}" if path else quoted(field.name)
                if field.key in known:
                    yield from unknown_paths(field.type, known[field.key], below)
                else:
                    yield below
        case Array(), Array():
            yield from unknown_paths(writer.items, reader.items, f"{path}[]")
        case Map(), Map():
            yield from unknown_paths(writer.values, reader.values, f"{path}{{}}")


def has_unknown(writer: RowType, reader: RowType) -> bool:
    """Whether the writer's type has a field that the reader's type lacks."""
    return next(unknown_paths(writer, reader), None) is not None


def rescued(rows: pa.StructArray, writer: RowRecord, reader: RowRecord) -> pa.StringArray:
    """For each row of the writer's type, the fields that the reader's type lacks, as JSON; null if there are none.

    Raises TooLargeForOneBatch: this is more than 2 GiB of text.
    """
    at_once = max(1, _AT_ONCE // _values_of(writer))
    if len(rows) <= at_once:
        found = _unknown(rows, writer, reader)
    else:
        found = []
        for start in range(0, len(rows), at_once):
            # `take` and not `slice`: a slice of a list array still has the elements of all lists.
            part = rows.take(pa.array(np.arange(start, min(start + at_once, len(rows)))))
            found += _unknown(part, writer, reader)
    text = pa.array(found, pa.string())
    if isinstance(text, pa.ChunkedArray):
        raise TooLargeForOneBatch(len(rows))
    return text


def _values_of(kind: RowType) -> int:
    """The number of values of a row of this type, if every list and every map has one element."""
    match kind:
        case RowRecord():
            return 1 + sum(_values_of(field.type) for field in kind.fields)
        case Array():
            return _values_of(kind.items)
        case Map():
            return 1 + _values_of(kind.values)
    return 1


# -- the parts of values that the reader's type lacks; None if there are none


def _unknown(values: pa.Array, writer: RowType, reader: RowType) -> list[str | None]:
    match writer, reader:
        case RowRecord(), RowRecord():
            known = {field.key: field.type for field in reader.fields}
            members = []
            for field, child in zip(writer.fields, values.flatten(), strict=True):
                if field.key not in known:
                    members.append(_member(field, child))
                elif has_unknown(field.type, known[field.key]):
                    members.append(_named(field.name, _unknown(child, field.type, known[field.key])))
            return [of_row or None for of_row in _objects(members, values, none="")]
        case Array(), Array():
            inner = _unknown(values.values, writer.items, reader.items)
            return _each(values, lambda start, end: _list_of(inner[start:end]))
        case Map(), Map():
            keys = _keys(values.keys)
            inner = _unknown(values.items, writer.values, reader.values)
            return _each(values, lambda start, end: _object(keys[start:end], inner[start:end]) or None)
    raise AssertionError(f"{writer} has no field that {reader} lacks")


def _list_of(parts: Sequence[str | None]) -> str | None:
    """A JSON list, or None. Elements keep their positions; elements after the last part are left out."""
    last = max((number for number, part in enumerate(parts) if part is not None), default=-1)
    return f"[{','.join(part or 'null' for part in parts[: last + 1])}]" if last >= 0 else None


# -- whole values


def _whole(values: pa.Array, kind: RowType) -> list[str]:
    match kind:
        case RowRecord():
            made = _objects([_member(field, child) for field, child in _children(kind, values)], values, none="{}")
            texts = [text or "null" for text in made]
        case Array():
            items = _whole(values.values, kind.items)
            texts = [text or "null" for text in _each(values, lambda start, end: f"[{','.join(items[start:end])}]")]
        case Map():
            keys, items = _keys(values.keys), _whole(values.items, kind.values)
            made = _each(values, lambda start, end: _object(keys[start:end], items[start:end]) or "{}")
            texts = [text or "null" for text in made]
        case _:
            return _scalars(values, raw=isinstance(kind, JsonText))
    return texts


def _children(record: RowRecord, values: pa.StructArray) -> Iterable[tuple[RowField, pa.Array]]:
    return zip(record.fields, values.flatten(), strict=True)


def _member(field: RowField, values: pa.Array) -> list[str | None]:
    """A field as a member of a JSON object; None if the member is left out."""
    texts: list[str | None] = list(_whole(values, field.type))
    if field.unwritten is not None:
        implicit = field.unwritten if field.unwritten != "null" else ""  # a JSON document may be null
        valid = values.is_valid().to_pylist()
        texts = [text if there and text != implicit else None for text, there in zip(texts, valid, strict=True)]
    return _named(field.name, texts)


def _named(name: str, texts: Iterable[str | None]) -> list[str | None]:
    key = f"{_text(name)}:"
    return [None if text is None else key + text for text in texts]


def _objects(members: Sequence[Sequence[str | None]], values: pa.StructArray, none: str) -> list[str | None]:
    """JSON objects with these members; `none` for an object without members, None for a null value."""
    valid = values.is_valid().to_pylist()
    rows: Iterable[tuple[str | None, ...]] = zip(*members, strict=True) if members else [()] * len(valid)
    return [
        None if not there else f"{{{','.join(parts)}}}" if (parts := [one for one in row if one is not None]) else none
        for there, row in zip(valid, rows, strict=True)
    ]


def _object(keys: Sequence[str], parts: Sequence[str | None]) -> str:
    """A JSON object, or "" if there are no parts."""
    members = [f"{key}:{part}" for key, part in zip(keys, parts, strict=True) if part is not None]
    return f"{{{','.join(members)}}}" if members else ""


def _each(values: pa.ListArray | pa.MapArray, made: Callable[[int, int], str | None]) -> list[str | None]:
    """For each list, the result of `made(start, end)` for its elements [start, end); None for a null list."""
    return [
        made(start, end) if there else None
        for (start, end), there in zip(pairwise(values.offsets.to_pylist()), values.is_valid().to_pylist(), strict=True)
    ]


def _keys(keys: pa.Array) -> list[str]:
    """The keys of maps, as JSON strings."""
    texts = _scalars(keys, raw=False)
    return texts if pa.types.is_string(keys.type) else [f'"{text}"' for text in texts]


def _scalars(values: pa.Array, raw: bool) -> list[str]:
    """raw: strings are JSON text already."""
    form, kind = _FORMS.get(values.type), values.type
    if pa.types.is_decimal(kind):
        form = _decimal
    elif pa.types.is_string(kind):
        form = str if raw else _text
    elif pa.types.is_timestamp(kind):
        form = _instant if kind.tz is not None else _wall_clock
    assert form is not None or pa.types.is_null(kind), kind
    if pa.types.is_timestamp(kind):
        values = values.view(pa.int64())
    elif pa.types.is_date32(kind):
        values = values.view(pa.int32())
    plain = values.to_numpy(zero_copy_only=False) if pa.types.is_float32(kind) else values.to_pylist()
    valid = values.is_valid().to_pylist()
    return [form(one) if there and form else "null" for one, there in zip(plain, valid, strict=True)]


def json_scalar(value: Any, kind: pa.DataType) -> str:
    """A single value of a type without fields (or of Avro's duration) in this form. value: as plain decoders have it,
    days and microseconds."""
    if pa.types.is_struct(kind):
        members = (f"{_text(child.name)}:{json_scalar(value[child.name], child.type)}" for child in kind)
        return f"{{{','.join(members)}}}"
    if pa.types.is_timestamp(kind):
        return _instant(value) if kind.tz is not None else _wall_clock(value)
    if pa.types.is_date32(kind):
        return _date(value)
    if pa.types.is_decimal(kind):
        return _decimal(value)
    if pa.types.is_float32(kind):
        return _number(np.float32(value))
    return _text(value) if pa.types.is_string(kind) else _FORMS[kind](value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _decimal(value: Any) -> str:
    return f"{value:f}"


def _number(value: Any) -> str:
    """A float of 32 or 64 bits, with the fewest digits that restore it; NaN and infinities become JSON strings."""
    text = str(value)
    return _SPECIAL.get(text, text)


def _base64(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _date(days: int) -> str:
    """An ISO date; a day outside of the years 1 to 9999 remains a number."""
    return f'"{date.fromordinal(_EPOCH + days).isoformat()}"' if days in _DAYS else str(days)


def _instant(micros: int) -> str:
    return _time(micros, "Z")


def _wall_clock(micros: int) -> str:
    return _time(micros, "")


def _time(micros: int, zone: str) -> str:
    """An ISO timestamp; a time outside of the years 1 to 9999 remains a number."""
    if micros // _DAY not in _DAYS:
        return str(micros)
    return f'"{(_START + timedelta(microseconds=micros)).isoformat()}{zone}"'


_FORMS: Final[dict[pa.DataType, Callable[[Any], str]]] = {
    pa.bool_(): _bool,
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), str),
    **dict.fromkeys((pa.float32(), pa.float64()), _number),
    pa.binary(): _base64,
    pa.date32(): _date,
}
