"""Decodes and encodes the records of Kafka's internal topics: key and value bytes, and messages.

    topic                  key                     value
    __consumer_offsets     int16 type, message     int16 version, message
    __transaction_state    the same                the same
    __share_group_state    the same                the same
    __cluster_metadata     none                    unsigned varints 1 (the frame's version), type, version; message
    __remote_log_metadata  none                    the same

Keys of an unknown type and values of an unknown version (newer than Kafka 4.3.1) stay bytes. A null value is a
tombstone, and stays None. Control records in these logs have other formats: see control_records.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import NamedTuple

from kseg.client.protocol.codec import decode, encode
from kseg.client.protocol.embedded import (
    consumer_group_records,
    group_records,
    metadata_records,
    remote_log_records,
    share_group_records,
    streams_group_records,
    transaction_records,
)
from kseg.client.protocol.embedded.framing import TypedMessage, encode_versioned, version_of
from kseg.client.protocol.errors import DecodeError
from kseg.client.protocol.fields import ByteString
from kseg.client.protocol.primitives import read_uvarint, uvarint

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"
REMOTE_LOG_METADATA = "__remote_log_metadata"

_FRAME_VERSION = 1


class InternalRecord(NamedTuple):
    """A record of an internal topic; `value_version` is -1 if the value is null or stays bytes."""

    key: TypedMessage | bytes | None
    value: TypedMessage | bytes | None
    value_version: int = -1


def _typed(*modules: ModuleType) -> list[type[TypedMessage]]:
    found = (value for module in modules for value in vars(module).values())
    return [one for one in found if isinstance(one, type) and issubclass(one, TypedMessage) and one is not TypedMessage]


def _pairs(classes: list[type[TypedMessage]]) -> Mapping[int, tuple[type[TypedMessage], type[TypedMessage]]]:
    """Key and value class by type: XKey goes with XValue."""
    by_name = {cls.__name__: cls for cls in classes}
    keys = [cls for cls in classes if cls.__name__.endswith("Key")]
    return MappingProxyType({key.KEY: (key, by_name[key.__name__.removesuffix("Key") + "Value"]) for key in keys})


_GROUPS = _typed(group_records, consumer_group_records, share_group_records, streams_group_records)
_SHARE_STATE = [cls for cls in _GROUPS if cls.__name__.startswith(("ShareSnapshot", "ShareUpdate"))]
_COORDINATORS = {
    CONSUMER_OFFSETS: _pairs([cls for cls in _GROUPS if cls not in _SHARE_STATE]),
    TRANSACTION_STATE: _pairs(_typed(transaction_records)),
    SHARE_GROUP_STATE: _pairs(_SHARE_STATE),
}
_LOGS = {
    CLUSTER_METADATA: {cls.KEY: cls for cls in _typed(metadata_records)},
    REMOTE_LOG_METADATA: {cls.KEY: cls for cls in _typed(remote_log_records)},
}
TOPICS = frozenset({*_COORDINATORS, *_LOGS})


def decode_internal(topic: str, key: ByteString | None, value: ByteString | None) -> InternalRecord:
    """Decode a record of an internal topic.

    Raises `DecodeError` for bytes that are damaged, `KeyError` for a topic that is not in `TOPICS`.
    """
    if topic in _LOGS:
        return _decode_log(topic, key, value)
    pairs = _COORDINATORS[topic]
    kind = pairs.get(version_of(key)) if key is not None else None
    if key is None or kind is None:
        return InternalRecord(_opaque(key), _opaque(value))
    key_class, value_class = kind
    decoded_key = decode(key_class, 0, key, 2)
    if value is None:
        return InternalRecord(decoded_key, None)
    version = version_of(value)
    if not value_class.VERSIONS.has(version):
        return InternalRecord(decoded_key, bytes(value))
    return InternalRecord(decoded_key, decode(value_class, version, value, 2), version)


def encode_internal(
    topic: str, key: TypedMessage | None, value: TypedMessage | None, value_version: int
) -> tuple[bytes | None, bytes | None]:
    """Key and value bytes: the coordinator's side, for tests and tools. Raises `EncodeError`."""
    if topic in _LOGS:
        if value is None:
            return None, None
        head = b"".join(uvarint(number) for number in (_FRAME_VERSION, value.KEY, value_version))
        return None, head + encode(value, value_version)
    coded = None if key is None else key.KEY.to_bytes(2, "big") + encode(key, 0)
    return coded, None if value is None else encode_versioned(value, value_version)


def _opaque(data: ByteString | None) -> bytes | None:
    return None if data is None else bytes(data)


def log_head(value: ByteString) -> tuple[int, int | None, int]:
    """(frame version, type, version) at the start of a metadata log's record; type None if the frame is newer.

    Raises `DecodeError`.
    """
    end = len(value)
    frame, position = read_uvarint(value, 0, end)
    if frame != _FRAME_VERSION:
        return frame, None, -1
    number, position = read_uvarint(value, position, end)
    return frame, number, read_uvarint(value, position, end)[0]


def known_type(topic: str, number: int) -> str | None:
    """The name of a record type of a metadata log; None if it is unknown."""
    cls = _LOGS[topic].get(number)
    return None if cls is None else cls.__name__


def _decode_log(topic: str, key: ByteString | None, value: ByteString | None) -> InternalRecord:
    if value is None:
        return InternalRecord(_opaque(key), None)
    end = len(value)
    frame, position = read_uvarint(value, 0, end)
    if frame == 0:
        raise DecodeError("frame version 0, of a preview of KRaft that no release can read", 0, message=topic)
    if frame != _FRAME_VERSION:
        return InternalRecord(_opaque(key), bytes(value))
    number, position = read_uvarint(value, position, end)
    version, position = read_uvarint(value, position, end)
    cls = _LOGS[topic].get(number)
    if cls is None or not cls.VERSIONS.has(version):
        return InternalRecord(_opaque(key), bytes(value))
    return InternalRecord(_opaque(key), decode(cls, version, value, position), version)
