"""Messages to bytes and back. The work is done by functions generated per (message, version), once, on first use."""

from __future__ import annotations

import struct
from typing import TypeVar

from kseg.client.protocol.encode_errors import explain
from kseg.client.protocol.errors import DecodeError, EncodeError, UnsupportedFieldError, UnsupportedVersionError
from kseg.client.protocol.fields import ByteString
from kseg.client.protocol.reader import reader
from kseg.client.protocol.schema import Message
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


def _check_version(cls: type[Message], version: int) -> None:
    if not cls.VERSIONS.has(version):
        lowest, highest = cls.VERSIONS
        raise UnsupportedVersionError(
            f"versions {lowest} to {highest} are defined", message=cls.__qualname__, version=version, ours=cls.VERSIONS
        )


def _addressed(fault: DecodeError, cls: type[Message], version: int) -> DecodeError:
    fault.message, fault.version = cls.__qualname__, version
    return fault
