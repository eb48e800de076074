"""A batch as the Produce version carries it: message sets of magic 0 in v0 and v1, of magic 1 in v2, else a batch.

Old formats have no place for headers, sequences and transactions, and zstd may be sent from v7 on (KIP-110). What a
broker does not support is rejected here: it would fail there without a reason, or be written without its headers.
"""

from __future__ import annotations

from typing import Final

from kseg.client.errors import UnsupportedVersion
from kseg.client.producer.batch import NO_SEQUENCE, Batch
from kseg.client.producer.config import ProducerConfig
from kseg.segment_reader.codecs.registry import BY_NAME
from kseg.segment_reader.encode.batches import encode_message_set
from kseg.segment_reader.encode.bodies import batch_of

_FIRST_WITH_MAGIC_1: Final = 2
_FIRST_WITH_MAGIC_2: Final = 3


def record_set(batch: Batch, version: int, config: ProducerConfig, *, transactional: bool) -> bytes:
    """The bytes of the partition's record set. Raises UnsupportedVersion."""
    if version < BY_NAME[config.compression].min_produce_version:
        raise _too_old(batch, version, f"takes no {config.compression}: choose another compression.type")
    if version >= _FIRST_WITH_MAGIC_2:
        return batch_of(
            batch.body,
            batch.packed(config.compression, config.compression_level),
            config.compression,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.sequence,
            transactional=transactional,
        )
    if batch.sequence != NO_SEQUENCE or transactional:
        raise _too_old(batch, version, "has no sequence numbers: set enable.idempotence=false")
    records = batch.records()
    if any(record.headers for record in records):
        raise _too_old(batch, version, "stores no headers: send records without")
    # Offsets in a request count from 0, also with magic 0: the broker assigns the real ones.
    magic = 1 if version >= _FIRST_WITH_MAGIC_1 else 0
    return encode_message_set(records, magic=magic, compression=config.compression)


def _too_old(batch: Batch, version: int, what: str) -> UnsupportedVersion:
    return UnsupportedVersion(
        f"the broker supports Produce up to v{version} and {what}", topic=batch.tp.topic, partition=batch.tp.partition
    )
