"""Finds the value of a message that could not be encoded, after a writer has failed: writers check no values."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kseg.client.protocol.codegen import Shape
from kseg.client.protocol.errors import EncodeError
from kseg.client.protocol.fields import FIXED
from kseg.client.protocol.primitives import MAX_STRING
from kseg.client.protocol.schema import Field, Message, Struct

_RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}


def explain(message: Message, version: int, fault: BaseException) -> EncodeError:
    """The error for a message whose writing failed with `fault`: it names the first value that does not fit."""
    name = type(message).__qualname__
    found = _in_struct(Shape(type(message), version, message.FLEXIBLE.has(version)), message, "")
    path, reason = found or ("", str(fault))
    return EncodeError(reason, field=path, message=name, version=version)


def _in_struct(shape: Shape, value: Struct, path: str) -> tuple[str, str] | None:
    for field in shape.plain + shape.tagged:
        where = f"{path}.{field.name}" if path else field.name
        if not hasattr(value, field.name):
            return where, "has been deleted"
        held = getattr(value, field.name)
        if held is None:
            if shape.nullable(field):
                continue
            return where, "is None, which this version cannot encode"
        found = _in_field(shape, field, held, where)
        if found:
            return found
    return None


def _in_field(shape: Shape, field: Field, held: Any, where: str) -> tuple[str, str] | None:
    if field.kind != "array":
        return _in_value(shape, field, field.kind, held, where)
    if not isinstance(held, list | tuple):
        return where, f"is not a list: {held!r}"
    kind = field.of if isinstance(field.of, str) else "struct"
    found = (_in_value(shape, field, kind, item, f"{where}[{i}]") for i, item in enumerate(held))
    return next(filter(None, found), None)


def _in_value(shape: Shape, field: Field, kind: str, held: Any, where: str) -> tuple[str, str] | None:
    if kind == "struct":
        nested = shape.nested(field)
        if not isinstance(held, nested.cls):
            return where, f"is no {nested.cls.__qualname__}: {held!r}"
        return _in_struct(nested, held, where)
    reason = _mismatch(kind, held)
    return (where, reason) if reason else None


def _mismatch(kind: str, held: Any) -> str | None:
    if kind == "string":
        return _string_mismatch(held)
    if kind == "uuid":
        return None if isinstance(held, UUID) else f"is not a UUID: {held!r}"
    if kind in ("bytes", "records"):
        return None if isinstance(held, bytes | bytearray | memoryview) else f"is not a byte string: {held!r}"
    if kind in _RANGES:
        lowest, highest = _RANGES[kind]
        if not hasattr(held, "__index__"):
            return f"is not an integer: {held!r}"
        return None if lowest <= held <= highest else f"{held} is outside of {kind}"
    assert kind in FIXED
    return None if isinstance(held, bool | int | float) else f"is no {kind}: {held!r}"


def _string_mismatch(held: Any) -> str | None:
    if not isinstance(held, str):
        return f"is not a string: {held!r}"
    try:
        size = len(held.encode())
    except UnicodeEncodeError as fault:
        return f"is not Unicode text: {fault.reason} at {fault.start}"
    return None if size <= MAX_STRING else f"string of {size} bytes, {MAX_STRING} allowed"
