"""Arrow arrays made of a few values, and read as NumPy's, by their buffers.

`pa.array` and all that is built on it (`from_pylist`, `empty_table`, `pa.scalar`) import pandas with the first value
that they convert, and so does `to_numpy`. That takes longer than a small task, which needs pandas for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def texts(values: Sequence[str]) -> pa.StringArray:
    """The texts as an array without nulls."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def integers(values: Sequence[int] | np.ndarray, kind: pa.DataType) -> pa.Array:
    """The numbers as an array without nulls. Raises OverflowError: one does not fit into the type."""
    numbers = np.asarray(values, dtype=kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def as_numpy(values: pa.Array) -> np.ndarray:
    """An array of integers without nulls as NumPy's, which shares its memory."""
    return np.from_dlpack(values) if len(values) else np.empty(0, values.type.to_pandas_dtype())
