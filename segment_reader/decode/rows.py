"""Compiled: one record's fields into the Arrow buffers (table.Columns), at the row of the state.

All checks come before the first write, so a record that does not fit can be written again, to new or larger buffers.
Validity bits are set beforehand where values are the rule, and cleared for a null; only a row's list of headers is null
as a rule.
"""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.batch import TRANSACTIONAL_BIT
from kseg.segment_reader.decode.header_names import LARGEST_REPLACED
from kseg.segment_reader.decode.jit import inlined
from kseg.segment_reader.decode.primitives import copy
from kseg.segment_reader.decode.scan import varint32
from kseg.segment_reader.decode.schema import HEADER_COST
from kseg.segment_reader.decode.table import (
    ATTRIBUTES,
    BASE,
    EPOCH,
    FAULT,
    FULL,
    GROW_HEADER_KEYS,
    GROW_HEADER_VALUES,
    GROW_HEADERS,
    GROW_KEYS,
    GROW_VALUES,
    LEADER,
    POSITION,
    PRODUCER,
    S_HEADER_KEYS,
    S_HEADER_VALUES,
    S_HEADERS,
    S_NEED,
    S_NULL_HEADER_VALUES,
    S_NULL_HEADERS,
    S_NULL_KEYS,
    S_NULL_TIMES,
    S_NULL_VALUES,
    S_ORIGIN,
    S_RAW_HEADERS,
    SEQUENCE,
)
from kseg.segment_reader.errors import Fault

BAD_VARINT = FAULT + Fault.VARINT
BAD_LENGTH = FAULT + Fault.RECORD_LENGTH
BAD_FIELD = FAULT + Fault.FIELD_LENGTH
BAD_HEADER_COUNT = FAULT + Fault.HEADER_COUNT
BAD_HEADER_KEY = FAULT + Fault.HEADER_KEY
BAD_UTF8 = FAULT + Fault.HEADER_UTF8


@inlined
def _set(bits: Any, at: Any) -> None:
    bits[at >> 3] |= 1 << (at & 7)


@inlined
def _clear(bits: Any, at: Any) -> None:
    bits[at >> 3] &= ~(1 << (at & 7))


@inlined
def _valid_utf8(data: Any, at: Any, end: Any) -> Any:
    """Well-formed UTF-8 (Unicode, table 3-7): no overlong forms, no surrogates, nothing above U+10FFFF."""
    while at < end:
        lead = data[at]
        at += 1
        if lead < 0x80:
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        more = 1 if lead < 0xE0 else (2 if lead < 0xF0 else 3)
        if more > end - at:
            return False
        low = 0xA0 if lead == 0xE0 else (0x90 if lead == 0xF0 else 0x80)
        high = 0x9F if lead == 0xED else (0x8F if lead == 0xF4 else 0xBF)
        for _ in range(more):
            if data[at] < low or data[at] > high:
                return False
            low = 0x80
            high = 0xBF
            at += 1
    return True


@inlined
def _fits(s: Any, have: Any, used: Any, size: Any, status: Any) -> Any:
    """0 where `size` more fit, else `status`, with the size that is needed in the state."""
    if size > have - used:
        s[S_NEED] = used + size
        return status
    return 0


@inlined
def pass_headers(source: Any, at: Any, end: Any) -> Any:
    """Checks the lengths of the headers that source[at:end] has to be: 0 or a fault's status."""
    count, at = varint32(source, at, end)
    if at < 0:
        return BAD_VARINT
    if count < 0 or count > (end - at) // 2:
        return BAD_HEADER_COUNT
    for _ in range(count):
        size, at = varint32(source, at, end)
        if at < 0:
            return BAD_VARINT
        if size < 0:
            return BAD_HEADER_KEY
        if size > end - at:
            return BAD_FIELD
        size, at = varint32(source, at + size, end)
        if at < 0:
            return BAD_VARINT
        if size > end - at:
            return BAD_FIELD
        at += max(size, 0)
    if at != end:
        return BAD_LENGTH
    return 0


