"""Estimates the size of the record at an offset before it is read.

What brokers and files know is the size of a partition's log on disk, and the offsets that it holds. Their quotient is
the mean size of an offset over everything that is retained, compressed as it lies there. It is exact where records are
alike, and wrong by as much as those that are read differ from the mean of their partition: records that have grown
tenfold since the retention began are estimated at less than they are. With tiered storage it is the mean of the part
that is still on the leader's disk.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from kseg.client.protocol.partition import TopicPartition

ASSUMED_BYTES: Final = 1000.0
"""Bytes of an offset, if no log shows more."""


class LogSize(NamedTuple):
    """Bytes of a partition's segments, without their indexes, and the number of offsets between their ends."""

    bytes: int
    offsets: int


def mean_sizes(
    sizes: Mapping[TopicPartition, LogSize], partitions: Collection[TopicPartition]
) -> dict[TopicPartition, float]:
    """Estimated bytes of an offset of each partition. If its log is not known or empty, as with tiered storage: the
    largest of the others, or `ASSUMED_BYTES`."""
    means = {tp: size.bytes / size.offsets for tp, size in sizes.items() if size.offsets > 0 and size.bytes > 0}
    largest = max(means.values(), default=ASSUMED_BYTES)
    return {tp: means.get(tp, largest) for tp in partitions}
