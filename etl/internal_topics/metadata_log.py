"""`__cluster_metadata` from files: the image that its records lead to, at any offset that the files reach.

    newest whole .checkpoint at or below the offset ──► its records ──► the log's records behind it, up to the offset

A snapshot holds what all records below its offset lead to (KIP-630); one whose footer is missing, or that is damaged,
is passed over for the one before. Records between BeginTransaction and EndTransaction count together or not at all
(KIP-868). Control records have the quorum: its leader, its voters, the version of its protocol (KIP-853).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from kseg.client.protocol.embedded import control_records as control
from kseg.client.protocol.embedded import metadata_records as records
from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.embedded.internal_topics import CLUSTER_METADATA, decode_internal
from kseg.client.protocol.errors import DecodeError
from kseg.client.protocol.record_json import decode_to_json
from kseg.etl.errors import ConfigurationError
from kseg.etl.internal_topics.errors import MetadataUnreadable
from kseg.etl.internal_topics.locations import LocatedReplica, LogDirs
from kseg.etl.internal_topics.metadata_image import ContradictionError, MetadataImage
from kseg.segment_reader.decode.table import BASE, MARKER, POSITION
from kseg.segment_reader.log.errors import CorruptCheckpoint, LogDamaged, LogFileError, SegmentGone
from kseg.segment_reader.log.files.checkpoints import META_PROPERTIES, meta_properties
from kseg.segment_reader.log.files.contents import Batch, LogRecord, batches
from kseg.segment_reader.log.files.contents import records as records_of
from kseg.segment_reader.log.files.names import SnapshotFile, snapshot_file
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.headers import pieces


class _Found(NamedTuple):
    """A record of the log or a snapshot, with its address."""

    file: str
    batch: Batch
    record: LogRecord


@dataclass
class ReplayedMetadata:
    """The cluster's metadata at one offset: all records below `end_offset` count.

    epoch, timestamp: of the last batch that counts (ms since 1970; -1 where there is none). leader: the quorum's, -1
    where no record has it. snapshot: the file that reading began with. notes: what was skipped, for the user.
    """

    image: MetadataImage = field(default_factory=MetadataImage)
    end_offset: int = 0
    epoch: int = -1
    timestamp: int = -1
    cluster_id: str | None = None
    leader: int = -1
    voters: list[control.VotersRecord.Voter] = field(default_factory=list)
    kraft_version: int = 0
    snapshot: str | None = None
    folder: str = ""
    notes: list[str] = field(default_factory=list)


def read_metadata(log_dirs: LogDirs, at: int | None = None) -> ReplayedMetadata:
    """The metadata as of an offset: every record below it counts. None: all that the files have.

    Of several directories the one whose log reaches furthest is read.

    Raises:
        ConfigurationError: no directory has the log, or it does not reach the offset.
        MetadataUnreadable: see there.
        LogFileError: the files are damaged.
    """
    replica = log_dirs.replica(CLUSTER_METADATA, 0)
    if replica is None:
        raise ConfigurationError.of(
            "path",
            f"{' and '.join(log_dirs.locations)} has no folder {CLUSTER_METADATA}-0",
            "name the folder of metadata.log.dir, or of log.dirs, of a controller or a broker without ZooKeeper",
        )
    snapshots = _snapshots(replica)
    reach = max([replica.end, *(name.end_offset for name, _ in snapshots)])
    if at is not None and not 0 <= at <= reach:
        raise ConfigurationError.of("at", f"offset {at} is not reached: the log ends at offset {reach}")
    end = reach if at is None else at
    notes: list[str] = []
    found = _from_snapshot(replica, [one for one in snapshots if one[0].end_offset <= end], notes)
    found.folder = replica.log.folder
    found.cluster_id = _cluster_id(replica)
    if found.end_offset < end:
        _replay(replica, found, end)
    if found.leader < 0:  # a snapshot does not say
        found.leader = _leader(replica, end)
    found.notes[:0] = notes
    return found


def partition_count(log_dirs: LogDirs, topic: str) -> int | None:
    """The number of a topic's partitions by the metadata log; None where there is no such log or topic."""
    if not log_dirs.partitions(CLUSTER_METADATA):
        return None
    found = read_metadata(log_dirs).image.topic_named(topic)
    return None if found is None else len(found[1].partitions)


def _snapshots(replica: LocatedReplica) -> list[tuple[SnapshotFile, str]]:
    """The snapshots in the log's folder, the newest first."""
    folder = replica.log.folder
    names = ((snapshot_file(entry.name), entry.name) for entry in replica.storage.list(folder) if not entry.is_folder)
    found = [(name, f"{folder}/{text}") for name, text in names if name is not None]
    return sorted(found, key=lambda one: (one[0].end_offset, one[0].epoch), reverse=True)


def _from_snapshot(
    replica: LocatedReplica, snapshots: list[tuple[SnapshotFile, str]], notes: list[str]
) -> ReplayedMetadata:
    """The metadata of the newest whole snapshot, or of the log's beginning."""
    for name, path in snapshots:
        metadata = ReplayedMetadata(snapshot=path, end_offset=name.end_offset, epoch=name.epoch)
        try:
            whole = _load(replica.storage, path, metadata)
        except (LogFileError, MetadataUnreadable) as fault:
            notes.append(f"a snapshot was skipped: {fault}")
            continue
        if whole:
            return metadata
        notes.append(f"a snapshot was skipped: {path} has no footer")
    return ReplayedMetadata()


def _load(storage: Storage, path: str, metadata: ReplayedMetadata) -> bool:
    """Reads a snapshot; whether its footer is there."""
    whole = False
    for found in _file_records(storage, path):
        whole = found.record.control == "SNAPSHOT_FOOTER"
        if found.record.control is not None:
            _control(found, metadata)
        elif (message := _message(found, metadata)) is not None:
            _apply(found, message, metadata.image)
    return whole


