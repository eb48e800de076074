"""Compiled: documents to Arrow buffers by the table of the declared type, in one pass.

A struct's slot is its fields' slot, and a list's or text's last offset is where its next element or byte goes: so the
row's number alone says what is written so far. A row that fails, or for which a buffer is too small, is begun again
from its first byte, over what it has written. Nothing is recursive: objects and arrays that are open are the levels of
a stack, the innermost one in local variables.
"""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.json.grammar import literal, skip_number, skip_value, status_of
from kseg.segment_reader.payload.json.names import field, has_twice, is_name
from kseg.segment_reader.payload.json.rescue import rescue
from kseg.segment_reader.payload.json.scalars import base64_in_place, put_number
from kseg.segment_reader.payload.json.shape import Kind
from kseg.segment_reader.payload.json.strings import SLACK, copy_string, skip_string, space
from kseg.segment_reader.payload.json.table import (
    BAD,
    DONE,
    GROW_PATCHES,
    GROW_SCRATCH,
    GROW_SLOTS,
    GROW_TEXT,
    IN_TEXT,
    L_INDEX,
    L_KEY,
    L_KEY_END,
    L_NEXT,
    L_NODE,
    L_SEEN,
    L_SERIAL,
    L_SLOT,
    L_WRITTEN,
    N_CHILDREN,
    N_COUNT,
    N_DATA,
    N_END,
    N_FIELD,
    N_FORMAT,
    N_KIND,
    N_OFFSETS,
    N_ROOM,
    N_SIZE,
    N_SLOTS,
    N_VALID,
    N_WIDTH,
    P_END,
    P_NODE,
    P_ROW,
    P_SLOT,
    P_START,
    S_NEED,
    S_NODE,
    S_PATCHES,
    S_ROW,
    S_SCRATCH,
    S_SCRATCH_SIZE,
    S_SERIAL,
    UNSURE,
)
from kseg.segment_reader.payload.json.times import put_date_or_timestamp
from kseg.segment_reader.payload.json.words import store16
from kseg.segment_reader.payload.json.written import put_base64_decimal, put_json, put_number_in_text
from kseg.segment_reader.payload.memory import load8, load32, store8, store32, store64

BOOLEAN, INT64, DECIMAL, STRING, BINARY = (
    int(kind) for kind in (Kind.BOOLEAN, Kind.INT64, Kind.DECIMAL, Kind.STRING, Kind.BINARY)
)
DATE, TIMESTAMP_NTZ, LIST, MAP, STRUCT = (
    int(kind) for kind in (Kind.DATE, Kind.TIMESTAMP_NTZ, Kind.LIST, Kind.MAP, Kind.STRUCT)
)
WRONG_TYPE, DUPLICATE_KEY = int(Status.WRONG_TYPE), int(Status.DUPLICATE_KEY)


@compiled
def _put_nulls(t: Any, node: Any, slot: Any) -> None:
    """Null at this place, and at all below that have a slot for it."""
    end = t[node, N_END]
    while node < end:
        kind = t[node, N_KIND]
        store8(t[node, N_VALID] + slot, 0)
        width = t[node, N_WIDTH]
        if width == 8:
            store64(t[node, N_DATA] + 8 * slot, 0)
        elif width == 4:
            store32(t[node, N_DATA] + 4 * slot, 0)
        elif width == 2:
            store16(t[node, N_DATA] + 2 * slot, 0)
        elif width == 1:
            store8(t[node, N_DATA] + slot, 0)
        elif width == 16:
            store64(t[node, N_DATA] + 16 * slot, 0)
            store64(t[node, N_DATA] + 16 * slot + 8, 0)
        elif kind != STRUCT:
            at = t[node, N_OFFSETS] + 4 * slot
            store32(at + 4, load32(at))
        node = t[node, N_END] if kind in (LIST, MAP) else node + 1


