"""Finds the files of an internal topic's partitions among folders of `log.dirs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kseg.etl.errors import ConfigurationError
from kseg.segment_reader.log.errors import SegmentGone
from kseg.segment_reader.log.files.locations import open_storage
from kseg.segment_reader.log.files.names import partition_folder
from kseg.segment_reader.log.files.segments import PartitionLog, open_log, partition_folders
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.bounds import log_end_offset

CountedBy = Literal["caller", "folders", "metadata log"]


@dataclass(frozen=True, slots=True)
class LocatedReplica:
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
    replica: LocatedReplica

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
        """opened: opens the storage of a location, where that needs options besides the location."""
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

    def replica(self, topic: str, partition: int) -> LocatedReplica | None:
        """The replica of a partition that reaches furthest; None where no directory has one."""
        found: LocatedReplica | None = None
        for storage, folder in self._folders.get((topic, partition), ()):
            log = open_log(storage, folder, topic, partition)
            end = log_end_offset(storage, log)
            if found is None or end > found.end:
                found = LocatedReplica(storage, log, end)
        return found
