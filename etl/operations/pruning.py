"""Data skipping for a comparison: a short predicate that is true for all compared offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.rows.names import AddressColumns

if TYPE_CHECKING:
    from pyspark.sql import Column

MAX_PREDICATE_TERMS: Final = 100


@dataclass(frozen=True, slots=True)
class Box:
    """Addresses of these partitions (first and last, inclusive) and offsets [start, end). topic: None: of any topic."""

    topic: str | None
    partitions: tuple[int, int]
    start: int
    end: int


def boxes(offsets: Mapping[TopicPartition, OffsetSet], most: int = MAX_PREDICATE_TERMS) -> list[Box]:
    """At most this many boxes that contain all of these offsets: one for each range, partition or topic; or one."""
    ranges = [
        Box(tp.topic, (tp.partition, tp.partition), *one) for tp, intervals in offsets.items() for one in intervals
    ]
    partitions = _merged(ranges, lambda box: (box.topic, box.partitions))
    topics = _merged(partitions, lambda box: box.topic)
    for some in (ranges, partitions, topics):
        if len(some) <= most:
            return some
    whole = _merged(topics, lambda box: None)[0]
    return [Box(None, whole.partitions, whole.start, whole.end)]


def _merged(several: list[Box], key: Any) -> list[Box]:
    groups: dict[Any, list[Box]] = {}
    for box in several:
        groups.setdefault(key(box), []).append(box)
    return [
        Box(
            group[0].topic,
            (min(box.partitions[0] for box in group), max(box.partitions[1] for box in group)),
            min(box.start for box in group),
            max(box.end for box in group),
        )
        for group in groups.values()
    ]


def pruning(offsets: Mapping[TopicPartition, OffsetSet], address: AddressColumns) -> Column:
    """A short predicate that is true for all of these offsets, with which whole files are skipped."""
    from pyspark.sql import functions as f

    def inside(box: Box) -> Column:
        there = f.col(address.partition).between(*box.partitions)
        there = there & (f.col(address.offset) >= box.start) & (f.col(address.offset) < box.end)
        return there if box.topic is None else (f.col(address.topic) == box.topic) & there

    terms = [inside(box) for box in boxes(offsets)] if offsets else []
    while len(terms) > 1:  # in pairs: a chain of ORs is as deep as it is long
        terms = [reduce(lambda one, other: one | other, terms[at : at + 2]) for at in range(0, len(terms), 2)]
    return terms[0] if terms else f.lit(False)
