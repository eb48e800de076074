"""Compiled: from planned frames to Arrow buffers, in one pass, by the rules of `segment_reader.decode.reference`.

Keys, values and headers are copied once, from the record set (or from the decompressed bytes) into the final Arrow
buffers. All progress is in the state array, so a call can stop at any record, because a batch is full or a buffer has
to grow, and the next call continues there. Every length is checked before it is used.
"""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.batch import (
    ATTRIBUTES_AT,
    FRAME_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LEGACY_TIMESTAMP_AT,
    LENGTH_AT,
    MAGIC_AT,
    TIMESTAMP_TYPE_BIT,
)
from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.decode.primitives import be32, be64, crc32, crc32c
from kseg.segment_reader.decode.rows import (
    BAD_UTF8,
    pass_headers,
    put_headers,
    put_no_headers,
    put_position,
    put_provenance,
    put_row,
    row_fits,
)
from kseg.segment_reader.decode.scan import varint32, varint64
from kseg.segment_reader.decode.table import (
    ABORTED,
    ATTRIBUTES,
    BAD_MARKER,
    BASE,
    BASE_TIME,
    CHECK,
    CONTROL,
    COUNT,
    COUNT_ABORTED,
    COUNT_CONTROL,
    COUNTED,
    CRC,
    DATA,
    DROP,
    FAULT,
    GROW_GAPS,
    GROW_REFUSED,
    KIND,
    LAST,
    MAGIC,
    MARKER,
    MAX_TIME,
    MESSAGES,
    POSITION,
    RANGE_DONE,
    S_ABORTED,
    S_ABSENT,
    S_AT,
    S_BATCHES,
    S_BYTES,
    S_CONTROL,
    S_DATA,
    S_GAPS,
    S_KEYS,
    S_NEXT,
    S_OFFSET,
    S_PREVIOUS,
    S_READ,
    S_RECORD,
    S_REFUSED,
    S_ROWS,
    S_UNIT,
    S_VALUES,
    SHIFT,
    SIZE,
    SOURCE,
    START,
    STOP,
    TIME,
    TIME_TYPE,
    UNITS_DONE,
)
from kseg.segment_reader.errors import Fault

BAD_CRC = FAULT + Fault.CRC
BAD_VARINT = FAULT + Fault.VARINT
OVERRUN = FAULT + Fault.RECORD_OVERRUN
BAD_LENGTH = FAULT + Fault.RECORD_LENGTH
BAD_FIELD = FAULT + Fault.FIELD_LENGTH
BAD_ORDER = FAULT + Fault.OFFSET_ORDER
TOO_FEW = FAULT + Fault.TOO_FEW
TRAILING = FAULT + Fault.TRAILING
BAD_TIME = FAULT + Fault.TIMESTAMP
BAD_CONTROL_KEY = FAULT + Fault.CONTROL_KEY

MAX_MILLIS = (2**63 - 1) // 1000

#: Free gap slots needed before starting a record or a unit, so that recording a gap cannot fail.
GAP_ROOM = 4


@inlined
def _absent(s: Any, gaps: Any, until: Any) -> None:
    """Everything from the next expected offset up to `until` is missing from the log."""
    first = s[S_NEXT]
    if until > first:
        n = s[S_GAPS]
        if n > 0 and gaps[n - 1, 1] == first:
            gaps[n - 1, 1] = until
        else:
            gaps[n, 0] = first
            gaps[n, 1] = until
            s[S_GAPS] = n + 1
        s[S_ABSENT] += until - first
        s[S_NEXT] = until


@inlined
def _refuse(s: Any, refused: Any, offset: Any, status: Any, rules: Any) -> Any:
    """Sets a record aside that is valid and has no row: 0, or the status that ends this call."""
    n = s[S_REFUSED]
    if not rules.aside:
        s[S_OFFSET] = offset
        return status
    if n == refused.shape[0]:
        return GROW_REFUSED
    refused[n, 0] = offset
    refused[n, 1] = status - FAULT
    s[S_REFUSED] = n + 1
    return 0


