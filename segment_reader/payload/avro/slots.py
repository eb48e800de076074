"""Compiled: what the kernel does to all slots below one, and to the items of a list or map."""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.avro.opcodes import (
    BINARY,
    BITS,
    CAPACITY,
    DATA,
    L_COUNT,
    L_HIGH,
    L_SAVED,
    NEED,
    OFFSETS,
    S_DATA,
    S_END,
    S_LEVEL,
    S_NEXT,
    S_NULLS,
    S_OFFSETS,
    S_SHAPE,
    S_VALID,
    S_WIDTH,
    SLOT,
    SLOT_NUMBER,
    VALUES,
    A,
)
from kseg.segment_reader.payload.memory import load8, load32, load64, store8, store32, store64
from kseg.segment_reader.payload.text import copy_bytes


@inlined
def put_bit(data: Any, index: Any, bit: Any) -> None:
    at = data + (index >> 3)
    place = index & 7
    store8(at, (load8(at) & ~(1 << place)) | (bit << place))


@compiled
def _room(at: Any, index: Any, length: Any, state: Any) -> Any:
    """Where so many bytes begin in the data of an instruction's slot; -1 where that must grow, which the state says."""
    offset = load64(at + 8 * OFFSETS) + 4 * index
    used = load32(offset)
    if used + length > load64(at + 8 * CAPACITY):
        state[NEED] = used + length
        state[SLOT_NUMBER] = load64(at + 8 * SLOT)
        return -1
    store32(offset + 4, used + length)
    return used


@compiled
def append(at: Any, index: Any, source: Any, length: Any, readable: Any, state: Any) -> Any:
    """Appends bytes to the slot of the instruction at this address. readable: how many may be read behind them.

    Returns whether there was room.
    """
    used = _room(at, index, length, state)
    if used < 0:
        return False
    copy_bytes(load64(at + 8 * DATA) + used, source, length, readable)
    return True


@compiled
def append_kept(at: Any, index: Any, source: Any, length: Any, readable: Any, state: Any) -> Any:
    """Likewise, behind the number of the document."""
    used = _room(at, index, length + 4, state)
    if used < 0:
        return False
    target = load64(at + 8 * DATA) + used
    store32(target, load64(at + 8 * A))
    copy_bytes(target + 4, source, length, readable)
    return True


@compiled
def put_nulls(slots: Any, slot: Any, index: Any) -> None:
    """The slot and those below it are null at an index of their level."""
    end = slots[slot, S_END]
    while slot < end:
        shape = slots[slot, S_SHAPE]
        if shape:
            put_bit(slots[slot, S_VALID], index, 0)
            slots[slot, S_NULLS] = 1
        if shape == VALUES:
            width = slots[slot, S_WIDTH]
            at = slots[slot, S_DATA] + index * width
            if width == 8:
                store64(at, 0)
            elif width == 4:
                store32(at, 0)
            else:
                store64(at, 0)
                store64(at + 8, 0)
        elif shape == BITS:
            put_bit(slots[slot, S_DATA], index, 0)
        elif shape >= BINARY:  # or LISTS
            at = slots[slot, S_OFFSETS] + 4 * index
            store32(at + 4, load32(at))
        slot = slots[slot, S_NEXT]


@compiled
def take_back(slots: Any, levels: Any) -> None:
    """The items that a payload has added are no more: their validity bits are set again."""
    for slot in range(slots.shape[0]):
        level = slots[slot, S_LEVEL]
        if level and slots[slot, S_SHAPE]:
            for index in range(levels[level, L_SAVED], levels[level, L_HIGH]):
                put_bit(slots[slot, S_VALID], index, 1)
    for level in range(levels.shape[0]):
        levels[level, L_COUNT] = levels[level, L_SAVED]
