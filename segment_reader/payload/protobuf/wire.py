"""Protobuf's wire format, plain: tags and values of one message, each length checked before it is used.

    message   { tag value }            a message ends with its bytes
    tag       varint: number << 3 | wire type, at most 32 bits
    value     0: varint of at most 64 bits   1: 8 bytes   5: 4 bytes   2: length (varint below 2^31), then bytes
              3: a group, up to the tag of wire type 4 with the same number

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.plain import BadPayload

VARINT: Final = 0
FIXED64: Final = 1
DELIMITED: Final = 2
GROUP: Final = 3
GROUP_END: Final = 4
FIXED32: Final = 5

#: Groups within each other that are skipped.
MAX_GROUPS: Final = 64
#: Bytes of a tag's varint, and of a length's: both have at most 32 bits.
SHORT: Final = 5


class WireReader:
    """A walk over the bytes of one message. end: behind its last byte."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data, self.position = data, position
        self.end = len(data) if end is None else end

    def take(self, size: int) -> bytes:
        if size > self.end - self.position:
            raise BadPayload(Status.TRUNCATED, f"{size} bytes are needed, {self.end - self.position} are left")
        self.position += size
        return self.data[self.position - size : self.position]

    def varint(self, most: int = 10) -> int:
        """Unsigned, of at most 64 bits and `most` bytes."""
        value = 0
        for n in range(most):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * n)
            if byte < 0x80:
                if value >> 64:
                    break
                return value
        raise BadPayload(Status.MALFORMED, f"a varint of more than {most} bytes or 64 bits")

    def length(self) -> int:
        size = self.varint(SHORT)
        if size >> 31:
            raise BadPayload(Status.MALFORMED, f"a length of {size} bytes")
        if size > self.end - self.position:
            raise BadPayload(Status.TRUNCATED, f"{size} bytes are needed, {self.end - self.position} are left")
        return size

    def below(self) -> WireReader:
        """A reader of the length-delimited bytes that come next; this one is behind them."""
        size = self.length()
        self.position += size
        return WireReader(self.data, self.position - size, self.position)

    def tag(self) -> tuple[int, int]:
        """Number and wire type."""
        tag = self.varint(SHORT)
        number, kind = tag >> 3, tag & 7
        if tag >> 32 or number == 0 or kind > FIXED32:
            raise BadPayload(Status.MALFORMED, f"no field: number {number}, wire type {kind}")
        return number, kind

    def skip(self, number: int, kind: int, depth: int = 0) -> None:
        """A value that is not read: its structure alone is checked."""
        if kind == VARINT:
            self.varint()
        elif kind == FIXED64:
            self.take(8)
        elif kind == DELIMITED:
            self.take(self.length())
        elif kind == FIXED32:
            self.take(4)
        elif kind == GROUP_END:
            raise BadPayload(Status.MALFORMED, f"the end of group {number}, which has not begun")
        elif depth == MAX_GROUPS:
            raise BadPayload(Status.TOO_DEEP, f"groups are nested more than {MAX_GROUPS} deep")
        else:
            while True:
                inner, inner_kind = self.tag()
                if inner_kind == GROUP_END:
                    if inner != number:
                        raise BadPayload(Status.MALFORMED, f"group {number} ends as group {inner}")
                    return
                self.skip(inner, inner_kind, depth + 1)

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and wire type of each field; the caller reads or skips its value before the next."""
        while self.position < self.end:
            yield self.tag()
