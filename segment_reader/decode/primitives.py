"""What compiled code needs and numba lacks: unaligned loads, memcpy, the CPU's CRC-32C instruction.

Nothing here checks bounds: callers do.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from kseg.segment_reader.decode.jit import compiled


def _copy(typing_context: Any, target: Any, at: Any, source: Any, start: Any, size: Any) -> Any:
    signature = types.void(target, types.int64, source, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, args[0]).data
        of = context.make_array(signature.args[2])(context, builder, args[2]).data
        cgutils.raw_memcpy(builder, builder.gep(to, [args[1]]), builder.gep(of, [args[3]]), args[4], 1)
        return context.get_dummy_value()

    return signature, generate


#: copy(target, at, source, start, size): memcpy between byte arrays. A loop in numba costs six times as much.
copy: Any = intrinsic(_copy)


def _loader(bits: int, result: Any, *, big_endian: bool) -> Any:
    signed = bits > 8 and big_endian

    def load(typing_context: Any, source: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            word = ir.IntType(bits)
            pointer = builder.bitcast(builder.gep(data, [args[1]]), word.as_pointer())
            value = builder.load(pointer, align=1)
            if big_endian and bits > 8:
                value = builder.bswap(value)
            if bits == 64:
                return value
            return (builder.sext if signed else builder.zext)(value, ir.IntType(64))

        return result(source, types.int64), generate

    return intrinsic(load)


#: a byte, widened to 64 bits: indexing an array would first check whether the index counts from the end
be8 = _loader(8, types.int64, big_endian=True)
#: big-endian signed loads at any position, widened to 64 bits
be16 = _loader(16, types.int64, big_endian=True)
be32 = _loader(32, types.int64, big_endian=True)
be64 = _loader(64, types.int64, big_endian=True)
#: a little-endian load, unsigned
le32 = _loader(32, types.int64, big_endian=False)
_le64 = _loader(64, types.uint64, big_endian=False)


# -- checksums
#
# CRC-32C by the CPU's instruction takes three cycles but can start every cycle: three stretches are summed side by side
# and joined by shifting a sum over the length of a stretch, which is one table look-up a byte.

_POLY_CRC32C = 0x82F63B78
_POLY_CRC32 = 0xEDB88320
_LONG, _SHORT = 2048, 256


def _slices(poly: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Tables for eight bytes at a time: row k is the sum of a byte followed by k zero bytes."""
    table = np.zeros((8, 256), np.uint32)
    sums = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        sums = np.where(sums & 1, (sums >> 1) ^ np.uint32(poly), sums >> 1).astype(np.uint32)
    table[0] = sums
    for k in range(1, 8):
        table[k] = (table[k - 1] >> 8) ^ table[0][table[k - 1] & 0xFF]
    return table


