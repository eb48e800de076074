"""Compiled: from a record set to the plan for its frames, by headers alone.

The rules are those of `segment_reader.decode.reference`.
"""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.batch import (
    ABORT_MARKER,
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    FRAME_OVERHEAD,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LEGACY_TIMESTAMP_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAX_CODEC,
    MAX_OFFSET,
    MAX_TIMESTAMP_AT,
    MIN_LENGTH,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    RECORDS_AT,
    TRANSACTIONAL_BIT,
)
from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.decode.primitives import be8, be16, be32, be64
from kseg.segment_reader.decode.table import (
    ABORTED,
    ATTRIBUTES,
    BAD_MARKER,
    BASE,
    BASE_TIME,
    CHECK,
    CONTROL,
    COUNT,
    COUNT_ABORTED,
    COUNT_CONTROL,
    COUNTED,
    CRC,
    DATA,
    DROP,
    EMPTY,
    EPOCH,
    KIND,
    LAST,
    LEADER,
    MAGIC,
    MARKER,
    MAX_TIME,
    MESSAGES,
    NO_MARKER,
    PACKED_MARKER,
    POSITION,
    PRODUCER,
    SEQUENCE,
    SHIFT,
    SIZE,
    SOURCE,
    START,
    STOP,
    TIME_TYPE,
    UNPACK,
)
from kseg.segment_reader.errors import Fault

MIN_MESSAGE, MIN_MESSAGE_1, MIN_BATCH = MIN_LENGTH

TOO_SMALL = int(Fault.TOO_SMALL)
UNKNOWN_MAGIC = int(Fault.MAGIC)
UNKNOWN_CODEC = int(Fault.CODEC)
NEGATIVE_OFFSET = int(Fault.NEGATIVE_OFFSET)
COUNTS = int(Fault.COUNTS)
INNER_TRUNCATED = int(Fault.INNER_TRUNCATED)
INNER_MAGIC = int(Fault.INNER_MAGIC)
INNER_EMPTY = int(Fault.INNER_EMPTY)

#: Frames up to this size, markers among them, are read whole even where headers alone are wanted.
SMALL = 1024

# what plan carries from one part of a record set to the next
P_EDGE, P_ENTRY, P_CLOSED, PLAN_SIZE = range(4)


@inlined
def varint32(data: Any, at: Any, end: Any) -> Any:
    """A zig-zag integer of at most 5 bytes and 32 bits at data[at:end]: (value, position after it), or (0, -1)."""
    if at < end:
        byte = be8(data, at)
        if byte < 0x80:  # as nearly all are, but for lengths
            return (byte >> 1) ^ -(byte & 1), at + 1
    return _longer_varint32(data, at, end)


@compiled
def _longer_varint32(data: Any, at: Any, end: Any) -> Any:
    value = 0
    shift = 0
    while at < end and shift < 35:
        byte = be8(data, at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                return 0, -1
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return 0, -1


@inlined
def varint64(data: Any, at: Any, end: Any) -> Any:
    """A zig-zag integer of at most 10 bytes and 64 bits, as above."""
    if at < end:
        byte = be8(data, at)
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
    return _longer_varint64(data, at, end)


@compiled
def _longer_varint64(data: Any, at: Any, end: Any) -> Any:
    value = 0
    shift = 0
    while at < end and shift < 70:
        byte = be8(data, at)
        at += 1
        if shift == 63 and byte > 1:
            return 0, -1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), at
        shift += 7
    return 0, -1


@compiled
def last_frame(data: Any) -> Any:
    """(position of the last complete frame or -1, 0), or (position, fault) of a frame with an impossible length."""
    end = data.size
    at = 0
    last = -1
    while end - at >= FRAME_OVERHEAD:
        length = be32(data, at + LENGTH_AT)
        if length < MIN_MESSAGE:
            return at, TOO_SMALL
        if length > end - at - FRAME_OVERHEAD:
            break
        last = at
        at += FRAME_OVERHEAD + length
    return last, 0


