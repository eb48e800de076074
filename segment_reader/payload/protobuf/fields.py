"""Compiled: which instruction a tag has, values that are skipped, and times."""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import compiled
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.memory import load8
from kseg.segment_reader.payload.protobuf.known import FIRST_SECOND, LAST_SECOND, MOST_SECONDS
from kseg.segment_reader.payload.protobuf.opcodes import LEFT
from kseg.segment_reader.payload.protobuf.varints import read_long, read_short, read_varint

_TRUNCATED = int(Status.TRUNCATED)
_MALFORMED = int(Status.MALFORMED)
_SECOND = 1_000_000_000


@compiled
def find(tags: Any, first: Any, count: Any, tag: Any) -> Any:
    """The instruction of a tag that is not among the small ones, or -1."""
    low, high = first, first + count
    while low < high:
        middle = (low + high) >> 1
        if tags[middle, 0] < tag:
            low = middle + 1
        else:
            high = middle
    return tags[low, 1] if low < first + count and tags[low, 0] == tag else -1


@compiled
def has(numbers: Any, first: Any, count: Any, number: Any) -> Any:
    low, high = first, first + count
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low < first + count and numbers[low] == number


@compiled
def skip_value(base: Any, p: Any, end: Any, tag: Any) -> Any:
    """The position behind an unknown field's value, or minus a status."""
    kind = tag & 7
    if tag >> 32 or tag >> 3 == 0 or kind > 5 or kind == 4:
        return -_MALFORMED
    if kind == 3:
        return -LEFT
    if kind == 0:
        _, p = read_long(base, p, end)
        return p
    size = 8 if kind == 1 else 4
    if kind == 2:
        size, p = read_short(base, p, end)
        if p < 0:
            return p
        if size >> 31:
            return -_MALFORMED
    return p + size if size <= end - p else -_TRUNCATED


@compiled
def time_value(base: Any, p: Any, end: Any, instant: Any, truncate: Any) -> Any:
    """(whether it is no more than plain seconds and nanoseconds within their range, microseconds)."""
    seconds = 0
    nanos = 0
    while p < end:
        tag = load8(base + p)
        if tag != 8 and tag != 16:
            return False, 0
        value, p = read_varint(base, p + 1, end)
        if p < 0:
            return False, 0
        if tag == 8:
            seconds = value
        else:
            nanos = value
    if instant:
        if seconds < FIRST_SECOND or seconds > LAST_SECOND or nanos < 0 or nanos >= _SECOND:
            return False, 0
    elif (
        seconds < -MOST_SECONDS
        or seconds > MOST_SECONDS
        or nanos <= -_SECOND
        or nanos >= _SECOND
        or (seconds < 0 and nanos > 0)
        or (seconds > 0 and nanos < 0)
    ):
        return False, 0
    micros = nanos // 1000
    if micros * 1000 != nanos:
        if not truncate:
            return False, 0
        if nanos < 0:
            micros += 1
    return True, seconds * 1_000_000 + micros
