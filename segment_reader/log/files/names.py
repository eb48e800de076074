"""Parses the names in a log directory.

orders-3/                               partition 3 of topic orders
orders-3.<32 hex digits>-delete/        deleted, its files go after `file.delete.delay.ms`
orders-3.<32 hex digits>-future/        a replica on its way from another folder of `log.dirs`
orders-3.<32 hex digits>-stray/         a replica that the cluster no longer knows
    00000000000000000170.log            a segment; the number is its base offset
    00000000000000000170.index          and so on: .timeindex, .txnindex, .snapshot
    00000000000000000170.log.deleted    replaced or too old
    00000000000000000170.log.cleaned    half of what the cleaner has written
    00000000000000000170.log.swap       all of it, about to take the place of what it was made of
__cluster_metadata-0/                   beside segments (KIP-630):
    00000000000000000170-0000000002.checkpoint    a snapshot: what all records below offset 170 lead to, in epoch 2
bootstrap.checkpoint                    in a folder of log.dirs: what the metadata log begins with
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["log", "index", "timeindex", "txnindex", "snapshot"]
Condition = Literal["current", "deleted", "cleaned", "swap"]
Replica = Literal["current", "delete", "future", "stray"]

_FILE: Final = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)(?:\.(deleted|cleaned|swap))?")
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_FOLDER: Final = re.compile(r"([A-Za-z0-9._-]{1,249})-(\d{1,10})(?:\.[0-9a-f]{32}-(delete|future|stray))?")


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A file of one segment."""

    base_offset: int
    kind: Kind
    condition: Condition = "current"

    def __str__(self) -> str:
        ending = "" if self.condition == "current" else f".{self.condition}"
        return f"{self.base_offset:020d}.{self.kind}{ending}"


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot of the metadata log: the first offset that it does not hold, and the epoch of the one before."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """A folder with one replica of a partition. A deleted one's topic may be cut short: its name had to fit."""

    topic: str
    partition: int
    replica: Replica = "current"


def segment_file(name: str) -> SegmentFile | None:
    """The parsed name of a segment's file; None for a file that belongs to no segment."""
    found = _FILE.fullmatch(name)
    if found is None:
        return None
    offset, kind, condition = found.groups()
    if int(offset) >= 1 << 63:
        return None
    return SegmentFile(int(offset), kind, condition or "current")  # type: ignore[arg-type]


def snapshot_file(name: str) -> SnapshotFile | None:
    """The parsed name of a metadata snapshot; None for another file, and for one that is not whole (`.part`) or
    deleted.

    `bootstrap.checkpoint` is for the beginning of the log.
    """
    if name == "bootstrap.checkpoint":
        return SnapshotFile(0, 0)
    found = _SNAPSHOT.fullmatch(name)
    if found is None or int(found[1]) >= 1 << 63:
        return None
    return SnapshotFile(int(found[1]), int(found[2]))


def partition_folder(name: str) -> PartitionFolder | None:
    """The parsed name of a partition's folder; None for a folder that holds no partition."""
    found = _FOLDER.fullmatch(name)
    if found is None:
        return None
    topic, partition, replica = found.groups()
    if int(partition) >= 1 << 31 or topic in (".", ".."):
        return None
    return PartitionFolder(topic, int(partition), replica or "current")  # type: ignore[arg-type]
