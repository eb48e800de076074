"""The manifest of a segment in the layout of Aiven's plug-in: one JSON object, version "1".

    chunkIndex             how the .log was cut, and how large each chunk became
      type "fixed"           originalChunkSize, originalFileSize, transformedChunkSize, finalTransformedChunkSize
      type "variable"        originalChunkSize, originalFileSize, transformedChunks
    segmentIndexes         position and size of offset, timestamp, producerSnapshot, leaderEpoch, transaction (may be
                           null) in the one object that holds them all
    compression            whether each chunk is a Zstandard frame (indexes never are)
    encryption             dataKey "<key id>:<base64 of the wrapped key>", aad base64; left out where there is none
    remoteLogSegmentMetadata   as the broker had it: ids, startOffset, endOffset, brokerId, eventTimestampMs, epochs

`transformedChunks` is base64 of a Zstandard frame of:

    count int32 | base int32 | bytes per value int8 | count - 1 values over the base | last value int32

with no base and values where the count is 1, and nothing else where it is 0.
Source: https://github.com/Aiven-Open/tiered-storage-for-apache-kafka, 1.0 and 1.1.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct, error
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import zstandard

from kseg.segment_reader.log.errors import LayoutError
from kseg.segment_reader.log.files.checkpoints import EpochStart
from kseg.segment_reader.log.layouts.remote import File

_INT: Final = Struct(">i")
_SIZES: Final = Struct(">iib")
_MAX_SIZES_BYTES: Final = 10 << 20
_MAX_INT: Final = (1 << 31) - 1
_MAX_LONG: Final = (1 << 63) - 1
_INDEXES: Final[Mapping[str, File]] = {
    "offset": "index",
    "timestamp": "timeindex",
    "producerSnapshot": "snapshot",
    "leaderEpoch": "leader-epoch-checkpoint",
    "transaction": "txnindex",
}


@dataclass(frozen=True, slots=True)
class Encryption:
    """The id of the key that wraps the data key, the wrapped key, and what is authenticated beside each chunk."""

    key_id: str
    wrapped_key: bytes
    aad: bytes


@dataclass(frozen=True)
class Manifest:
    """One segment's manifest.

    chunk_size, size: bytes of a chunk (the last one may have fewer) and of the whole .log, at the broker.
    starts: int64, where each chunk begins in the object, and where the last one ends.
    indexes: (position, size) of each small file in the object of indexes.
    epochs: leader epochs within the segment, with the first offset of each.
    """

    chunk_size: int
    size: int
    starts: npt.NDArray[np.int64]
    indexes: Mapping[File, tuple[int, int]]
    compressed: bool
    encryption: Encryption | None
    topic: str
    partition: int
    topic_id: UUID
    start_offset: int
    end_offset: int
    uploaded_ms: int
    epochs: tuple[EpochStart, ...]


class _Fault(ValueError):
    """A fault of a manifest."""


def parse_manifest(data: bytes, file: str) -> Manifest:
    """Reads a manifest. Raises LayoutError."""
    try:
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            raise _Fault("the bytes are no JSON") from None
        return _manifest(_object(document, "the manifest"))
    except _Fault as fault:
        raise LayoutError(file, None, f"{fault}") from None


def _manifest(document: Mapping[str, Any]) -> Manifest:
    if document.get("version") != "1":
        raise _Fault(f"version {document.get('version')!r} is unknown")
    index = _object(document.get("chunkIndex"), "chunkIndex")
    chunk_size, size = _number(index, "originalChunkSize"), _number(index, "originalFileSize")
    if chunk_size < 1:
        raise _Fault("originalChunkSize is not positive")
    compressed = document.get("compression")
    if not isinstance(compressed, bool):
        raise _Fault("compression is neither true nor false")
    metadata = _object(document.get("remoteLogSegmentMetadata"), "remoteLogSegmentMetadata")
    ids = _object(_object(metadata.get("remoteLogSegmentId"), "remoteLogSegmentId").get("topicIdPartition"), "ids")
    partition = _object(ids.get("topicPartition"), "topicPartition")
    start, end = _number(metadata, "startOffset", _MAX_LONG), _number(metadata, "endOffset", _MAX_LONG)
    if end < start:
        raise _Fault(f"endOffset {end} is below startOffset {start}")
    return Manifest(
        chunk_size,
        size,
        _starts(index, -(-size // chunk_size)),
        _indexes(_object(document.get("segmentIndexes"), "segmentIndexes")),
        compressed,
        _encryption(document.get("encryption")),
        _text(partition, "topic"),
        _number(partition, "partition"),
        kafka_id(_text(ids, "topicId")),
        start,
        end,
        _number(metadata, "eventTimestampMs", _MAX_LONG),
        _epochs(_object(metadata.get("segmentLeaderEpochs"), "segmentLeaderEpochs")),
    )


def _starts(index: Mapping[str, Any], count: int) -> npt.NDArray[np.int64]:
    if index.get("type") == "fixed":
        each, last = _number(index, "transformedChunkSize"), _number(index, "finalTransformedChunkSize")
        if count > _MAX_SIZES_BYTES:
            raise _Fault(f"{count} chunks are more than a segment can have")
        sizes = np.full(count, each, np.int64)
        sizes[-1:] = last
    elif index.get("type") == "variable":
        sizes = _sizes(_text(index, "transformedChunks"))
        if len(sizes) != count:
            raise _Fault(f"transformedChunks names {len(sizes)} chunks, the sizes give {count}")
    else:
        raise _Fault(f"a chunk index of type {index.get('type')!r} is unknown")
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _sizes(text: str) -> npt.NDArray[np.int64]:
    data = _base64(text, "transformedChunks")
    try:
        packed = zstandard.ZstdDecompressor().decompress(data, max_output_size=_MAX_SIZES_BYTES, allow_extra_data=False)
    except zstandard.ZstdError as failure:
        raise _Fault(f"transformedChunks is not a Zstandard frame: {failure}") from None
    return chunk_sizes(packed)


def chunk_sizes(packed: bytes) -> npt.NDArray[np.int64]:
    """The sizes of chunks as they are packed (see the module): int64. Raises ValueError."""
    try:
        (count,) = _INT.unpack_from(packed)
        if count == 0 and len(packed) == _INT.size:
            return np.empty(0, np.int64)
        (last,) = _INT.unpack_from(packed, len(packed) - _INT.size)
        sizes = np.empty(0, np.int64)
        if count != 1:
            _, base, width = _SIZES.unpack_from(packed)
            end = _SIZES.size + (count - 1) * width
            if count < 1 or not 1 <= width <= 4 or base < 0 or len(packed) != end + _INT.size:
                raise _Fault("transformedChunks has an invalid encoding")
            bytes_of = np.frombuffer(packed, np.uint8, (count - 1) * width, _SIZES.size).reshape(-1, width)
            sizes = bytes_of.astype(np.int64) @ (256 ** np.arange(width - 1, -1, -1, dtype=np.int64)) + base
        elif len(packed) != 2 * _INT.size:
            raise _Fault("transformedChunks has an invalid encoding")
    except error:
        raise _Fault("transformedChunks is too short") from None
    if last < 0 or (sizes > _MAX_INT).any():
        raise _Fault("transformedChunks has an impossible size")
    return np.append(sizes, last)


def _indexes(document: Mapping[str, Any]) -> dict[File, tuple[int, int]]:
    found: dict[File, tuple[int, int]] = {}
    for name, file in _INDEXES.items():
        if document.get(name) is None and name == "transaction":
            continue  # no transaction ended in the segment
        ids = _object(document.get(name), name)
        found[file] = _number(ids, "position"), _number(ids, "size")
    return found


def _encryption(document: Any) -> Encryption | None:
    if document is None:
        return None
    encryption = _object(document, "encryption")
    key_id, colon, wrapped = _text(encryption, "dataKey").partition(":")
    if not colon or not key_id:
        raise _Fault("dataKey is not a key's id and a key")
    return Encryption(key_id, _base64(wrapped, "dataKey"), _base64(_text(encryption, "aad"), "aad"))


def _epochs(document: Mapping[str, Any]) -> tuple[EpochStart, ...]:
    epochs = []
    for name in document:
        if not name.isascii() or not name.isdigit() or int(name) > _MAX_INT:
            raise _Fault(f"segmentLeaderEpochs: {name!r} is no epoch")
        epochs.append(EpochStart(int(name), _number(document, name, _MAX_LONG)))
    return tuple(sorted(epochs))


def kafka_id(text: str) -> UUID:
    """An id as Kafka writes it: 22 characters of base64, without bits that no id has. Raises ValueError."""
    try:
        content = base64.b64decode(f"{text}==", altchars=b"-_", validate=True)
        if base64.urlsafe_b64encode(content) == f"{text}==".encode():
            return UUID(bytes=content)
    except (ValueError, binascii.Error):
        pass
    raise _Fault(f"{text!r} is not an id")


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _Fault(f"{name} is missing, or no object")
    return value


def _number(document: Mapping[str, Any], name: str, most: int = _MAX_INT) -> int:
    value = document.get(name)
    if type(value) is not int or not 0 <= value <= most:
        raise _Fault(f"{name} is {value!r}, no number from 0 to {most}")
    return value


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise _Fault(f"{name} is {value!r}, no text")
    return value


def _base64(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise _Fault(f"{name} is not base64") from None