@compiled
def control_type(data: Any, at: Any, end: Any) -> Any:
    """The type in the key of the record at data[at:end], as an unsigned 16-bit number, or BAD_MARKER."""
    length, at = varint32(data, at, end)
    if at < 0 or length < 1 or length > end - at:
        return BAD_MARKER
    end = at + length
    _, at = varint64(data, at + 1, end)
    if at >= 0:
        _, at = varint32(data, at, end)
    if at >= 0:
        length, at = varint32(data, at, end)
    if at < 0 or length < 4 or length > end - at:
        return BAD_MARKER
    return be16(data, at + 2) & 0xFFFF


@compiled
def scan(data: Any, at: Any, whole: Any, table: Any) -> Any:
    """Reads frame headers from data[at:] into the table: (rows, position after them, fault of the frame there or 0).

    `whole` is the record set's size. Where `data` is only its beginning, a frame counts whose end is not behind `whole`
    and whose first SMALL bytes are in `data`; a control batch has to be in there whole.
    Fewer rows than the table has, and no fault: nothing complete is left.
    """
    end = data.size
    n = 0
    while n < table.shape[0] and end - at >= FRAME_OVERHEAD:
        base = be64(data, at)
        length = be32(data, at + LENGTH_AT)
        if length < MIN_MESSAGE:
            return n, at, TOO_SMALL
        if length > whole - at - FRAME_OVERHEAD or min(FRAME_OVERHEAD + length, SMALL) > end - at:
            break
        magic = data[at + MAGIC_AT]
        if magic > 2:
            return n, at, UNKNOWN_MAGIC
        if length < (MIN_BATCH if magic == 2 else (MIN_MESSAGE_1 if magic == 1 else MIN_MESSAGE)):
            return n, at, TOO_SMALL
        if base < 0 or base > MAX_OFFSET:
            return n, at, NEGATIVE_OFFSET
        row = table[n]
        row[POSITION] = at
        row[SIZE] = FRAME_OVERHEAD + length
        row[MAGIC] = magic
        row[BASE] = base
        row[SOURCE] = 0
        row[STOP] = at + FRAME_OVERHEAD + length
        row[TIME_TYPE] = -1
        row[MARKER] = NO_MARKER
        if magic == 2:
            attributes = be16(data, at + ATTRIBUTES_AT)
            if attributes & CODEC_MASK > MAX_CODEC:
                return n, at, UNKNOWN_CODEC
            if attributes & CONTROL_BIT and length > end - at - FRAME_OVERHEAD:
                break
            delta = be32(data, at + LAST_OFFSET_DELTA_AT)
            count = be32(data, at + RECORD_COUNT_AT)
            if delta < 0 or count < 0 or count > delta + 1 or base > MAX_OFFSET - delta:
                return n, at, COUNTS
            row[LAST] = base + delta
            row[ATTRIBUTES] = attributes
            row[COUNT] = count
            row[BASE_TIME] = be64(data, at + BASE_TIMESTAMP_AT)
            row[MAX_TIME] = be64(data, at + MAX_TIMESTAMP_AT)
            row[PRODUCER] = be64(data, at + PRODUCER_ID_AT)
            row[EPOCH] = be16(data, at + PRODUCER_EPOCH_AT)
            row[SEQUENCE] = be32(data, at + BASE_SEQUENCE_AT)
            row[LEADER] = be32(data, at + LEADER_EPOCH_AT)
            row[CRC] = be32(data, at + CRC_AT) & 0xFFFFFFFF
            row[START] = at + RECORDS_AT
            if attributes & CONTROL_BIT and count > 0:
                if attributes & CODEC_MASK:
                    row[MARKER] = PACKED_MARKER
                else:
                    row[MARKER] = control_type(data, at + RECORDS_AT, row[STOP])
        else:
            attributes = data[at + LEGACY_ATTRIBUTES_AT] & 0x0F
            if attributes & CODEC_MASK > MAX_CODEC:
                return n, at, UNKNOWN_CODEC
            row[LAST] = base
            row[ATTRIBUTES] = attributes
            row[COUNT] = 1
            row[MAX_TIME] = be64(data, at + LEGACY_TIMESTAMP_AT) if magic == 1 else -1
            row[PRODUCER] = -1
            row[CRC] = be32(data, at + LEGACY_CRC_AT) & 0xFFFFFFFF
            row[START] = at
            row[SHIFT] = 0
        n += 1
        at += FRAME_OVERHEAD + length
    return n, at, 0


