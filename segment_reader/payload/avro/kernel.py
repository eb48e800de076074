"""Compiled: payloads to Arrow buffers by a program (`segment_reader.payload.avro.program`), in one pass.

It decides each status by the rules of `segment_reader.payload.avro.reference`. A payload that fails is a row of nulls;
what it has added to lists is taken back. When a buffer is too small the payload is taken back too, and the next call
begins with it. Validity bits are set before the kernel runs, which clears those of nulls. Every length is checked
before it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.avro.limits import MAX_DEPTH, MAX_EMPTY_ITEMS
from kseg.segment_reader.payload.avro.numbers import read_number, write_decimal, write_uuid
from kseg.segment_reader.payload.avro.opcodes import (
    BLOCK,
    BOOLEAN,
    BYTES,
    CALL,
    CAPACITY,
    CHOICE,
    CONSTANT,
    CONSTANT_END,
    DATA,
    DECIMAL,
    DECIMAL_FIXED,
    DOUBLE,
    END,
    FIXED,
    FLOAT,
    GROW_LEVEL,
    GROW_SCRATCH,
    GROW_SLOT,
    INT,
    INT_FLOAT,
    JUMP,
    KEEP,
    KEEP_END,
    L_CAPACITY,
    L_COUNT,
    L_HIGH,
    L_SAVED,
    LAST_NUMBER,
    LIST,
    LONG,
    LONG_DIVIDED,
    LONG_SCALED,
    MAP_BLOCK,
    NEAREST,
    NEED,
    NULL,
    NULLABLE,
    OFFSETS,
    OP,
    RETURN,
    ROW,
    S_DATA,
    S_OFFSETS,
    SEED,
    SKIP_BLOCK,
    SKIP_FIXED,
    SKIP_LIST,
    SKIP_LONG,
    SLOT,
    SLOT_NUMBER,
    SYMBOL,
    TEXT,
    UINT32,
    UUID,
    A,
    B,
    C,
)
from kseg.segment_reader.payload.avro.slots import append, append_kept, put_bit, put_nulls, take_back
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.map_keys import repeats_a_key
from kseg.segment_reader.payload.memory import (
    load8,
    load32,
    load64,
    load_float,
    store32,
    store64,
    store_double,
    store_float,
)
from kseg.segment_reader.payload.text import copy_bytes, copy_text

_TRUNCATED = int(Status.TRUNCATED)
_TRAILING_BYTES = int(Status.TRAILING_BYTES)
_MALFORMED = int(Status.MALFORMED)
_INVALID_UTF8 = int(Status.INVALID_UTF8)
_OUT_OF_RANGE = int(Status.OUT_OF_RANGE)
_INEXACT = int(Status.INEXACT)
_DUPLICATE_KEY = int(Status.DUPLICATE_KEY)
_UNKNOWN_SYMBOL = int(Status.UNKNOWN_SYMBOL)
_TOO_DEEP = int(Status.TOO_DEEP)
_TOO_LARGE = int(Status.TOO_LARGE)
_BAD_FRAME = int(Status.BAD_FRAME)
_NULL = int(Status.NULL)

#: Why a payload is taken back besides a status: statuses are smaller.
_GROW = 256

_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_TWO_TO_63 = 9223372036854775808.0
_DIGITS = 38  # of a decimal


@inlined
def _field(at: Any, column: Any) -> Any:
    return load64(at + 8 * column)


@compiled
def run(
    program: Any,
    slots: Any,
    levels: Any,
    jumps: Any,
    symbols: Any,
    constants: Any,
    stack: Any,
    scratch: Any,
    source: Any,
    status: Any,
    state: Any,
) -> Any:
    """Decodes rows from state[ROW] on, until all are done (returns 0) or something must grow (a number of opcodes).

    program, constants: addresses. source: addresses of the payloads' validity bits (0: none is null), offsets and
    bytes; the size of the bytes; the first payload's validity bit; how many bytes each skips.
    """
    valid, offsets, data, size, first, skip = source[0], source[1], source[2], source[3], source[4], source[5]
    listed = levels.shape[0] > 1
    for row in range(state[ROW], status.shape[0]):
        if valid and not (load8(valid + ((first + row) >> 3)) >> ((first + row) & 7)) & 1:
            put_nulls(slots, 0, row)
            status[row] = _NULL
            continue
        p = load64(offsets + 8 * row) + skip
        end = load64(offsets + 8 * row + 8)
        if listed:
            for level in range(1, levels.shape[0]):
                levels[level, L_SAVED] = levels[level, L_COUNT]
                levels[level, L_HIGH] = levels[level, L_COUNT]
        base = data
        limit = size  # what may be read of `base`, beyond `end` too
        payload_p = 0
        payload_end = 0
        index = row
        left = 0  # items of the block
        block_end = -1  # where its size says that it ends
        top = 0  # of the stack
        depth = 0  # of what is skipped
        empty_items = MAX_EMPTY_ITEMS
        kept = 0  # where what is kept begins
        pc = 0
        failed = 0
        if p > end:
            failed = _BAD_FRAME
        while failed == 0:
            at = program + 64 * pc
            op = _field(at, OP)
            pc += 1
            if op <= LAST_NUMBER:
                number, p = read_number(base, p, end)
                if p < 0:
                    failed = -p
                elif op >= TEXT:
                    if number < 0:
                        failed = _MALFORMED
                    elif number > end - p:
                        failed = _TRUNCATED
                    elif op <= BYTES:
                        offset = _field(at, OFFSETS) + 4 * index
                        used = load32(offset)
                        if used + number > _field(at, CAPACITY):
                            state[NEED] = used + number
                            state[SLOT_NUMBER] = _field(at, SLOT)
                            failed = _GROW + GROW_SLOT
                        else:
                            store32(offset + 4, used + number)
                            target = _field(at, DATA) + used
                            if op == TEXT:
                                if not copy_text(target, base + p, number, limit - p - number):
                                    failed = _INVALID_UTF8
                            else:
                                copy_bytes(target, base + p, number, limit - p - number)
                            p += number
                    else:
                        if op == DECIMAL:
                            failed = write_decimal(
                                _field(at, DATA) + 16 * index, base + p, number, _field(at, B), _field(at, C)
                            )
                        p += number
                elif op == NULLABLE:
                    null = _field(at, A)
                    if number == null:
                        put_nulls(slots, _field(at, SLOT), index)
                        pc = _field(at, C)
                    elif number != 1 - null:
                        failed = _MALFORMED
                elif op == LONG:
                    store64(_field(at, DATA) + 8 * index, number)
                elif op == SYMBOL:
                    if number < 0 or number >= _field(at, B):
                        failed = _MALFORMED
                    else:
                        symbol = _field(at, A) + number
                        length = symbols[symbol, 1]
                        if length < 0:
                            failed = _UNKNOWN_SYMBOL
                        elif not append(at, index, constants + symbols[symbol, 0], length, 0, state):
                            failed = _GROW + GROW_SLOT
                elif op == CHOICE:
                    if number < 0 or number >= _field(at, B):
                        failed = _MALFORMED
                    else:
                        pc = jumps[_field(at, A) + number]
                elif op != SKIP_LONG:
                    if (op == INT or _field(at, A) == 32) and (number < _INT_MIN or number > _INT_MAX):
                        failed = _OUT_OF_RANGE
                    elif op == INT:
                        store32(_field(at, DATA) + 4 * index, number)
                    elif op == LONG_SCALED:
                        most = _field(at, C)
                        if number > most or number < -most - (1 if most == _LONG_MAX else 0):
                            if _field(at, A) == NEAREST:
                                number = most if number > 0 else -most
                            else:
                                failed = _OUT_OF_RANGE
                        store64(_field(at, DATA) + 8 * index, number * _field(at, B))
                    elif op == LONG_DIVIDED:
                        by = _field(at, B)
                        if number % by:
                            failed = _INEXACT
                        store64(_field(at, DATA) + 8 * index, number // by)
                    elif op == INT_FLOAT:
                        single = np.float32(number)
                        if single >= _TWO_TO_63 or np.int64(single) != number:
                            failed = _INEXACT
                        store_float(_field(at, DATA) + 4 * index, single)
                    else:
                        double = np.float64(number)
                        if double >= _TWO_TO_63 or np.int64(double) != number:
                            failed = _INEXACT
                        store_double(_field(at, DATA) + 8 * index, double)
            elif op == END:
                if p != end:
                    failed = _TRAILING_BYTES
                break
            elif op == DOUBLE:
                if end - p < 8:
                    failed = _TRUNCATED
                else:
                    store64(_field(at, DATA) + 8 * index, load64(base + p))
                    p += 8
            elif op >= FLOAT and op <= UINT32:
                if end - p < 4:
                    failed = _TRUNCATED
                else:
                    word = load32(base + p)
                    target = _field(at, DATA)
                    if op == FLOAT:
                        store32(target + 4 * index, word)
                    elif op == UINT32:
                        store64(target + 8 * index, word & 0xFFFFFFFF)
                    else:
                        store_double(target + 8 * index, np.float64(load_float(base + p)))
                    p += 4
            elif op == BOOLEAN:
                if p >= end:
                    failed = _TRUNCATED
                else:
                    byte = load8(base + p)
                    if byte > 1:
                        failed = _MALFORMED
                    else:
                        put_bit(_field(at, DATA), index, byte)
                        p += 1
            elif op == NULL:
                put_nulls(slots, _field(at, SLOT), index)
            elif op == JUMP:
                pc = _field(at, A)
            elif op >= FIXED and op <= DECIMAL_FIXED:
                length = _field(at, A)
                if length > end - p:
                    failed = _TRUNCATED
                elif op == FIXED:
                    if not append(at, index, base + p, length, limit - p - length, state):
                        failed = _GROW + GROW_SLOT
                else:
                    failed = write_decimal(
                        _field(at, DATA) + 16 * index, base + p, length, _field(at, B), _field(at, C)
                    )
                p += length
            elif op == UUID:
                offset = _field(at, OFFSETS) + 4 * index
                used = load32(offset)
                if end - p < 16:
                    failed = _TRUNCATED
                elif used + 36 > _field(at, CAPACITY):
                    state[NEED] = used + 36
                    state[SLOT_NUMBER] = _field(at, SLOT)
                    failed = _GROW + GROW_SLOT
                else:
                    store32(offset + 4, used + 36)
                    write_uuid(_field(at, DATA) + used, base + p)
                    p += 16
            elif op >= LIST and op <= SKIP_LIST:
                # The BLOCK counts an item when it is done: here, one before the first.
                stack[top, 0] = index
                stack[top, 1] = left
                stack[top, 2] = block_end
                top += 1
                left = 1
                block_end = -1
                pc = _field(at, B)
                if op == LIST:
                    index = levels[_field(at, A), L_COUNT] - 1
                elif depth == MAX_DEPTH:
                    failed = _TOO_DEEP
                else:
                    depth += 1
            elif op >= BLOCK and op <= SKIP_BLOCK:
                if op != SKIP_BLOCK:
                    index += 1
                left -= 1
                if left:
                    pc = _field(at, C)
                    continue
                if block_end >= 0 and p != block_end:
                    failed = _MALFORMED
                    break
                left, p = read_number(base, p, end)
                if p < 0:
                    failed = -p
                    break
                block_end = -1
                if left < 0:
                    length, p = read_number(base, p, end)
                    if p < 0:
                        failed = -p
                        break
                    if left == _LONG_MIN or length < 0:
                        failed = _MALFORMED
                        break
                    if length > end - p:
                        failed = _TRUNCATED
                        break
                    left = -left
                    block_end = p + length
                if left:
                    smallest = _field(at, B)
                    if smallest:
                        if left > (end - p) // smallest:
                            failed = _TRUNCATED
                            break
                    elif left > empty_items:
                        failed = _TOO_LARGE
                        break
                    else:
                        empty_items -= left
                    if op != SKIP_BLOCK:
                        level = _field(at, A)
                        if index + left > levels[level, L_CAPACITY]:
                            state[NEED] = index + left
                            state[SLOT_NUMBER] = level
                            failed = _GROW + GROW_LEVEL
                            break
                        levels[level, L_HIGH] = index + left
                    pc = _field(at, C)
                    continue
                top -= 1
                if op == SKIP_BLOCK:
                    depth -= 1
                else:
                    items_end = index
                    levels[_field(at, A), L_COUNT] = index
                    index = stack[top, 0]
                    offset = _field(at, OFFSETS) + 4 * index
                    store32(offset + 4, items_end)
                    if op == MAP_BLOCK and items_end - load32(offset) > 1:
                        begin = load32(offset)
                        key = _field(at, SLOT) + 1
                        if 4 * (items_end - begin) > scratch.shape[0]:
                            state[NEED] = 4 * (items_end - begin)
                            failed = _GROW + GROW_SCRATCH
                            break
                        if repeats_a_key(
                            slots[key, S_OFFSETS], slots[key, S_DATA], 0, begin, items_end, scratch, state[SEED]
                        ):
                            failed = _DUPLICATE_KEY
                            break
                left = stack[top, 1]
                block_end = stack[top, 2]
            elif op == CALL:
                if depth == MAX_DEPTH:
                    failed = _TOO_DEEP
                else:
                    stack[top, 0] = pc
                    top += 1
                    depth += 1
                    pc = _field(at, A)
            elif op == RETURN:
                top -= 1
                depth -= 1
                pc = stack[top, 0]
            elif op == SKIP_FIXED:
                length = _field(at, A)
                if length > end - p:
                    failed = _TRUNCATED
                p += length
            elif op == KEEP:
                kept = p
            elif op == KEEP_END:
                if not append_kept(at, index, base + kept, p - kept, limit - p, state):
                    failed = _GROW + GROW_SLOT
            elif op == CONSTANT:
                payload_p, payload_end = p, end
                base, limit = constants, 0
                p = _field(at, A)
                end = p + _field(at, B)
            elif op == CONSTANT_END:
                base, limit = data, size
                p, end = payload_p, payload_end
            else:  # FAIL
                failed = _field(at, A)
        if failed:
            if listed:
                take_back(slots, levels)
            if failed > _GROW:
                state[ROW] = row
                return failed - _GROW
            put_nulls(slots, 0, row)
        status[row] = failed
    return 0
