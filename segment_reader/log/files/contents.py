"""The content of a .log, batch by batch and record by record: for people and tools that inspect a file.

Damage ends as little as possible: a batch with a wrong checksum is marked, a record that cannot be read ends its batch.
Only an impossible header ends the file, since the position of the next batch is unknown then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kseg.segment_reader.codecs.limits import DEFAULT_LIMIT
from kseg.segment_reader.codecs.registry import BY_NUMBER
from kseg.segment_reader.decode.batch import (
    CONTROL_KEY,
    FRAME_OVERHEAD,
    LEGACY_CRC_AT,
    MAGIC_AT,
    Frame,
    FrameFault,
    frames,
)
from kseg.segment_reader.decode.header_names import java_text
from kseg.segment_reader.decode.legacy import RecordFault, message_crc_matches, message_fields, message_time
from kseg.segment_reader.decode.reference import batch_records, crc_matches, frame_messages, read_body
from kseg.segment_reader.log.errors import LogDamaged
from kseg.segment_reader.log.files.storage import OpenFile
from kseg.segment_reader.log.scan.headers import frame_size, only_zeros

CONTROL_TYPES: Final = {0: "ABORT", 1: "COMMIT", 2: "LEADER_CHANGE", 3: "SNAPSHOT_HEADER", 4: "SNAPSHOT_FOOTER"} | {
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
_DELETE_HORIZON_BIT: Final = 0x40


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, or message of magic 0 and 1: its header, the position in its file, its bytes."""

    frame: Frame
    position: int
    data: memoryview
    valid: bool

    @property
    def codec(self) -> str:
        return BY_NUMBER[self.frame.codec].name

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time at which a compacted log may drop its tombstones; stored in place of the base timestamp
        (KIP-534)."""
        marked = self.frame.magic == 2 and self.frame.attributes & _DELETE_HORIZON_BIT
        return self.frame.base_timestamp if marked else None


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record. `timestamp` in ms, `timestamp_type` 0 (CreateTime) or 1 (LogAppendTime), both -1 where there is none.

    `control` names the type of a control record. `crc` and `valid`: messages of magic 0 and 1 have a checksum each.
    """

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    sequence: int
    control: str | None
    crc: int | None = None
    valid: bool | None = None


def batches(file: OpenFile, position: int = 0) -> Iterator[Batch]:
    """Every batch from a position on. Raises LogDamaged at one that is cut off, or whose header is impossible."""
    while file.size > position:
        head = file.read(position, FRAME_OVERHEAD)
        size = frame_size(head)
        if not any(head) and only_zeros(file, position):
            return
        if len(head) < FRAME_OVERHEAD or size > file.size - position:
            raise LogDamaged(
                file.path, position, f"the last batch is cut off: {file.size - position} bytes of it are there"
            )
        data = file.read(position, max(size, FRAME_OVERHEAD))
        try:
            frame = next(frames(data))
        except FrameFault as error:
            raise LogDamaged(file.path, position, error.fault.reason) from None
        yield Batch(frame, position, data, crc_matches(data, frame))
        position += frame.size


def records(batch: Batch, path: str) -> Iterator[LogRecord]:
    """The records of a batch, control records included. Raises LogDamaged at the first that cannot be read."""
    frame = batch.frame
    try:
        yield from _records(batch) if frame.magic == 2 else _messages(batch)
    except RecordFault as error:
        reason = error.fault.reason + (f": {error.detail}" if error.detail else "")
        raise LogDamaged(path, batch.position, f"batch at offset {frame.base_offset}: {reason}") from None


def _records(batch: Batch) -> Iterator[LogRecord]:
    frame = batch.frame
    kind = int(frame.log_append_time)
    for delta, timestamp, rest in batch_records(batch.data, frame, DEFAULT_LIMIT):
        offset = frame.base_offset + delta
        key, value, headers = read_body(rest)
        named = [(java_text(name), value) for name, value in headers or ()]
        sequence = -1 if frame.base_sequence < 0 else (frame.base_sequence + delta) & 0x7FFFFFFF
        control = _control(key) if frame.control else None
        yield LogRecord(offset, timestamp, kind if timestamp != -1 else -1, key, value, named, sequence, control)


def _messages(batch: Batch) -> Iterator[LogRecord]:
    for leaf in frame_messages(batch.data, batch.frame, DEFAULT_LIMIT, check_crcs=False):
        key, value = message_fields(leaf.message)
        timestamp, kind = message_time(leaf.message, leaf)
        crc = int.from_bytes(leaf.message[LEGACY_CRC_AT:MAGIC_AT], "big")
        yield LogRecord(
            leaf.offset,
            timestamp,
            kind if timestamp != -1 else -1,
            key,
            value,
            [],
            -1,
            None,
            crc,
            message_crc_matches(leaf.message),
        )


def _control(key: bytes | None) -> str:
    if key is None or len(key) < CONTROL_KEY.size:
        return "UNKNOWN"
    kind = CONTROL_KEY.unpack_from(key)[1]
    return CONTROL_TYPES.get(kind, f"UNKNOWN({kind})")
