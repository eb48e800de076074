"""Finds the files of a partition's log that a broker would use.

A folder may have more files than the log: segments that were replaced (`.deleted`), an incomplete result of the log
cleaner (`.cleaned`), or a complete result that was about to replace segments when the broker stopped (`.swap`). The
rules are those by which a broker starts from such a folder (KAFKA-6264 among others):

    .deleted, .cleaned     are ignored
    .swap                  is used, unless a .cleaned file begins at or below it: then the cleaner had not finished, and
                           the original segments still exist
    a plain segment        is used, unless it begins within the offsets of the .swap segments
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar
from uuid import UUID

from kseg.segment_reader.decode.table import LAST
from kseg.segment_reader.log.errors import CorruptCheckpoint, LogDamaged, SegmentGone
from kseg.segment_reader.log.files.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    EpochStart,
    leader_epochs,
    topic_id,
)
from kseg.segment_reader.log.files.names import Kind, PartitionFolder, SegmentFile, partition_folder, segment_file
from kseg.segment_reader.log.files.storage import Storage, StorageEntry
from kseg.segment_reader.log.scan.headers import pieces

_ALL: Final = 1 << 63
_TRIES: Final = 10
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment: its .log (`size` in bytes when it was listed) and the paths of its other files.

    is_last: it is the last segment, so a broker may be writing to it.
    """

    base_offset: int
    path: str
    size: int
    others: Mapping[Kind, str] = field(default_factory=dict)
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """One replica of a partition, by its folder. Segments are ordered; `topic_id` and `leader_epochs` may be missing.

    `snapshots` has (offset, path) of every .snapshot; brokers also write one at the log's end, where no segment begins.
    `notes`: messages about files that could not be read and are not needed.
    """

    topic: str
    partition: int
    folder: str
    segments: tuple[Segment, ...]
    snapshots: tuple[tuple[int, str], ...] = ()
    topic_id: UUID | None = None
    leader_epochs: tuple[EpochStart, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} ({self.folder})"

    @property
    def size(self) -> int:
        """The total bytes of the .log files."""
        return sum(segment.size for segment in self.segments)

    def following(self, number: int) -> Segment | None:
        """The segment after the one with this index; None after the last."""
        return self.segments[number + 1] if number + 1 < len(self.segments) else None

    def segment_at(self, offset: int) -> int:
        """The index of the segment to whose offsets `offset` belongs; 0 if it is below all segments."""
        return max(0, bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1)


def partition_folders(storage: Storage, log_dir: str) -> dict[str, PartitionFolder]:
    """Partition folders in one folder of `log.dirs`, by path, including deleted, future and stray ones."""
    folders = {}
    for entry in storage.list(log_dir):
        found = partition_folder(entry.name) if entry.is_folder else None
        if found is not None:
            folders[f"{log_dir}/{entry.name}"] = found
    return folders


def open_logs(
    storage: Storage, log_dir: str, folders: Mapping[str, PartitionFolder] | None = None
) -> list[tuple[PartitionFolder, PartitionLog]]:
    """The partitions' logs in one folder of `log.dirs`, except deleted ones.

    folders: those of `partition_folders` to open; None: all.
    If a folder disappears meanwhile (its topic was deleted, or it was renamed), the folders of these topics are listed
    again. Raises SegmentGone if this happens each time.
    """
    topics = None if folders is None else {found.topic for found in folders.values()}
    listed = partition_folders(storage, log_dir) if folders is None else folders
    for _ in range(_TRIES - 1):
        try:
            return _open_logs(storage, listed)
        except SegmentGone:
            again = partition_folders(storage, log_dir)
            listed = {path: found for path, found in again.items() if topics is None or found.topic in topics}
    return _open_logs(storage, listed)


def _open_logs(storage: Storage, folders: Mapping[str, PartitionFolder]) -> list[tuple[PartitionFolder, PartitionLog]]:
    return [
        (found, open_log(storage, folder, found.topic, found.partition))
        for folder, found in folders.items()
        if found.replica != "delete"
    ]


def retry_while_files_change(
    storage: Storage, log: PartitionLog, ask: Callable[[PartitionLog], Answer]
) -> tuple[PartitionLog, Answer]:
    """Call `ask` with a log that may be in use; returns the log with which it succeeded, too.

    If files are replaced or deleted meanwhile, they are listed again and `ask` is repeated. Raises the exceptions of
    `ask` if the files have not changed, and SegmentGone if they change each time.
    """
    for _ in range(_TRIES - 1):
        try:
            return log, ask(log)
        except (SegmentGone, LogDamaged) as error:
            log = changed_log(storage, log, error)
    return log, ask(log)


