"""The records of one group or transactional id in its coordinator's partition, in the log's order.

Records are returned as changes, with the markers of transactions between them: what a producer wrote in a transaction
takes effect only at its COMMIT marker (KIP-98, KIP-447). Only records whose key has the requested id are decoded: every
key of these topics begins with a type (int16) and the id (int16 length, UTF-8), and other keys are filtered out in
Arrow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kseg.etl.internal_topics.locations import LocatedReplica
from kseg.segment_reader.decode.batch import ABORT_MARKER, COMMIT_MARKER, CONTROL_BIT, TRANSACTIONAL_BIT, frames
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.decode.reference import control_type
from kseg.segment_reader.decode.table import ATTRIBUTES, BASE, MAGIC, MARKER, PACKED_MARKER, PRODUCER
from kseg.segment_reader.errors import RecordFormatError
from kseg.segment_reader.log.scan.headers import pieces_of
from kseg.segment_reader.log.scan.record_sets import RecordSet, record_sets

_MAX_CONTROL_BYTES: Final = 1 << 20
_TYPE_BYTES: Final = 2


class KeyChange(NamedTuple):
    """A record. A `value` of None deletes the key; `producer_id` is None without a transaction; `timestamp` in ms."""

    offset: int
    key: bytes
    value: bytes | None
    timestamp: int
    producer_id: int | None


class TransactionEnd(NamedTuple):
    """The end of a producer's transaction in this partition."""

    offset: int
    producer_id: int
    committed: bool


def changes(replica: LocatedReplica, name: str) -> Iterator[KeyChange | TransactionEnd]:
    """The records of a group or transactional id, and all markers, up to the log's end when the replica was found.

    Raises:
        LogFileError, RecordFormatError: the files are damaged; the address has file and position.
    """
    log = replica.log
    start = log.segments[0].base_offset if log.segments else 0
    if start >= replica.end:
        return
    decoder = RangeDecoder(
        log.topic,
        log.partition,
        start,
        replica.end,
        isolation_level="read_uncommitted",
        headers=False,
        provenance=True,
    )
    markers: deque[TransactionEnd] = deque()
    wanted = _prefix(name)
    for found in record_sets(replica.storage, log, start, replica.end, read_committed=False):
        markers += _markers(found)
        try:
            for batch in decoder.feed(found.records):
                yield from _merged(batch, wanted, markers)
        except RecordFormatError as error:
            address = replace(error.address, file=found.file, position=found.position + error.address.position)
            raise type(error)(address, error.reason, offset=error.offset) from error
    decoder.skip_to(replica.end)
    for batch in decoder.finish():
        yield from _merged(batch, wanted, markers)
    yield from markers


def _prefix(name: str) -> bytes:
    text = name.encode("utf-8", "replace")  # as Java encodes a lone surrogate
    return len(text).to_bytes(2, "big") + text


def _merged(
    batch: pa.RecordBatch, wanted: bytes, markers: deque[TransactionEnd]
) -> Iterator[KeyChange | TransactionEnd]:
    head = pc.binary_slice(batch.column("key"), _TYPE_BYTES, _TYPE_BYTES + len(wanted))
    for row in batch.filter(pc.equal(head, pa.scalar(wanted, pa.binary()))).to_pylist():
        while markers and markers[0].offset < row["offset"]:
            yield markers.popleft()
        timestamp = -1 if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000)
        producer = row["producerId"] if row["transactional"] else None
        yield KeyChange(row["offset"], row["key"], row["value"], timestamp, producer)


def _markers(found: RecordSet) -> Iterator[TransactionEnd]:
    both = CONTROL_BIT | TRANSACTIONAL_BIT
    for piece in pieces_of(found.file, found.records, found.position):
        table = piece.table
        for row in np.flatnonzero((table[:, MAGIC] == 2) & (table[:, ATTRIBUTES] & both == both)).tolist():
            kind: int | None = int(table[row, MARKER])
            if kind == PACKED_MARKER:
                data = piece.frame(row)
                kind = None if data is None else control_type(data, next(frames(data)), _MAX_CONTROL_BYTES)
            if kind in (ABORT_MARKER, COMMIT_MARKER):
                yield TransactionEnd(int(table[row, BASE]), int(table[row, PRODUCER]), kind == COMMIT_MARKER)


def time_of(millis: int | None) -> str | None:
    """Milliseconds since 1970 as ISO 8601 in UTC; None for none (-1), and the number itself beyond the year 9999."""
    if millis is None or millis < 0:
        return None
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(millis)
