"""Compiled: the checksums of many frames at once."""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.batch import ATTRIBUTES_AT, MAGIC_AT
from kseg.segment_reader.decode.jit import compiled
from kseg.segment_reader.decode.primitives import crc32, crc32c
from kseg.segment_reader.decode.table import CRC, MAGIC, POSITION, SIZE


@compiled
def first_bad_checksum(data: Any, start: Any, table: Any, at_most: Any) -> Any:
    """The first row of a frame table whose checksum is not that of its bytes, -1 where there is none.

    `data` holds the file from position `start` on. Frames larger than `at_most`, or not whole in `data`, are not
    checked: CRC-32C for magic 2, CRC-32 for 0 and 1.
    """
    for i in range(table.shape[0]):
        row = table[i]
        at = row[POSITION] - start
        stop = at + row[SIZE]
        if row[SIZE] > at_most or stop > data.size:
            continue
        computed = crc32c(data, at + ATTRIBUTES_AT, stop) if row[MAGIC] == 2 else crc32(data, at + MAGIC_AT, stop)
        if computed != row[CRC]:
            return i
    return -1
