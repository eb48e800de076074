"""Compiled: variable-length numbers of Protobuf."""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.memory import load8
from kseg.segment_reader.payload.protobuf.wire import SHORT

_TRUNCATED = int(Status.TRUNCATED)
_MALFORMED = int(Status.MALFORMED)


@compiled
def read_long(base: Any, p: Any, end: Any) -> Any:
    """(64 bits, position behind them); the position is minus the status where there is no number."""
    value = 0
    shift = 0
    while True:
        if p >= end:
            return 0, -_TRUNCATED
        byte = load8(base + p)
        p += 1
        if shift == 63 and byte > 1:
            return 0, -_MALFORMED
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, p
        shift += 7


@compiled
def read_short(base: Any, p: Any, end: Any) -> Any:
    """As `read_long`, of at most 5 bytes: a tag, or a length."""
    value = 0
    for n in range(SHORT):
        if p >= end:
            return 0, -_TRUNCATED
        byte = load8(base + p)
        p += 1
        value |= (byte & 0x7F) << (7 * n)
        if byte < 128:
            return value, p
    return 0, -_MALFORMED


@inlined
def read_varint(base: Any, p: Any, end: Any) -> Any:
    """As `read_long`: numbers of one byte at once."""
    if p < end and load8(base + p) < 128:
        return load8(base + p), p + 1
    return read_long(base, p, end)
