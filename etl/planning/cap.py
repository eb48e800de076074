"""The most that one plan reads, shared by partitions. Pure: what could be read goes in, a part of it comes out.

Each partition gives its lowest offsets. What a plan may read is poured over the partitions like water:

    unread    ▁ ▃ █ █         a partition with less than an equal share gives all that it has,
    cap       ▁ ▃ ▄ ▄         the others share the rest equally

What an equal share leaves over goes, one offset each, to the partitions whose turn it is, and the first of these gives
an offset in any case. The turn moves on by one partition with each run, so where the cap is below the number of
partitions, or a share is below the size of a record, each partition is read within as many runs as there are
partitions. A plan is never empty, and is above the cap only by the one offset of that first partition.

Records are counted as offsets, which include transaction markers and records that compaction has removed: what lies
at an offset is known after it was read. Bytes are offsets times the estimated size of one (`etl.source.log_size`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.sections import Run
from kseg.etl.ledger.ranges import OffsetSet

Unread = Mapping[TopicPartition, OffsetSet]


def capped(
    unread: Unread, run: Run, sizes: Mapping[TopicPartition, float], partitions: Sequence[TopicPartition], turn: int
) -> dict[TopicPartition, OffsetSet]:
    """What one run reads of this under `run.max_records` and `run.max_bytes`; partitions that it does not read are
    left out.

    sizes: estimated bytes of one offset, for `max_bytes`. partitions: all of the job's, read in this run or not.
    turn: the number of the run in its chain.
    """
    first = turn % len(partitions) if partitions else 0
    in_turn = [*partitions[first:], *partitions[:first]]
    lengths = {tp: unread[tp].length for tp in in_turn if unread.get(tp)}
    taken = lengths
    if run.max_records is not None:
        taken = share(taken, run.max_records, dict.fromkeys(taken, 1))
    if run.max_bytes is not None:
        taken = share(taken, run.max_bytes, {tp: max(1, math.ceil(sizes.get(tp, 1))) for tp in taken})
    return {tp: unread[tp].first(taken[tp]) for tp in sorted(taken)}


def share(
    lengths: Mapping[TopicPartition, int], most: int, costs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """How many offsets each partition gives, of at most `most` in all; partitions that give none are left out.

    lengths: offsets that it has, in the order of turns. costs: of one offset, above zero.
    """
    left, sharing = most, len(lengths)
    taken: dict[TopicPartition, int] = {}
    for tp in sorted(lengths, key=lambda tp: lengths[tp] * costs[tp]):
        level = left // sharing
        if lengths[tp] * costs[tp] > level:
            break
        taken[tp] = lengths[tp]
        left, sharing = left - lengths[tp] * costs[tp], sharing - 1
    short = [tp for tp in lengths if tp not in taken]
    level = left // sharing if sharing else 0
    taken |= {tp: level // costs[tp] for tp in short}
    left -= sum(taken[tp] * costs[tp] for tp in short)
    for tp in short:
        if costs[tp] <= left:
            taken[tp], left = taken[tp] + 1, left - costs[tp]
    starved = next(iter(lengths), None)
    if starved is not None and taken[starved] == 0:
        taken[starved] = 1
    return {tp: count for tp in lengths if (count := taken[tp])}


def runs_for(unread: Iterable[tuple[TopicPartition, int]], run: Run, sizes: Mapping[TopicPartition, float]) -> int:
    """About how many runs read this many offsets of each partition."""
    lengths = dict(unread)
    most = 1 if any(lengths.values()) else 0
    if run.max_records is not None:
        most = max(most, math.ceil(sum(lengths.values()) / run.max_records))
    if run.max_bytes is not None:
        size = sum(length * sizes.get(tp, 1) for tp, length in lengths.items())
        most = max(most, math.ceil(size / run.max_bytes))
    return most
