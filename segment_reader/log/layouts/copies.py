"""Segment files that were copied one by one, under names that say more than the base offset.

    <root>/[any folders/]<topic>-<partition>/…                  <topic>-<partition>-<topic id>/…
                         <topic>/<partition>/…                  <topic>-<topic id>/<partition>/…
        [anything]<base offset, 20 digits>[anything].log        .index .timeindex .txnindex .leader_epoch_checkpoint
        <base offset, 20 digits>-<22 characters>.snapshot       as tiered storage names it: taken at the segment's end

A partition may have several folders, one for each day or broker: what they hold is one log (lineage.py).

So LocalTieredStorage, which comes with Kafka's tests, is one of them, and so is an upload script that adds a date or a
broker's id. Files of one segment have the same name but for the suffix. The name has no end offset: it is read from
the segment's log. A snapshot of any other name is not used: it may have been taken where the segment begins, as in a
broker's folder, or where it ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID

from kseg.segment_reader.log.errors import CorruptCheckpoint, SegmentGone
from kseg.segment_reader.log.files.checkpoints import EpochStart, leader_epochs
from kseg.segment_reader.log.files.storage import OpenFile, Storage, StorageEntry
from kseg.segment_reader.log.layouts.manifest import kafka_id
from kseg.segment_reader.log.layouts.remote import File, RemotePartition, RemoteSegment

_DEPTH: Final = 6
#: An id in base64, which no other text of 22 characters is: its last character encodes 2 bits, and Kafka's never begin
#: with a hyphen. So the end of a topic's name is hardly taken for one.
_ID: Final = "[A-Za-z0-9_][A-Za-z0-9_-]{20}[AQgw]"
_TOPIC: Final = "[A-Za-z0-9._-]{1,249}"
_FOLDER: Final = re.compile(rf"(?P<topic>{_TOPIC}?)-(?P<partition>\d{{1,10}})(?:-(?P<id>{_ID}))?")
_TOPIC_FOLDER: Final = re.compile(rf"(?P<topic>{_TOPIC}?)(?:-(?P<id>{_ID}))?")
_NUMBER: Final = re.compile(r"\d{1,10}")
_FILE: Final = re.compile(
    r"(?P<stem>(?P<before>.*?)(?<!\d)(?P<offset>\d{20})(?!\d)(?P<after>.*?))"
    r"\.(?P<kind>log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint|leader-epoch-checkpoint)"
)
_TIERED: Final = re.compile(rf"-{_ID}")
_KINDS: Final[Mapping[str, File]] = {
    "log": "log",
    "index": "index",
    "timeindex": "timeindex",
    "txnindex": "txnindex",
    "snapshot": "snapshot",
    "leader_epoch_checkpoint": "leader-epoch-checkpoint",
    "leader-epoch-checkpoint": "leader-epoch-checkpoint",
}


class CopiedFolders:
    """See the module. It takes no options."""

    def __init__(self, storage: Storage, root: str, options: Mapping[str, str]) -> None:
        """Raises ValueError for any option."""
        for name in options:
            raise ValueError(f"layout.{name} is not an option of this layout: it has layout.local")
        self._storage = storage
        self._root = root
        self._paths: dict[tuple[str, File], str] = {}
        self._known_epochs: dict[tuple[str, int, int], tuple[EpochStart, ...]] = {}  # by path, and both files' sizes

    def partitions(self) -> list[RemotePartition]:
        return list(self._below(self._root, "", _DEPTH))

    def segments(self, partition: RemotePartition) -> list[RemoteSegment]:
        stems: dict[str, tuple[int, bool, dict[File, int]]] = {}
        for entry in self._storage.list(partition.address):
            found = None if entry.is_folder else _FILE.fullmatch(entry.name)
            if found is None or int(found["offset"]) >= 1 << 63:
                continue
            tiered = not found["before"] and _TIERED.fullmatch(found["after"]) is not None
            kind = _KINDS[found["kind"]]
            address = f"{partition.address}/{found['stem']}"
            self._paths[address, kind] = f"{partition.address}/{entry.name}"
            if kind != "snapshot" or tiered:
                stems.setdefault(address, (int(found["offset"]), tiered, {}))[2][kind] = entry.size
        return [
            RemoteSegment(base, address, files["log"], -1, self._epochs(address, base, files), 0, files)
            for address, (base, _, files) in stems.items()
            if "log" in files
        ]

    def open(self, segment: RemoteSegment) -> OpenFile:
        return self._storage.open(self._path(segment.address, "log"))

    def read(self, segment: RemoteSegment, file: File) -> bytes:
        return self._storage.read_all(self._path(segment.address, file))

    def _path(self, address: str, file: File) -> str:
        try:
            return self._paths[address, file]
        except KeyError:
            raise SegmentGone(address, None, f"there is no {file}") from None

    def _epochs(self, address: str, base: int, files: Mapping[File, int]) -> tuple[EpochStart, ...]:
        """Those from the base offset on, read once: each task lists its partition again."""
        if "leader-epoch-checkpoint" not in files:
            return ()
        path = self._path(address, "leader-epoch-checkpoint")
        key = (path, files["leader-epoch-checkpoint"], files.get("log", 0))
        if key not in self._known_epochs:
            self._known_epochs[key] = self._read_epochs(path, base)
        return self._known_epochs[key]

    def _read_epochs(self, path: str, base: int) -> tuple[EpochStart, ...]:
        """The file holds all epochs that the log has had up to the segment's end."""
        try:
            known = leader_epochs(self._storage.read_all(path), path)
        except CorruptCheckpoint:
            return ()
        within = [one for one in known if one.start_offset > base]
        before = [one for one in known if one.start_offset <= base]
        return (*before[-1:], *within)

    def _below(self, folder: str, name: str, depth: int) -> Iterator[RemotePartition]:
        """The partitions in a folder and below it. One that holds a segment is a partition's, if its name fits."""
        entries = self._storage.list(folder)
        if _has_segment(entries):
            found = _partition(folder, name)
            if found is not None:
                yield found
            return
        if depth:
            for entry in entries:
                if entry.is_folder:
                    yield from self._below(f"{folder}/{entry.name}", entry.name, depth - 1)


def _has_segment(entries: list[StorageEntry]) -> bool:
    for entry in entries:
        found = None if entry.is_folder else _FILE.fullmatch(entry.name)
        if found is not None and found["kind"] == "log":
            return True
    return False


def _partition(folder: str, name: str) -> RemotePartition | None:
    if _NUMBER.fullmatch(name):
        found = _TOPIC_FOLDER.fullmatch(folder.split("/")[-2])
        number = name
    else:
        found = _FOLDER.fullmatch(name)
        number = found["partition"] if found is not None else ""
    if found is None or int(number) >= 1 << 31:
        return None
    return RemotePartition(found["topic"], int(number), _id(found["id"]), folder)


def _id(text: str | None) -> UUID | None:
    try:
        return None if text is None else kafka_id(text)
    except ValueError:
        return None
