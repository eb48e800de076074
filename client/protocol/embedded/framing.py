"""The header of an embedded message: an int16 version or type, or unsigned varints in the metadata logs."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from kseg.client.protocol.codec import decode_prefix, encode
from kseg.client.protocol.errors import DecodeError
from kseg.client.protocol.fields import ByteString
from kseg.client.protocol.schema import Message

M = TypeVar("M", bound=Message)


class TypedMessage(Message):
    """A message of which there are several kinds in one topic: `KEY` is the number of the kind."""

    KEY: ClassVar[int]

    def __init_subclass__(cls, *, key: int = -1, versions: str | None = None, flexible: str = "none") -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.KEY = key


def encode_versioned(message: Message, version: int) -> bytes:
    """Version and body. Raises as `codec.encode`."""
    return version.to_bytes(2, "big") + encode(message, version)


def version_of(data: ByteString) -> int:
    """The version at the start of `data`. Raises `DecodeError` if there are fewer than two bytes."""
    if len(data) < 2:
        raise DecodeError(f"2 bytes needed for a version, {len(data)} left", 0)
    return int.from_bytes(data[:2], "big", signed=True)


def decode_versioned(cls: type[M], data: ByteString, *, newer: bool = False) -> M:
    """The message in `data`.

    With `newer`, a version above the last one that is defined is read as the last one, and additional bytes are
    ignored: for formats whose new versions only append fields. Raises `DecodeError`, and `UnsupportedVersionError` for
    a version without a definition.
    """
    version = version_of(data)
    known = min(version, cls.VERSIONS.highest) if newer else version
    message, after = decode_prefix(cls, known, data, 2)
    if after != len(data) and known == version:
        fault = DecodeError(f"{len(data) - after} bytes left", after, message=cls.__qualname__, version=version)
        raise fault
    return message