def _shift_table(length: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """What a sum becomes over `length` zero bytes (a power of two), by each of its four bytes."""
    zero = _slices(_POLY_CRC32C)[0]

    def apply(columns: list[int], value: int) -> int:
        out = 0
        for bit in range(32):
            if value >> bit & 1:
                out ^= columns[bit]
        return out

    columns = [int(zero[(1 << bit) & 0xFF]) ^ ((1 << bit) >> 8) for bit in range(32)]
    for _ in range(length.bit_length() - 1):
        columns = [apply(columns, column) for column in columns]
    return np.array([[apply(columns, byte << 8 * row) for byte in range(256)] for row in range(4)], np.uint32)


_SLICES_CRC32 = _slices(_POLY_CRC32)
_SLICES_CRC32C = _slices(_POLY_CRC32C)
_SHIFT_LONG = _shift_table(_LONG)
_SHIFT_SHORT = _shift_table(_SHORT)


def _instructions() -> tuple[str, str, bool] | None:
    """LLVM's names for this CPU's CRC-32C of 8 bytes and of one, and whether the first takes a 64-bit sum."""
    if nb.config.CPU_NAME or nb.config.CPU_FEATURES:
        return None  # compiled for another CPU than this one
    features = llvm.get_host_cpu_features()
    if features.get("sse4.2"):
        return "llvm.x86.sse42.crc32.64.64", "llvm.x86.sse42.crc32.32.8", True
    if features.get("crc"):
        return "llvm.aarch64.crc32cx", "llvm.aarch64.crc32cb", False
    return None


_INSTRUCTIONS = _instructions()


def _step(bits: int) -> Any:
    def step(typing_context: Any, crc: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            assert _INSTRUCTIONS is not None
            eight, one, wide = _INSTRUCTIONS
            i32, i64, i8 = ir.IntType(32), ir.IntType(64), ir.IntType(8)
            if bits == 64:
                sum_type, name, value = (i64 if wide else i32), eight, args[1]
                value_type = i64
            else:
                sum_type, name = i32, one
                value_type = i8 if wide else i32
                value = builder.trunc(args[1], value_type)
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(sum_type, [sum_type, value_type]), name
            )
            crc = args[0] if sum_type == i64 else builder.trunc(args[0], i32)
            out = builder.call(function, [crc, value])
            return out if sum_type == i64 else builder.zext(out, i64)

        return types.uint64(types.uint64, types.uint64), generate

    return intrinsic(step)


_crc8 = _step(64)
_crc1 = _step(8)


@compiled
def _shift(table: Any, crc: Any) -> Any:
    return np.uint64(
        table[0, crc & np.uint64(0xFF)]
        ^ table[1, (crc >> np.uint64(8)) & np.uint64(0xFF)]
        ^ table[2, (crc >> np.uint64(16)) & np.uint64(0xFF)]
        ^ table[3, (crc >> np.uint64(24)) & np.uint64(0xFF)]
    )


@compiled
def _three(data: Any, start: Any, stop: Any, crc: Any, length: Any, table: Any) -> Any:
    while stop - start >= 3 * length:
        second = third = np.uint64(0)
        for _ in range(length >> 3):
            crc = _crc8(crc, _le64(data, start))
            second = _crc8(second, _le64(data, start + length))
            third = _crc8(third, _le64(data, start + 2 * length))
            start += 8
        crc = _shift(table, _shift(table, crc) ^ second) ^ third
        start += 2 * length
    return crc, start


@compiled
def _crc32c_by_instruction(data: Any, start: Any, stop: Any) -> Any:
    crc = np.uint64(0xFFFFFFFF)
    crc, start = _three(data, start, stop, crc, _LONG, _SHIFT_LONG)
    crc, start = _three(data, start, stop, crc, _SHORT, _SHIFT_SHORT)
    while stop - start >= 8:
        crc = _crc8(crc, _le64(data, start))
        start += 8
    while start < stop:
        crc = _crc1(crc, np.uint64(data[start]))
        start += 1
    return np.int64(crc ^ np.uint64(0xFFFFFFFF))


@compiled
def _by_table(data: Any, start: Any, stop: Any, t: Any) -> Any:
    low = np.uint64(0xFF)
    crc = np.uint64(0xFFFFFFFF)
    while stop - start >= 8:
        w = _le64(data, start) ^ crc
        crc = np.uint64(
            t[7, w & low]
            ^ t[6, (w >> np.uint64(8)) & low]
            ^ t[5, (w >> np.uint64(16)) & low]
            ^ t[4, (w >> np.uint64(24)) & low]
            ^ t[3, (w >> np.uint64(32)) & low]
            ^ t[2, (w >> np.uint64(40)) & low]
            ^ t[1, (w >> np.uint64(48)) & low]
            ^ t[0, w >> np.uint64(56)]
        )
        start += 8
    while start < stop:
        crc = (crc >> np.uint64(8)) ^ np.uint64(t[0, (crc ^ np.uint64(data[start])) & low])
        start += 1
    return np.int64(crc ^ np.uint64(0xFFFFFFFF))


@compiled
def crc32(data: Any, start: Any, stop: Any) -> Any:
    """CRC-32 (that of zlib) of data[start:stop], unsigned."""
    return _by_table(data, start, stop, _SLICES_CRC32)


@compiled
def crc32c_by_table(data: Any, start: Any, stop: Any) -> Any:
    """CRC-32C where the CPU has no instruction for it."""
    return _by_table(data, start, stop, _SLICES_CRC32C)


#: CRC-32C of data[start:stop], unsigned
crc32c = _crc32c_by_instruction if _INSTRUCTIONS else crc32c_by_table