def _replay(replica: LocatedReplica, metadata: ReplayedMetadata, end: int) -> None:
    """The log's records after the image's end offset, up to `end`."""
    log = replica.log
    start = metadata.end_offset
    if not log.segments or log.segments[0].base_offset > start:
        begins = log.segments[0].base_offset if log.segments else "no offset"
        raise MetadataUnreadable(
            f"the log begins at {begins}, and no snapshot holds what was before",
            remedy="read up to an older offset, or read the directories of another controller",
            file=log.folder,
            offset=start,
        )
    waiting: list[tuple[_Found, TypedMessage]] | None = None
    began = -1
    for found in _log_records(replica, start, end):
        metadata.epoch, metadata.timestamp = found.batch.frame.leader_epoch, found.batch.frame.max_timestamp
        if found.record.control is not None:
            _control(found, metadata)
            continue
        message = _message(found, metadata)
        if isinstance(message, records.BeginTransactionRecord):
            waiting, began = [], found.record.offset
        elif isinstance(message, records.AbortTransactionRecord):
            waiting = None
        elif isinstance(message, records.EndTransactionRecord):
            for one, held in waiting or ():
                _apply(one, held, metadata.image)
            waiting = None
        elif message is not None and waiting is not None:
            waiting.append((found, message))
        elif message is not None:
            _apply(found, message, metadata.image)
    if waiting is not None:
        metadata.notes.append(f"a transaction is open from offset {began} on: its records do not count")
    metadata.end_offset = end


def _log_records(replica: LocatedReplica, start: int, end: int) -> Iterator[_Found]:
    log = replica.log
    for segment in log.segments[log.segment_at(start) :]:
        if segment.base_offset >= end:
            return
        for found in _file_records(replica.storage, segment.path, start, end):
            if start <= found.record.offset < end:
                yield found


def _file_records(storage: Storage, path: str, start: int = 0, end: int | None = None) -> Iterator[_Found]:
    """The records of a file's batches that reach into [start, end). Raises LogDamaged."""
    with closing(storage.open(path)) as file:
        for batch in batches(file):
            if batch.frame.next_offset <= start:
                continue
            if end is not None and batch.frame.base_offset >= end:
                return
            if not batch.valid:
                raise LogDamaged(path, batch.position, "the checksum does not match the bytes")
            for record in records_of(batch, path):
                yield _Found(path, batch, record)
            if end is not None and batch.frame.next_offset >= end:
                return  # a batch behind it that is cut off has not been committed


def _message(found: _Found, metadata: ReplayedMetadata) -> TypedMessage | None:
    """A record's message; None for one that is newer than this release, which is noted."""
    try:
        value = decode_internal(CLUSTER_METADATA, None, found.record.value).value
        if isinstance(value, TypedMessage):
            return value
        reason = decode_to_json(CLUSTER_METADATA, None, found.record.value).unknown or "it has no value"
    except DecodeError as fault:
        raise _unreadable(found, str(fault)) from fault
    metadata.notes.append(f"offset {found.record.offset} was skipped: {reason}")
    return None


def _apply(found: _Found, message: TypedMessage, image: MetadataImage) -> None:
    try:
        image.apply(message)
    except ContradictionError as fault:
        raise _unreadable(found, f"{type(message).__name__}: {fault}") from fault


def _control(found: _Found, metadata: ReplayedMetadata) -> None:
    try:
        kind, message = control.decode_control_record(found.record.key or b"", found.record.value or b"")
    except DecodeError as fault:
        raise _unreadable(found, str(fault)) from fault
    if isinstance(message, control.LeaderChangeMessage):
        metadata.leader = message.leader_id
    elif isinstance(message, control.VotersRecord):
        metadata.voters = message.voters
    elif isinstance(message, control.KRaftVersionRecord):
        metadata.kraft_version = message.k_raft_version
    elif isinstance(message, control.SnapshotHeaderRecord):
        metadata.timestamp = message.last_contained_log_timestamp
    elif isinstance(message, bytes):
        metadata.notes.append(f"offset {found.record.offset} was skipped: control record {kind} is not known")


def _unreadable(found: _Found, reason: str) -> MetadataUnreadable:
    return MetadataUnreadable(
        f"a record cannot be replayed: {reason}",
        remedy="kseg dump --deep shows the record; kseg metadata --at an offset below it shows what was before",
        topic=CLUSTER_METADATA,
        partition=0,
        offset=found.record.offset,
        file=found.file,
        position=found.batch.position,
    )


def _leader(replica: LocatedReplica, end: int) -> int:
    """The leader in the last LeaderChange below an offset; -1 if the log no longer has one. Raises LogDamaged."""
    for segment in reversed(replica.log.segments):
        if segment.base_offset >= end:
            continue
        places: list[int] = []
        with closing(replica.storage.open(segment.path)) as file:
            for piece in pieces(file):
                table = piece.table
                changes = (table[:, MARKER] == control.ControlRecordType.LEADER_CHANGE) & (table[:, BASE] < end)
                places += table[changes, POSITION].tolist()
            if places:
                metadata = ReplayedMetadata()
                batch = next(batches(file, places[-1]))
                for record in records_of(batch, segment.path):
                    _control(_Found(segment.path, batch, record), metadata)
                return metadata.leader
    return -1


def _cluster_id(replica: LocatedReplica) -> str | None:
    """The cluster's id in `meta.properties` beside the log's folder."""
    path = f"{replica.log.folder.rsplit('/', 1)[0]}/{META_PROPERTIES}"
    try:
        return meta_properties(replica.storage.read_all(path), path).get("cluster.id")
    except (SegmentGone, CorruptCheckpoint):
        return None