@inlined
def put_headers(source: Any, at: Any, end: Any, cost: Any, row: Any, used: Any, c: Any, s: Any, rules: Any) -> Any:
    """Writes the headers of the record that source[at:end] ends with: (0 or status, bytes it now costs).

    Names are written as they are: one that is not UTF-8 is marked in `header_raw`, and made text when the batch is
    emitted. used: bytes that the rows before it cost. After a status the same record can be begun again.
    """
    status = 0
    count, at = varint32(source, at, end)
    if at < 0:
        return BAD_VARINT, cost
    if count < 0 or count > (end - at) // 2:
        return BAD_HEADER_COUNT, cost
    n = s[S_HEADERS]
    keys = s[S_HEADER_KEYS]
    values = s[S_HEADER_VALUES]
    nulls = 0
    raw = False
    refused = False
    status = _fits(s, c.header_key_offsets.size - 1, n, count, GROW_HEADERS)
    if status:
        return status, cost
    for _ in range(count):
        size, at = varint32(source, at, end)
        if at < 0:
            return BAD_VARINT, cost
        if size < 0:
            return BAD_HEADER_KEY, cost
        if size > end - at:
            return BAD_FIELD, cost
        cost += HEADER_COST + size
        if not _valid_utf8(source, at, at + size):
            refused = rules.refuse_names
            raw = True
            cost += (LARGEST_REPLACED - 1) * size
        if row > 0 and used + cost > rules.max_bytes:
            return FULL, cost
        status = _fits(s, c.header_keys.size, keys, size, GROW_HEADER_KEYS)
        if status:
            return status, cost
        copy(c.header_keys, keys, source, at, size)
        at += size
        keys += size
        size, at = varint32(source, at, end)
        if at < 0:
            return BAD_VARINT, cost
        if size > end - at:
            return BAD_FIELD, cost
        if size >= 0:
            cost += size
            if row > 0 and used + cost > rules.max_bytes:
                return FULL, cost
            status = _fits(s, c.header_values.size, values, size, GROW_HEADER_VALUES)
            if status:
                return status, cost
            copy(c.header_values, values, source, at, size)
            at += size
            values += size
        else:
            _clear(c.header_value_ok, n)
            nulls += 1
        n += 1
        c.header_key_offsets[n] = keys
        c.header_value_offsets[n] = values
    if at != end:
        return BAD_LENGTH, cost
    if refused:
        for taken_back in range(s[S_HEADERS], n):  # the next record may be put in its place
            _set(c.header_value_ok, taken_back)
        return BAD_UTF8, cost
    if raw:
        _set(c.header_raw, row)
        s[S_RAW_HEADERS] += 1
    if count > 0:
        _set(c.header_ok, row)
    else:
        s[S_NULL_HEADERS] += 1
    c.header_offsets[row + 1] = n
    s[S_HEADERS] = n
    s[S_HEADER_KEYS] = keys
    s[S_HEADER_VALUES] = values
    s[S_NULL_HEADER_VALUES] += nulls
    return 0, cost


@inlined
def row_fits(
    key: Any, value: Any, cost: Any, row: Any, used: Any, keys: Any, values: Any, c: Any, s: Any, rules: Any
) -> Any:
    """0 where a row of so long a key and value (negative: null) fits, else FULL or what has to grow."""
    if row >= rules.max_rows or (row > 0 and used + cost > rules.max_bytes):
        return FULL
    status = _fits(s, c.keys.size, keys, key, GROW_KEYS)
    if status:
        return status
    return _fits(s, c.values.size, values, value, GROW_VALUES)


@inlined
def _put_bytes(
    source: Any, at: Any, size: Any, data: Any, used: Any, offsets: Any, ok: Any, nulls: Any, row: Any, s: Any
) -> None:
    if size >= 0:
        copy(data, used, source, at, size)
        offsets[row + 1] = used + size
    else:
        _clear(ok, row)
        s[nulls] += 1
        offsets[row + 1] = used


@inlined
def put_row(
    source: Any,
    key_at: Any,
    key: Any,
    value_at: Any,
    value: Any,
    offset: Any,
    millis: Any,
    kind: Any,
    row: Any,
    keys: Any,
    values: Any,
    c: Any,
    s: Any,
    rules: Any,
) -> None:
    """Writes a row but for headers and provenance; `row_fits` has to have found space. Keys and values begin at so many
    bytes, `key` and `value` are their sizes (negative: null). Counted are its nulls alone."""
    _put_bytes(source, key_at, key, c.keys, keys, c.key_offsets, c.key_ok, S_NULL_KEYS, row, s)
    _put_bytes(source, value_at, value, c.values, values, c.value_offsets, c.value_ok, S_NULL_VALUES, row, s)
    c.offset[row] = offset
    c.time[row] = millis * 1000
    if millis == -1 and rules.null_times:
        kind = -1
        s[S_NULL_TIMES] += 1
        _clear(c.time_ok, row)
    c.time_type[row] = kind


@inlined
def put_no_headers(row: Any, c: Any, s: Any) -> None:
    c.header_offsets[row + 1] = s[S_HEADERS]
    s[S_NULL_HEADERS] += 1


@inlined
def put_provenance(frame: Any, delta: Any, c: Any, row: Any) -> None:
    if frame[LEADER] >= 0:
        c.leader[row] = frame[LEADER]
        _set(c.leader_ok, row)
    if frame[PRODUCER] >= 0:
        c.producer[row] = frame[PRODUCER]
        c.epoch[row] = frame[EPOCH]
        _set(c.producer_ok, row)
    if frame[SEQUENCE] >= 0:
        c.sequence[row] = (frame[SEQUENCE] + delta) & 0x7FFFFFFF
        _set(c.sequence_ok, row)
    if frame[ATTRIBUTES] & TRANSACTIONAL_BIT:
        _set(c.transactional, row)
    c.base[row] = frame[BASE]
    _set(c.batch_ok, row)


@inlined
def put_position(frame: Any, c: Any, s: Any, row: Any) -> None:
    if s[S_ORIGIN] >= 0:
        c.position[row] = s[S_ORIGIN] + frame[POSITION]
        _set(c.position_ok, row)
