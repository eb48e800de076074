"""The types of landed columns: Delta's primitive types as Arrow has them (Delta protocol, "Primitive Types").

Timestamps are microseconds in UTC, unsigned integers the next wider signed type, dictionaries their values.
"""

from __future__ import annotations

import pyarrow as pa

ADDRESS_TYPES = (pa.string(), pa.int32(), pa.int64())
"""Types of the address columns (`AddressColumns`)."""


class UnlandableType(TypeError):
    """Delta has no type for this Arrow type."""


_SAME = frozenset(
    [
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.string(),
        pa.binary(),
    ]
)
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
MAX_DECIMAL_PRECISION = 38


def delta_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type in which a column of this type is landed.

    Raises:
        UnlandableType: there is none (64-bit unsigned integers, times, durations, unions, the null type …), or Arrow
            does not convert its layout: list views, of whose values its cast loses the last list, run-end encoding.
    """
    types = pa.types
    if kind in _SAME:
        return kind
    if kind in _WIDER:
        return _WIDER[kind]
    if types.is_dictionary(kind):
        return delta_type(kind.value_type)
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz is not None else None)
    if types.is_decimal(kind) and kind.precision <= MAX_DECIMAL_PRECISION and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    if is_list(kind):
        return pa.list_(pa.field("element", delta_type(kind.value_type)))
    if types.is_struct(kind) and kind.num_fields:
        return pa.struct([pa.field(child.name, delta_type(child.type)) for child in kind])
    if types.is_map(kind):
        return pa.map_(delta_type(kind.key_type), delta_type(kind.item_type))
    raise UnlandableType(f"Delta has no type for Arrow's {kind}")


def is_list(kind: pa.DataType) -> bool:
    """Whether it is a list, of any of Arrow's layouts that are landed."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two landed types are one to Delta: nullability and the names of list and map children do not count."""
    types = pa.types
    if is_list(one) and is_list(other):
        return same_type(one.value_type, other.value_type)
    if types.is_map(one) and types.is_map(other):
        return same_type(one.key_type, other.key_type) and same_type(one.item_type, other.item_type)
    if types.is_struct(one) and types.is_struct(other):
        return one.num_fields == other.num_fields and all(
            a.name == b.name and same_type(a.type, b.type) for a, b in zip(one, other, strict=True)
        )
    return bool(one == other)
