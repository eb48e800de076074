"""Compiled code that decompresses as many batches as fit into one buffer, without running Python in between.

It handles plain batches: magic 2, with zstd, or with lz4 and the frame header that most producers write. All other
batches, and all invalid ones, are left to `CompiledEngine`, which decompresses them with
`segment_reader.codecs.registry` and reports errors.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from kseg.segment_reader.codecs.lz4 import LZ4, PLAIN_HEADERS
from kseg.segment_reader.codecs.lz4 import MAGIC as MAGIC_BYTES
from kseg.segment_reader.codecs.lz4 import MAX_RATIO as LZ4_MAX_RATIO
from kseg.segment_reader.codecs.lz4 import PLAIN_FLAGS as LZ4_PLAIN_FLAGS
from kseg.segment_reader.codecs.lz4 import PLAIN_HEADER_SIZE as LZ4_HEADER_SIZE
from kseg.segment_reader.codecs.lz4 import SIZE_BITS as LZ4_SIZE_BITS
from kseg.segment_reader.codecs.native import LINKED
from kseg.segment_reader.codecs.zstd import ZSTD
from kseg.segment_reader.decode.batch import ATTRIBUTES_AT, CODEC_MASK, RECORDS_AT
from kseg.segment_reader.decode.jit import compiled
from kseg.segment_reader.decode.primitives import be8, copy, crc32c, le32
from kseg.segment_reader.decode.table import (
    ATTRIBUTES,
    BAD_MARKER,
    CHECK,
    CRC,
    MAGIC,
    MARKER,
    POSITION,
    SIZE,
    SOURCE,
    START,
    STOP,
    UNPACK,
)

#: The first value that `unpack` returns, before the row and the bytes used.
DONE, GROUP_FULL, BY_PYTHON = range(3)
#: Returned in place of a size.
NOT_PLAIN, NO_ROOM = -1, -2

LZ4_NUMBER: Final = LZ4.number
ZSTD_NUMBER: Final = ZSTD.number
LZ4_MAGIC: Final = int.from_bytes(MAGIC_BYTES, "little")
_LZ4_HEADER_CHECKSUMS: Final = np.array([header[-1] for header in sorted(PLAIN_HEADERS)], np.int64)

_I8P, _I32, _I64 = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)


def _external(name: str, result: ir.Type, parameters: list[ir.Type], builder: Any, arguments: list[Any]) -> Any:
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, parameters), LINKED.format(name))
    return builder.call(function, arguments)


def _at(context: Any, builder: Any, array: Any, value: Any, position: Any) -> Any:
    return builder.gep(context.make_array(array)(context, builder, value).data, [position])


def _lz4(typing_context: Any, target: Any, to: Any, room: Any, source: Any, at: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target_at = _at(context, builder, signature.args[0], args[0], args[1])
        source_at = _at(context, builder, signature.args[3], args[3], args[4])
        sizes = [builder.trunc(args[5], _I32), builder.trunc(args[2], _I32)]
        written = _external(
            "LZ4_decompress_safe", _I32, [_I8P, _I8P, _I32, _I32], builder, [source_at, target_at, *sizes]
        )
        return builder.sext(written, _I64)

    return types.int64(target, types.int64, types.int64, source, types.int64, types.int64), generate


def _zstd(
    typing_context: Any, zstd_context: Any, target: Any, to: Any, room: Any, source: Any, at: Any, size: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        working = builder.inttoptr(args[0], _I8P)
        target_at = _at(context, builder, signature.args[1], args[1], args[2])
        source_at = _at(context, builder, signature.args[4], args[4], args[5])
        return _external(
            "ZSTD_decompressDCtx",
            _I64,
            [_I8P, _I8P, _I64, _I8P, _I64],
            builder,
            [working, target_at, args[3], source_at, args[6]],
        )

    return types.int64(types.int64, target, types.int64, types.int64, source, types.int64, types.int64), generate


def _zstd_bound(typing_context: Any, source: Any, at: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source_at = _at(context, builder, signature.args[0], args[0], args[1])
        return _external("ZSTD_decompressBound", _I64, [_I8P, _I64], builder, [source_at, args[2]])

    return types.int64(source, types.int64, types.int64), generate


#: lz4(target, to, room, source, at, size): the decompressed size of a block, negative if it is invalid
lz4: Any = intrinsic(_lz4)
#: zstd(context, target, to, room, source, at, size): the decompressed size of the frames; error codes are negative
zstd: Any = intrinsic(_zstd)
#: zstd_bound(source, at, size): the maximum decompressed size of the frames; negative if they are invalid
zstd_bound: Any = intrinsic(_zstd_bound)


@compiled
def _unpack_lz4(data: Any, at: Any, stop: Any, buffer: Any, used: Any, limit: Any) -> Any:
    """Decompresses the frame data[at:stop] to buffer[used:]. Returns the decompressed size, NOT_PLAIN or NO_ROOM."""
    if stop - at < LZ4_HEADER_SIZE or le32(data, at) != LZ4_MAGIC or be8(data, at + 4) != LZ4_PLAIN_FLAGS:
        return NOT_PLAIN
    code = be8(data, at + 5) >> 4
    if code < 4 or code > 7 or be8(data, at + 5) & 0x0F or be8(data, at + 6) != _LZ4_HEADER_CHECKSUMS[code - 4]:
        return NOT_PLAIN
    block_size = 1 << (8 + 2 * code)
    most = 0
    at += LZ4_HEADER_SIZE
    block_at = at
    while True:
        if stop - block_at < 4:
            return NOT_PLAIN
        word = le32(data, block_at)
        if word == 0:
            break
        size = word & LZ4_SIZE_BITS
        block_at += 4
        if size > block_size or size > stop - block_at:
            return NOT_PLAIN
        most += size if word > LZ4_SIZE_BITS else min(block_size, size * LZ4_MAX_RATIO)
        block_at += size
    if most > limit:
        return NOT_PLAIN
    if most > buffer.size - used:
        return NO_ROOM
    filled = used
    while True:
        word = le32(data, at)
        if word == 0:
            return filled - used
        size = word & LZ4_SIZE_BITS
        at += 4
        if word > LZ4_SIZE_BITS:
            copy(buffer, filled, data, at, size)
            filled += size
        else:
            written = lz4(buffer, filled, min(block_size, buffer.size - filled), data, at, size)
            if written < 0:
                return NOT_PLAIN
            filled += written
        at += size


@compiled
def _unpack_zstd(data: Any, at: Any, stop: Any, buffer: Any, used: Any, limit: Any, context: Any) -> Any:
    """The same for the zstd frames data[at:stop]."""
    most = zstd_bound(data, at, stop - at)
    if at == stop or most < 0 or most > limit:
        return NOT_PLAIN
    if most > buffer.size - used:
        return NO_ROOM
    written = zstd(context, buffer, used, most, data, at, stop - at)
    return written if written >= 0 else NOT_PLAIN


@compiled
def unpack(
    data: Any, table: Any, unit: Any, n: Any, buffer: Any, used: Any, group: Any, limit: Any, codecs: Any, context: Any
) -> Any:
    """Decompresses the compressed batches in rows unit to n of the table, to buffer[used:].

    data: the record set. The rows get the positions of the decompressed bytes in the buffer. group: number of bytes
    after which the buffer counts as full. limit: the maximum decompressed size of one batch. codecs: a bit for each
    codec that may be used (`codecs.native.AVAILABLE`). context: `codecs.native.zstd_context`, 0 for none.

    Returns (DONE, GROUP_FULL or BY_PYTHON, a row, bytes used). GROUP_FULL: all rows before this row are ready; call
    again from this row with an empty buffer. BY_PYTHON: this row is not plain, not valid, or too large for an empty
    buffer.
    """
    while unit < n:
        row = table[unit]
        if row[UNPACK]:
            codec = row[ATTRIBUTES] & CODEC_MASK
            size = NOT_PLAIN
            if row[MAGIC] == 2 and row[MARKER] != BAD_MARKER and codecs >> codec & 1:
                start = row[POSITION]
                stop = start + row[SIZE]
                if not row[CHECK] or crc32c(data, start + ATTRIBUTES_AT, stop) == row[CRC]:
                    if codec == LZ4_NUMBER:
                        size = _unpack_lz4(data, start + RECORDS_AT, stop, buffer, used, limit)
                    elif codec == ZSTD_NUMBER and context:
                        size = _unpack_zstd(data, start + RECORDS_AT, stop, buffer, used, limit, context)
            if size == NO_ROOM and used > 0:
                return GROUP_FULL, unit, used
            if size < 0:
                return BY_PYTHON, unit, used
            row[START] = used
            used += size
            row[STOP] = used
            row[SOURCE] = 1
            if used >= group:
                return GROUP_FULL, unit + 1, used
        unit += 1
    return DONE, unit, used
