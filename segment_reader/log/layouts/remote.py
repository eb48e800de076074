"""A remote store's objects as folders of partitions: what every layout has in common.

    Layout       what a plug-in's author writes: which partitions and segments there are, and how to get their bytes
    RemoteStorage    a `Storage` over it, so that reading, dump, fsck and recovery work as on a broker's own folders

    <root>/orders-3/00000000000000000170.log              segments of the chain (lineage.py)
    <root>/orders-3/00000000000000000170.index            and so on, as far as the layout has them
    <root>/orders-3/leader-epoch-checkpoint               the lineage           partition.metadata     the topic id
    <root>/orders-3.<32 hex digits>-delete/               a topic of the same name that was there before

With a `local` storage, the broker's own folder, its segments are the log from its first one on, and remote ones lead up
to it; its leader epochs are the lineage.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol
from uuid import UUID

from kseg.segment_reader.log.errors import CorruptCheckpoint, CorruptIndex, CorruptSnapshot, LayoutError, SegmentGone
from kseg.segment_reader.log.files.checkpoints import LEADER_EPOCHS, PARTITION_METADATA, EpochStart, leader_epochs
from kseg.segment_reader.log.files.index_entries import IndexFile
from kseg.segment_reader.log.files.names import Kind, partition_folder
from kseg.segment_reader.log.files.segments import PartitionLog, Segment, open_log
from kseg.segment_reader.log.files.storage import OpenFile, Storage, StorageEntry
from kseg.segment_reader.log.layouts.lineage import Link, chain, newest
from kseg.segment_reader.log.scan.lookup import first_batch, first_offset_of, next_offset_after

#: What a layout may have of a segment. A `snapshot` is the one that was taken at the segment's end (KIP-405).
File = Literal["log", "index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint"]

_AT_ONCE: Final = 16
_FOREVER: Final = 1 << 63
_INDEXES: Final[tuple[Kind, ...]] = ("index", "timeindex", "txnindex")


@dataclass(frozen=True, slots=True)
class RemotePartition:
    """A partition in a remote store. `address`: where, in the layout's own terms."""

    topic: str
    partition: int
    topic_id: UUID | None
    address: str


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """One copy of a segment.

    address: where, in the layout's own terms.
    size: bytes of the .log as it was at the broker.
    end_offset: the offset after its last one; -1: not known, it is then read from the log.
    leader_epochs: those of its offsets, with the first offset of each in it; empty: not known.
    uploaded_ms: when it was written; 0: not known.
    files: what there is of it, and the size of each.
    """

    base_offset: int
    address: str
    size: int
    end_offset: int = -1
    leader_epochs: tuple[EpochStart, ...] = ()
    uploaded_ms: int = 0
    files: dict[File, int] = field(default_factory=dict)


_Places = dict[str, list[RemotePartition]]
"""By the name of a folder; a partition's segments may lie in several places."""


class Layout(Protocol):
    """The interface of a layout plug-in. Every method may raise what a `Storage` does, and LayoutError."""

    def partitions(self) -> Sequence[RemotePartition]:
        """All partitions there are. A topic that was made again has its partitions twice, with different ids; a
        partition whose segments lie in several places may be there once for each of them."""

    def segments(self, partition: RemotePartition) -> Sequence[RemoteSegment]:
        """All copies of all segments, in any order, that were uploaded to their end."""

    def open(self, segment: RemoteSegment) -> OpenFile:
        """The .log as it was at the broker: its positions are those of the file there."""

    def read(self, segment: RemoteSegment, file: File) -> bytes:
        """One of the small files, whole."""


class BytesFile:
    """A file in memory."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.size = len(data)
        self._data = memoryview(data)

    def read(self, position: int, length: int) -> memoryview:
        return self._data[position : position + length]

    def close(self) -> None:
        pass


class _Renamed:
    """The first bytes of a file, under the path that readers know: the path in their errors can be opened."""

    def __init__(self, file: OpenFile, path: str, size: int) -> None:
        self.path = path
        self.size = min(size, file.size)
        self._file = file

    def read(self, position: int, length: int) -> memoryview:
        return self._file.read(position, max(0, min(length, self.size - position)))

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True)
class _Folder:
    """A partition's folder as it was listed: of each name the segment, the file of it, and its size."""

    files: dict[str, tuple[RemoteSegment, File, int]]
    small: dict[str, bytes]


