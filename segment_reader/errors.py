"""Typed errors of record bytes; they can be pickled.

    RecordFormatError
    ├── CorruptRecordBatch       the bytes contradict themselves or their checksum
    ├── UnsupportedMagic         a message format that is newer than this reader
    ├── UnsupportedCompression   a codec number that this reader does not know
    ├── BatchTooLarge            a batch that unpacks to more than the caller allows
    └── UnrepresentableRecord    valid for Kafka, but no value of the Arrow column

None is retriable: the same bytes fail again. Both decoders report the same `Fault` for the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar


@dataclass(frozen=True)
class BatchAddress:
    """The address of a batch: its partition, its base offset (a legacy wrapper's own offset), its byte position.

    `position` counts from the start of the record set that was fed, or of `file` where there is one.
    """

    topic: str
    partition: int
    base_offset: int
    position: int
    file: str | None = None

    def __str__(self) -> str:
        where = f"{self.file}, byte {self.position}" if self.file else f"byte {self.position} of the record set"
        return f"{self.topic}-{self.partition}, batch at offset {self.base_offset} ({where})"


class RecordFormatError(Exception):
    """Record bytes that cannot become rows. Attributes: `address`, `reason`, `offset` (the record's, where known)."""

    retriable: ClassVar[bool] = False

    def __init__(self, address: BatchAddress, reason: str, *, offset: int | None = None) -> None:
        at = "" if offset is None else f", record at offset {offset}"
        super().__init__(f"{address}{at}: {reason}")
        self.address = address
        self.reason = reason
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.address, self.reason, self.offset)


def _rebuild(
    kind: type[RecordFormatError], address: BatchAddress, reason: str, offset: int | None
) -> RecordFormatError:
    return kind(address, reason, offset=offset)


class CorruptRecordBatch(RecordFormatError):
    """The bytes contradict themselves: checksum, lengths, counts, or the order of offsets."""


class UnsupportedMagic(RecordFormatError):
    """The batch is of a format other than magic 0, 1 and 2."""


class UnsupportedCompression(RecordFormatError):
    """The batch names a codec other than none, gzip, snappy, lz4 and zstd."""


class BatchTooLarge(RecordFormatError):
    """The batch unpacks to more bytes than `Limits.max_batch_bytes`: damage, or a decompression bomb."""


class UnrepresentableRecord(RecordFormatError):
    """Kafka accepts the record, Arrow's column cannot hold it: a time beyond 64 bits of microseconds, a header's
    name that is not UTF-8, where these are refused. `offset` names the record."""


class Fault(IntEnum):
    """Every reason, numbered so that compiled code can return it."""

    TOO_SMALL = 1
    NEGATIVE_OFFSET = 2
    COUNTS = 3
    CRC = 4
    VARINT = 5
    RECORD_OVERRUN = 6
    RECORD_LENGTH = 7
    FIELD_LENGTH = 8
    OFFSET_ORDER = 9
    TOO_FEW = 10
    TRAILING = 11
    HEADER_COUNT = 12
    HEADER_KEY = 13
    HEADER_UTF8 = 14
    TIMESTAMP = 15
    CONTROL_KEY = 16
    MAGIC = 17
    CODEC = 18
    INNER_TRUNCATED = 19
    INNER_MAGIC = 20
    INNER_EMPTY = 21
    INNER_OFFSET = 22
    INNER_DEPTH = 23
    DECOMPRESS = 24
    TOO_LARGE = 25
    LENGTH = 26

    @property
    def reason(self) -> str:
        """In words."""
        return _REASONS[self]

    def error(self, address: BatchAddress, *, offset: int | None = None, detail: str = "") -> RecordFormatError:
        """The typed error for this fault at `address`."""
        reason = self.reason + (f": {detail}" if detail else "")
        return _KINDS.get(self, CorruptRecordBatch)(address, reason, offset=offset)


_KINDS: dict[Fault, type[RecordFormatError]] = {
    Fault.MAGIC: UnsupportedMagic,
    Fault.CODEC: UnsupportedCompression,
    Fault.TOO_LARGE: BatchTooLarge,
    Fault.HEADER_UTF8: UnrepresentableRecord,
    Fault.TIMESTAMP: UnrepresentableRecord,
}

_REASONS: dict[Fault, str] = {
    Fault.TOO_SMALL: "the length field is below the smallest possible batch",
    Fault.NEGATIVE_OFFSET: "the offset is outside of what a log can hold",
    Fault.COUNTS: "record count and last offset delta do not agree",
    Fault.CRC: "the checksum does not match the bytes",
    Fault.VARINT: "a variable-length integer is cut off or too long",
    Fault.RECORD_OVERRUN: "a record runs past the end of its batch",
    Fault.RECORD_LENGTH: "a record's fields do not fill its length",
    Fault.FIELD_LENGTH: "a field runs past the end of its record",
    Fault.OFFSET_ORDER: "record offsets do not ascend within the batch's range",
    Fault.TOO_FEW: "fewer records than the batch header says",
    Fault.TRAILING: "bytes are left after the last record that the batch header says",
    Fault.HEADER_COUNT: "impossible number of headers",
    Fault.HEADER_KEY: "a header's key is null",
    Fault.HEADER_UTF8: "a header's name is not valid UTF-8",
    Fault.TIMESTAMP: "the timestamp does not fit 64 bits of microseconds",
    Fault.CONTROL_KEY: "a control record's key is not (version, type)",
    Fault.MAGIC: "unknown magic byte",
    Fault.CODEC: "unknown compression codec",
    Fault.INNER_TRUNCATED: "a message inside a compressed message set is cut off",
    Fault.INNER_MAGIC: "a message differs in magic from the message set that holds it",
    Fault.INNER_EMPTY: "a compressed message holds no messages",
    Fault.INNER_OFFSET: "a compressed message's offset is below its last inner offset",
    Fault.INNER_DEPTH: "compressed messages are nested too deep",
    Fault.DECOMPRESS: "decompression failed",
    Fault.TOO_LARGE: "the batch unpacks to more bytes than allowed",
    Fault.LENGTH: "the length field is wrong",
}
