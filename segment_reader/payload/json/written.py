"""Compiled: values that keep the form in which they are written: JSON as text, base64 of a decimal's digits, and
numbers in strings.

Addresses and answers: see `strings`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kseg.segment_reader.decode.jit import compiled
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.json.floats import U64
from kseg.segment_reader.payload.json.grammar import skip_number, skip_value
from kseg.segment_reader.payload.json.scalars import base64_in_place, put_number
from kseg.segment_reader.payload.json.strings import SLACK, TOO_SMALL, copy_string
from kseg.segment_reader.payload.json.table import (
    GROW_SCRATCH,
    N_BOUND_HIGH,
    N_BOUND_LOW,
    N_DATA,
    N_OFFSETS,
    N_ROOM,
    S_NEED,
    S_NODE,
    S_SCRATCH,
    S_SCRATCH_SIZE,
)
from kseg.segment_reader.payload.memory import load8, load32, memcpy, store32, store64

OUT_OF_RANGE, WRONG_TYPE = -int(Status.OUT_OF_RANGE), -int(Status.WRONG_TYPE)


@compiled
def put_json(
    p: Any, e: Any, limit: Any, t: Any, node: Any, slot: Any, depth: Any, max_depth: Any, opened: Any, s: Any
) -> Any:
    """The value at p, as it is written, into a column of texts: behind it, or an answer."""
    offsets = t[node, N_OFFSETS] + 4 * slot
    start = load32(offsets)
    behind = skip_value(p, e, limit, depth, max_depth, opened)
    if behind < 0:
        return behind
    end = start + behind - p
    if end + SLACK > t[node, N_ROOM]:
        s[S_NODE] = node
        s[S_NEED] = end + 2 * SLACK
        return TOO_SMALL
    memcpy(t[node, N_DATA] + start, p, behind - p)
    store32(offsets + 4, end)
    return behind


@compiled
def put_base64_decimal(p: Any, e: Any, limit: Any, t: Any, node: Any, slot: Any, s: Any) -> Any:
    """The string whose first character is at p: base64 of an unscaled number, big-endian two's complement."""
    start = s[S_SCRATCH]
    p, end = copy_string(p, e, limit, start, start + s[S_SCRATCH_SIZE])
    if p == TOO_SMALL:
        return -GROW_SCRATCH
    if p < 0:
        return p
    end = base64_in_place(start, end)
    if end < 0:
        return end
    if end == start:
        return WRONG_TYPE
    negative = load8(start) > 127
    sign = 255 if negative else 0
    while end - start > 16 and load8(start) == sign:
        start += 1
    if end - start > 16 or (load8(start) > 127) != negative:
        return OUT_OF_RANGE
    fill = U64(0xFFFFFFFFFFFFFFFF) if negative else U64(0)
    high = fill
    low = fill
    while start < end:
        high = (high << U64(8)) | (low >> U64(56))
        low = (low << U64(8)) | U64(load8(start))
        start += 1
    magnitude = low
    above = high
    if negative:
        magnitude = ~low + U64(1)
        above = ~high + (U64(1) if magnitude == U64(0) else U64(0))
    bound = U64(t[node, N_BOUND_HIGH])
    if above > bound or (above == bound and magnitude >= U64(t[node, N_BOUND_LOW])):
        return OUT_OF_RANGE
    data = t[node, N_DATA] + 16 * slot
    store64(data, np.int64(low))
    store64(data + 8, np.int64(high))
    return p


@compiled
def put_number_in_text(
    p: Any,
    e: Any,
    limit: Any,
    t: Any,
    node: Any,
    slot: Any,
    powers: Any,
    tens: Any,
    unsigned_tens: Any,
    s: Any,
) -> Any:
    """The string whose first character is at p: a number and nothing else. UNSURE leaves it to the reference."""
    start = s[S_SCRATCH]
    p, end = copy_string(p, e, limit, start, start + s[S_SCRATCH_SIZE])
    if p == TOO_SMALL:
        return -GROW_SCRATCH
    if p < 0:
        return p
    if end == start or skip_number(start, end) != end:
        return WRONG_TYPE
    answer = put_number(start, end, t, node, slot, powers, tens, unsigned_tens)
    return answer if answer < 0 else p
