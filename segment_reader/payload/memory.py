"""Loads and stores at addresses, for kernels that write into as many buffers as a schema has columns: numba has no
array of arrays. Numbers are 64 bits wide, memory is little-endian, at any alignment. Nothing here checks bounds:
callers do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_I64 = ir.IntType(64)


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _loader(kind: Any, *, signed: bool = False) -> Any:
    def load(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(_pointer(builder, args[0], kind), align=1)
            if kind.width == 64:
                return value
            return (builder.sext if signed else builder.zext)(value, _I64)

        return types.int64(types.int64), generate

    return intrinsic(load)


def _load_float(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0], ir.FloatType()), align=1)

    return types.float32(types.int64), generate


def _storer(kind: Any, given: Any, narrow: Callable[[Any, Any], Any]) -> Any:
    def store(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(narrow(builder, args[1]), _pointer(builder, args[0], kind), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, given), generate

    return intrinsic(store)


def _truncated(bits: int) -> Callable[[Any, Any], Any]:
    return lambda builder, value: builder.trunc(value, ir.IntType(bits))


def _as_is(builder: Any, value: Any) -> Any:
    return value


load8: Any = _loader(ir.IntType(8))
load32: Any = _loader(ir.IntType(32), signed=True)
load64: Any = _loader(_I64)
load_float: Any = intrinsic(_load_float)
store8: Any = _storer(ir.IntType(8), types.int64, _truncated(8))
store32: Any = _storer(ir.IntType(32), types.int64, _truncated(32))
store64: Any = _storer(_I64, types.int64, _as_is)
store_float: Any = _storer(ir.FloatType(), types.float32, _as_is)
store_double: Any = _storer(ir.DoubleType(), types.float64, _as_is)


def _copy(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8)
        cgutils.raw_memcpy(builder, _pointer(builder, args[0], byte), _pointer(builder, args[1], byte), args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _shift_right(typing_context: Any, value: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.lshr(args[0], args[1])

    return types.int64(types.int64, types.int64), generate


#: memcpy(target, source, size): between addresses
memcpy: Any = intrinsic(_copy)
#: shift_right(value, bits): zeros come in from the left
shift_right: Any = intrinsic(_shift_right)
