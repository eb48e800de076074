"""A consumer group's state as its coordinator would return it, from the files of `__consumer_offsets`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.embedded.internal_topics import CONSUMER_OFFSETS
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.internal_topics.group_kinds import GroupKind, kind_of
from kseg.etl.internal_topics.group_records import GroupRecords, KeyedRecord, as_commit, group_records
from kseg.etl.internal_topics.key_places import find
from kseg.etl.internal_topics.locations import KeyPlace, LogDirs
from kseg.etl.internal_topics.records_by_key import time_of

#: `offsets.retention.minutes` of a broker that says nothing else: a week.
RETENTION_MS: Final = 7 * 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """An offset that was committed. Times are ms since 1970.

    expires: when a broker may drop it; None where it does not while the group is as it is.
    producer_id: whose open transaction it waits for; None for one that counts.
    record_offset: where the record is in the group's partition.
    """

    tp: TopicPartition
    offset: int
    leader_epoch: int
    metadata: str
    committed: int
    expires: int | None
    record_offset: int
    producer_id: int | None = None

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "topic": self.tp.topic,
            "partition": self.tp.partition,
            "offset": self.offset,
            "leader_epoch": None if self.leader_epoch < 0 else self.leader_epoch,
            "metadata": self.metadata,
            "committed": time_of(self.committed),
            "expires": time_of(self.expires),
            "record_offset": self.record_offset,
        }
        return document if self.producer_id is None else document | {"producer_id": self.producer_id}


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group. Deleted offsets and members are not in it; `kind.kind` is None where nothing is known of the group.

    offsets: those that count. expired: those that counted, and that a broker would remove at its next expiry check.
    pending: those of transactions that have no marker yet.
    """

    group: str
    place: KeyPlace
    kind: GroupKind
    offsets: tuple[StoredOffset, ...]
    expired: tuple[StoredOffset, ...]
    pending: tuple[StoredOffset, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it; times as ISO 8601, None for what there is not."""
        return {
            "group": self.group,
            "type": self.kind.kind,
            "state": self.kind.state,
            "epoch": self.kind.epoch,
            "protocol_type": self.kind.protocol_type,
            "protocol": self.kind.protocol,
            "leader": self.kind.leader,
            **self.place.to_json(),
            "members": [{k: v for k, v in asdict(one).items() if v not in (None, (), {})} for one in self.kind.members],
            "offsets": [one.to_json() for one in self.offsets],
            "expired": [one.to_json() for one in self.expired],
            "pending": [one.to_json() for one in self.pending],
            "notes": list(self.notes),
        }


def group_state(
    log_dirs: LogDirs,
    group: str,
    *,
    partitions: int | None = None,
    retention_ms: int = RETENTION_MS,
    at: int | None = None,
) -> GroupState:
    """The latest state in the files.

    partitions: how many `__consumer_offsets` has, where the folders do not show it.
    retention_ms: the broker's `offsets.retention.minutes`, in ms.
    at: the time in ms since 1970 for which expiry is computed; None is now.

    Raises:
        ConfigurationError: as `key_places.place_of`.
        LogFileError, RecordFormatError, UndecodableRecord: the files are damaged, or newer than this release knows.
    """
    place, records = _find(log_dirs, group, partitions)
    return _state(group, place, records, retention_ms, round(time.time() * 1000) if at is None else at)


def committed_in_files(log_dirs: LogDirs, group: str) -> dict[TopicPartition, CommittedOffset]:
    """The offsets of a group that count, by partition; expiry is not applied, since files may be old on purpose.

    Raises as `group_state`.
    """
    found = _find(log_dirs, group, None)[1].commits()
    commits = {TopicPartition(*slot): as_commit(one.value) for slot, one in found.items()}
    return {tp: CommittedOffset(one.offset, one.leader_epoch, one.metadata) for tp, one in commits.items()}


def _find(log_dirs: LogDirs, group: str, partitions: int | None) -> tuple[KeyPlace, GroupRecords]:
    return find(
        log_dirs,
        CONSUMER_OFFSETS,
        group,
        partitions,
        lambda place: group_records(place, group),
        lambda records: bool(records.held or records.pending),
    )


def _state(group: str, place: KeyPlace, records: GroupRecords, retention_ms: int, at: int) -> GroupState:
    kind = kind_of(records)
    waiting = {slot for slots in records.pending.values() for slot in slots}
    offsets: list[StoredOffset] = []
    expired: list[StoredOffset] = []
    for slot, one in sorted(records.commits().items()):
        offset = _offset(slot, one, kind, retention_ms)
        gone = offset.expires is not None and offset.expires <= at and slot not in waiting
        (expired if gone else offsets).append(offset)
    return GroupState(
        group,
        place,
        kind,
        tuple(offsets),
        tuple(expired),
        tuple(sorted(_pending(records, kind, retention_ms), key=lambda one: (one.tp, one.record_offset))),
        tuple(records.notes),
    )


def _pending(records: GroupRecords, kind: GroupKind, retention_ms: int) -> Iterator[StoredOffset]:
    for producer_id, slots in records.pending.items():
        for slot, one in slots.items():
            if isinstance(slot, tuple):
                yield _offset(slot, one, kind, retention_ms, producer_id)


def _offset(
    slot: tuple[str, int], one: KeyedRecord, kind: GroupKind, retention_ms: int, producer_id: int | None = None
) -> StoredOffset:
    value = as_commit(one.value)
    expires = kind.expires_from(slot[0], value.commit_timestamp)
    if expires is not None:  # the client's own word counts, from times when it had one (OffsetCommit 2 to 4)
        expires = value.expire_timestamp if value.expire_timestamp >= 0 else expires + retention_ms
    return StoredOffset(
        TopicPartition(*slot),
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        expires,
        one.offset,
        producer_id,
    )
