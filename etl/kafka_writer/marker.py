"""Recognizes a transaction that wrote rows by an offset of a separate group, committed in the transaction.

    group      kseg-write-<transactional id>
    partition  always 0 of the topic: the marker is replaced as a whole, whichever partitions a run writes to
    offset     0, without a meaning
    metadata   kseg-write/2 <topic id> <run id>=<rows> <run id>=<rows> …      the newest run first; no topic id: -

The offset is committed if, and only if, the rows are: one EndTxn decides on both. A later write with the same
transactional id fences the one before, then reads the marker. The metadata has the last `KEPT` runs, which fit into the
brokers' limit (`offset.metadata.max.bytes`, 4096) even with the longest ids; whether an older run was committed is not
known. Brokers keep the marker for `offsets.retention.minutes` (a week) after its last commit, as the group has no
members. A recreated topic has another id, and no runs.

Earlier releases committed a mark in every partition that got rows, and always one in partition 0. The one in partition
0 was always the last run's, with the number of all its rows, and is read as a marker of one run; the others may be of
any run.

    kseg-write:<run id>:<rows there>:<first offset there>:<rows of the whole run>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition

PREFIX: Final = "kseg-write"
KEPT: Final = 16
"""How many runs a marker lists."""

_NO_TOPIC_ID: Final = "-"
_RUN: Final = r"[A-Za-z0-9._-]{1,200}"
_RUN_ID: Final = re.compile(_RUN)
_ENTRY: Final = re.compile(rf"(?P<run>{_RUN})=(?P<rows>\d{{1,19}})")
_MARKER: Final = re.compile(rf"{PREFIX}/2 (?P<topic>[0-9a-f-]{{1,36}})(?P<runs>(?: {_RUN}=\d{{1,19}})*)")
_OLD_MARK: Final = re.compile(rf"{PREFIX}:(?P<run>{_RUN}):\d+:-?\d+:(?P<rows>\d+)")


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """The rows written to one partition: the number of rows, first and last offset. Other producers' records may be in
    between."""

    rows: int
    first: int
    last: int


def marker_group(transactional_id: str) -> str:
    """The group whose committed offset records the runs of this transactional id."""
    return f"{PREFIX}-{transactional_id}"


def marker_partition(topic: str) -> TopicPartition:
    """The partition whose committed offset is the marker."""
    return TopicPartition(topic, 0)


def valid_run_id(run_id: str) -> bool:
    return _RUN_ID.fullmatch(run_id) is not None


def marker_of(runs: Mapping[str, int], topic_id: UUID | None) -> CommittedOffset:
    """The offset to commit in the transaction. runs: as `runs_in`, the newest first; only the first `KEPT` are used."""
    entries = [f"{run}={rows}" for run, rows in list(runs.items())[:KEPT]]
    return CommittedOffset(0, -1, " ".join([f"{PREFIX}/2", str(topic_id or _NO_TOPIC_ID), *entries]))


def runs_in(marker: CommittedOffset, topic_id: UUID | None) -> dict[str, int]:
    """The number of rows of each run in the marker, by run id, the newest first. Empty if there is no marker, or it is
    of another topic."""
    metadata = marker.metadata or ""
    if marker.offset < 0:
        return {}
    if old := _OLD_MARK.fullmatch(metadata):
        return {old["run"]: int(old["rows"])}
    found = _MARKER.fullmatch(metadata)
    if found is None or not _same_topic(found["topic"], topic_id):
        return {}
    return {entry["run"]: int(entry["rows"]) for entry in _ENTRY.finditer(found["runs"])}


def _same_topic(marked: str, topic_id: UUID | None) -> bool:
    """Whether the ids are the same, or one is unknown because the brokers were or are too old for topic ids."""
    return topic_id is None or marked in (_NO_TOPIC_ID, str(topic_id))
