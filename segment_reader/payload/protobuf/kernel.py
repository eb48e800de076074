"""Compiled: payloads to Arrow buffers by a program (`segment_reader.payload.protobuf.program`), in one pass.

It decides by the rules of `segment_reader.payload.protobuf.reference`, and leaves to it (status LEFT) what serializers
do not write: a message that is written twice, two members of a oneof, a map's key that is there twice, groups that are
skipped, numbers that a closed enum does not have, and times that have no column value. A payload that fails or is left
is a row of nulls; what it has added to lists is taken back. When a buffer is too small the payload is taken back too,
and the next call begins with it. Every length is checked before it is used.
"""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.map_keys import repeats_a_key
from kseg.segment_reader.payload.memory import (
    load8,
    load32,
    load64,
    shift_right,
    store8,
    store32,
    store64,
)
from kseg.segment_reader.payload.protobuf.fields import find, has, skip_value, time_value
from kseg.segment_reader.payload.protobuf.opcodes import (
    BOOL,
    C_KEY_DATA,
    C_KEY_OFFSETS,
    C_KEY_WIDTH,
    C_KIND,
    C_OFFSETS,
    C_VALID,
    CAPACITY,
    CASE,
    CHECK_WIDTH,
    DATA,
    DOCUMENT,
    ENUM,
    FIXED32,
    FIXED64,
    GROUP,
    GROW_LEVEL,
    GROW_SCRATCH,
    GROW_SLOT,
    INT64,
    L_CAPACITY,
    L_COUNT,
    L_SAVED,
    LAST_DELIMITED,
    LAST_VARINT,
    LEFT,
    LEVEL,
    LIST_OFFSETS,
    M_CHECK,
    M_CHECK_END,
    M_COUNT,
    M_DENSE,
    M_INIT,
    M_INIT_END,
    M_LIMIT,
    M_SORTED,
    MESSAGE,
    NEED,
    NUMBER,
    NUMBER_OF,
    OFFSETS,
    OP,
    PACKED,
    REQUIRED,
    ROW,
    SEED,
    SINT32,
    SINT64,
    SLOT,
    TEXT,
    TIME,
    UINT32,
    UNIQUE,
    VALID,
    WIDTH,
    WORD32,
    WORD64,
    WRAPPED,
    A,
    B,
)
from kseg.segment_reader.payload.protobuf.slots import begin
from kseg.segment_reader.payload.protobuf.varints import read_short, read_varint
from kseg.segment_reader.payload.text import copy_bytes, copy_text

_TRUNCATED = int(Status.TRUNCATED)
_MALFORMED = int(Status.MALFORMED)
_INVALID_UTF8 = int(Status.INVALID_UTF8)
_OUT_OF_RANGE = int(Status.OUT_OF_RANGE)
_BAD_FRAME = int(Status.BAD_FRAME)
_MISSING_FIELD = int(Status.MISSING_FIELD)
_NULL = int(Status.NULL)

#: Why a payload is taken back besides a status: statuses are smaller.
_GROW = 256

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_UINT32_MAX = 2**32 - 1


@inlined
def _field(at: Any, column: Any) -> Any:
    return load64(at + 8 * column)


