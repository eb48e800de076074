"""Compiled: what is written when a message begins."""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import inlined
from kseg.segment_reader.payload.memory import load32, load64, store8, store32, store64
from kseg.segment_reader.payload.protobuf.opcodes import (
    BINARY,
    BYTE,
    DOUBLE_WORD,
    I_DATA,
    I_DEFAULT,
    I_OFFSETS,
    I_SHAPE,
    I_VALID,
    I_VALID_VALUE,
    INIT_WIDTH,
    QUAD_WORD,
    WORD,
)


@inlined
def begin(inits: Any, first: Any, last: Any, index: Any) -> None:
    """inits: the table's address. Slots first … last - 1 are null or have their default at an index of their level."""
    at = inits + 8 * INIT_WIDTH * first
    behind = inits + 8 * INIT_WIDTH * last
    while at < behind:
        shape = load64(at + 8 * I_SHAPE)
        store8(load64(at + 8 * I_VALID) + index, load64(at + 8 * I_VALID_VALUE))
        if shape == DOUBLE_WORD:
            store64(load64(at + 8 * I_DATA) + 8 * index, 0)
        elif shape >= BINARY:  # or LISTS
            offset = load64(at + 8 * I_OFFSETS) + 4 * index
            store32(offset + 4, load32(offset))
        elif shape == WORD:
            store32(load64(at + 8 * I_DATA) + 4 * index, load64(at + 8 * I_DEFAULT))
        elif shape == BYTE:
            store8(load64(at + 8 * I_DATA) + index, 0)
        elif shape == QUAD_WORD:
            data = load64(at + 8 * I_DATA) + 16 * index
            store64(data, 0)
            store64(data + 8, 0)
        at += 8 * INIT_WIDTH
