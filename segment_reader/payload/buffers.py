"""Arrow's buffers as numpy arrays, without a copy of the bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def byte_buffers(payloads: pa.BinaryArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets of the n payloads (n + 1), and the bytes that they point into."""
    _, offsets, data = payloads.buffers()
    if len(payloads) == 0 or offsets is None:
        return np.zeros(len(payloads) + 1, np.int64), np.zeros(0, np.uint8)
    width = np.int64 if pa.types.is_large_binary(payloads.type) else np.int32
    numbers = np.frombuffer(offsets, width)[payloads.offset : payloads.offset + len(payloads) + 1]
    return numbers.astype(np.int64), np.frombuffer(data if data is not None else b"", np.uint8)


def null_mask(payloads: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are null."""
    if payloads.null_count == 0:
        return np.zeros(len(payloads), np.bool_)
    return np.asarray(payloads.is_null())