@inlined
def _records(source: Any, frame: Any, c: Any, gaps: Any, refused: Any, s: Any, rules: Any) -> Any:
    """The records of a magic 2 batch from the state's position: 0 when they are done.

    What changes with each record is kept out of the state until the end: the compiler cannot know that the columns are
    no part of it, and would store and load all of it again for each record.
    """
    stop = frame[STOP]
    count = frame[COUNT]
    base = frame[BASE]
    last_delta = frame[LAST] - base
    base_time = frame[BASE_TIME]
    max_time = frame[MAX_TIME]
    append_time = 1 if frame[ATTRIBUTES] & TIMESTAMP_TYPE_BIT else 0
    kind = frame[KIND]
    record = s[S_RECORD]
    next_record_at = s[S_AT]
    previous = s[S_PREVIOUS]
    expected = s[S_NEXT]
    first_row = s[S_ROWS]
    row = first_row
    used = s[S_BYTES]
    keys = s[S_KEYS]
    values = s[S_VALUES]
    passed = 0  # records of an aborted transaction, or control records
    status = 0
    while record < count:
        if next_record_at >= stop:
            status = TOO_FEW
            break
        length, at = varint32(source, next_record_at, stop)
        if at < 0:
            status = BAD_VARINT
            break
        if length < 0 or length > stop - at:
            status = OVERRUN
            break
        if length < 1:
            status = BAD_LENGTH
            break
        end = at + length
        time_delta, at = varint64(source, at + 1, end)
        if at < 0:
            status = BAD_VARINT
            break
        delta, at = varint32(source, at, end)
        if at < 0:
            status = BAD_VARINT
            break
        if delta <= previous or delta > last_delta:
            status = BAD_ORDER
            break
        offset = base + delta
        if offset >= rules.end:
            status = RANGE_DONE
            break
        if offset >= expected:
            if offset > expected and s[S_GAPS] + GAP_ROOM > gaps.shape[0]:
                status = GROW_GAPS
                break
            if kind == DATA:
                millis = max_time
                if not append_time:
                    millis = base_time + time_delta
                    if (base_time ^ millis) & (time_delta ^ millis) < 0:
                        millis = MAX_MILLIS + 1
                if millis > MAX_MILLIS or millis < -MAX_MILLIS:
                    status = BAD_TIME
                else:
                    key, key_at = varint32(source, at, end)
                    if key_at < 0:
                        status = BAD_VARINT
                        break
                    if key > end - key_at:
                        status = BAD_FIELD
                        break
                    value, value_at = varint32(source, key_at + max(key, 0), end)
                    if value_at < 0:
                        status = BAD_VARINT
                        break
                    if value > end - value_at:
                        status = BAD_FIELD
                        break
                    at = value_at + max(value, 0)
                    cost = rules.row_cost + max(key, 0) + max(value, 0)
                    status = row_fits(key, value, cost, row, used, keys, values, c, s, rules)
                    if status:
                        break
                    if at == end - 1 and source[at] == 0:  # no headers, as nearly always
                        if rules.headers:
                            put_no_headers(row, c, s)
                    elif rules.headers:
                        status, cost = put_headers(source, at, end, cost, row, used, c, s, rules)
                    else:
                        status = pass_headers(source, at, end)
                if status == 0:
                    put_row(
                        *(source, key_at, key, value_at, value),
                        *(offset, millis, append_time, row, keys, values, c, s, rules),
                    )
                    if rules.provenance:
                        put_provenance(frame, delta, c, row)
                        put_position(frame, c, s, row)
                    keys += max(key, 0)
                    values += max(value, 0)
                    used += cost
                    row += 1
                elif status in (BAD_TIME, BAD_UTF8):
                    status = _refuse(s, refused, offset, status, rules)
                if status:
                    break
            else:
                passed += 1
            if offset > expected:
                s[S_NEXT] = expected
                _absent(s, gaps, offset)
            expected = offset + 1
        previous = delta
        next_record_at = end
        record += 1
    s[S_RECORD] = record
    s[S_AT] = next_record_at
    s[S_PREVIOUS] = previous
    s[S_NEXT] = expected
    s[S_ROWS] = row
    s[S_BYTES] = used
    s[S_KEYS] = keys
    s[S_VALUES] = values
    s[S_DATA] += row - first_row
    if passed:
        s[S_ABORTED if kind == ABORTED else S_CONTROL] += passed
    if status == RANGE_DONE:
        _absent(s, gaps, rules.end)
    elif status == 0 and next_record_at != stop:
        status = TRAILING
    return status