@compiled
def run(
    program: Any,
    messages: Any,
    inits: Any,
    checks: Any,
    jumps: Any,
    tags: Any,
    closed: Any,
    levels: Any,
    stack: Any,
    scratch: Any,
    nulls: Any,
    nulls_end: Any,
    source: Any,
    status: Any,
    state: Any,
) -> Any:
    """Decodes rows from state[ROW] on, until all are done (returns 0) or something must grow (a number of opcodes).

    program, inits, checks: addresses. nulls … nulls_end: the inits of a row that is null. source: addresses of the
    payloads' validity bits (0: none is null), offsets and bytes; the size of the bytes; the first payload's validity
    bit; how many bytes each skips.
    """
    valid, offsets, base, size, first, skip = source[0], source[1], source[2], source[3], source[4], source[5]
    for row in range(state[ROW], status.shape[0]):
        if valid and not (load8(valid + ((first + row) >> 3)) >> ((first + row) & 7)) & 1:
            begin(inits, nulls, nulls_end, row)
            status[row] = _NULL
            continue
        p = load64(offsets + 8 * row) + skip
        end = load64(offsets + 8 * row + 8)
        for level in range(1, levels.shape[0]):
            levels[level, L_SAVED] = levels[level, L_COUNT]
        message = 0
        index = row
        group = 0
        top = 0  # of the stack
        missing = 0
        failed = 0
        if p > end:
            failed = _BAD_FRAME
        else:
            begin(inits, messages[0, M_INIT], messages[0, M_INIT_END], index)
        while failed == 0:
            tag = 0
            ends = p >= end
            if ends:
                if group:
                    failed = _TRUNCATED
                    break
            else:
                tag = load8(base + p)
                p += 1
                if tag >= 128:
                    tag, p = read_short(base, p - 1, end)
                    if p < 0:
                        failed = -p
                        break
                ends = tag & 7 == 4 and group != 0 and tag >> 3 == group
            if ends:
                check = checks + 8 * CHECK_WIDTH * messages[message, M_CHECK]
                last = checks + 8 * CHECK_WIDTH * messages[message, M_CHECK_END]
                while check < last:
                    kind = _field(check, C_KIND)
                    if kind == UNIQUE:
                        offset = _field(check, C_OFFSETS) + 4 * index
                        begins, behind = load32(offset), load32(offset + 4)
                        if behind - begins > 1:
                            if 4 * (behind - begins) > scratch.shape[0]:
                                state[NEED] = 4 * (behind - begins)
                                failed = _GROW + GROW_SCRATCH
                            elif repeats_a_key(
                                _field(check, C_KEY_OFFSETS),
                                _field(check, C_KEY_DATA),
                                _field(check, C_KEY_WIDTH),
                                begins,
                                behind,
                                scratch,
                                state[SEED],
                            ):
                                failed = LEFT
                    elif load8(_field(check, C_VALID) + index) == 0:
                        if kind == REQUIRED:
                            missing = _MISSING_FIELD
                        else:
                            failed = LEFT
                    check += 8 * CHECK_WIDTH
                if failed:
                    break
                if top == 0:
                    failed = missing
                    break
                top -= 1
                message, index, end, group = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
                continue
            found = -1
            if tag < messages[message, M_LIMIT]:
                found = jumps[messages[message, M_DENSE] + tag]
            elif messages[message, M_COUNT]:
                found = find(tags, messages[message, M_SORTED], messages[message, M_COUNT], tag)
            if found < 0:
                p = skip_value(base, p, end, tag)
                if p < 0:
                    failed = -p
                continue
            at = program + 8 * WIDTH * found
            op = _field(at, OP)
            case = _field(at, CASE)
            if case:
                number = load32(case + 4 * index)
                if number and number != _field(at, NUMBER):
                    failed = LEFT
                    break
                store32(case + 4 * index, _field(at, NUMBER))
            limit = end
            several = False
            wrapped = False
            if op >= PACKED:
                number, p = read_short(base, p, end)
                if p < 0:
                    failed = -p
                    break
                if number >> 31:
                    failed = _MALFORMED
                    break
                if number > end - p:
                    failed = _TRUNCATED
                    break
                limit = p + number
                if op < WRAPPED:
                    if number == 0:
                        continue
                    several = True
                    op -= PACKED
                else:
                    op -= WRAPPED
                    if _field(at, LEVEL) >= 0 or load8(_field(at, VALID) + index):
                        failed = LEFT
                        break
                    if number == 0:  # the default, which was written when the message began
                        store8(_field(at, VALID) + index, 1)
                        continue
                    if load8(base + p) != _field(at, B):
                        failed = LEFT
                        break
                    p += 1
                    wrapped = True
            while True:  # once, or once an item of a packed list
                target = index
                level = _field(at, LEVEL)
                if level >= 0:
                    target = levels[level, L_COUNT]
                    if target >= levels[level, L_CAPACITY]:
                        state[NEED] = target + 1
                        state[NUMBER_OF] = level
                        failed = _GROW + GROW_LEVEL
                        break
                    levels[level, L_COUNT] = target + 1
                    store32(_field(at, LIST_OFFSETS) + 4 * index + 4, target + 1)
                elif ((op >= DOCUMENT and op <= LAST_DELIMITED) or op == GROUP) and load8(_field(at, VALID) + target):
                    failed = LEFT
                    break
                store8(_field(at, VALID) + target, 1)
                data = _field(at, DATA)
                if op <= LAST_VARINT:
                    number, p = read_varint(base, p, limit)
                    if p < 0:
                        failed = -p
                        break
                    if op == INT64:
                        store64(data + 8 * target, number)
                    elif op <= ENUM:
                        if number < _INT32_MIN or number > _INT32_MAX:
                            failed = _OUT_OF_RANGE
                            break
                        store32(data + 4 * target, number)
                        if op == ENUM and _field(at, B) and not has(closed, _field(at, A), _field(at, B), number):
                            failed = LEFT
                            break
                    elif op == BOOL:
                        store8(data + target, 1 if number != 0 else 0)
                    elif op == UINT32:
                        if number < 0 or number > _UINT32_MAX:
                            failed = _OUT_OF_RANGE
                            break
                        store64(data + 8 * target, number)
                    elif op == SINT64:
                        store64(data + 8 * target, shift_right(number, 1) ^ -(number & 1))
                    elif op == SINT32:
                        if number < 0 or number > _UINT32_MAX:
                            failed = _OUT_OF_RANGE
                            break
                        store32(data + 4 * target, (number >> 1) ^ -(number & 1))
                    else:  # UINT64
                        store64(data + 16 * target, number)
                        store64(data + 16 * target + 8, 0)
                elif op <= LAST_DELIMITED:
                    if p < limit and load8(base + p) < 128:
                        number = load8(base + p)
                        p += 1
                    else:
                        number, p = read_short(base, p, limit)
                        if p < 0:
                            failed = -p
                            break
                        if number >> 31:
                            failed = _MALFORMED
                            break
                    if number > limit - p:
                        failed = _TRUNCATED
                        break
                    if op <= DOCUMENT:
                        offset = _field(at, OFFSETS) + 4 * target
                        used = load32(offset)
                        if used + number > _field(at, CAPACITY):
                            state[NEED] = used + number
                            state[NUMBER_OF] = _field(at, SLOT)
                            failed = _GROW + GROW_SLOT
                            break
                        store32(offset + 4, used + number)
                        if op == TEXT:
                            if not copy_text(data + used, base + p, number, size - p - number):
                                failed = _INVALID_UTF8
                                break
                        else:
                            copy_bytes(data + used, base + p, number, size - p - number)
                        p += number
                    elif op == MESSAGE:
                        stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = message, index, end, group
                        top += 1
                        message, index, end, group = _field(at, A), target, p + number, 0
                        begin(inits, messages[message, M_INIT], messages[message, M_INIT_END], index)
                        break
                    elif op == TIME:
                        plain, number_of = time_value(base, p, p + number, _field(at, A), _field(at, B))
                        if not plain:
                            failed = LEFT
                            break
                        store64(data + 8 * target, number_of)
                        p += number
                    else:  # PRESENCE
                        if number:
                            failed = LEFT
                            break
                        store8(data + target, 1)
                elif op <= FIXED64:
                    if limit - p < 8:
                        failed = _TRUNCATED
                        break
                    if op == WORD64:
                        store64(data + 8 * target, load64(base + p))
                    else:
                        store64(data + 16 * target, load64(base + p))
                        store64(data + 16 * target + 8, 0)
                    p += 8
                elif op <= FIXED32:
                    if limit - p < 4:
                        failed = _TRUNCATED
                        break
                    if op == WORD32:
                        store32(data + 4 * target, load32(base + p))
                    else:
                        store64(data + 8 * target, load32(base + p) & 0xFFFFFFFF)
                    p += 4
                elif op == GROUP:
                    stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = message, index, end, group
                    top += 1
                    message, index, group = _field(at, A), target, _field(at, NUMBER)
                    begin(inits, messages[message, M_INIT], messages[message, M_INIT_END], index)
                    break
                else:  # LEAVE
                    failed = LEFT
                    break
                if not several or p >= limit:
                    break
            if wrapped and failed == 0 and p != limit:
                failed = LEFT
        if failed:
            for level in range(1, levels.shape[0]):
                levels[level, L_COUNT] = levels[level, L_SAVED]
            if failed > _GROW:
                state[ROW] = row
                return failed - _GROW
            begin(inits, nulls, nulls_end, row)
        status[row] = failed
    return 0
