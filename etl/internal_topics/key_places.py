"""In which partition of an internal topic a key's records are.

How many partitions the topic has is known, in this order, from the caller; from the folders, if they are numbered from
0 without a gap; from the metadata log in the same directories, where there is one. Folders that are numbered without a
gap may lack the last ones, so if they lead to nothing the metadata log is read after all (`find`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kseg.client.protocol.java_hash import coordinator_partition
from kseg.etl.errors import ConfigurationError
from kseg.etl.internal_topics.locations import CountedBy, KeyPlace, LogDirs
from kseg.etl.internal_topics.metadata_log import partition_count

T = TypeVar("T")


def find(
    log_dirs: LogDirs,
    topic: str,
    key: str,
    partitions: int | None,
    read: Callable[[KeyPlace], T],
    found: Callable[[T], bool],
) -> tuple[KeyPlace, T]:
    """The key's place, and what `read` gives for it; `found` says whether that is anything at all.

    Raises as `place_of`, and whatever `read` raises.
    """
    place = place_of(log_dirs, topic, key, partitions)
    result = read(place)
    if place.counted_by == "folders" and not found(result):
        count = partition_count(log_dirs, topic)
        if count is not None and count != place.partitions:
            place = _place(log_dirs, topic, key, count, "metadata log")
            result = read(place)
    return place, result


def place_of(log_dirs: LogDirs, topic: str, key: str, partitions: int | None = None) -> KeyPlace:
    """The place of the records of a group or a transactional id.

    Raises:
        ConfigurationError: the number of partitions is not known, or the partition's folder is missing.
        LogFileError: the files cannot be walked.
    """
    return _place(log_dirs, topic, key, *_count(log_dirs, topic, partitions))


def _place(log_dirs: LogDirs, topic: str, key: str, count: int, counted_by: CountedBy) -> KeyPlace:
    partition = coordinator_partition(key, count)
    replica = log_dirs.replica(topic, partition)
    if replica is None:
        raise ConfigurationError.of(
            "path",
            f"{key!r} is in partition {partition} of {topic}, and {' and '.join(log_dirs.locations)} "
            f"{'has' if len(log_dirs.locations) == 1 else 'have'} no folder {topic}-{partition}",
            "name the log directories of a broker that has it too",
        )
    return KeyPlace(topic, partition, count, counted_by, replica)


def _count(log_dirs: LogDirs, topic: str, partitions: int | None) -> tuple[int, CountedBy]:
    if partitions is not None:
        return partitions, "caller"
    there = log_dirs.partitions(topic)
    if there and there == set(range(len(there))):
        return len(there), "folders"
    count = partition_count(log_dirs, topic)
    if count is not None:
        return count, "metadata log"
    missing = sorted(set(range(max(there, default=0) + 1)) - there)
    raise ConfigurationError.of(
        "path",
        f"{' and '.join(log_dirs.locations)} lacks folders of {topic} (such as {topic}-{missing[0]}), and there "
        "is no metadata log with the topic's number of partitions",
        "give the number of partitions, or name the log directories of the other brokers too",
    )
