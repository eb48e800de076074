"""Where the files of an internal topic are, among folders of `log.dirs`, and which of its partitions a key is in.

How many partitions the topic has is told, in this order, by the caller; by the folders, if they are numbered from 0
without a gap; by the metadata log in the same directories, where it is. Folders that are numbered without a gap may
lack the last ones, so if they lead to nothing the metadata log is asked after all (`find`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from kseg.client.protocol.java_hash import coordinator_partition
from kseg.etl.errors import ConfigurationError
from kseg.segment_reader.log.errors import SegmentGone
from kseg.segment_reader.log.files.names import partition_folder
from kseg.segment_reader.log.files.segments import PartitionLog, open_log, partition_folders
from kseg.segment_reader.log.files.storage import Storage, open_storage
from kseg.segment_reader.log.scan.bounds import log_end_offset

T = TypeVar("T")
CountedBy = Literal["caller", "folders", "metadata log"]


@dataclass(frozen=True, slots=True)
class Replica:
    """One partition's files: of several copies the one whose log reaches furthest. `end`: its log end offset."""

    storage: Storage
    log: PartitionLog
    end: int


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """The partition that a key's records are in, of how many, and who said how many."""

    topic: str
    partition: int
    partitions: int
    counted_by: CountedBy
    replica: Replica

    def to_json(self) -> dict[str, Any]:
        return {
            "coordinator_partition": f"{self.topic}-{self.partition}",
            "of_partitions": self.partitions,
            "counted_by": self.counted_by,
            "folder": self.replica.log.folder,
            "log_end_offset": self.replica.end,
        }


Opened = Callable[[str], tuple[Storage, str]]


class LogDirs:
    """The partitions' folders in some folders of `log.dirs`, by name; nothing is opened.

    Raises:
        ConfigurationError: a directory is not there.
    """

    def __init__(self, locations: Sequence[str], opened: Opened = open_storage) -> None:
        """opened: how a location becomes a storage, where it needs to be told more than the location."""
        self.locations = tuple(locations)
        self._folders: dict[tuple[str, int], list[tuple[Storage, str]]] = {}
        for location in self.locations:
            storage, path = opened(location.rstrip("/") or location)
            try:
                found = partition_folders(storage, path)
            except SegmentGone as error:
                raise ConfigurationError.of(
                    "path", f"{location}: {error.reason}", "name a folder of log.dirs"
                ) from error
            own = partition_folder(path.rsplit("/", 1)[-1])
            if own is not None and not found:  # one partition's own folder
                found = {path: own}
            for folder, name in found.items():
                if name.replica != "delete":
                    self._folders.setdefault((name.topic, name.partition), []).append((storage, folder))

    def partitions(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions that have a folder."""
        return {partition for name, partition in self._folders if name == topic}

    def replica(self, topic: str, partition: int) -> Replica | None:
        """The replica of a partition that reaches furthest; None where no directory has one."""
        found: Replica | None = None
        for storage, folder in self._folders.get((topic, partition), ()):
            log = open_log(storage, folder, topic, partition)
            end = log_end_offset(storage, log)
            if found is None or end > found.end:
                found = Replica(storage, log, end)
        return found

    def find(
        self, topic: str, key: str, partitions: int | None, read: Callable[[KeyPlace], T], found: Callable[[T], bool]
    ) -> tuple[KeyPlace, T]:
        """The key's place, and what `read` tells of it; `found` says whether that is anything at all.

        Raises as `place_of`, and whatever `read` raises.
        """
        place = self.place_of(topic, key, partitions)
        told = read(place)
        if place.counted_by == "folders" and not found(told):
            count = self._told_by_metadata(topic)
            if count is not None and count != place.partitions:
                place = self._place(topic, key, count, "metadata log")
                told = read(place)
        return place, told

    def place_of(self, topic: str, key: str, partitions: int | None = None) -> KeyPlace:
        """Where the records of a group or a transactional id are.

        Raises:
            ConfigurationError: nobody tells how many partitions there are, or the partition's folder is missing.
            LogFileError: the files cannot be walked.
        """
        return self._place(topic, key, *self._count(topic, partitions))

    def _place(self, topic: str, key: str, count: int, counted_by: CountedBy) -> KeyPlace:
        partition = coordinator_partition(key, count)
        replica = self.replica(topic, partition)
        if replica is None:
            raise ConfigurationError.of(
                "path",
                f"{key!r} is in partition {partition} of {topic}, and {' and '.join(self.locations)} "
                f"{'has' if len(self.locations) == 1 else 'have'} no folder {topic}-{partition}",
                "name the log directories of a broker that has it too",
            )
        return KeyPlace(topic, partition, count, counted_by, replica)

    def _count(self, topic: str, partitions: int | None) -> tuple[int, CountedBy]:
        if partitions is not None:
            return partitions, "caller"
        there = self.partitions(topic)
        if there and there == set(range(len(there))):
            return len(there), "folders"
        told = self._told_by_metadata(topic)
        if told is not None:
            return told, "metadata log"
        missing = sorted(set(range(max(there, default=0) + 1)) - there)
        raise ConfigurationError.of(
            "path",
            f"{' and '.join(self.locations)} lacks folders of {topic} (such as {topic}-{missing[0]}), and no metadata "
            "log is there to tell how many partitions the topic has",
            "tell how many partitions it has, or name the log directories of the other brokers too",
        )

    def _told_by_metadata(self, topic: str) -> int | None:
        from kseg.etl.internal_topics.metadata_log import (
            partition_count,  # it reads the metadata log by way of this class
        )

        return partition_count(self, topic)
