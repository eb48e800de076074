"""Message indexes: which message of its schema a payload of Confluent's serializers is, written behind the schema's id.

    count    varint, zigzag     0 is short for one index, which is 0
    index    varint, zigzag     of a message in the file, then of one in that message, …

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.segment_reader.payload.buffers import byte_buffers, null_mask
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.plain import BadPayload
from kseg.segment_reader.payload.protobuf.wire import SHORT, WireReader

_FIRST: Final = (0,)
_MOST: Final = 64  # messages in each other


@dataclass(frozen=True)
class MessageIndexes:
    """The message indexes that n payloads' frames name.

    messages: the indexes that are written, ascending (`schema.ProtobufSchema.message_at`). which: n indexes into it,
    int32, -1 where the status is not DECODED. skip: where each message begins, int32, in bytes. status: uint8: DECODED,
    NULL or BAD_FRAME.
    """

    messages: tuple[tuple[int, ...], ...]
    which: npt.NDArray[np.int32]
    skip: npt.NDArray[np.int32]
    status: npt.NDArray[np.uint8]


def message_indexes(payloads: pa.BinaryArray, skip: npt.NDArray[np.int32]) -> MessageIndexes:
    """The indexes behind each payload's first `skip` bytes (`segment_reader.payload.framing.Frames.skip`)."""
    offsets, data = byte_buffers(payloads)
    starts, ends = offsets[:-1] + skip, offsets[1:]
    null = null_mask(payloads)
    status = np.full(len(payloads), Status.BAD_FRAME, np.uint8)
    status[null] = Status.NULL
    some = np.flatnonzero(~null & (starts < ends))
    plain = some[data[starts[some]] == 0]
    status[plain] = Status.DECODED
    behind = np.array(skip, np.int32)
    behind[plain] += 1
    found: dict[int, tuple[int, ...]] = {}
    for row in some[data[starts[some]] != 0].tolist():
        reader = WireReader(data[starts[row] : ends[row]].tobytes())
        try:
            found[row] = _indexes(reader)
        except BadPayload:
            continue
        status[row] = Status.DECODED
        behind[row] += reader.position
    messages = tuple(sorted({*found.values(), *((_FIRST,) if len(plain) else ())}))
    place = {message: number for number, message in enumerate(messages)}
    which = np.full(len(payloads), -1, np.int32)
    which[plain] = place.get(_FIRST, -1)
    for row, message in found.items():
        which[row] = place[message]
    return MessageIndexes(messages, which, behind, status)


def _indexes(reader: WireReader) -> tuple[int, ...]:
    count = _zigzag(reader)
    if not 0 <= count <= _MOST:
        raise BadPayload(Status.BAD_FRAME, f"{count} message indexes")
    return tuple(_zigzag(reader) for _ in range(count)) or _FIRST


def _zigzag(reader: WireReader) -> int:
    value = reader.varint(SHORT)
    return (value >> 1) ^ -(value & 1)
