"""Ends of leader epochs (OffsetForLeaderEpoch, KIP-320). Offsets of an epoch at or above its end were truncated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.source.logs import Logs


class LeaderEpoch(NamedTuple):
    """A leader epoch of a partition."""

    tp: TopicPartition
    number: int


EpochEnds = Mapping[LeaderEpoch, int]
"""The offset after an epoch's last record. -1: the leader no longer knows the epoch, because of retention. Epochs that
were not asked about are missing."""


def ends_of(logs: Logs, epochs: Iterable[LeaderEpoch]) -> dict[LeaderEpoch, int]:
    """The ends of these epochs: one request for all partitions, and one more for partitions with a second epoch.

    Raises:
        KafkaError, LogFileError: the logs cannot be read.
    """
    found: dict[LeaderEpoch, int] = {}
    left = set(epochs)
    while left:
        asked = dict(sorted(left))
        ends = logs.ends_of_epochs(asked)
        found |= {LeaderEpoch(tp, number): ends.get(tp, -1) for tp, number in asked.items()}
        left -= found.keys()
    return found


def truncated_at(ends: EpochEnds, tp: TopicPartition, epoch: int, offset: int) -> int | None:
    """The offset at which the epoch ended, if this is below an offset that was read in it; else None."""
    end = ends.get(LeaderEpoch(tp, epoch), -1)
    return end if 0 <= end < offset else None
