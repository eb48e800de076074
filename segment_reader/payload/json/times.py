"""Compiled: parses dates and timestamps from text into columns, by the rules of `formats`.

All other texts, valid or not, are left to the reference implementation: the functions return ASKED. Addresses: see
`strings`.
"""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.json.formats import FIRST_MICROS, LAST_MICROS
from kseg.segment_reader.payload.json.scalars import ASKED, DATE, WRONG_TYPE, put_epoch
from kseg.segment_reader.payload.json.table import (
    LOCAL,
    N_CUT,
    N_DATA,
    N_FORMAT,
    N_KIND,
    N_NULLS_FAR,
    N_OFFSET,
    N_STEPS,
    NO_OFFSET,
    NUMBER,
    STEP_BYTE,
    STEP_DAY,
    STEP_END,
    STEP_FRACTION,
    STEP_HOUR,
    STEP_MINUTE,
    STEP_MONTH,
    STEP_YEAR,
    STEP_ZONE,
    TEXT,
    ZONED,
)
from kseg.segment_reader.payload.memory import load8, store32, store64


@inlined
def _two(p: Any) -> Any:
    """The value of two digits; negative if they are not digits."""
    tens = load8(p) - 48
    ones = load8(p + 1) - 48
    if tens < 0 or tens > 9 or ones < 0 or ones > 9:
        return -1
    return tens * 10 + ones


@inlined
def _days_of(year: Any, month: Any, day: Any) -> Any:
    """Days since 1970-01-01; NO_OFFSET if there is no such day."""
    if year < 1 or month < 1 or month > 12 or day < 1:
        return NO_OFFSET
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = 30 + ((month + (month >> 3)) & 1)
    if month == 2:
        length = 29 if leap else 28
    if day > length:
        return NO_OFFSET
    before = year - 1
    in_year = 31 * (month - 1)
    if month > 2:
        in_year = 59 + (153 * (month - 3) + 2) // 5 + (1 if leap else 0)
    return before * 365 + before // 4 - before // 100 + before // 400 + in_year + day - 719163


@inlined
def _days(p: Any) -> Any:
    """Days since 1970-01-01 from the ten characters at p, or NO_OFFSET."""
    century = _two(p)
    year = _two(p + 2)
    if century < 0 or year < 0 or load8(p + 4) != 45 or load8(p + 7) != 45:
        return NO_OFFSET
    return _days_of(100 * century + year, _two(p + 5), _two(p + 8))


