"""Spark's `hash()`: Murmur3 of 32 bits with seed 42, as `org.apache.spark.unsafe.hash.Murmur3_x86_32` has it.

Integers of up to 32 bits and dates are hashed as one int, 64-bit integers as two, low half first. Strings and binary
are hashed int by int, and what is left byte by byte, each as a signed int: Spark's own way, not that of Murmur3.

All rows of a batch take each step together: the ints at one place of all strings, then those at the next.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint32]

_SEED = 42


def spark_hash(column: pa.Array) -> npt.NDArray[np.int32]:
    """The hash of each value; of a null anything. column: integers of up to 64 bits, dates, strings, binary."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_bytes(column).view(np.int32)
    seeds = np.full(len(column), _SEED, np.uint32)
    if kind == pa.int64():
        values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).view(np.uint64)
        low, high = (values & np.uint64(0xFFFFFFFF)).astype(np.uint32), (values >> np.uint64(32)).astype(np.uint32)
        return _finished(_mixed(_mixed(seeds, low), high), np.uint32(8)).view(np.int32)
    ints = column.view(pa.int32()) if pa.types.is_date32(kind) else column.cast(pa.int32())
    words = pc.fill_null(ints, 0).to_numpy(zero_copy_only=False).view(np.uint32)
    return _finished(_mixed(seeds, words), np.uint32(4)).view(np.int32)


def _of_bytes(column: pa.Array) -> Words:
    at = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    buffer = column.buffers()[2]
    data = np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else np.zeros(1, np.uint8)
    starts, lengths = at[:-1], np.diff(at)
    found = np.full(len(column), _SEED, np.uint32)
    rows, place = np.arange(len(column)), 0
    while len(rows := rows[lengths[rows] >= place + 4]):
        word = np.zeros(len(rows), np.uint32)
        for byte in range(4):
            word |= data[starts[rows] + (place + byte)].astype(np.uint32) << np.uint32(8 * byte)
        found[rows] = _mixed(found[rows], word)
        place += 4
    for byte in range(3):
        rows = np.flatnonzero(lengths % 4 > byte)
        ends = starts[rows] + lengths[rows] - lengths[rows] % 4
        signed = data[ends + byte].view(np.int8).astype(np.int32).view(np.uint32)
        found[rows] = _mixed(found[rows], signed)
    return _finished(found, lengths.astype(np.uint32))


def _mixed(hashes: Words, words: Words) -> Words:
    words = _turned(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return np.asarray(_turned(hashes ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64), np.uint32)


def _finished(hashes: Words, lengths: Words | np.uint32) -> Words:
    hashes = hashes ^ lengths
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return np.asarray(hashes ^ (hashes >> np.uint32(16)), np.uint32)


def _turned(words: Words, bits: int) -> Words:
    return np.asarray((words << np.uint32(bits)) | (words >> np.uint32(32 - bits)), np.uint32)
