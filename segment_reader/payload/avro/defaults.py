"""A field's default: its JSON form -> the Avro bytes of the value, which are then read like written ones."""

from __future__ import annotations

import struct
from typing import Any

from kseg.segment_reader.payload.avro.schema import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroMap,
    AvroRecord,
    Fixed,
    Primitive,
    PrimitiveKind,
    Schema,
    Union,
)


def encode_default(value: Any, schema: Schema) -> bytes:
    """Raises ValueError: the JSON is no value of the schema."""
    match schema:
        case Union():
            return _branch(value, schema)
        case AvroRecord():
            if not isinstance(value, dict):
                raise ValueError(f"{value!r} is no object")
            parts = []
            for field in schema.fields:
                own = value.get(field.name, field.default)
                if own is NO_DEFAULT:
                    raise ValueError(f"`{field.name}` is missing")
                parts.append(encode_default(own, field.schema))
            return b"".join(parts)
        case AvroArray():
            if not isinstance(value, list):
                raise ValueError(f"{value!r} is no list")
            return _block([encode_default(item, schema.items) for item in value])
        case AvroMap():
            if not isinstance(value, dict):
                raise ValueError(f"{value!r} is no object")
            return _block([_sized(key.encode()) + encode_default(own, schema.values) for key, own in value.items()])
        case AvroEnum():
            if value not in schema.symbols:
                raise ValueError(f"{value!r} is no symbol")
            return encode_long(schema.symbols.index(value))
        case Fixed():
            data = _latin(value)
            if len(data) != schema.size:
                raise ValueError(f"{len(data)} bytes instead of {schema.size}")
            return data
        case Primitive():
            return _primitive(value, schema.kind)


def encode_long(value: int) -> bytes:
    """Zig-zag, seven bits a byte."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _branch(value: Any, union: Union) -> bytes:
    """The first branch that the value is of; before version 1.12 it had to be the union's first."""
    for number, branch in enumerate(union.branches):
        try:
            return encode_long(number) + encode_default(value, branch)
        except ValueError:
            continue
    raise ValueError(f"{value!r} is of no branch")


def _primitive(value: Any, kind: PrimitiveKind) -> bytes:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case PrimitiveKind.NULL if value is None:
            return b""
        case PrimitiveKind.BOOLEAN if isinstance(value, bool):
            return bytes([value])
        # The range first: 1e999 is an infinity, which has no int.
        case PrimitiveKind.INT if number and -(2**31) <= value < 2**31 and value == int(value):
            return encode_long(int(value))
        case PrimitiveKind.LONG if number and -(2**63) <= value < 2**63 and value == int(value):
            return encode_long(int(value))
        case PrimitiveKind.FLOAT | PrimitiveKind.DOUBLE if number or value in ("NaN", "Infinity", "-Infinity"):
            try:
                return struct.pack("<f" if kind is PrimitiveKind.FLOAT else "<d", float(value))
            except OverflowError:
                raise ValueError(f"{str(value)[:40]} is too large for {kind}") from None
        case PrimitiveKind.STRING if isinstance(value, str):
            return _sized(value.encode())
        case PrimitiveKind.BYTES:
            return _sized(_latin(value))
    raise ValueError(f"{value!r} is no {kind}")


def _latin(value: Any) -> bytes:
    """Bytes stand as text in JSON: one character below U+0100 a byte."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value.encode("latin-1")  # UnicodeEncodeError is a ValueError


def _sized(data: bytes) -> bytes:
    return encode_long(len(data)) + data


def _block(items: list[bytes]) -> bytes:
    return (encode_long(len(items)) + b"".join(items) if items else b"") + b"\0"
