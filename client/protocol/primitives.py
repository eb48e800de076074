"""Encodes and decodes single values. The generated readers and writers call these; see `reader` and `writer`.

    numbers       big-endian, fixed width
    string        int16 length, UTF-8; length -1 is null        compact: unsigned varint of length + 1, 0 is null
    bytes         int32 length, bytes; length -1 is null        compact: the same
    array         int32 count, elements; count -1 is null       compact: the same
    tagged part   unsigned varint count, then (tag, size, value) each, in the order of tags (KIP-482)

A `read_…` takes (data, position, end of what may be read) and returns (value, position after it). Every length is
checked against the remaining bytes before anything is sliced or allocated, so a wrong length cannot cause a large
allocation. It raises only `DecodeError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from uuid import UUID

from kseg.client.protocol.errors import DecodeError, EncodeError
from kseg.client.protocol.fields import ZERO_UUID, ByteString

Put = Callable[[ByteString], None]

MAX_STRING = 0x7FFF
MAX_LENGTH = 0x7FFFFFFF
_UINT32 = 0xFFFFFFFF
_NO_UUID = ZERO_UUID.bytes

_int16 = struct.Struct(">h")
_int32 = struct.Struct(">i")


def short(pos: int, wanted: int, end: int) -> DecodeError:
    return DecodeError(f"{wanted} bytes needed, {end - pos} left", pos)


def null(pos: int) -> DecodeError:
    return DecodeError("null where the version has no null", pos)


def read_uvarint(buf: ByteString, pos: int, end: int) -> tuple[int, int]:
    value = shift = 0
    start = pos
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _UINT32:
                raise DecodeError("varint above 32 bits", start)
            return value, pos
        shift += 7
        if shift > 28:
            raise DecodeError("varint longer than 5 bytes", start)
    raise short(start, pos - start + 1, end)


def read_count(buf: ByteString, pos: int, end: int, size: int) -> tuple[int, int]:
    """Number of elements that follow, each of at least `size` bytes; -1 for null."""
    if end - pos < 4:
        raise short(pos, 4, end)
    n = _int32.unpack_from(buf, pos)[0]
    if n * size > end - pos - 4 or n < -1:
        raise DecodeError(f"{n} elements of at least {size} bytes, {end - pos - 4} left", pos)
    return n, pos + 4


def read_compact_count(buf: ByteString, pos: int, end: int, size: int) -> tuple[int, int]:
    start = pos
    if pos < end and (n := buf[pos]) < 0x80:
        pos += 1
    else:
        n, pos = read_uvarint(buf, pos, end)
    n -= 1
    if n * size > end - pos:
        raise DecodeError(f"{n} elements of at least {size} bytes, {end - pos} left", start)
    return n, pos


def _read_short_count(buf: ByteString, pos: int, end: int) -> tuple[int, int]:
    if end - pos < 2:
        raise short(pos, 2, end)
    n = _int16.unpack_from(buf, pos)[0]
    if n > end - pos - 2 or n < -1:
        raise DecodeError(f"string of {n} bytes, {end - pos - 2} left", pos)
    return n, pos + 2


def _text(buf: ByteString, pos: int, stop: int) -> str:
    try:
        return str(buf[pos:stop], "utf-8")
    except UnicodeDecodeError as fault:
        raise DecodeError(f"string is not UTF-8: {fault.reason}", pos + fault.start) from None


def read_nullable_string(buf: ByteString, pos: int, end: int) -> tuple[str | None, int]:
    n, pos = _read_short_count(buf, pos, end)
    return (None, pos) if n < 0 else (_text(buf, pos, pos + n), pos + n)


def read_string(buf: ByteString, pos: int, end: int) -> tuple[str, int]:
    n, pos = _read_short_count(buf, pos, end)
    if n < 0:
        raise null(pos - 2)
    return _text(buf, pos, pos + n), pos + n


def read_nullable_compact_string(buf: ByteString, pos: int, end: int) -> tuple[str | None, int]:
    start = pos
    n, pos = read_compact_count(buf, pos, end, 1)
    if n < 0:
        return None, pos
    if n > MAX_STRING:
        raise DecodeError(f"string of {n} bytes, {MAX_STRING} allowed", start)
    return _text(buf, pos, pos + n), pos + n


def read_compact_string(buf: ByteString, pos: int, end: int) -> tuple[str, int]:
    value, after = read_nullable_compact_string(buf, pos, end)
    if value is None:
        raise null(pos)
    return value, after


def read_nullable_bytes(buf: ByteString, pos: int, end: int) -> tuple[bytes | None, int]:
    n, pos = read_count(buf, pos, end, 1)
    return (None, pos) if n < 0 else (bytes(buf[pos : pos + n]), pos + n)


def read_bytes(buf: ByteString, pos: int, end: int) -> tuple[bytes, int]:
    value, after = read_nullable_bytes(buf, pos, end)
    if value is None:
        raise null(pos)
    return value, after


def read_nullable_compact_bytes(buf: ByteString, pos: int, end: int) -> tuple[bytes | None, int]:
    n, pos = read_compact_count(buf, pos, end, 1)
    return (None, pos) if n < 0 else (bytes(buf[pos : pos + n]), pos + n)


def read_compact_bytes(buf: ByteString, pos: int, end: int) -> tuple[bytes, int]:
    value, after = read_nullable_compact_bytes(buf, pos, end)
    if value is None:
        raise null(pos)
    return value, after


def read_nullable_records(buf: ByteString, pos: int, end: int) -> tuple[memoryview | None, int]:
    n, pos = read_count(buf, pos, end, 1)
    return (None, pos) if n < 0 else (memoryview(buf)[pos : pos + n], pos + n)


def read_records(buf: ByteString, pos: int, end: int) -> tuple[memoryview, int]:
    value, after = read_nullable_records(buf, pos, end)
    if value is None:
        raise null(pos)
    return value, after


def read_nullable_compact_records(buf: ByteString, pos: int, end: int) -> tuple[memoryview | None, int]:
    n, pos = read_compact_count(buf, pos, end, 1)
    return (None, pos) if n < 0 else (memoryview(buf)[pos : pos + n], pos + n)


def read_compact_records(buf: ByteString, pos: int, end: int) -> tuple[memoryview, int]:
    value, after = read_nullable_compact_records(buf, pos, end)
    if value is None:
        raise null(pos)
    return value, after


def read_uuid(buf: ByteString, pos: int, end: int) -> tuple[UUID, int]:
    if end - pos < 16:
        raise short(pos, 16, end)
    raw = bytes(buf[pos : pos + 16])
    return (ZERO_UUID if raw == _NO_UUID else UUID(bytes=raw)), pos + 16


def read_presence(buf: ByteString, pos: int, end: int) -> tuple[bool, int]:
    """The byte before a struct that may be null: negative for null (Kafka writes -1 and 1)."""
    if pos >= end:
        raise short(pos, 1, end)
    return buf[pos] < 0x80, pos + 1


def read_tagged_presence(buf: ByteString, pos: int, end: int) -> tuple[bool, int]:
    """The same within a tagged section, where Kafka writes an unsigned varint: 0 for null, else 1."""
    n, pos = read_uvarint(buf, pos, end)
    return n > 0, pos


def read_tag(buf: ByteString, pos: int, end: int) -> tuple[int, int, int]:
    """Head of a tagged field: its tag, where its value begins, where that ends."""
    tag, pos = read_uvarint(buf, pos, end)
    size, pos = read_uvarint(buf, pos, end)
    if size > end - pos:
        raise short(pos, size, end)
    return tag, pos, pos + size


def skip_tags(buf: ByteString, pos: int, end: int) -> int:
    """Skip a tagged section without known tags."""
    n, pos = read_uvarint(buf, pos, end)
    for _ in range(n):
        pos = read_tag(buf, pos, end)[2]
    return pos


def tag_end(pos: int, stop: int) -> DecodeError:
    return DecodeError(f"tagged field ends {stop - pos} bytes after its value", pos)


_SMALL_VARINTS = [bytes([n]) for n in range(0x80)]


def uvarint(n: int) -> bytes:
    """Unsigned varint of 0 <= n < 2**32."""
    if n < 0x80:
        return _SMALL_VARINTS[n]
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def put_count(put: Put, n: int) -> None:
    put(_int32.pack(n))


def put_compact_count(put: Put, n: int) -> None:
    put(uvarint(n + 1))


def _utf8(value: str) -> bytes:
    raw = value.encode()
    if len(raw) > MAX_STRING:
        raise EncodeError(f"string of {len(raw)} bytes, {MAX_STRING} allowed")
    return raw


def put_string(put: Put, value: str) -> None:
    raw = _utf8(value)
    put(_int16.pack(len(raw)))
    put(raw)


def put_compact_string(put: Put, value: str) -> None:
    raw = _utf8(value)
    put(uvarint(len(raw) + 1))
    put(raw)


def _size(value: ByteString) -> int:
    size = memoryview(value).nbytes
    if size > MAX_LENGTH:
        raise EncodeError(f"{size} bytes, {MAX_LENGTH} allowed")
    return size


def put_bytes(put: Put, value: ByteString) -> None:
    put(_int32.pack(_size(value)))
    put(value)


def put_compact_bytes(put: Put, value: ByteString) -> None:
    put(uvarint(_size(value) + 1))
    put(value)


def put_tags(put: Put, tags: list[tuple[int, bytes]]) -> None:
    put(uvarint(len(tags)))
    for tag, value in tags:
        put(uvarint(tag))
        put(uvarint(len(value)))
        put(value)
