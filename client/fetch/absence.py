"""Proves which offsets are absent from the log. A Fetch response without records does not prove it.

A broker may respond without records, without an error and with the full high watermark: if a read of tiered storage
takes longer than `remote.fetch.max.wait.ms`, if a quota delays such reads (KIP-956), or right after the broker has
become leader or follower. Only a later batch proves that offsets are absent: the first batch of a response is the next
one in the log. Under read_committed, a broker hides batches after the last stable offset. Then one request is sent
under read_uncommitted, of whose response only the offset of the first batch is used.

A replica that lags responds without records, too, but with a high watermark below the range's end: the leader may have
the records.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from struct import Struct
from typing import Final
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.fetch.messages import FetchedRecords
from kseg.client.fetch.partition_reader import PartitionReader
from kseg.client.protocol.partition import TopicPartition

_HEAD: Final = Struct(">q8xbB")  # of every format: offset; the magic; and of magic 0 and 1 then the attributes
_CODECS: Final = 0x07
_ENOUGH_FOR_A_BATCH: Final = 4096

#: After one empty answer the same is asked again: a broker that has just become the leader knows better soon.
_EMPTY_ANSWERS: Final = 2
_LONGEST_PAUSE: Final = 0.5

LookBeyond = Callable[[int], FetchedRecords]
"""An answer under read_uncommitted from an offset on."""


def first_offset(records: memoryview) -> int | None:
    """An offset below which the first batch has no records; None if it is unknown.

    A compressed message set of the formats before 0.11 has the offset of its last message.
    """
    if len(records) < _HEAD.size:
        return None
    offset, magic, attributes = _HEAD.unpack_from(records)
    return int(offset) if magic >= 2 or not attributes & _CODECS else None


def read_uncommitted_from(
    cluster: Cluster, tp: TopicPartition, offset: int, *, topic_id: UUID | None, leader_epoch: int | None
) -> FetchedRecords:
    """One response under read_uncommitted, over a separate connection. Raises as `PartitionReader.response`."""
    with PartitionReader(
        cluster,
        tp,
        isolation_level="read_uncommitted",
        topic_id=topic_id,
        leader_epoch=leader_epoch,
        max_bytes=_ENOUGH_FOR_A_BATCH,
    ) as reader:
        reader.request(offset)
        return reader.response()


class EmptyAnswers:
    """The empty responses for one range `[…, end)`: whether a later batch proves that it has no more records."""

    def __init__(self, end: int, *, committed: bool, patience: float, look_beyond: LookBeyond) -> None:
        """committed: whether responses end at the last stable offset. patience: seconds without records."""
        self._end, self._committed, self._patience, self._look_beyond = end, committed, patience, look_beyond
        self.moved_on()

    def moved_on(self) -> None:
        """Call this after a response with records, when they have been processed."""
        self.restart()
        self._count = self._behind = 0

    def restart(self) -> None:
        """Count the seconds without records from now on."""
        self._since = time.monotonic()

    def batch_behind(self, empty: FetchedRecords) -> FetchedRecords | None:
        """After a response without records: a response whose first batch begins at the range's end or later.

        None: nothing is proved, send the request again.
        """
        visible = empty.last_stable_offset if self._committed else empty.high_watermark
        if empty.throttle_time_ms:
            return None
        if visible < self._end:
            self._behind += 1
            return None
        self._count += 1
        if not self._committed or self._count < _EMPTY_ANSWERS:
            return None
        found = self._look_beyond(empty.fetch_offset)
        first = first_offset(found.records)
        return found if first is not None and first >= self._end else None

    @property
    def behind(self) -> bool:
        """Whether the broker's records end before the range, and it has not caught up while it was asked again.

        Then leave it, if it is a replica: a leader that has fewer records has to wait for its followers.
        """
        return self._behind >= _EMPTY_ANSWERS

    @property
    def waited(self) -> float:
        """Seconds since `moved_on` or `restart`."""
        return time.monotonic() - self._since

    @property
    def overdue(self) -> bool:
        return self.waited >= self._patience

    @property
    def pause(self) -> float:
        """Seconds to wait before the next request, because a broker may send empty responses at once."""
        return 0.0 if self._count < _EMPTY_ANSWERS else min(0.02 * self._count, _LONGEST_PAUSE)
