"""Messages of magic 0 and 1 (protocol guide "Message sets"), and the sets that a compressed one holds.

A compressed message, the wrapper, has a whole message set as its value. What that means for the messages inside:

- offsets: magic 0 holds absolute ones; magic 1 relative ones (KIP-31), where the wrapper's offset is the last one's;
- time: magic 1 takes the timestamp type from the wrapper, and with LogAppendTime the wrapper's timestamp (KIP-32);
  magic 0 has none;
- magic: that of the wrapper, always;
- the guide lets sets nest; each level is opened by the same rules, the outermost LogAppendTime wins.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from struct import Struct

from kseg.segment_reader.codecs import registry
from kseg.segment_reader.codecs.codec import NO_BUFFER, CodecFault
from kseg.segment_reader.codecs.limits import DEFAULT_LIMIT
from kseg.segment_reader.decode.batch import (
    CODEC_MASK,
    FRAME_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LEGACY_TIMESTAMP_AT,
    MAGIC_AT,
    MIN_LENGTH,
    TIMESTAMP_TYPE_BIT,
)
from kseg.segment_reader.errors import Fault

MAX_DEPTH = 4
MAX_NESTED_RECORDS = 1 << 18  # of one outermost message: nobody has written nested sets since Kafka 0.8

_HEAD = Struct(">qi")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_UINT32 = Struct(">I")


class RecordFault(Exception):
    """Internal: what is wrong inside of a frame, at which record where that is known."""

    def __init__(self, fault: Fault, offset: int | None = None, detail: str = "") -> None:
        super().__init__(fault, offset, detail)
        self.fault, self.offset, self.detail = fault, offset, detail


@dataclass(frozen=True)
class Leaf:
    """A message that is a record: its bytes from the offset field on, its absolute offset, and its wrapper's time.

    timestamp_type: None outside of a wrapper; else the wrapper's, and `timestamp` counts where it is 1 (LogAppendTime).
    """

    message: bytes | memoryview
    offset: int
    timestamp_type: int | None = None
    timestamp: int = -1


def decompress(
    codec: int, payload: bytes | memoryview, magic: int, limit: int, buffer: memoryview = NO_BUFFER
) -> bytes | memoryview:
    """See `codecs.registry.decompress`. Raises RecordFault."""
    try:
        return registry.decompress(codec, payload, magic=magic, limit=limit, buffer=buffer)
    except CodecFault as fault:
        raise RecordFault(fault.fault, detail=fault.detail) from None


@dataclass(slots=True)
class _Budget:
    """The remaining limit of what one outermost message may unpack to, in bytes and records, at all levels together.

    Each level multiplies: a few hundred bytes may hold gigabytes although no single message of them exceeds the limit.
    """

    size: int
    records: int = MAX_NESTED_RECORDS

    def unpack(self, wrapper: bytes | memoryview) -> list[tuple[int, memoryview]]:
        """The messages of a compressed one, with their own offset fields."""
        magic, value = wrapper[MAGIC_AT], message_fields(wrapper)[1]
        if value is None:
            raise RecordFault(Fault.INNER_EMPTY)
        content = decompress(wrapper[LEGACY_ATTRIBUTES_AT] & CODEC_MASK, value, magic, self.size)
        self.size -= len(content)
        inner = split_set(content, magic)
        if not inner:
            raise RecordFault(Fault.INNER_EMPTY)
        return inner

    def take(self, records: int) -> None:
        """These are in a nested set."""
        self.records -= records
        if self.records < 0:
            raise RecordFault(
                Fault.TOO_LARGE, detail=f"nested message sets hold more than {MAX_NESTED_RECORDS} records"
            )


def open_wrapper(wrapper: bytes | memoryview, offset: int, *, limit: int, check_crcs: bool) -> list[Leaf]:
    """The records inside of a compressed message, in order. `limit` caps what all levels together unpack to, in bytes.

    Raises RecordFault. The wrapper's own checksum is the caller's to check, those of wrappers below are checked here.
    """
    return _open(wrapper, offset, _Budget(limit), check_crcs, 1)


def _open(wrapper: bytes | memoryview, offset: int, budget: _Budget, check_crcs: bool, depth: int) -> list[Leaf]:
    if depth > MAX_DEPTH:
        raise RecordFault(Fault.INNER_DEPTH)
    magic, attributes = wrapper[MAGIC_AT], wrapper[LEGACY_ATTRIBUTES_AT]
    inner = budget.unpack(wrapper)
    if depth > 1:
        budget.take(len(inner))
    shift = 0
    if magic == 1:
        shift = offset - inner[-1][0]
        if shift < 0:
            raise RecordFault(Fault.INNER_OFFSET)
    leaves: list[Leaf] = []
    for relative, message in inner:
        if message[LEGACY_ATTRIBUTES_AT] & CODEC_MASK:
            if check_crcs and not message_crc_matches(message):
                raise RecordFault(Fault.CRC)
            leaves += _open(message, shift + relative, budget, check_crcs, depth + 1)
        else:
            leaves.append(Leaf(message, shift + relative))
    if magic == 0:
        return leaves
    kind = 1 if attributes & TIMESTAMP_TYPE_BIT else 0
    if kind == 0:
        return [replace(leaf, timestamp_type=0) if leaf.timestamp_type is None else leaf for leaf in leaves]
    timestamp = _INT64.unpack_from(wrapper, LEGACY_TIMESTAMP_AT)[0]
    return [replace(leaf, timestamp_type=1, timestamp=timestamp) for leaf in leaves]


def first_offset(wrapper: bytes | memoryview, offset: int, limit: int = DEFAULT_LIMIT) -> int:
    """The offset of the first record inside of a compressed message, whose own is `offset`. Raises RecordFault."""
    magic = wrapper[MAGIC_AT]
    inner = _Budget(limit).unpack(wrapper)
    if any(message[LEGACY_ATTRIBUTES_AT] & CODEC_MASK for _, message in inner):
        return open_wrapper(wrapper, offset, limit=limit, check_crcs=False)[0].offset
    first, last = inner[0][0], inner[-1][0]
    if first > last or offset < last or (magic == 0 and offset != last):
        raise RecordFault(Fault.INNER_OFFSET)
    return first if magic == 0 else offset - last + first


def split_set(data: bytes | memoryview, magic: int) -> list[tuple[int, memoryview]]:
    """The messages of an unpacked set with their own offset fields. All of them must be whole, and of this magic."""
    view, position, found = memoryview(data), 0, []
    while position < len(view):
        if len(view) - position < FRAME_OVERHEAD:
            raise RecordFault(Fault.INNER_TRUNCATED)
        offset, length = _HEAD.unpack_from(view, position)
        if length < MIN_LENGTH[0]:
            raise RecordFault(Fault.TOO_SMALL)
        stop = position + FRAME_OVERHEAD + length
        if stop > len(view):
            raise RecordFault(Fault.INNER_TRUNCATED)
        if view[position + MAGIC_AT] != magic:
            raise RecordFault(Fault.INNER_MAGIC)
        if length < MIN_LENGTH[magic]:
            raise RecordFault(Fault.TOO_SMALL)
        if not 0 <= offset < 1 << 62:
            raise RecordFault(Fault.NEGATIVE_OFFSET)
        found.append((offset, view[position:stop]))
        position = stop
    return found


def message_crc_matches(message: bytes | bytearray | memoryview) -> bool:
    return zlib.crc32(message[MAGIC_AT:]) == int(_UINT32.unpack_from(message, LEGACY_CRC_AT)[0])


def message_fields(message: bytes | memoryview) -> tuple[bytes | None, bytes | None]:
    """Key and value of one message (its bytes from the offset field on), which must fill it."""
    position = LEGACY_TIMESTAMP_AT + (8 if message[MAGIC_AT] == 1 else 0)
    fields: list[bytes | None] = []
    for _ in range(2):
        if len(message) - position < 4:
            raise RecordFault(Fault.FIELD_LENGTH)
        size = _INT32.unpack_from(message, position)[0]
        position += 4
        if size < 0:
            fields.append(None)
            continue
        if size > len(message) - position:
            raise RecordFault(Fault.FIELD_LENGTH)
        fields.append(bytes(message[position : position + size]))
        position += size
    if position != len(message):
        raise RecordFault(Fault.RECORD_LENGTH)
    return fields[0], fields[1]


def message_time(message: bytes | memoryview, leaf: Leaf) -> tuple[int, int]:
    """Milliseconds and timestamp type of a record: (-1, -1) for magic 0."""
    if message[MAGIC_AT] == 0:
        return -1, -1
    own = int(_INT64.unpack_from(message, LEGACY_TIMESTAMP_AT)[0])
    if leaf.timestamp_type is None:
        return own, 1 if message[LEGACY_ATTRIBUTES_AT] & TIMESTAMP_TYPE_BIT else 0
    return (leaf.timestamp if leaf.timestamp_type else own), leaf.timestamp_type


def flatten(leaves: list[Leaf]) -> bytes:
    """One plain message set with absolute offsets and each message's own time, for records out of nested sets.

    A message whose time its wrapper decides gets it written in, and a checksum that is right only if it was before.
    """
    parts: list[bytes] = []
    for leaf in leaves:
        message = bytearray(leaf.message)
        if leaf.timestamp_type is not None and message[MAGIC_AT] == 1:
            sound = message_crc_matches(message)
            kind = TIMESTAMP_TYPE_BIT if leaf.timestamp_type else 0
            message[LEGACY_ATTRIBUTES_AT] = message[LEGACY_ATTRIBUTES_AT] & ~TIMESTAMP_TYPE_BIT | kind
            _INT64.pack_into(message, LEGACY_TIMESTAMP_AT, message_time(leaf.message, leaf)[0])
            _UINT32.pack_into(message, LEGACY_CRC_AT, zlib.crc32(message[MAGIC_AT:]) ^ (not sound))
        _INT64.pack_into(message, 0, leaf.offset)
        parts.append(bytes(message))
    return b"".join(parts)
