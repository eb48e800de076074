"""Operations on 64-bit words that the JSON kernel needs and numba does not have (see also `memory`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_WORD = ir.IntType(64)


def _one(given: Any, result: Any, make: Callable[[Any, Any], Any]) -> Any:
    def operation(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return make(builder, args[0])

        return result(given), generate

    return intrinsic(operation)


def _high_product(typing_context: Any, one: Any, other: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), _WORD)

    return types.uint64(types.uint64, types.uint64), generate


def _store16(typing_context: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        half = ir.IntType(16)
        builder.store(builder.trunc(args[1], half), builder.inttoptr(args[0], half.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


trailing_zeros: Any = _one(types.int64, types.int64, lambda builder, value: builder.cttz(value, ir.IntType(1)(0)))
leading_zeros: Any = _one(types.uint64, types.int64, lambda builder, value: builder.ctlz(value, ir.IntType(1)(0)))
#: a double's bits, and the double of bits
bits_of: Any = _one(types.float64, types.uint64, lambda builder, value: builder.bitcast(value, _WORD))
double_of: Any = _one(types.uint64, types.float64, lambda builder, value: builder.bitcast(value, ir.DoubleType()))
#: the upper 64 bits of a product of two unsigned numbers
high_product: Any = intrinsic(_high_product)
store16: Any = intrinsic(_store16)
