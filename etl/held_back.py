"""How far read_committed is behind the high watermark, and for how long: what an open transaction costs, told in a run.

The age comes from the first undecided batch itself, whose header carries its records' largest timestamp.
"""

from __future__ import annotations

import time

from client import Cluster, TopicPartition
from client.errors import KafkaError
from client.fetch import PartitionReader
from etl.ledger import events as ev
from etl.report import HeldBack
from segment_reader.batch import FrameFault, frames

ENOUGH_FOR_A_HEADER = 4096


def held_back(cluster: Cluster, seen: dict[TopicPartition, ev.HeldBack]) -> list[HeldBack]:
    """One entry for each partition whose last stable offset is below its high watermark."""
    return [
        HeldBack(
            topic=tp.topic,
            partition=tp.partition,
            last_stable_offset=held.last_stable_offset,
            high_watermark=held.high_watermark,
            records=held.high_watermark - held.last_stable_offset,
            seconds=_age(cluster, tp, held.last_stable_offset),
        )
        for tp, held in sorted(seen.items())
    ]


def _age(cluster: Cluster, tp: TopicPartition, offset: int) -> float | None:
    """Seconds since the batch at this offset, by its timestamp; None where nothing can be said."""
    try:
        with PartitionReader(
            cluster, tp, isolation_level="read_uncommitted", max_bytes=ENOUGH_FOR_A_HEADER, max_wait_ms=0
        ) as reader:
            reader.request(offset, last=True)
            first = next(frames(reader.response().records), None)
    except (KafkaError, FrameFault):
        return None  # it is a word for people: the run does not depend on it
    if first is None or first.max_timestamp < 0:
        return None
    return max(0.0, time.time() - first.max_timestamp / 1000)