@inlined
def _copy_text(p: Any, e: Any, limit: Any, t: Any, node: Any, slot: Any, s: Any) -> Any:
    """The string whose first character is at p into a column of texts: behind it, or an answer."""
    offsets = t[node, N_OFFSETS] + 4 * slot
    data = t[node, N_DATA]
    start = data + load32(offsets)
    p, end = copy_string(p, e, limit, start, data + t[node, N_ROOM])
    if p == -GROW_TEXT:
        s[S_NODE] = node
        s[S_NEED] = end - data + 2 * SLACK
    elif p >= 0 and t[node, N_KIND] == BINARY:
        end = base64_in_place(start, end)
        if end < 0:
            p = end
    store32(offsets + 4, end - data)
    return p


@compiled
def _token_end(p: Any, e: Any, limit: Any) -> Any:
    """Behind a string or number."""
    if load8(p) == 34:
        return skip_string(p + 1, e, limit)
    return skip_number(p, e)


@compiled
def decode(
    source: Any,
    offsets: Any,
    rules: Any,
    t: Any,
    children: Any,
    hashes: Any,
    names: Any,
    masks: Any,
    stamps: Any,
    levels: Any,
    opened: Any,
    seen_keys: Any,
    patches: Any,
    powers: Any,
    tens: Any,
    unsigned_tens: Any,
    steps: Any,
    zone: Any,
    s: Any,
    status: Any,
) -> Any:
    """Rows from S_ROW on. DONE, or a GROW_…: enlarge the buffer of S_NODE for at least S_NEED, and call again.

    source: address of the payloads' bytes; offsets: where each begins and ends; names: address of the fields' names.
    masks: of the lowest n bytes of a word. stamps: by node, the number of the struct that has had this field last.
    steps, zone: of patterns, and the declared zone's offsets. opened, seen_keys: of skipped levels and of a map's keys.
    status: 0 where there is a payload; what becomes of it.
    """
    n = offsets.shape[0] - 1
    limit = source + offsets[n]
    rescued = rules.rescued
    row = s[S_ROW]
    while row < n:
        if status[row]:
            _put_nulls(t, 0, row)
            if rescued >= 0:
                _put_nulls(t, rescued, row)
            row += 1
            continue
        p = source + min(offsets[row] + rules.skip, offsets[row + 1])
        e = source + offsets[row + 1]
        patched = s[S_PATCHES]
        text_at = 0
        text_end = 0
        if rescued >= 0:
            text_at = t[rescued, N_DATA] + load32(t[rescued, N_OFFSETS] + 4 * row)
            text_end = t[rescued, N_DATA] + t[rescued, N_ROOM] - SLACK
        answer = 0
        # The innermost open object or array: its node and kind; which slot it is in; the expected field, or the next
        # element's slot; for a struct its number, and how many of its fields were there.
        node = 0
        kind = STRUCT
        slot = row
        following = 0
        serial = s[S_SERIAL] + 1
        seen = 0
        level = 0
        p = space(p, e)
        if p >= e or load8(p) != 123:
            answer = WRONG_TYPE
        else:
            levels[0, L_NODE] = 0
            levels[0, L_WRITTEN] = 0
            p = space(p + 1, e)
            closing = p < e and load8(p) == 125
            while True:
                if not closing:
                    # -- a member or an element begins at p
                    child = 0
                    at = slot
                    key = p
                    key_end = p
                    if kind == LIST:
                        child = node + 1
                        at = following
                    elif kind == MAP:
                        child = node + 2
                        at = following
                    if kind != STRUCT and at >= t[child, N_SLOTS]:
                        s[S_NODE] = node
                        s[S_NEED] = at + 1
                        answer = GROW_SLOTS
                        break
                    if kind != LIST:
                        if p >= e or load8(p) != 34:
                            answer = BAD
                            break
                        p += 1
                        if kind == MAP:
                            p = _copy_text(p, e, limit, t, node + 1, at, s)
                            store8(t[node + 1, N_VALID] + at, 1)
                        else:
                            child = -1
                            if following < t[node, N_COUNT]:
                                expected = children[t[node, N_CHILDREN] + following]
                                if is_name(p, e, limit, t, expected, names, masks):
                                    child = expected
                                    p += t[expected, N_SIZE]
                                    following += 1
                            if child < 0:
                                scratch = s[S_SCRATCH]
                                p, name_end = copy_string(p, e, limit, scratch, scratch + s[S_SCRATCH_SIZE])
                                if p == -GROW_TEXT:
                                    p = -GROW_SCRATCH
                                elif p >= 0:
                                    child = field(scratch, name_end, t, node, children, hashes, names)
                                    if child >= 0:
                                        following = t[child, N_FIELD] + 1
                        if p < 0:
                            answer = -p
                            break
                        key_end = p
                        p = space(p, e)
                        if p >= e or load8(p) != 58:
                            answer = BAD
                            break
                        p = space(p + 1, e)
                        if kind == STRUCT and child >= 0:
                            if stamps[child] == serial:
                                answer = DUPLICATE_KEY
                                break
                            stamps[child] = serial
                            seen += 1
                    # -- its value
                    if p >= e:
                        answer = BAD
                        break
                    c = load8(p)
                    if child < 0:
                        p = skip_value(p, e, limit, level + 1, rules.max_depth, opened)
                        if p >= 0 and rescued >= 0:
                            text_at = rescue(t, levels, level, key, p, text_at, text_end)
                            if text_at < 0:
                                s[S_NODE] = rescued
                                s[S_NEED] = t[rescued, N_ROOM] + e - source - offsets[row] + 2 * SLACK
                                p = -GROW_TEXT
                    elif c == 110:
                        p = literal(p, e)
                        _put_nulls(t, child, at)
                    else:
                        of = t[child, N_KIND]
                        start = p
                        store8(t[child, N_VALID] + at, 1)
                        if of == STRING and t[child, N_FORMAT]:
                            p = put_json(p, e, limit, t, child, at, level + 1, rules.max_depth, opened, s)
                        elif of in (STRING, BINARY):
                            p = _copy_text(p + 1, e, limit, t, child, at, s) if c == 34 else -WRONG_TYPE
                        elif of >= LIST:
                            if c != (91 if of == LIST else 123):
                                p = -WRONG_TYPE
                            elif level + 1 == rules.max_depth:
                                p = -BAD
                            else:
                                levels[level, L_SLOT] = slot
                                levels[level, L_NEXT] = following
                                levels[level, L_SERIAL] = serial
                                levels[level, L_SEEN] = seen
                                level += 1
                                levels[level, L_NODE] = child
                                levels[level, L_WRITTEN] = 0
                                levels[level, L_KEY] = key
                                levels[level, L_KEY_END] = key_end
                                if kind == LIST:
                                    levels[level, L_INDEX] = at - load32(t[node, N_OFFSETS] + 4 * slot)
                                node = child
                                kind = of
                                slot = at
                                if of == STRUCT:
                                    following = 0
                                    s[S_SERIAL] += 1
                                    serial = s[S_SERIAL] + 1
                                    seen = 0
                                else:
                                    following = load32(t[child, N_OFFSETS] + 4 * at)
                                p = space(p + 1, e)
                                closing = p < e and load8(p) == c + 2
                                continue
                        elif c == 34 or c == 45 or 48 <= c <= 57:
                            if of == BOOLEAN:
                                p = -WRONG_TYPE
                            elif of < DATE:
                                p = -WRONG_TYPE
                                if c != 34:
                                    p = put_number(start, e, t, child, at, powers, tens, unsigned_tens)
                                elif t[child, N_FORMAT] == IN_TEXT:
                                    p = put_number_in_text(
                                        start + 1, e, limit, t, child, at, powers, tens, unsigned_tens, s
                                    )
                                elif of == DECIMAL and t[child, N_FORMAT]:
                                    p = put_base64_decimal(start + 1, e, limit, t, child, at, s)
                            else:
                                p = put_date_or_timestamp(p, e, c, t, child, at, unsigned_tens, steps, zone)
                            if p == -UNSURE:
                                p = _token_end(start, e, limit)
                                if p >= 0:
                                    if patched >= patches.shape[0]:
                                        p = -GROW_PATCHES
                                    else:
                                        patches[patched, P_ROW] = row
                                        patches[patched, P_NODE] = child
                                        patches[patched, P_SLOT] = at
                                        patches[patched, P_START] = start - source
                                        patches[patched, P_END] = p - source
                                        patched += 1
                        elif of == BOOLEAN and (c == 116 or c == 102):
                            p = literal(p, e)
                            store8(t[child, N_DATA] + at, 1 if c == 116 else 0)
                        else:
                            p = -WRONG_TYPE
                    if p < 0:
                        answer = -p
                        break
                    if kind != STRUCT:
                        following += 1
                    # -- what follows it
                    p = space(p, e)
                    if p >= e:
                        answer = BAD
                        break
                    c = load8(p)
                    if c == 44:
                        p = space(p + 1, e)
                        continue
                    if c != (93 if kind == LIST else 125):
                        answer = BAD
                        break
                # -- the innermost object or array ends at p
                closing = False
                p += 1
                if kind == STRUCT:
                    if seen < t[node, N_COUNT]:
                        first = t[node, N_CHILDREN]
                        for number in range(first, first + t[node, N_COUNT]):
                            if stamps[children[number]] != serial:
                                _put_nulls(t, children[number], slot)
                else:
                    begin = load32(t[node, N_OFFSETS] + 4 * slot)
                    store32(t[node, N_OFFSETS] + 4 * slot + 4, following)
                    if kind == MAP:
                        answer = has_twice(t, node + 1, begin, following, seen_keys, rules.seed)
                        if answer:
                            s[S_NEED] = following - begin
                            break
                if rescued >= 0 and levels[level, L_WRITTEN]:
                    if text_at >= text_end:
                        s[S_NODE] = rescued
                        s[S_NEED] = t[rescued, N_ROOM] + e - source - offsets[row] + 2 * SLACK
                        answer = GROW_TEXT
                        break
                    store8(text_at, 93 if kind == LIST else 125)
                    text_at += 1
                if level == 0:
                    break
                level -= 1
                node = levels[level, L_NODE]
                kind = t[node, N_KIND]
                slot = levels[level, L_SLOT]
                following = levels[level, L_NEXT]
                serial = levels[level, L_SERIAL]
                seen = levels[level, L_SEEN]
                if kind != STRUCT:
                    following += 1
                p = space(p, e)
                if p >= e:
                    answer = BAD
                    break
                c = load8(p)
                if c == 44:
                    p = space(p + 1, e)
                elif c == (93 if kind == LIST else 125):
                    closing = True
                else:
                    answer = BAD
                    break
            if answer == 0 and space(p, e) < e:
                answer = BAD
        s[S_SERIAL] += 1
        if answer >= GROW_TEXT:
            s[S_ROW] = row
            return answer
        if answer:
            start = source + min(offsets[row] + rules.skip, offsets[row + 1])
            grammar = status_of(start, e, limit, rules.max_depth, opened)
            if grammar:
                answer = grammar
            elif patched > s[S_PATCHES]:
                answer = BAD  # a value before this one may be what is wrong
            status[row] = answer
            _put_nulls(t, 0, row)
            if rescued >= 0:
                _put_nulls(t, rescued, row)
        else:
            s[S_PATCHES] = patched
            store8(t[0, N_VALID] + row, 1)
            if rescued >= 0:
                written = text_at - t[rescued, N_DATA]
                store32(t[rescued, N_OFFSETS] + 4 * row + 4, written)
                store8(t[rescued, N_VALID] + row, 1 if levels[0, L_WRITTEN] else 0)
        row += 1
    s[S_ROW] = row
    return DONE