@inlined
def _messages(source: Any, frame: Any, c: Any, gaps: Any, refused: Any, s: Any, rules: Any) -> Any:
    """The messages of magic 0 or 1 in source[START:STOP] from the state's position: 0 when they are done.

    Lengths and magic of inner ones have been checked by scan_messages, those of plain ones by scan.
    """
    stop = frame[STOP]
    magic = frame[MAGIC]
    kind = -1
    while s[S_AT] < stop:
        at = s[S_AT]
        if s[S_GAPS] + GAP_ROOM > gaps.shape[0]:
            return GROW_GAPS
        end = at + FRAME_OVERHEAD + be32(source, at + LENGTH_AT)
        if rules.check and crc32(source, at + MAGIC_AT, end) != be32(source, at + LEGACY_CRC_AT) & 0xFFFFFFFF:
            return BAD_CRC
        offset = frame[SHIFT] + be64(source, at)
        if offset <= s[S_PREVIOUS] or offset > frame[LAST]:
            return BAD_ORDER
        if offset >= rules.end:
            _absent(s, gaps, rules.end)
            return RANGE_DONE
        if offset >= s[S_NEXT]:
            row = s[S_ROWS]
            millis = -1
            if magic == 1:
                millis = be64(source, at + LEGACY_TIMESTAMP_AT)
                kind = frame[TIME_TYPE]
                if kind < 0:
                    kind = 1 if source[at + LEGACY_ATTRIBUTES_AT] & TIMESTAMP_TYPE_BIT else 0
                elif kind == 1:
                    millis = frame[TIME]
            at += LEGACY_TIMESTAMP_AT + (8 if magic == 1 else 0)
            # both lengths before either field, so that a fault is found before anything is written
            if end - at < 4:
                return BAD_FIELD
            key = be32(source, at)
            key_at = at + 4
            if key > end - key_at:
                return BAD_FIELD
            at = key_at + max(key, 0)
            if end - at < 4:
                return BAD_FIELD
            value = be32(source, at)
            at += 4
            if value > end - at:
                return BAD_FIELD
            if at + max(value, 0) != end:
                return BAD_LENGTH
            if millis > MAX_MILLIS or millis < -MAX_MILLIS:
                status = _refuse(s, refused, offset, BAD_TIME, rules)
                if status:
                    return status
            else:
                cost = rules.row_cost + max(key, 0) + max(value, 0)
                keys = s[S_KEYS]
                values = s[S_VALUES]
                status = row_fits(key, value, cost, row, s[S_BYTES], keys, values, c, s, rules)
                if status:
                    return status
                if rules.headers:
                    put_no_headers(row, c, s)
                put_row(source, key_at, key, at, value, offset, millis, kind, row, keys, values, c, s, rules)
                if rules.provenance:
                    put_position(frame, c, s, row)
                s[S_KEYS] = keys + max(key, 0)
                s[S_VALUES] = values + max(value, 0)
                s[S_BYTES] += cost
                s[S_DATA] += 1
                s[S_ROWS] = row + 1
            _absent(s, gaps, offset)
            s[S_NEXT] = offset + 1
        s[S_PREVIOUS] = offset
        s[S_AT] = end
    return 0


@compiled
def fill(data: Any, unpacked: Any, table: Any, n: Any, c: Any, gaps: Any, refused: Any, s: Any, rules: Any) -> Any:
    """Works through table rows from S_UNIT to n. Returns UNITS_DONE, RANGE_DONE, FULL, a GROW_… or FAULT + fault.

    FULL: emit the columns, give new ones, call again. GROW_…: enlarge that column to at least S_NEED, call again.
    data: the record set; unpacked: what rows with SOURCE 1 point into; c: table.Columns; gaps: pairs; refused: offsets
    with their faults; s: the state.
    """
    while s[S_UNIT] < n:
        frame = table[s[S_UNIT]]
        kind = frame[KIND]
        if kind != DROP:
            if s[S_NEXT] >= rules.end:
                return RANGE_DONE
            if s[S_GAPS] + GAP_ROOM > gaps.shape[0]:
                return GROW_GAPS
            if s[S_AT] < 0:
                if frame[COUNTED]:
                    s[S_BATCHES] += 1
                    s[S_READ] += frame[COUNTED]
                if frame[CHECK] and not frame[SOURCE] and kind != MESSAGES:
                    start = frame[POSITION]
                    if crc32c(data, start + ATTRIBUTES_AT, start + frame[SIZE]) != frame[CRC]:
                        return BAD_CRC
                if frame[MARKER] == BAD_MARKER:
                    return BAD_CONTROL_KEY
                s[S_AT] = frame[START]
                s[S_RECORD] = 0
                s[S_PREVIOUS] = -1
            status = 0
            until = min(frame[LAST] + 1, rules.end)
            if kind in (DATA, ABORTED, CONTROL):
                status = _records(unpacked if frame[SOURCE] else data, frame, c, gaps, refused, s, rules)
            elif kind == MESSAGES:
                status = _messages(unpacked if frame[SOURCE] else data, frame, c, gaps, refused, s, rules)
            elif kind in (COUNT_CONTROL, COUNT_ABORTED):
                _absent(s, gaps, frame[BASE])
                if until > s[S_NEXT]:
                    s[S_CONTROL if kind == COUNT_CONTROL else S_ABORTED] += until - s[S_NEXT]
                    s[S_NEXT] = until
            if status:
                return status
            _absent(s, gaps, until)
        s[S_UNIT] += 1
        s[S_AT] = -1
    return UNITS_DONE
