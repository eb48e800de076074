"""How much of what is there one micro-batch takes: in proportion to what each partition has, as with Spark's source.

Offsets are counted, not records: aborted transactions, markers and what compaction removed count as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from kseg.client.protocol.partition import TopicPartition


def take_at_most(
    limit: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The ends of a micro-batch of at most `limit` offsets over all partitions; exactly so many where there are more.

    starts: of every partition in `ends`, none above its end. Where the limit allows, each partition that has any gets
    one at least, so that a small one is not starved by a large one; the rest is shared out by what each has, and the
    remainders of the division go to those that lost most by it.
    """
    waiting = {tp: end - starts[tp] for tp, end in ends.items() if end > starts[tp]}
    if sum(waiting.values()) <= limit:
        return dict(ends)
    first = 1 if limit >= len(waiting) else 0
    more = {tp: length - first for tp, length in waiting.items()}
    total, limit = sum(more.values()), limit - first * len(waiting)
    shares = {tp: first + length * limit // total for tp, length in more.items()}
    left = limit - sum(share - first for share in shares.values())
    for tp in sorted(more, key=lambda tp: (-(more[tp] * limit % total), tp))[:left]:
        shares[tp] += 1
    return {tp: starts[tp] + shares.get(tp, 0) for tp in ends}
