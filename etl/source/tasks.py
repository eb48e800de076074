"""Offset ranges -> tasks: the unit that one Spark task reads, and that is retried and counted as a whole.

A range is cut because one partition may hold most of the data, and because a failed task is read again from its
start. It may be cut anywhere, also in the middle of a transaction: a Fetch answer carries the aborted transactions that
overlap it, wherever it starts. Cutting is deterministic, so a plan that was pinned gives the same tasks again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol
from uuid import UUID

from kseg.client.protocol.partition import TopicPartition
from kseg.segment_reader.log.scan.positions import PositionHint


@dataclass(frozen=True, slots=True)
class RangeTask:
    """Offsets `[start, end)` of one partition, to be read by one task.

    index: the task's place among all tasks of the read, from 0; Spark runs low ones first.
    topic_id: the id that the plan was made with, so that a topic deleted and created again is not read by mistake; None
        where the broker has no topic ids.
    leader_epoch: the leader's epoch when the plan was made; -1 where it is not known.
    folder: where the partition's files are (a path or URI), for a read without a broker; empty for one with.
    leads: whether the range that was cut begins with this task.
    size: of files, about how many bytes of them the task reads.
    start_hint, end_hint: of files, where in them it probably begins and ends: hints, which the reader checks.
    """

    topic: str
    partition: int
    start: int
    end: int
    index: int = 0
    topic_id: UUID | None = None
    leader_epoch: int = -1
    folder: str = ""
    leads: bool = True
    size: int = 0
    start_hint: PositionHint | None = None
    end_hint: PositionHint | None = None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def length(self) -> int:
        """Offsets in the task; an upper bound of its records."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}[{self.start}, {self.end})"


class SupportsRange(Protocol):
    """Whatever has these four attributes can be split (`etl.ledger.ranges.OffsetRange`, a planned range …)."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


def split(
    ranges: Iterable[SupportsRange],
    *,
    max_records: int | None = None,
    min_tasks: int = 1,
    bytes_per_offset: Mapping[TopicPartition, float] | None = None,
    max_bytes: int | None = None,
    topic_ids: Mapping[str, UUID | None] | None = None,
    leaders: Mapping[TopicPartition, int] | None = None,
) -> tuple[RangeTask, ...]:
    """Cut ranges into tasks of nearly equal size within each range; empty ranges are dropped.

    max_records: no task is longer (in offsets).
    min_tasks: at least so many tasks, where there are that many offsets; the longest pieces are cut first.
    bytes_per_offset, max_bytes: a hint at each partition's density, and how many bytes a task should have by it at
        most.
    topic_ids, leaders: from the metadata. Tasks are ordered so that neighbours, which run at the same time, ask
        different brokers and different partitions.

    Raises:
        ValueError: a limit is not positive, or a range ends before it starts.
    """
    filled = filled_ranges(ranges, max_records=max_records, min_tasks=min_tasks, max_bytes=max_bytes)
    weights = bytes_per_offset or {}
    parts = [_parts(range_, max_records, max_bytes, weights) for range_ in filled]
    _cut_further(parts, [range_.end - range_.start for range_ in filled], min_tasks)
    pieces = [divided(whole_task(range_, topic_ids or {}), count) for range_, count in zip(filled, parts, strict=True)]
    return ordered(pieces, leaders)


def filled_ranges(ranges: Iterable[SupportsRange], **limits: int | None) -> list[SupportsRange]:
    """The ranges that hold something, sorted.

    Raises:
        ValueError: a limit is not positive, or a range ends before it starts.
    """
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise ValueError(f"{name} must be positive, not {limit}")
    filled = []
    for range_ in sorted(ranges, key=lambda r: (r.topic, r.partition, r.start)):
        if range_.start < 0 or range_.end < range_.start:
            raise ValueError(
                f"{range_.topic}-{range_.partition}: [{range_.start}, {range_.end}) is not a range of offsets"
            )
        if range_.end > range_.start:
            filled.append(range_)
    return filled


def ordered(
    pieces: list[list[RangeTask]], leaders: Mapping[TopicPartition, int] | None = None
) -> tuple[RangeTask, ...]:
    """The tasks of all ranges, a list each, in the order in which they are run, numbered."""
    return tuple(replace(task, index=index) for index, task in enumerate(_interleave(pieces, leaders or {})))


def _parts(
    range_: SupportsRange, max_records: int | None, max_bytes: int | None, weights: Mapping[TopicPartition, float]
) -> int:
    length = range_.end - range_.start
    parts = -(-length // max_records) if max_records is not None else 1
    weight = weights.get(TopicPartition(range_.topic, range_.partition))
    if max_bytes is not None and weight is not None:
        parts = max(parts, -int(-length * weight // max_bytes))
    return min(parts, length)


def _cut_further(parts: list[int], lengths: list[int], min_tasks: int) -> None:
    """Raise `parts` until there are `min_tasks` in all: each time the range with the longest pieces gets one more."""
    longest = [(-length / count, number) for number, (count, length) in enumerate(zip(parts, lengths, strict=True))]
    heapq.heapify(longest)
    missing = min(min_tasks, sum(lengths)) - sum(parts)
    while missing > 0:
        _, number = heapq.heappop(longest)
        if parts[number] < lengths[number]:
            parts[number] += 1
            missing -= 1
            heapq.heappush(longest, (-lengths[number] / parts[number], number))


def whole_task(range_: SupportsRange, topic_ids: Mapping[str, UUID | None], **more: Any) -> RangeTask:
    """A range as one task."""
    epoch: Any = getattr(range_, "leader_epoch", None)
    return RangeTask(
        range_.topic,
        range_.partition,
        range_.start,
        range_.end,
        topic_id=topic_ids.get(range_.topic),
        leader_epoch=-1 if epoch is None else int(epoch),
        **more,
    )


def divided(task: RangeTask, parts: int) -> list[RangeTask]:
    """A task in parts of nearly the same number of offsets."""
    bounds = [task.start + task.length * part // parts for part in range(parts + 1)]
    return [
        replace(
            task,
            start=start,
            end=end,
            leads=task.leads and start == task.start,
            size=task.size // parts,
            start_hint=task.start_hint if start == task.start else None,
            end_hint=task.end_hint if end == task.end else None,
        )
        for start, end in pairwise(bounds)
    ]


def _interleave(pieces: list[list[RangeTask]], leaders: Mapping[TopicPartition, int]) -> list[RangeTask]:
    """One task of each broker in turn; within a broker one of each partition in turn."""
    brokers: dict[int, list[list[RangeTask]]] = {}
    for tasks in pieces:
        brokers.setdefault(leaders.get(tasks[0].tp, -1), []).append(tasks)
    return _in_turn([_in_turn(brokers[broker]) for broker in sorted(brokers)])


def _in_turn(queues: list[list[RangeTask]]) -> list[RangeTask]:
    rounds = max(map(len, queues), default=0)
    return [queue[number] for number in range(rounds) for queue in queues if number < len(queue)]
