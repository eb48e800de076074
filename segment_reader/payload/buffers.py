"""Arrow's buffers as numpy arrays, without a copy of the bytes."""

from __future__ import annotations

from typing import NamedTuple

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


class KernelInput(NamedTuple):
    """Payloads as a kernel takes them.

    fields: addresses of the validity bits (or 0), the offsets and the bytes; then the numbers of bytes, of the first
    row and of bytes in a frame. total: bytes of these payloads. held: what the addresses are of.
    """

    fields: npt.NDArray[np.int64]
    total: int
    held: tuple[object, ...]


def kernel_input(payloads: pa.BinaryArray, skip: int) -> KernelInput:
    """For one call of a kernel; skip: bytes of a frame before each payload."""
    offsets, data = byte_buffers(payloads)
    valid = payloads.buffers()[0] if payloads.null_count else None
    addresses = [valid.address if valid is not None else 0, offsets.ctypes.data, data.ctypes.data]
    fields = np.array([*addresses, data.size, payloads.offset, skip], np.int64)
    return KernelInput(fields, int(offsets[-1] - offsets[0]), (valid, offsets, data))


def null_mask(payloads: pa.Array) -> npt.NDArray[np.bool_]:
    """A mask of the values that are null."""
    if payloads.null_count == 0:
        return np.zeros(len(payloads), np.bool_)
    return np.asarray(payloads.is_null())
