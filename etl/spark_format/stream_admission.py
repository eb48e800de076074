"""The rate limit of a micro-batch (`maxOffsetsPerTrigger`), shared by partitions in proportion to what is available.

As in Spark's source, offsets are counted, not records: aborted records, markers and compacted offsets count as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from kseg.client.protocol.partition import TopicPartition


def take_at_most(
    limit: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The ends of a micro-batch of at most `limit` offsets over all partitions; exactly `limit` if more are available.

    starts: of every partition in `ends`, none above its end. If the limit allows it, each partition with available
    offsets gets at least one, so that no partition starves. The rest is divided in proportion to the available offsets;
    the partitions with the largest remainders get one more.
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
