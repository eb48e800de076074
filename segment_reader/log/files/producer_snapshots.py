"""Producer snapshots: what idempotent and transactional producers had written up to an offset (the file's name).

    version int16 (1) | crc uint32 | count int32 | entries, 46 bytes each

    producer id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta int32 | timestamp int64
    | coordinator epoch int32 | first offset of the open transaction int64 (-1: none)

The CRC-32C covers everything behind it. A broker writes one when it rolls a segment and when it stops in order; after a
crash the newest may be older than the log. KIP-98; `ProducerSnapshot` among Kafka's storage messages.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final, NamedTuple

import crc32c

from kseg.segment_reader.log.errors import CorruptSnapshot

_HEAD: Final = Struct(">hIi")
_ENTRY: Final = Struct(">qhiqiqiq")
_CHECKED_FROM: Final = 6
VERSION: Final = 1


class ProducerState(NamedTuple):
    """One producer at the snapshot's offset; -1 where there is nothing. `timestamp` in ms."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def producer_snapshot(data: bytes, file: str) -> list[ProducerState]:
    """Reads a .snapshot. Raises CorruptSnapshot."""
    try:
        version, crc, count = _HEAD.unpack_from(data)
    except error:
        raise CorruptSnapshot(file, 0, f"{len(data)} bytes are too few") from None
    if version != VERSION:
        raise CorruptSnapshot(file, 0, f"version {version} is unknown")
    if crc32c.crc32c(memoryview(data)[_CHECKED_FROM:]) != crc:
        raise CorruptSnapshot(file, 2, "the checksum does not match the bytes")
    if count < 0 or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(file, _CHECKED_FROM, f"{count} entries do not make {len(data)} bytes")
    return [ProducerState(*values) for values in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :])]
