"""Offset ranges: half-open intervals `[start, end)` of one partition, and sets of them.

All offsets are Kafka offsets (int64, >= 0) and every end is exclusive, as in a Fetch: the end of a range is the offset
that the next range starts with, and the frontier of a partition is the offset that its next run starts with.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kseg.client.protocol.partition import TopicPartition

Interval = tuple[int, int]


def _start(interval: Interval) -> int:
    return interval[0]


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """`[start, end)` of one partition. An empty range (start == end) is legal.

    Raises:
        ValueError: start is negative, or end lies before start.
    """

    topic: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not an offset range: {self.topic}-{self.partition} [{self.start}, {self.end})")

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def length(self) -> int:
        """Number of offsets, records or not."""
        return self.end - self.start

    @property
    def interval(self) -> Interval:
        return self.start, self.end

    def __bool__(self) -> bool:
        return self.end > self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class OffsetSet:
    """Offsets of one partition as sorted, disjoint intervals, none of them empty or adjacent to another.

    The form is canonical: sets of the same offsets are equal. `OffsetSet.of` builds one from any intervals.
    """

    intervals: tuple[Interval, ...] = ()

    def __post_init__(self) -> None:
        last = -1
        for start, end in self.intervals:
            if not last < start < end:
                raise ValueError(f"not canonical: {self.intervals}")
            last = end

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> OffsetSet:
        """The set of all offsets in the intervals, which may overlap, touch, be empty and come in any order.

        Raises:
            ValueError: an interval starts below zero or ends before it starts.
        """
        merged: list[Interval] = []
        for start, end in sorted(intervals):
            if not 0 <= start <= end:
                raise ValueError(f"not an interval of offsets: [{start}, {end})")
            if start == end:
                continue
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return cls(tuple(merged))

    @classmethod
    def single(cls, start: int, end: int) -> OffsetSet:
        """`[start, end)`, or the empty set if end <= start."""
        return cls.of([(start, end)] if end > start else [])

    @classmethod
    def from_json(cls, value: Sequence[Sequence[int]]) -> OffsetSet:
        """The inverse of `to_json`.

        Raises:
            ValueError: not a list of pairs of offsets.
        """
        return cls.of((int(start), int(end)) for start, end in value)

    def to_json(self) -> list[list[int]]:
        """`[[start, end], …]`, ends exclusive."""
        return [[start, end] for start, end in self.intervals]

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.intervals)

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        at = bisect_right(self.intervals, offset, key=_start) - 1
        return at >= 0 and offset < self.intervals[at][1]

    def __str__(self) -> str:
        return "{" + ", ".join(f"[{start}, {end})" for start, end in self.intervals) + "}"

    @property
    def length(self) -> int:
        """Number of offsets in the set."""
        return sum(end - start for start, end in self.intervals)

    def union(self, other: OffsetSet) -> OffsetSet:
        if not other.intervals:
            return self
        return OffsetSet.of((*self.intervals, *other.intervals)) if self.intervals else other

    def add(self, start: int, end: int) -> OffsetSet:
        return self.union(OffsetSet.single(start, end))

    def subtract(self, other: OffsetSet) -> OffsetSet:
        """The offsets of this set that are not in the other."""
        if not self.intervals or not other.intervals:
            return self
        left: list[Interval] = []
        cuts = other.intervals
        first = 0
        for interval_start, end in self.intervals:
            start = interval_start
            # Cuts and intervals are both in order: a cut that ends before this interval cannot meet a later one.
            while first < len(cuts) and cuts[first][1] <= start:
                first += 1
            at = first
            while at < len(cuts) and cuts[at][0] < end:
                if cuts[at][0] > start:
                    left.append((start, cuts[at][0]))
                start = max(start, cuts[at][1])
                at += 1
            if start < end:
                left.append((start, end))
        return OffsetSet(tuple(left))

    def intersect(self, other: OffsetSet) -> OffsetSet:
        return self.subtract(self.subtract(other)) if other.intervals else EMPTY

    def first(self, count: int) -> OffsetSet:
        """The lowest `count` offsets of this set; all of them if there are no more."""
        kept: list[Interval] = []
        for start, end in self.intervals:
            if count <= 0:
                break
            kept.append((start, min(end, start + count)))
            count -= end - start
        return OffsetSet(tuple(kept))

    def missing_in(self, start: int, end: int) -> OffsetSet:
        """The offsets of `[start, end)` that are not in this set."""
        return OffsetSet.single(start, end).subtract(self)

    def contiguous_from(self, base: int) -> int:
        """The frontier: the first offset at or after base that is not in the set."""
        for start, end in self.intervals:
            if start <= base < end:
                return end
        return base

    def ranges(self, tp: TopicPartition) -> tuple[OffsetRange, ...]:
        """The intervals as ranges of a partition."""
        return tuple(OffsetRange(tp.topic, tp.partition, start, end) for start, end in self.intervals)


EMPTY = OffsetSet()


class SomeRange(Protocol):
    """A range with its address: an `OffsetRange`, a planned one, or an account of one."""

    @property
    def tp(self) -> TopicPartition: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


def offsets_of(ranges: Iterable[SomeRange]) -> dict[TopicPartition, OffsetSet]:
    """The ranges as one set for each partition. Adding them one by one would sort the set for each range."""
    intervals: dict[TopicPartition, list[Interval]] = {}
    for one in ranges:
        intervals.setdefault(one.tp, []).append((one.start, one.end))
    return {tp: OffsetSet.of(of_one) for tp, of_one in intervals.items()}


def union_of(several: Iterable[Mapping[TopicPartition, OffsetSet]]) -> dict[TopicPartition, OffsetSet]:
    """By partition, the offsets that are in any of these."""
    intervals: dict[TopicPartition, list[Interval]] = {}
    for one in several:
        for tp, offsets in one.items():
            intervals.setdefault(tp, []).extend(offsets)
    return {tp: OffsetSet.of(of_one) for tp, of_one in intervals.items()}


def common(
    one: Mapping[TopicPartition, OffsetSet], other: Mapping[TopicPartition, OffsetSet]
) -> dict[TopicPartition, OffsetSet]:
    """By partition, the offsets that are in both; partitions without any are left out."""
    return {tp: both for tp, offsets in one.items() if (both := offsets.intersect(other.get(tp, EMPTY)))}


def total_length(ranges: Iterable[SomeRange]) -> int:
    """Number of offsets in these ranges; an offset in two of them counts twice."""
    return sum(one.end - one.start for one in ranges)
