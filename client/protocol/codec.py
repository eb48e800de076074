"""Messages to bytes and back. The work is done by functions generated per (message, version), once, on first use.

Writers check no values: after one has failed, `explain` finds the value that could not be encoded.
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar
from uuid import UUID

from kseg.client.protocol.codegen import VersionShape
from kseg.client.protocol.errors import DecodeError, EncodeError, UnsupportedFieldError, UnsupportedVersionError
from kseg.client.protocol.fields import FIXED, ByteString
from kseg.client.protocol.primitives import MAX_STRING
from kseg.client.protocol.reader import reader
from kseg.client.protocol.schema import Field, Message, Struct
from kseg.client.protocol.writer import writer

M = TypeVar("M", bound=Message)


def encode(message: Message, version: int) -> bytes:
    """The message's bytes in this version.

    Raises `UnsupportedVersionError` for a version without a definition, `UnsupportedFieldError` for a field that the
    version cannot carry, `EncodeError` for a value that does not fit its field.
    """
    return b"".join(encode_parts(message, version))


def encode_parts(message: Message, version: int) -> list[ByteString]:
    """Like `encode`, as a list of byte strings: record sets are not copied yet."""
    cls = type(message)
    _check_version(cls, version)
    parts: list[ByteString] = []
    try:
        writer(cls, version, cls.FLEXIBLE.has(version))(message, parts.append)
    except UnsupportedFieldError:
        raise
    except (EncodeError, struct.error, TypeError, AttributeError, ValueError, OverflowError) as fault:
        raise explain(message, version, fault) from fault
    return parts


def decode(cls: type[M], version: int, data: ByteString, position: int = 0) -> M:
    """Read a message that begins at `position` and ends with the data.

    Fields of record sets are views of `data`, everything else is copied. Raises `DecodeError`, also when bytes are
    left over, and `UnsupportedVersionError`.
    """
    message, after = decode_prefix(cls, version, data, position)
    if after != len(data):
        fault = DecodeError(f"{len(data) - after} bytes left", after)
        raise _addressed(fault, cls, version)
    return message


def decode_prefix(cls: type[M], version: int, data: ByteString, position: int = 0) -> tuple[M, int]:
    """Read a message that begins at `position`; returns it and the position after it."""
    _check_version(cls, version)
    message: M
    try:
        message, after = reader(cls, version, cls.FLEXIBLE.has(version))(data, position, len(data))
    except DecodeError as fault:
        raise _addressed(fault, cls, version) from None
    return message, after


def prepare(cls: type[Message], version: int) -> None:
    """Generate a message's functions now: a process that forks others that use them saves each of those some
    milliseconds."""
    _check_version(cls, version)
    flexible = cls.FLEXIBLE.has(version)
    writer(cls, version, flexible)
    reader(cls, version, flexible)


def _check_version(cls: type[Message], version: int) -> None:
    if not cls.VERSIONS.has(version):
        lowest, highest = cls.VERSIONS
        raise UnsupportedVersionError(
            f"versions {lowest} to {highest} are defined", message=cls.__qualname__, version=version, ours=cls.VERSIONS
        )


def _addressed(fault: DecodeError, cls: type[Message], version: int) -> DecodeError:
    fault.message, fault.version = cls.__qualname__, version
    return fault


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
    found = _in_struct(VersionShape(type(message), version, message.FLEXIBLE.has(version)), message, "")
    path, reason = found or ("", str(fault))
    return EncodeError(reason, field=path, message=name, version=version)


def _in_struct(shape: VersionShape, value: Struct, path: str) -> tuple[str, str] | None:
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


def _in_field(shape: VersionShape, field: Field, held: Any, where: str) -> tuple[str, str] | None:
    if field.kind != "array":
        return _in_value(shape, field, field.kind, held, where)
    if not isinstance(held, list | tuple):
        return where, f"is not a list: {held!r}"
    kind = field.of if isinstance(field.of, str) else "struct"
    found = (_in_value(shape, field, kind, item, f"{where}[{i}]") for i, item in enumerate(held))
    return next(filter(None, found), None)


def _in_value(shape: VersionShape, field: Field, kind: str, held: Any, where: str) -> tuple[str, str] | None:
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