class _Own:
    """One copy of a segment as a storage of its own, to read it before it is part of the chain."""

    def __init__(self, layout: Layout, segment: RemoteSegment) -> None:
        self._layout = layout
        self._segment = segment
        others: dict[Kind, str] = {"index": "index"} if "index" in segment.files else {}
        self.segment = Segment(segment.base_offset, "log", segment.size, others)

    def list(self, folder: str) -> list[StorageEntry]:
        raise SegmentGone(folder, None, "there is no such folder")

    def open(self, path: str) -> OpenFile:
        if path == "log":
            return self._layout.open(self._segment)
        return BytesFile(self._segment.address, self._layout.read(self._segment, "index"))

    def read_all(self, path: str) -> bytes:
        with closing(self.open(path)) as file:
            return bytes(file.read(0, file.size))

    def end_offset(self) -> int:
        return next_offset_after(self, self.segment)[0]

    def position_of(self, offset: int) -> int:
        """The position of the batch that begins at or behind an offset. Raises LayoutError where one lies across it,
        LogDamaged where one cannot be read."""
        with closing(self.open("log")) as file, closing(IndexFile(self, self.segment)) as index:
            found = first_batch(self.segment, file, index, offset)
            if found.exists and first_offset_of(file, found) < offset:
                reason = f"a batch spans offset {offset}, where a batch begins in another copy of the log"
                raise LayoutError(file.path, found.position, reason)
            return found.position