@compiled
def _place(producers: Any, producer: Any) -> Any:
    """Where an id is in ascending ones, -1 where it is not."""
    low, high = 0, producers.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if producers[middle] < producer:
            low = middle + 1
        else:
            high = middle
    if low < producers.shape[0] and producers[low] == producer:
        return low
    return -1


@compiled
def plan(
    table: Any, n: Any, end: Any, check: Any, entries: Any, producers: Any, opened: Any, closed: Any, state: Any
) -> Any:
    """Decides what becomes of each frame: the rows up to the first frame at or beyond `end`, if there is one.

    entries: (first offset, place in `producers`) of aborted transactions, ascending; producers: their ids, ascending;
    opened: 1 for each of them whose transaction is open and aborted; closed: filled with (producer id, offset) of the
    ABORT markers met; state: P_EDGE is the first offset not passed.
    See engine.AbortedTransactions.
    """
    state[P_CLOSED] = 0
    for i in range(n):
        row = table[i]
        attributes = row[ATTRIBUTES]
        base = row[BASE]
        last = row[LAST]
        count = row[COUNT]
        packed = attributes & CODEC_MASK != 0
        modern = row[MAGIC] == 2
        if base >= end and (modern or not packed):
            return i
        kind = DATA if modern else MESSAGES
        producer = row[PRODUCER]
        if modern and producer >= 0:
            while state[P_ENTRY] < entries.shape[0] and entries[state[P_ENTRY], 0] <= last:
                opened[entries[state[P_ENTRY], 1]] = 1
                state[P_ENTRY] += 1
            found = _place(producers, producer)
            if row[MARKER] == ABORT_MARKER:
                if found >= 0:
                    opened[found] = 0
                closed[state[P_CLOSED], 0] = producer
                closed[state[P_CLOSED], 1] = base
                state[P_CLOSED] += 1
            elif found >= 0 and opened[found] and attributes & TRANSACTIONAL_BIT:
                kind = ABORTED
        if modern:
            if attributes & CONTROL_BIT:
                kind = CONTROL
            if count == 0:
                kind = EMPTY
            elif count == last - base + 1:
                if kind == CONTROL:
                    kind = COUNT_CONTROL
                elif kind == ABORTED:
                    kind = COUNT_ABORTED
        if last < state[P_EDGE]:
            kind = DROP
        else:
            state[P_EDGE] = last + 1
        row[KIND] = kind
        row[UNPACK] = 1 if packed and kind >= DATA else 0
        row[CHECK] = 1 if check else 0
        row[COUNTED] = row[SIZE]
    return n


@compiled
def scan_messages(data: Any, start: Any, stop: Any, magic: Any) -> Any:
    """Walks the unpacked message set data[start:stop]: (last own offset, 1 if one is itself compressed, fault or 0)."""
    at = start
    last = -1
    nested = 0
    if at == stop:
        return last, nested, INNER_EMPTY
    while at < stop:
        if stop - at < FRAME_OVERHEAD:
            return last, nested, INNER_TRUNCATED
        offset = be64(data, at)
        length = be32(data, at + LENGTH_AT)
        if length < MIN_MESSAGE:
            return last, nested, TOO_SMALL
        if length > stop - at - FRAME_OVERHEAD:
            return last, nested, INNER_TRUNCATED
        if data[at + MAGIC_AT] != magic:
            return last, nested, INNER_MAGIC
        if magic == 1 and length < MIN_MESSAGE_1:
            return last, nested, TOO_SMALL
        if offset < 0 or offset >= 1 << 62:
            return last, nested, NEGATIVE_OFFSET
        if data[at + LEGACY_ATTRIBUTES_AT] & CODEC_MASK:
            nested = 1
        last = offset
        at += FRAME_OVERHEAD + length
    return last, nested, 0