@inlined
def _offset_at(seconds: Any, zone: Any) -> Any:
    """The zone's offset at a local time, or NO_OFFSET. zone: see `formats.local_offsets`."""
    low = -1
    high = zone.shape[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if zone[middle, 0] <= seconds:
            low = middle
        else:
            high = middle
    return NO_OFFSET if low < 0 else zone[low, 1]


@inlined
def _put_micros(seconds: Any, micros: Any, written: Any, t: Any, node: Any, slot: Any, zone: Any) -> Any:
    """Writes a local time, with its offset or NO_OFFSET, to a column of timestamps. Returns whether it can."""
    offset = t[node, N_OFFSET]
    if offset == LOCAL:
        if written != NO_OFFSET:
            return False
        offset = 0
    elif written != NO_OFFSET:
        offset = written
    elif offset == ZONED:
        offset = _offset_at(seconds, zone)
    if offset == NO_OFFSET:
        return False
    value = (seconds - offset) * 1000000 + micros
    if value < FIRST_MICROS or value > LAST_MICROS:
        return False
    store64(t[node, N_DATA] + 8 * slot, value)
    return True


@compiled
def put_date(p: Any, e: Any, t: Any, node: Any, slot: Any) -> Any:
    """`2024-02-29"`; p: after the opening quote."""
    if e - p < 11 or load8(p + 10) != 34:
        return ASKED
    days = _days(p)
    if days == NO_OFFSET:
        return ASKED
    store32(t[node, N_DATA] + 4 * slot, days)
    return p + 11


@compiled
def put_timestamp(p: Any, e: Any, t: Any, node: Any, slot: Any, zone: Any) -> Any:
    """`2024-02-29T12:30:00.25Z"`; p: after the opening quote."""
    if e - p < 17:
        return ASKED
    days = _days(p)
    between = load8(p + 10)
    hour = _two(p + 11)
    minute = _two(p + 14)
    if days == NO_OFFSET or (between != 84 and between != 32) or load8(p + 13) != 58:
        return ASKED
    if hour < 0 or hour > 23 or minute < 0 or minute > 59:
        return ASKED
    p += 16
    seconds = days * 86400 + hour * 3600 + minute * 60
    micros = 0
    if load8(p) == 58:
        if e - p < 4:
            return ASKED
        second = _two(p + 1)
        if second < 0 or second > 59:
            return ASKED
        seconds += second
        p += 3
        if load8(p) == 46:
            p += 1
            first = p
            unit = 100000
            while p < e and 48 <= load8(p) <= 57:
                if unit == 0 and load8(p) != 48 and t[node, N_CUT] == 0:
                    return ASKED
                micros += (load8(p) - 48) * unit
                unit //= 10
                p += 1
            if p == first:
                return ASKED
    if p >= e:
        return ASKED
    written = NO_OFFSET
    c = load8(p)
    if c == 90:
        written = 0
        p += 1
    elif c == 43 or c == 45:
        if e - p < 4:
            return ASKED
        hour = _two(p + 1)
        p += 3
        minute = 0
        if load8(p) != 34:
            if load8(p) == 58:
                p += 1
            if e - p < 3:
                return ASKED
            minute = _two(p)
            p += 2
        written = hour * 3600 + minute * 60
        if hour < 0 or minute < 0 or minute > 59 or written > 18 * 3600:
            return ASKED
        if c == 45:
            written = -written
    if p >= e or load8(p) != 34 or not _put_micros(seconds, micros, written, t, node, slot, zone):
        return ASKED
    return p + 1


@compiled
def put_pattern(p: Any, e: Any, t: Any, node: Any, slot: Any, steps: Any, zone: Any) -> Any:
    """A text, parsed by the steps of its column's pattern; p: after the opening quote."""
    year = 0
    month = 0
    day = 0
    seconds = 0
    micros = 0
    written = NO_OFFSET
    step = t[node, N_STEPS]
    while steps[step, 0] != STEP_END:
        unit = steps[step, 0]
        least = steps[step, 1]
        most = steps[step, 2]
        step += 1
        if p >= e:
            return ASKED
        if unit == STEP_BYTE:
            if load8(p) != least:
                return ASKED
            p += 1
        elif unit == STEP_ZONE:
            c = load8(p)
            p += 1
            written = 0
            if c != 90:
                if (c != 43 and c != 45) or e - p < (4 if least == 1 else 6):
                    return ASKED
                hour = _two(p)
                p += 2
                minute = 0
                if least == 3:
                    if load8(p) != 58:
                        return ASKED
                    p += 1
                if least > 1 or _two(p) >= 0:
                    minute = _two(p)
                    p += 2
                written = hour * 3600 + minute * 60
                if hour < 0 or minute < 0 or minute > 59 or written > 18 * 3600:
                    return ASKED
                if c == 45:
                    written = -written
        else:
            size = 0
            value = 0
            scale = 1000000
            while size < most and p < e and 48 <= load8(p) <= 57:
                digit = load8(p) - 48
                value = value * 10 + digit
                if unit == STEP_FRACTION:
                    scale //= 10
                    if scale == 0 and digit and t[node, N_CUT] == 0:
                        return ASKED
                    micros += digit * scale
                p += 1
                size += 1
            if size < least:
                return ASKED
            if unit == STEP_YEAR:
                year = value
            elif unit == STEP_MONTH:
                month = value
            elif unit == STEP_DAY:
                day = value
            elif unit == STEP_HOUR:
                if value > 23:
                    return ASKED
                seconds += 3600 * value
            elif unit != STEP_FRACTION:
                if value > 59:
                    return ASKED
                seconds += 60 * value if unit == STEP_MINUTE else value
    days = _days_of(year, month, day)
    if p >= e or load8(p) != 34 or days == NO_OFFSET:
        return ASKED
    if t[node, N_KIND] == DATE:
        store32(t[node, N_DATA] + 4 * slot, days)
    elif not _put_micros(days * 86400 + seconds, micros, written, t, node, slot, zone):
        return ASKED
    return p + 1


@compiled
def put_date_or_timestamp(
    p: Any, e: Any, c: Any, t: Any, node: Any, slot: Any, tens: Any, steps: Any, zone: Any
) -> Any:
    written = t[node, N_FORMAT]
    if written == NUMBER:
        if c == 34:
            return ASKED if t[node, N_NULLS_FAR] else WRONG_TYPE
        return put_epoch(p, e, t, node, slot, tens)
    if c != 34:
        return WRONG_TYPE
    if written != TEXT:
        return put_pattern(p + 1, e, t, node, slot, steps, zone)
    if t[node, N_KIND] == DATE:
        return put_date(p + 1, e, t, node, slot)
    return put_timestamp(p + 1, e, t, node, slot, zone)
