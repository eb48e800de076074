"""Texts, and other values at any depth of decoded rows, read in a second step with the payload that each one is of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.payload.ddl import quoted

Rows = npt.NDArray[np.int64]
Read = Callable[[pa.Array, pa.DataType, Rows, str], pa.Array]
"""Values, the type to which they are read, each one's row, and their place: as many values of the type."""
Concerns = Callable[[pa.DataType, pa.DataType], bool]
"""Whether values of the first type, which are to be of the second one, are read again, or some within them."""


def with_texts_read(array: pa.Array, kind: pa.DataType, rows: Rows, read: Read, place: str = "") -> pa.Array:
    """The array as this type, which differs from its own by other types in place of texts.

    rows: the row of each element. place: of the array, as `items[].price`.
    """
    return with_leaves_read(array, kind, rows, read, lambda own, wanted: own != wanted, place)


def with_leaves_read(
    array: pa.Array, kind: pa.DataType, rows: Rows, read: Read, concerns: Concerns, place: str = ""
) -> pa.Array:
    """The same of all values without values within them that `concerns` names."""
    if not concerns(array.type, kind):
        return array
    types = pa.types
    if not types.is_nested(array.type):
        return read(array, kind, rows, place)
    if types.is_struct(kind):
        children = [
            with_leaves_read(child, field.type, rows, read, concerns, f"{place}.{quoted(field.name)}".removeprefix("."))
            for child, field in zip(array.flatten(), kind, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    offsets = np.asarray(array.offsets)
    below = np.repeat(rows, np.diff(offsets))
    start, end = int(offsets[0]), int(offsets[-1])
    moved, mask = pa.array(offsets - start, pa.int32()), array.is_null()
    if types.is_map(kind):
        keys, items = array.keys.slice(start, end - start), array.items.slice(start, end - start)
        items = with_leaves_read(items, kind.item_type, below, read, concerns, f"{place}[]")
        return _with_nulls(pa.MapArray.from_arrays(moved, keys, items, kind), mask)
    values = array.values.slice(start, end - start)
    values = with_leaves_read(values, kind.value_type, below, read, concerns, f"{place}[]")
    return pa.ListArray.from_arrays(moved, values, kind, mask=mask)


def _with_nulls(array: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    return array.take(pa.array(np.arange(len(array)), mask=np.asarray(mask))) if pc.any(mask).as_py() else array
