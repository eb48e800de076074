"""The branch with which a payload begins whose schema is a union: its number, zigzag-encoded in one byte or two."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.segment_reader.payload.buffers import byte_buffers

MOST_BRANCHES = 1 << 13
"""The number of branches that two bytes can tell apart."""


def union_branches(
    payloads: pa.BinaryArray, skip: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The number of the branch of each of n payloads, -1 where there is none, and where the branch's value begins.

    skip: n numbers of bytes before the number.
    """
    offsets, data = byte_buffers(payloads)
    n = len(payloads)
    starts, ends = offsets[:n] + skip, offsets[1 : n + 1]
    padded = np.concatenate([data, np.zeros(2, np.uint8)])
    at = np.minimum(starts, len(data))
    first, second = padded[at].astype(np.int64), padded[at + 1].astype(np.int64)
    two = first > 127
    number = np.where(two, (first & 127) | second << 7, first)
    size = np.where(two, 2, 1)
    sound = (starts + size <= ends) & (number & 1 == 0) & ~(two & (second > 127))
    return np.where(sound, number >> 1, -1), (skip + np.where(sound, size, 0)).astype(np.int32)
