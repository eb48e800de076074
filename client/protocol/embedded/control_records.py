"""Control records, which brokers write between a log's records. Consumers never return them.

    key    int16 version, int16 type
    value  abort, commit: int16 version, then EndTxnMarker
           others: the message, whose first field is the version

Types 2 to 6 are only in the metadata log and its snapshots.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from kseg.client.protocol.codec import decode, encode
from kseg.client.protocol.embedded.framing import decode_versioned, encode_versioned, version_of
from kseg.client.protocol.errors import DecodeError
from kseg.client.protocol.fields import ByteString, array, int16, int32, int64, string, struct, uint16, uuid
from kseg.client.protocol.schema import Message, Struct


class ControlRecordType(IntEnum):
    """The content of a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecordTypeSchema(Message, versions="0"):
    """The key; `type` is a `ControlRecordType`."""

    type: int = int16("0+")


class EndTxnMarker(Message, versions="0"):
    """Ends a producer's transaction in a partition, as committed or aborted."""

    coordinator_epoch: int = int32("0+")


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    """A new leader of the metadata quorum, and who voted; v1 has the voters' directories (KIP-853)."""

    class Voter(Struct):
        voter_id: int = int32("0+")
        voter_directory_id: UUID = uuid("1+")

    version: int = int16("0+")
    leader_id: int = int32("0+")
    voters: list[Voter] = array(Voter, "0+")
    granting_voters: list[Voter] = array(Voter, "0+")


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """Begins a snapshot of the metadata log; the time is ms since 1970."""

    version: int = int16("0+")
    last_contained_log_timestamp: int = int64("0+")


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """Ends a snapshot of the metadata log."""

    version: int = int16("0+")


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    """From here on the quorum uses this version of its protocol (`kraft.version`)."""

    version: int = int16("0+")
    k_raft_version: int = int16("0+")


class VotersRecord(Message, versions="0", flexible="0+"):
    """From here on these are the quorum's voters (KIP-853)."""

    class Voter(Struct):
        class Endpoint(Struct):
            name: str = string("0+")
            host: str = string("0+")
            port: int = uint16("0+")

        class KRaftVersionFeature(Struct):
            min_supported_version: int = int16("0+")
            max_supported_version: int = int16("0+")

        voter_id: int = int32("0+")
        voter_directory_id: UUID = uuid("0+")
        endpoints: list[Endpoint] = array(Endpoint, "0+")
        k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature, "0+")

    Endpoint: TypeAlias = Voter.Endpoint
    KRaftVersionFeature: TypeAlias = Voter.KRaftVersionFeature

    version: int = int16("0+")
    voters: list[Voter] = array(Voter, "0+")


_OF_THE_QUORUM: dict[int, type[Message]] = {
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}


class ControlRecord(NamedTuple):
    """If the type or the value's version is unknown, `type` is a plain number and `value` bytes."""

    type: int
    value: Message | bytes


def decode_control_record(key: ByteString, value: ByteString) -> ControlRecord:
    """A control record's type and message.

    Newer versions of the key and of a transaction's marker are read as the last known one, as Java does: new versions
    only append fields. Raises `DecodeError`, also for a negative version.
    """
    if version_of(key) < 0:
        raise DecodeError("negative version of a control record", 0, message="ControlRecordTypeSchema")
    number = decode_versioned(ControlRecordTypeSchema, key, newer=True).type
    if number in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        if version_of(value) < 0:
            raise DecodeError("negative version of a transaction's marker", 0, message="EndTxnMarker")
        return ControlRecord(ControlRecordType(number), decode_versioned(EndTxnMarker, value, newer=True))
    cls = _OF_THE_QUORUM.get(number)
    if cls is None or not cls.VERSIONS.has(version_of(value)):
        return ControlRecord(number, bytes(value))
    return ControlRecord(ControlRecordType(number), decode(cls, version_of(value), value))


def encode_control_record(kind: ControlRecordType, value: Message) -> tuple[bytes, bytes]:
    """Key and value: the broker's side, for tests and tools. Raises `EncodeError`; `TypeError` if they do not fit."""
    key = encode_versioned(ControlRecordTypeSchema(type=kind), 0)
    if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        if not isinstance(value, EndTxnMarker):
            raise TypeError(f"{kind.name} carries an EndTxnMarker, not {value!r}")
        return key, encode_versioned(value, 0)
    if not isinstance(value, _OF_THE_QUORUM[kind]):
        raise TypeError(f"{kind.name} carries a {_OF_THE_QUORUM[kind].__name__}, not {value!r}")
    known: Any = value  # each of them has its version as a field, the first one: what is written begins with it
    return key, encode(known, known.version)
