"""The address of a partition, in a module of its own because most modules import it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions grouped by topic, as requests carry them."""
    groups: dict[str, list[TopicPartition]] = defaultdict(list)
    for tp in partitions:
        groups[tp.topic].append(tp)
    return groups