def changed_log(storage: Storage, log: PartitionLog, error: SegmentGone | LogDamaged) -> PartitionLog:
    """List the log again after an error that an outdated list of files may have caused.

    For example, a merged segment overlaps with the next segment of an old list. Raises the error if no segment was
    added, removed or renamed since, and no file was missing.
    """
    again = open_log(storage, log.folder, log.topic, log.partition)
    same = [segment.path for segment in again.segments] == [segment.path for segment in log.segments]
    if isinstance(error, LogDamaged) and same:
        raise error
    return again


def open_log(storage: Storage, folder: str, topic: str, partition: int) -> PartitionLog:
    """List one partition's folder, again if files disappear meanwhile.

    Raises SegmentGone if there is no such folder, or its files change each time.
    """
    for _ in range(_TRIES - 1):
        entries = storage.list(folder)
        try:
            return _open_log(storage, folder, topic, partition, entries)
        except SegmentGone:
            continue
    return _open_log(storage, folder, topic, partition, storage.list(folder))


def _open_log(storage: Storage, folder: str, topic: str, partition: int, listed: list[StorageEntry]) -> PartitionLog:
    entries = [entry for entry in listed if not entry.is_folder]
    notes: list[str] = []
    identity = epochs = None
    names = {entry.name for entry in entries}
    if PARTITION_METADATA in names:
        path = f"{folder}/{PARTITION_METADATA}"
        try:
            identity = topic_id(storage.read_all(path), path)
        except CorruptCheckpoint as error:
            notes.append(str(error))
    if LEADER_EPOCHS in names:
        path = f"{folder}/{LEADER_EPOCHS}"
        try:
            epochs = leader_epochs(storage.read_all(path), path)
        except CorruptCheckpoint as error:
            notes.append(str(error))
    files = [(found, entry) for entry in entries if (found := segment_file(entry.name)) is not None]
    return PartitionLog(
        topic,
        partition,
        folder,
        _segments(storage, folder, files),
        tuple(
            (file.base_offset, f"{folder}/{entry.name}")
            for file, entry in files
            if file.kind == "snapshot" and file.condition == "current"
        ),
        identity,
        tuple(epochs or ()),
        tuple(notes),
    )


def _segments(storage: Storage, folder: str, files: list[tuple[SegmentFile, StorageEntry]]) -> tuple[Segment, ...]:
    unfinished = min((file.base_offset for file, _ in files if file.condition == "cleaned"), default=_ALL)
    swapped = [pair for pair in files if pair[0].condition == "swap" and pair[0].base_offset < unfinished]
    covered = _covered(storage, folder, swapped)
    current = [
        pair for pair in files if pair[0].condition == "current" and not covered[0] <= pair[0].base_offset < covered[1]
    ]
    whole = _grouped(folder, [*current, *swapped])
    last = max(whole, default=-1)
    return tuple(replace(whole[base], is_last=base == last) for base in sorted(whole))


def _covered(storage: Storage, folder: str, swapped: list[tuple[SegmentFile, StorageEntry]]) -> tuple[int, int]:
    """The offsets [first, end) that .swap segments replace, including gaps between them."""
    logs = [file for file, _ in swapped if file.kind == "log"]
    if not logs:
        return _ALL, _ALL
    ends = [_end_of(storage, f"{folder}/{file}", file.base_offset) for file in logs]
    return min(file.base_offset for file in logs), max(ends)


def _end_of(storage: Storage, path: str, base_offset: int) -> int:
    end = base_offset
    with closing(storage.open(path)) as file:
        for piece in pieces(file):
            end = int(piece.table[-1, LAST]) + 1
    return end


def _grouped(folder: str, files: list[tuple[SegmentFile, StorageEntry]]) -> dict[int, Segment]:
    """Segments that have a .log file, by base offset, with their other files."""
    others: dict[int, dict[Kind, str]] = {}
    for file, entry in files:
        if file.kind != "log":
            others.setdefault(file.base_offset, {})[file.kind] = f"{folder}/{entry.name}"
    return {
        file.base_offset: Segment(
            file.base_offset, f"{folder}/{entry.name}", entry.size, others.get(file.base_offset, {})
        )
        for file, entry in files
        if file.kind == "log"
    }
