"""The records of a magic 2 batch without its header: written in one go, packed, and put under a header when it is sent.

A producer knows producer id, epoch and sequence of a batch only when it sends it, and may have to change them; the
records and their compression stay. Layout: `segment_reader.decode.batch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kseg.segment_reader.codecs import registry
from kseg.segment_reader.decode.batch import FRAME_OVERHEAD, RECORD_BATCH, RECORDS_AT, TRANSACTIONAL_BIT
from kseg.segment_reader.encode.batches import Record, seal, varint

#: Offset deltas, lengths and small time deltas: all that a batch of usual size needs.
_SMALL = [varint(number) for number in range(1 << 15)]
_SMALL_END = len(_SMALL)
_NULL = varint(-1)
_NO_HEADERS = varint(0)


@dataclass(frozen=True, slots=True)
class BatchBody:
    """Records as they lie in a batch, not compressed, offset deltas from 0. Timestamps in ms, -1: none."""

    data: bytes
    count: int
    base_timestamp: int
    max_timestamp: int


def encode_body(records: Sequence[Record]) -> BatchBody:
    """The records' bytes. Raises ValueError for no records, and TypeError for fields that are no bytes."""
    if not records:
        raise ValueError("a batch without records")
    base = records[0].timestamp
    latest = base
    small, end = _SMALL, _SMALL_END
    parts: list[bytes] = []
    for number, (key, value, headers, timestamp) in enumerate(records):
        delta = timestamp - base
        if timestamp > latest:
            latest = timestamp
        head = small[delta] if 0 <= delta < end else varint(delta)
        head += small[number] if number < end else varint(number)
        if key is None:
            head += _NULL
            key = b""
        else:
            size = len(key)
            head += small[size] if size < end else varint(size)
        if value is None:
            value_size = _NULL
            value = b""
        else:
            size = len(value)
            value_size = small[size] if size < end else varint(size)
        tail = _headers(headers) if headers else _NO_HEADERS
        size = 1 + len(head) + len(key) + len(value_size) + len(value) + len(tail)
        parts += (small[size] if size < end else varint(size), b"\x00", head, key, value_size, value, tail)
    return BatchBody(b"".join(parts), len(records), base, latest)


def _headers(headers: Sequence[tuple[str | bytes, bytes | None]]) -> bytes:
    parts = [varint(len(headers))]
    for name, content in headers:
        name = name.encode() if isinstance(name, str) else name
        parts += (varint(len(name)), name)
        parts += (_NULL,) if content is None else (varint(len(content)), content)
    return b"".join(parts)


def compress_body(body: BatchBody, compression: str, level: int | None = None) -> bytes:
    """The bytes in the batch."""
    return registry.compress(registry.BY_NAME[compression].number, body.data, level=level)


def batch_of(
    body: BatchBody,
    packed: bytes,
    compression: str,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """The batch. `packed`: what `compress_body` made of the body with that compression."""
    batch = bytearray(
        RECORD_BATCH.pack(
            0,
            RECORDS_AT - FRAME_OVERHEAD + len(packed),
            -1,
            2,
            0,
            registry.BY_NAME[compression].number | (TRANSACTIONAL_BIT if transactional else 0),
            body.count - 1,
            body.base_timestamp,
            body.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            body.count,
        )
    )
    batch += packed
    return seal(batch)


def records_of(body: BatchBody) -> list[Record]:
    """The records again, to split a batch or to write it in an older format."""
    return list(_read(body))


def _read(body: BatchBody) -> Iterator[Record]:
    data, at = body.data, 0
    for _ in range(body.count):
        _, at = _varint(data, at)
        delta, at = _varint(data, at + 1)
        _, at = _varint(data, at)
        key, at = _field(data, at)
        value, at = _field(data, at)
        count, at = _varint(data, at)
        headers: list[tuple[str | bytes, bytes | None]] = []
        for _ in range(count):
            name, at = _field(data, at)
            content, at = _field(data, at)
            headers.append((name or b"", content))
        yield Record(key, value, tuple(headers), body.base_timestamp + delta)


def _field(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
