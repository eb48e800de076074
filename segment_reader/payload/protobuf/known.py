"""Values of Google's well-known types: times in microseconds, and struct.proto's messages as JSON text.

https://protobuf.dev/reference/protobuf/google.protobuf/ · JSON: https://protobuf.dev/programming-guides/json/
"""

from __future__ import annotations

import json
import struct
from typing import Any, Final

from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.far_times import TO_NULL
from kseg.segment_reader.payload.plain import BadPayload
from kseg.segment_reader.payload.protobuf.columns import Json, Time
from kseg.segment_reader.payload.protobuf.wire import DELIMITED, FIXED64, VARINT, WireReader

#: Seconds of 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z, and of the longest Duration, about 10,000 years.
FIRST_SECOND: Final = -62_135_596_800
LAST_SECOND: Final = 253_402_300_799
MOST_SECONDS: Final = 315_576_000_000

_MAX_DEPTH: Final = 100


def microseconds(seconds: int, nanos: int, time: Time) -> int | None:
    """None: a Timestamp outside of the years 1 to 9999, where such ones are nulls. Raises BadPayload: OUT_OF_RANGE,
    INEXACT."""
    hint = ""
    if time.instant:
        if not FIRST_SECOND <= seconds <= LAST_SECOND and 0 <= nanos < 10**9:
            if time.options.out_of_range == "set_null":
                return None
            hint = TO_NULL
        sound = FIRST_SECOND <= seconds <= LAST_SECOND and 0 <= nanos < 10**9
    else:
        sound = abs(seconds) <= MOST_SECONDS and abs(nanos) < 10**9 and not (seconds < 0 < nanos or nanos < 0 < seconds)
    if not sound:
        name = "Timestamp" if time.instant else "Duration"
        raise BadPayload(Status.OUT_OF_RANGE, f"{seconds} seconds and {nanos} nanoseconds are no {name}{hint}")
    if nanos % 1000 and time.options.nanoseconds == "fail":
        raise BadPayload(Status.INEXACT, f"{nanos} nanoseconds are no whole number of microseconds")
    rest = nanos // 1000 if nanos >= 0 else -(-nanos // 1000)
    return seconds * 1_000_000 + rest


def json_text(data: bytes, kind: Json) -> str:
    """Raises BadPayload."""
    return json.dumps(json_value(data, kind), ensure_ascii=False, separators=(",", ":"))


def json_value(data: bytes, kind: Json) -> Any:
    """Raises BadPayload."""
    return {Json.STRUCT: _struct, Json.VALUE: _value, Json.LIST: _list}[kind](WireReader(data), 1)


def _struct(reader: WireReader, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, kind in reader.fields():
        if number == 1 and kind == DELIMITED:
            key, value = _entry(reader.below(), _deeper(depth))
            found[key] = value
        else:
            reader.skip(number, kind)
    return found


def _entry(reader: WireReader, depth: int) -> tuple[str, Any]:
    key, data = "", bytearray()
    for number, kind in reader.fields():
        if number == 1 and kind == DELIMITED:
            key = _text(reader)
        elif number == 2 and kind == DELIMITED:
            data += _bytes(reader)  # a message that is written twice is merged
        else:
            reader.skip(number, kind)
    return key, _value(WireReader(bytes(data)), depth)


def _list(reader: WireReader, depth: int) -> list[Any]:
    found = []
    for number, kind in reader.fields():
        if number == 1 and kind == DELIMITED:
            found.append(_value(reader.below(), _deeper(depth)))
        else:
            reader.skip(number, kind)
    return found


def _value(reader: WireReader, depth: int) -> Any:
    """The last member of the oneof; null where none is written. Structs and lists that follow themselves are merged."""
    member, value, parts = 0, None, bytearray()
    for number, kind in reader.fields():
        if (number, kind) in _MEMBERS:
            if number != member and parts:
                _nested(member, parts, depth)  # not what counts, but it must be sound
                parts = bytearray()
            if number in (5, 6):
                parts += _bytes(reader)
            else:
                value = _scalar(reader, number)
            member = number
        else:
            reader.skip(number, kind)
    return _nested(member, parts, depth) if member in (5, 6) else _finite(value)


#: Numbers and wire types of a Value's members: null, number, string, bool, struct, list.
_MEMBERS: Final = {(1, VARINT), (2, FIXED64), (3, DELIMITED), (4, VARINT), (5, DELIMITED), (6, DELIMITED)}


def _scalar(reader: WireReader, number: int) -> Any:
    match number:
        case 1:
            reader.varint()
            return None
        case 2:
            return _number(struct.unpack("<d", reader.take(8))[0])
        case 3:
            return _text(reader)
    return reader.varint() != 0


def _nested(member: int, parts: bytearray, depth: int) -> Any:
    return (_struct if member == 5 else _list)(WireReader(bytes(parts)), _deeper(depth))


def _number(value: float) -> float | int:
    return int(value) if (value.is_integer() and 0 < abs(value) < 2**53) or str(value) == "0.0" else value


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise BadPayload(Status.OUT_OF_RANGE, f"{value} has no place in JSON")
    return value


def _text(reader: WireReader) -> str:
    return decoded(_bytes(reader))


def _bytes(reader: WireReader) -> bytes:
    return reader.take(reader.length())


def decoded(data: bytes) -> str:
    """Raises BadPayload: INVALID_UTF8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadPayload(Status.INVALID_UTF8, f"no UTF-8: {error.reason} at byte {error.start}") from None


def _deeper(depth: int) -> int:
    if depth == _MAX_DEPTH:
        raise BadPayload(Status.TOO_DEEP, f"JSON is nested more than {_MAX_DEPTH} deep")
    return depth + 1
