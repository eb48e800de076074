"""Frames: where each batch of a record set starts and ends, and what its header says.

Every format, whatever its magic, starts alike, so a record set can be walked without knowing what it holds:

    0   offset     int64   magic 2: base offset; magic 0 and 1: the message's own, a wrapper's last inner offset
    8   length     int32   bytes that follow this field
    12  ...                magic 2: partition leader epoch int32; magic 0 and 1: CRC-32 of the rest, uint32
    16  magic      int8

Magic 2, a batch (protocol page "Record Batch", KIP-98):

    17  crc                uint32  CRC-32C of byte 21 to the end: what a broker rewrites (base offset, leader epoch)
                                   stays outside of it, so that it needs no new checksum
    21  attributes         int16   bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
    23  last offset delta  int32   survives compaction: the batch goes on covering its first range of offsets
    27  base timestamp     int64   milliseconds; the record's own are deltas to it
    35  max timestamp      int64   under LogAppendTime every record's timestamp
    43  producer id        int64   -1 where the producer is not idempotent
    51  producer epoch     int16
    53  base sequence      int32
    57  record count       int32   0 where compaction has emptied the batch
    61  records                    compressed as one where the codec says so

Magic 0 and 1, a message (protocol guide "Message sets", KIP-31, KIP-32):

    17  attributes         int8    bits 0-2 codec, 3 timestamp type (magic 1)
    18  timestamp          int64   magic 1 alone
    ..  key, value                 int32 length each, -1 null. With a codec the value is a compressed message set.

The last frame of a Fetch answer may be cut off anywhere; it is never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from kseg.segment_reader.codecs.registry import CODECS
from kseg.segment_reader.errors import BatchAddress, Fault, RecordFormatError

OFFSET_AT = 0
LENGTH_AT = OFFSET_AT + 8
FRAME_OVERHEAD = LENGTH_AT + 4
LEADER_EPOCH_AT = FRAME_OVERHEAD
MAGIC_AT = LEADER_EPOCH_AT + 4
CRC_AT = MAGIC_AT + 1
ATTRIBUTES_AT = CRC_AT + 4
LAST_OFFSET_DELTA_AT = ATTRIBUTES_AT + 2
BASE_TIMESTAMP_AT = LAST_OFFSET_DELTA_AT + 4
MAX_TIMESTAMP_AT = BASE_TIMESTAMP_AT + 8
PRODUCER_ID_AT = MAX_TIMESTAMP_AT + 8
PRODUCER_EPOCH_AT = PRODUCER_ID_AT + 8
BASE_SEQUENCE_AT = PRODUCER_EPOCH_AT + 2
RECORD_COUNT_AT = BASE_SEQUENCE_AT + 4
RECORDS_AT = RECORD_COUNT_AT + 4

LEGACY_CRC_AT = FRAME_OVERHEAD
LEGACY_ATTRIBUTES_AT = MAGIC_AT + 1
LEGACY_TIMESTAMP_AT = LEGACY_ATTRIBUTES_AT + 1

#: The smallest legal length field by magic: crc, magic, attributes, (timestamp,) two null fields; or an emptied batch.
MIN_LENGTH = (14, 22, RECORDS_AT - FRAME_OVERHEAD)

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20

MAX_CODEC = CODECS[-1].number
MAX_OFFSET = (1 << 63) - 2  # one less than int64's, so that "the offset after" exists

ABORT_MARKER, COMMIT_MARKER = 0, 1
CONTROL_KEY = Struct(">hh")

RECORD_BATCH = Struct(">qiibIhiqqqhii")
_FRAME = Struct(">qi")
_LEGACY = Struct(">qiIbb")


@dataclass(frozen=True, slots=True)
class Frame:
    """One complete frame's header. Offsets are absolute, times milliseconds, positions bytes in the buffer.

    For magic 0 and 1 `base_offset` and `last_offset` are the message's own offset (what a compressed wrapper covers
    below it is known only inside), `max_timestamp` is its timestamp, and the fields of magic 2 hold -1.
    """

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    attributes: int
    crc: int
    record_count: int = 1
    base_timestamp: int = -1
    max_timestamp: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    leader_epoch: int = -1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def transactional(self) -> bool:
        return self.magic == 2 and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & CONTROL_BIT)

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    def address(self, topic: str, partition: int) -> BatchAddress:
        return BatchAddress(topic, partition, self.base_offset, self.position)


class FrameFault(Exception):
    """A frame whose header is impossible. Internal: callers turn it into the typed error of their partition."""

    def __init__(self, fault: Fault, base_offset: int, position: int) -> None:
        super().__init__(fault, base_offset, position)
        self.fault, self.base_offset, self.position = fault, base_offset, position

    def error(self, topic: str, partition: int) -> RecordFormatError:
        return self.fault.error(BatchAddress(topic, partition, self.base_offset, self.position))


def frames(buffer: bytes | memoryview, position: int = 0) -> Iterator[Frame]:
    """Walks the complete frames of a record set from `position`. Headers alone are read and checked, no checksum.

    Raises FrameFault at a header that contradicts itself; an incomplete last frame ends the walk.
    """
    end = len(buffer)
    while end - position >= FRAME_OVERHEAD:
        offset, length = _FRAME.unpack_from(buffer, position)
        if length < MIN_LENGTH[0]:
            raise FrameFault(Fault.TOO_SMALL, offset, position)
        if length > end - position - FRAME_OVERHEAD:
            return
        magic = buffer[position + MAGIC_AT]
        if magic > 2:
            raise FrameFault(Fault.MAGIC, offset, position)
        if length < MIN_LENGTH[magic]:
            raise FrameFault(Fault.TOO_SMALL, offset, position)
        if not 0 <= offset <= MAX_OFFSET:
            raise FrameFault(Fault.NEGATIVE_OFFSET, offset, position)
        yield (_batch if magic == 2 else _message)(buffer, position)
        position += FRAME_OVERHEAD + length


def _batch(buffer: bytes | memoryview, position: int) -> Frame:
    (
        base,
        length,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = RECORD_BATCH.unpack_from(buffer, position)
    if attributes & CODEC_MASK > MAX_CODEC:
        raise FrameFault(Fault.CODEC, base, position)
    if last_delta < 0 or not 0 <= count <= last_delta + 1 or base > MAX_OFFSET - last_delta:
        raise FrameFault(Fault.COUNTS, base, position)
    return Frame(
        position,
        FRAME_OVERHEAD + length,
        magic,
        base,
        base + last_delta,
        attributes,
        crc,
        count,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        leader_epoch,
    )


def _message(buffer: bytes | memoryview, position: int) -> Frame:
    offset, length, crc, magic, attributes = _LEGACY.unpack_from(buffer, position)
    if attributes & CODEC_MASK > MAX_CODEC:
        raise FrameFault(Fault.CODEC, offset, position)
    timestamp = -1
    if magic == 1:
        timestamp = int.from_bytes(
            buffer[position + LEGACY_TIMESTAMP_AT : position + LEGACY_TIMESTAMP_AT + 8], "big", signed=True
        )
    return Frame(position, FRAME_OVERHEAD + length, magic, offset, offset, attributes, crc, max_timestamp=timestamp)
