"""The logs of brokers: the interface `etl.source.logs`, implemented with requests.

Methods that only some plans need import their modules when called: a plan without new records only lists offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import TopicMetadata
from kseg.client.config import ClientConfig
from kseg.client.errors import AuthorizationFailed, UnsupportedVersion
from kseg.client.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, IsolationLevel, end_of_epoch, list_offsets
from kseg.client.protocol.enums import ConfigResourceType
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.source.log_size import LogSize
from kseg.etl.source.resolve import (
    LogBounds,
    OffsetSpec,
    first_records,
    log_bounds,
    resolve_offsets,
    resolve_topics,
)
from kseg.etl.source.tasks import RangeTask, SupportsRange, split
from kseg.segment_reader.log.scan.positions import TimedOffset

ENOUGH_FOR_A_HEADER = 4096

_UNREADABLE = (AuthorizationFailed, UnsupportedVersion)
"""Reasons why a topic's settings are unknown: no permission to read them, or a broker that is too old."""


class BrokerLogs:
    """See `etl.source.logs.Logs`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def origin(self) -> ClientConfig:
        return self._cluster.config

    def topics(
        self,
        *,
        topics: Collection[str] | None = None,
        pattern: str | None = None,
        assign: Mapping[str, Collection[int]] | None = None,
    ) -> dict[TopicPartition, TopicMetadata]:
        self._cluster.forget_metadata()
        return resolve_topics(self._cluster, topics=topics, pattern=pattern, assign=assign)

    def cluster_id(self, topics: Collection[str]) -> str | None:
        return self._cluster.metadata(sorted(topics)).cluster_id

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        return log_bounds(self._cluster, partitions)

    def offsets(
        self,
        spec: OffsetSpec,
        partitions: Collection[TopicPartition],
        *,
        isolation_level: IsolationLevel,
        group: str | None = None,
        unnamed: Literal["earliest", "latest", "refuse"] = "refuse",
        fail_on_data_loss: bool = False,
    ) -> dict[TopicPartition, int]:
        return resolve_offsets(
            self._cluster,
            spec,
            partitions,
            isolation_level=isolation_level,
            group=group,
            unnamed=unnamed,
            fail_on_data_loss=fail_on_data_loss,
        )

    def first_at(
        self, millis: int, partitions: Collection[TopicPartition], *, ends: bool = False
    ) -> dict[TopicPartition, TimedOffset | None]:
        if not partitions:
            return {}
        # Under read_committed a broker does not read beyond the last stable offset.
        times = dict.fromkeys(sorted(partitions), millis)
        found = first_records(self._cluster, times, isolation_level="read_committed", ends=ends)
        return {
            tp: TimedOffset(one.offset, one.timestamp) if one.offset >= 0 else None for tp, (_, one) in found.items()
        }

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not epochs:
            return {}
        return {tp: end.end_offset for tp, end in end_of_epoch(self._cluster, epochs).items()}

    def compacted(self, topics: Collection[str]) -> frozenset[str]:
        """Topics whose `cleanup.policy` has `compact`. If it may not be read, a topic counts as not compacted.

        Raises KafkaError: the brokers could not answer. Taken for "not compacted", this would be a lasting failure of
        the account.
        """
        from kseg.client.admin.configs import ConfigResource, describe_configs

        asked = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in sorted(topics)]
        try:
            found = describe_configs(self._cluster, asked, names=["cleanup.policy"])
        except _UNREADABLE:
            return frozenset()
        for error in found.failed().values():
            if not isinstance(error, _UNREADABLE):
                raise error
        return frozenset(
            topic.name
            for topic, settings in found.done().items()
            if "compact" in str(getattr(settings.get("cleanup.policy"), "value", ""))
        )

    def batch_time(self, tp: TopicPartition, offset: int) -> int | None:
        from kseg.client.fetch.partition_reader import PartitionReader
        from kseg.segment_reader.decode.batch import FrameFault, frames

        with PartitionReader(
            self._cluster, tp, isolation_level="read_uncommitted", max_bytes=ENOUGH_FOR_A_HEADER, max_wait_ms=0
        ) as reader:
            reader.request(offset, last=True)
            try:
                first = next(frames(reader.response().records), None)
            except FrameFault as fault:
                raise fault.error(*tp) from None
        return first.max_timestamp if first is not None and first.max_timestamp >= 0 else None

    def sizes(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogSize]:
        """The size of the largest replica, because replicas may lag. Raises KafkaError if no broker responds."""
        from kseg.client.admin.log_dirs import describe_log_dirs

        asked = describe_log_dirs(self._cluster, partitions)
        answered = asked.done() or asked.or_raise()
        on_disk: dict[TopicPartition, int] = {}
        for folder in (folder for folders in answered.values() for folder in folders):
            for tp, replica in folder.partitions.items():
                if not replica.is_future:
                    on_disk[tp] = max(on_disk.get(tp, 0), replica.size)
        ends = list_offsets(self._cluster, dict.fromkeys(on_disk, LATEST), isolation_level="read_uncommitted")
        starts = self._local_starts(on_disk)
        return {tp: LogSize(size, ends[tp].offset - starts[tp]) for tp, size in on_disk.items()}

    def _local_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets of the logs on the leaders' disks: without tiered storage at the logs' start."""
        try:
            found = list_offsets(
                self._cluster, dict.fromkeys(partitions, EARLIEST_LOCAL), isolation_level="read_uncommitted"
            )
        except UnsupportedVersion:
            found = list_offsets(self._cluster, dict.fromkeys(partitions, EARLIEST), isolation_level="read_uncommitted")
        return {tp: one.offset for tp, one in found.items()}

    def tasks(
        self,
        ranges: Iterable[SupportsRange],
        *,
        max_records: int | None = None,
        min_tasks: int = 1,
        topics: Mapping[str, UUID | None],
        leaders: Mapping[TopicPartition, int] | None = None,
    ) -> tuple[RangeTask, ...]:
        return split(ranges, max_records=max_records, min_tasks=min_tasks, topic_ids=topics, leaders=leaders)
