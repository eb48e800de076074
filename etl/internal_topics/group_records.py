"""The latest record of each key of a group, as the group coordinator would hold them after reading its partition.

    record outside of a transaction    counts at once
    record of a transaction            waits for its producer's marker: COMMIT lets it count, ABORT drops it
    null value                         deletes what counts, and what waits under the same key

A committed one does not replace what was written behind it: the record's own offset decides, not its marker's. This is
what Kafka's coordinator does (KIP-98, KIP-447; `OffsetMetadataManager.replay` of 4.x).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.embedded.group_records import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kseg.client.protocol.embedded.internal_topics import CONSUMER_OFFSETS, decode_internal
from kseg.client.protocol.errors import DecodeError
from kseg.etl.internal_topics.errors import UndecodableRecord
from kseg.etl.internal_topics.locations import KeyPlace
from kseg.etl.internal_topics.records_by_key import KeyChange, TransactionEnd, changes

#: Commits go by topic and partition, since two types of key may name one; all else by the key's bytes.
Slot = tuple[str, int] | bytes


class KeyedRecord(NamedTuple):
    """A record that counts, or waits for its transaction: its offset, its messages (client.protocol.embedded)."""

    offset: int
    key: Any
    value: Any


@dataclass
class GroupRecords:
    """Effective records by key; pending ones by producer and key; `notes` about records that are newer than this
    release."""

    held: dict[Slot, KeyedRecord] = field(default_factory=dict)
    pending: dict[int, dict[Slot, KeyedRecord]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, key_type: type[TypedMessage]) -> list[KeyedRecord]:
        """The effective records of one type of key, in the order of the log."""
        return sorted((one for one in self.held.values() if isinstance(one.key, key_type)), key=lambda one: one.offset)

    def commits(self) -> dict[tuple[str, int], KeyedRecord]:
        """The offsets that count, by topic and partition."""
        return {slot: one for slot, one in self.held.items() if isinstance(slot, tuple)}


def group_records(place: KeyPlace, group: str) -> GroupRecords:
    """Reads one group's records.

    Raises:
        UndecodableRecord: a record of a known type is damaged, or in a version that this release does not know.
        LogFileError, RecordFormatError: the files are damaged.
    """
    return fold(place, changes(place.replica, group))


def fold(place: KeyPlace, found: Iterable[KeyChange | TransactionEnd]) -> GroupRecords:
    """See the module."""
    records = GroupRecords()
    for one in found:
        if isinstance(one, TransactionEnd):
            for slot, waited in records.pending.pop(one.producer_id, {}).items():
                counts = records.held.get(slot)
                if one.committed and (counts is None or counts.offset < waited.offset):
                    records.held[slot] = waited
        else:
            _apply(place, records, one)
    return records


def _apply(place: KeyPlace, records: GroupRecords, change: KeyChange) -> None:
    try:
        decoded = decode_internal(CONSUMER_OFFSETS, change.key, change.value)
    except DecodeError as fault:
        raise UndecodableRecord.of(place, change.offset, str(fault)) from fault
    if not isinstance(decoded.key, TypedMessage):
        records.notes.append(f"offset {change.offset}: a record whose type is newer than this release supports")
        return
    slot = _slot(change.key, decoded.key)
    if decoded.value is None:
        records.held.pop(slot, None)
        for waiting in records.pending.values():
            waiting.pop(slot, None)
        return
    if not isinstance(decoded.value, TypedMessage):
        raise UndecodableRecord.of(place, change.offset, "its value's version is newer than this release supports")
    target = records.held
    if change.producer_id is not None:
        target = records.pending.setdefault(change.producer_id, {})
    target[slot] = KeyedRecord(change.offset, decoded.key, decoded.value)


def _slot(key: bytes, message: TypedMessage) -> Slot:
    if isinstance(message, OffsetCommitKey | LegacyOffsetCommitKey):
        return message.topic, message.partition
    return key


def as_commit(value: TypedMessage) -> OffsetCommitValue:
    """A commit's value; one of brokers before 0.9 in the form of today."""
    if isinstance(value, LegacyOffsetCommitValue):
        return OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp)
    if not isinstance(value, OffsetCommitValue):
        raise TypeError(f"{value!r} is not a commit")
    return value