class RemoteStorage:
    """See the module. What was listed stays so until the folder is listed again; what was opened stays open."""

    def __init__(self, layout: Layout, storage: Storage, root: str, local: tuple[Storage, str] | None = None) -> None:
        self._layout = layout
        self._storage = storage
        self._root = root
        self._local = local
        self._partitions: _Places | None = None
        self._folders: dict[str, _Folder] = {}
        self._ends: dict[tuple[str, int], int] = {}  # by address and size

    def list(self, folder: str) -> list[StorageEntry]:
        if folder == self._root:
            self._partitions = self._named(self._layout.partitions())
            return [StorageEntry(name, True, 0) for name in sorted({*self._partitions, *self._local_folders()})]
        name = self._name_in_root(folder)
        listed = self._listed(name)
        entries = {file: StorageEntry(file, False, size) for file, (_, _, size) in listed.files.items()}
        entries |= {file: StorageEntry(file, False, len(data)) for file, data in listed.small.items()}
        entries |= {entry.name: entry for entry in self._local_entries(name)}
        if not entries:
            raise SegmentGone(folder, None, "there is no such partition")
        return [entries[file] for file in sorted(entries)]

    def open(self, path: str) -> OpenFile:
        folder, _, file = path.rpartition("/")
        if folder == self._root:
            return self._beside(file)
        name = self._name_in_root(folder)
        listed = self._folders.get(name) or self._listed(name)
        if file in listed.small:
            return BytesFile(path, listed.small[file])
        if file not in listed.files:
            return self._open_local(name, file, path)
        segment, kind, size = listed.files[file]
        if kind != "log":
            return BytesFile(path, self._small(segment, kind))
        return _Renamed(self._layout.open(segment), path, size)

    def read_all(self, path: str) -> bytes:
        with closing(self.open(path)) as file:
            return bytes(file.read(0, file.size))

    def _small(self, segment: RemoteSegment, kind: File) -> bytes:
        """A small file that no result depends on: callers may ignore its errors."""
        try:
            return self._layout.read(segment, kind)
        except LayoutError as error:
            corrupt = CorruptSnapshot if kind == "snapshot" else CorruptIndex
            raise corrupt(error.file, error.position, error.reason) from error

    # -- partitions

    def _named(self, partitions: Sequence[RemotePartition]) -> _Places:
        """The partitions by their folders' names. If several topic ids share a name, the last one written to has it; if
        that is not known, reading that name fails."""
        topics: _Places = {}  # by their names
        for one in partitions:
            topics.setdefault(one.topic, []).append(one)
        found: _Places = {}
        for topic, parts in topics.items():
            own = {number: self._local_id(f"{topic}-{number}") for number in {one.partition for one in parts}}
            newest = self._newest_id(parts) if len(_ids(parts)) > 1 and None in own.values() else None
            for one in parts:
                name, current = f"{topic}-{one.partition}", own[one.partition] or newest
                if None not in (one.topic_id, current) and one.topic_id != current:
                    assert one.topic_id is not None
                    name += f".{one.topic_id.hex}-delete"
                found.setdefault(name, []).append(one)
        return found

    def _local_id(self, name: str) -> UUID | None:
        local = self._local_log(name)
        return None if local is None else local.topic_id

    def _newest_id(self, partitions: Sequence[RemotePartition]) -> UUID | None:
        """The id of the topic that was written to last; None where that is unknown."""
        last: dict[UUID, int] = {}
        for one in partitions:
            if one.topic_id is not None:
                times = [segment.uploaded_ms for segment in self._layout.segments(one)]
                last[one.topic_id] = max(last.get(one.topic_id, 0), max(times, default=0))
        best = max(last.values())
        newest = [topic_id for topic_id, time in last.items() if time == best]
        return newest[0] if len(newest) == 1 else None

    # -- one partition

    def _listed(self, name: str) -> _Folder:
        if self._partitions is None:
            self._partitions = self._named(self._layout.partitions())
        places = self._partitions.get(name, [])
        ids = _ids(places)
        if len(ids) > 1:
            raise LayoutError(
                self._root,
                None,
                f"several topics are called {places[0].topic}, with ids {', '.join(sorted(map(str, ids)))}, and it is "
                "unknown which is the newest: read a copy of only one of them",
            )
        known = self._measured([segment for place in places for segment in self._layout.segments(place)])
        local = self._local_log(name)
        lineage = (() if local is None else local.leader_epochs) or self._lineage(known)
        first = local.segments[0].base_offset if local is not None and local.segments else _FOREVER
        links = chain(known, lineage, below=first)
        if links and first == _FOREVER:
            self._check_end(links[-1])
        files: dict[str, tuple[RemoteSegment, File, int]] = {}
        for link in links:
            files |= self._files_of(link)
        small = {}
        if lineage:
            lines = [f"{one.epoch} {one.start_offset}" for one in lineage]
            small[LEADER_EPOCHS] = "\n".join(["0", str(len(lines)), *lines, ""]).encode()
        for topic_id in ids:
            text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
            small[PARTITION_METADATA] = f"version: 0\ntopic_id: {text}".encode()
        self._folders[name] = _Folder(files, small)
        return self._folders[name]

    def _measured(self, segments: Sequence[RemoteSegment]) -> Sequence[RemoteSegment]:
        """The segments with their end offsets: read from the log where the layout does not have them."""
        unknown = [one for one in segments if one.end_offset < 0]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            ends = [*pool.map(self._end_of, unknown)]
        known = [one for one in segments if one.end_offset >= 0]
        return known + [replace(one, end_offset=end) for one, end in zip(unknown, ends, strict=True)]

    def _end_of(self, segment: RemoteSegment) -> int:
        """Read from the log once: each task lists its partition again, and a copy of the same size is the same."""
        key = (segment.address, segment.size)
        if key not in self._ends:
            self._ends[key] = _Own(self._layout, segment).end_offset()
        return self._ends[key]

    def _check_end(self, link: Link[RemoteSegment]) -> None:
        """The log's last segment has to reach its end: a reader would take what is missing for a torn last write."""
        if not link.whole:
            return
        end = self._end_of(link.segment)
        if end != link.segment.end_offset:
            reason = f"its batches end before offset {end}, it was uploaded with those before {link.segment.end_offset}"
            raise LayoutError(link.segment.address, None, reason)

    def _lineage(self, segments: Sequence[RemoteSegment]) -> tuple[EpochStart, ...]:
        head = newest(segments)
        if head is None:
            return ()
        if "leader-epoch-checkpoint" not in head.files:
            return head.leader_epochs
        try:
            read = leader_epochs(self._layout.read(head, "leader-epoch-checkpoint"), head.address)
        except CorruptCheckpoint as error:
            raise LayoutError(head.address, None, f"its leader epochs: {error.reason}") from error
        return tuple(read) or head.leader_epochs

    def _files_of(self, link: Link[RemoteSegment]) -> dict[str, tuple[RemoteSegment, File, int]]:
        segment, base = link.segment, link.segment.base_offset
        size = segment.size if link.whole else _Own(self._layout, segment).position_of(link.end_offset)
        found: dict[str, tuple[RemoteSegment, File, int]] = {f"{base:020d}.log": (segment, "log", size)}
        for kind in _INDEXES if link.whole else ():
            if kind in segment.files:
                found[f"{base:020d}.{kind}"] = (segment, kind, segment.files[kind])
        if link.whole and segment.files.get("snapshot"):
            found[f"{segment.end_offset:020d}.snapshot"] = (segment, "snapshot", segment.files["snapshot"])
        return found

    # -- the broker's own folder

    def _local_folders(self) -> Sequence[str]:
        if self._local is None:
            return []
        storage, root = self._local
        return [entry.name for entry in storage.list(root) if entry.is_folder and partition_folder(entry.name)]

    def _local_entries(self, name: str) -> Sequence[StorageEntry]:
        if self._local is None:
            return []
        storage, root = self._local
        try:
            return [entry for entry in storage.list(f"{root}/{name}") if not entry.is_folder]
        except SegmentGone:
            return []

    def _local_log(self, name: str) -> PartitionLog | None:
        named = partition_folder(name)
        if self._local is None or named is None or not self._local_entries(name):
            return None
        storage, root = self._local
        return open_log(storage, f"{root}/{name}", named.topic, named.partition)

    def _open_local(self, name: str, file: str, path: str) -> OpenFile:
        if self._local is None:
            raise SegmentGone(path, None, "there is no such segment")
        storage, root = self._local
        return storage.open(f"{root}/{name}/{file}")

    def _beside(self, file: str) -> OpenFile:
        """A file beside the partitions' folders: checkpoints, meta.properties."""
        if self._local is not None:
            storage, root = self._local
            return storage.open(f"{root}/{file}")
        return self._storage.open(f"{self._root}/{file}")

    def _name_in_root(self, folder: str) -> str:
        around, _, name = folder.rpartition("/")
        if around != self._root:
            raise SegmentGone(folder, None, f"there is no such folder in {self._root}")
        return name


def _ids(partitions: Sequence[RemotePartition]) -> set[UUID]:
    return {one.topic_id for one in partitions if one.topic_id is not None}
