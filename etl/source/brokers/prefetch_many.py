"""Fetch many small ranges together, which one Spark task then reads one after the other.

    range 1 ─┐                         received chunks  ─► range 1, range 2, …  (`prefetch.fetch_chunks_from`)
    range 2 ─┼─ one request a broker ─┤
    …  200  ─┘   (client.fetch.many_reader)  └ half of them decoded: the next ranges are requested

Fetched alone, each range would need a connection, metadata and a request. Here there is one connection per broker, and
a request covers as many ranges as fit into one response. At most one and a half responses of `fetch.max.bytes` are in
memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Final, Self

from kseg.client.cluster.cluster import Cluster
from kseg.client.config import ClientConfig
from kseg.client.errors import KafkaError
from kseg.client.fetch.absence import read_uncommitted_from
from kseg.client.fetch.many_reader import ManyReader
from kseg.client.fetch.messages import FetchedRecords
from kseg.client.offsets import IsolationLevel
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.source.brokers.prefetch import fetch_chunks_from
from kseg.etl.source.record_chunk import FetchOptions, FetchStats, RecordChunk
from kseg.etl.source.tasks import RangeTask

MOST_AT_ONCE: Final = 200
"""Ranges asked for at a time."""


class RangesTogether:
    """Fetches for all of these tasks. The caller then reads their chunks task by task, in the same order."""

    def __init__(self, tasks: Sequence[RangeTask], config: ClientConfig, isolation_level: IsolationLevel) -> None:
        self._ahead = deque(task for task in tasks if task.length)
        self._config = config
        self._cluster = Cluster(config)
        self._most = max(1, min(MOST_AT_ONCE, len(self._ahead)))
        # All ranges that are requested at the same time fit into one response.
        each = max(1, min(config.max_partition_fetch_bytes, config.fetch_max_bytes // self._most))
        self._many = ManyReader(self._cluster, isolation_level=isolation_level, partition_max_bytes=each)
        self._came: dict[TopicPartition, FetchedRecords | KafkaError] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._many.close()
        self._cluster.close()

    def answers(self, task: RangeTask, options: FetchOptions, stats: FetchStats) -> Generator[RecordChunk, None, None]:
        """The chunks of one range; returns and raises the same as `prefetch.fetch_chunks`."""
        if task.length:
            self._ask_ahead()
            reader = _OneOfMany(self, task)
            patience = self._config.default_api_timeout_ms / 1000
            yield from fetch_chunks_from(reader, task, options, stats, patience=patience)

    def request(self, task: RangeTask, offset: int) -> None:
        """Request `offset` of the task's partition, unless it was requested ahead."""
        tp = task.tp
        if tp not in self._came and self._many.partitions.get(tp) != offset:
            self._add(task, offset)

    def request_whole(self, task: RangeTask, fetched: FetchedRecords) -> None:
        """Request the offset of a response without a whole batch again, with enough bytes for its first batch."""
        self._many.raise_limit(task.tp, fetched)
        self.request(task, fetched.fetch_offset)

    def leave_replica(self, task: RangeTask) -> None:
        """Fetch the task's partition from its leader."""
        self._many.leave_replica(task.tp)

    def uncommitted_from(self, task: RangeTask, offset: int) -> FetchedRecords:
        """One response under read_uncommitted. Raises KafkaError."""
        return read_uncommitted_from(
            self._cluster, task.tp, offset, topic_id=task.topic_id, leader_epoch=task.leader_epoch
        )

    def response(self, tp: TopicPartition) -> FetchedRecords:
        """Waits for the response to the last request for a partition. Raises KafkaError."""
        while tp not in self._came:
            self._poll()
        came = self._came.pop(tp)
        if isinstance(came, KafkaError):
            raise came
        return came

    def _ask_ahead(self) -> None:
        under_way = len(self._many.partitions) + len(self._came)
        if under_way > self._most // 2:
            return
        if not under_way:
            # Metadata of all topics in one request, before each partition requests that of its topic.
            self._cluster.metadata(sorted({task.topic for task in self._ahead}))
        while self._ahead and under_way < self._most:
            tp = self._ahead[0].tp
            if tp in self._came or tp in self._many.partitions:
                break  # another range of the same partition: read it after the current one
            task = self._ahead.popleft()
            self._add(task, task.start)
            under_way += 1
        self._many.send_fetches()

    def _add(self, task: RangeTask, offset: int) -> None:
        self._many.add(task.tp, offset, topic_id=task.topic_id, leader_epoch=task.leader_epoch)

    def _poll(self) -> None:
        results = self._many.poll()
        # A partition may be left out because others have filled the response: only an empty one is about all of them.
        nothing = not any(isinstance(fetched, FetchedRecords) and fetched.records for _, fetched in results)
        for tp, fetched in results:
            if isinstance(fetched, FetchedRecords):
                if not fetched.records and not nothing:
                    continue
                self._many.remove(tp)
            self._came[tp] = fetched


class _OneOfMany:
    """The reader of one range for `fetch_chunks_from`."""

    def __init__(self, together: RangesTogether, task: RangeTask) -> None:
        self._together, self._task = together, task

    def request(self, offset: int) -> None:
        self._together.request(self._task, offset)

    def request_whole(self, fetched: FetchedRecords) -> None:
        self._together.request_whole(self._task, fetched)

    def leave_replica(self) -> None:
        self._together.leave_replica(self._task)

    def uncommitted_from(self, offset: int) -> FetchedRecords:
        return self._together.uncommitted_from(self._task, offset)

    def response(self) -> FetchedRecords:
        return self._together.response(self._task.tp)
