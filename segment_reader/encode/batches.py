"""Records to bytes: batches of magic 2, and the message sets of magic 0 and 1 that old logs hold.

Layouts: `segment_reader.decode.batch`. A producer sends magic 2 alone; the old formats serve tests and tools.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from kseg.segment_reader.codecs import registry
from kseg.segment_reader.codecs.none import NONE
from kseg.segment_reader.decode.batch import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    CRC_AT,
    FRAME_OVERHEAD,
    RECORD_BATCH,
    RECORDS_AT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)

_UINT32 = Struct(">I")
_INT32 = Struct(">i")
_MESSAGE_HEAD = Struct(">qi")


class Record(NamedTuple):
    """A record to be sent. `timestamp` is in milliseconds, -1 for none; header keys are text or its UTF-8 bytes."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str | bytes, bytes | None]] = ()
    timestamp: int = -1


def varint(value: int) -> bytes:
    """A signed integer in zig-zag base 128, as record fields carry it (at most 10 bytes for 64 bits)."""
    value = (value << 1) ^ (value >> 63)
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE = [bytes([i]) for i in range(0x80)]
_NULL = varint(-1)


def encode_record(record: Record, *, offset_delta: int, base_timestamp: int) -> bytes:
    """One record of a magic 2 batch, its length in front."""
    key, value, headers, timestamp = record
    parts = [b"\x00", varint(timestamp - base_timestamp), varint(offset_delta)]
    for field in (key, value):
        if field is None:
            parts.append(_NULL)
        else:
            parts += (varint(len(field)), field)
    parts.append(varint(len(headers)))
    for name, content in headers:
        name = name.encode() if isinstance(name, str) else name
        parts += (varint(len(name)), name)
        if content is None:
            parts.append(_NULL)
        else:
            parts += (varint(len(content)), content)
    body = b"".join(parts)
    return varint(len(body)) + body


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = -1,
    timestamp_type: int = 0,
    max_timestamp: int | None = None,
    offset_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
) -> bytes:
    """A batch of magic 2.

    offset_deltas: where compaction left holes, ascending; default 0, 1, 2 …
    last_offset_delta: default the last record's; larger where compaction removed the last ones, and needed for a batch
        without records.
    max_timestamp: default the records' largest; under LogAppendTime (timestamp_type 1) the time of every record.
    """
    rows = list(records)
    deltas = range(len(rows)) if offset_deltas is None else offset_deltas
    if last_offset_delta is None:
        last_offset_delta = deltas[-1] if rows else 0
    base_timestamp = rows[0].timestamp if rows else -1
    if max_timestamp is None:
        max_timestamp = max((row.timestamp for row in rows), default=-1)
    body = b"".join(
        encode_record(row, offset_delta=delta, base_timestamp=base_timestamp)
        for row, delta in zip(rows, deltas, strict=True)
    )
    codec = registry.BY_NAME[compression].number
    attributes = (
        codec
        | (TIMESTAMP_TYPE_BIT if timestamp_type == 1 else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
    )
    body = registry.compress(codec, body)
    batch = bytearray(
        RECORD_BATCH.pack(
            base_offset,
            RECORDS_AT - FRAME_OVERHEAD + len(body),
            partition_leader_epoch,
            2,
            0,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(rows),
        )
    )
    batch += body
    return seal(batch)


def seal(batch: bytearray) -> bytes:
    """Writes the checksum of a magic 2 batch over its present bytes."""
    _UINT32.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return bytes(batch)


def encode_message(
    record: Record, *, magic: int, offset: int, codec: int = NONE.number, timestamp_type: int = 0
) -> bytes:
    """One message of magic 0 or 1 with its offset and length in front. There are no headers; magic 0 has no time."""
    if record.headers:
        raise ValueError(f"magic {magic} carries no headers")
    attributes = codec | (TIMESTAMP_TYPE_BIT if timestamp_type == 1 and magic == 1 else 0)
    parts = [bytes((magic, attributes))]
    if magic == 1:
        parts.append(record.timestamp.to_bytes(8, "big", signed=True))
    for field in (record.key, record.value):
        parts += (_INT32.pack(-1),) if field is None else (_INT32.pack(len(field)), field)
    body = b"".join(parts)
    return _MESSAGE_HEAD.pack(offset, len(body) + 4) + _UINT32.pack(zlib.crc32(body)) + body


def encode_message_set(
    records: Iterable[Record],
    *,
    magic: int,
    base_offset: int = 0,
    compression: str = "none",
    timestamp_type: int = 0,
    timestamp: int | None = None,
    offset_deltas: Sequence[int] | None = None,
) -> bytes:
    """A message set of magic 0 or 1: plain messages, or one wrapper around all of them where `compression` is set.

    Inner offsets are relative in magic 1 (KIP-31), absolute in magic 0; a wrapper carries the last one's absolute one.
    timestamp: the wrapper's, default the records' largest; under LogAppendTime (timestamp_type 1) every record's.
    """
    rows = list(records)
    deltas = range(len(rows)) if offset_deltas is None else offset_deltas
    codec = registry.BY_NAME[compression].number
    if timestamp is None:
        timestamp = max((row.timestamp for row in rows), default=-1)
    if codec == NONE.number:
        return b"".join(
            encode_message(
                row._replace(timestamp=timestamp) if timestamp_type == 1 else row,
                magic=magic,
                offset=base_offset + delta,
                timestamp_type=timestamp_type,
            )
            for row, delta in zip(rows, deltas, strict=True)
        )
    shift = base_offset if magic == 0 else 0
    inner = b"".join(
        encode_message(row, magic=magic, offset=shift + delta) for row, delta in zip(rows, deltas, strict=True)
    )
    return encode_wrapper(
        inner,
        magic=magic,
        offset=base_offset + (deltas[-1] if rows else 0),
        compression=compression,
        timestamp=timestamp,
        timestamp_type=timestamp_type,
    )


def encode_wrapper(
    inner: bytes, *, magic: int, offset: int, compression: str, timestamp: int = -1, timestamp_type: int = 0
) -> bytes:
    """A compressed message around the ready bytes of a message set. `offset` is the last inner message's, absolute."""
    codec = registry.BY_NAME[compression].number
    value = registry.compress(codec, inner, magic=magic)
    return encode_message(
        Record(None, value, timestamp=timestamp),
        magic=magic,
        offset=offset,
        codec=codec,
        timestamp_type=timestamp_type,
    )
