"""Control batches as brokers write them: clients never do."""

from __future__ import annotations

from struct import Struct

from kseg.segment_reader.decode.batch import ABORT_MARKER, COMMIT_MARKER, CONTROL_KEY
from kseg.segment_reader.encode.batches import Record, encode_batch

_MARKER_VALUE = Struct(">hi")  # version, coordinator epoch


def encode_control_batch(
    kind: int,
    *,
    base_offset: int,
    producer_id: int,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    timestamp: int = -1,
    transactional: bool = True,
    version: int = 0,
) -> bytes:
    """A control batch as brokers write it: one record with key (version, kind); kind 0 is ABORT, 1 COMMIT."""
    value = _MARKER_VALUE.pack(0, coordinator_epoch) if kind in (ABORT_MARKER, COMMIT_MARKER) else b""
    return encode_batch(
        [Record(CONTROL_KEY.pack(version, kind), value, timestamp=timestamp)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )
