"""The interface to partitions' logs, at brokers or in log directories. Planning reads logs only through it.

    Logs                  `brokers.logs.BrokerLogs`                   `files.logs.FileLogs`
    --------------------  ------------------------------------------  ---------------------------------------------
    topics, cluster_id    Metadata                                    folders, partition.metadata, meta.properties
    bounds                ListOffsets                                 checkpoints, segments, producer snapshots
    offsets               ListOffsets, OffsetFetch                    time indexes, batches, `__consumer_offsets`
    ends_of_epochs        OffsetForLeaderEpoch                        leader-epoch-checkpoint
    compacted             DescribeConfigs                             cleaner-offset-checkpoint
    batch_time            Fetch                                       the batch
    sizes                 DescribeLogDirs, ListOffsets                segments
    tasks, origin         what workers read, and from where

Planner, ledger, account and verification use this interface, so they do not depend on where the bytes are. Of a
consumer group it has only the committed offsets; everything else about groups needs brokers (`etl.planning.inputs`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Literal, Protocol
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import TopicMetadata
from kseg.client.errors import KafkaError
from kseg.client.offsets import IsolationLevel
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.source.log_size import LogSize
from kseg.etl.source.origin import LogFiles, Origin
from kseg.etl.source.resolve import LogBounds, OffsetSpec
from kseg.etl.source.tasks import RangeTask, SupportsRange
from kseg.segment_reader.errors import RecordFormatError
from kseg.segment_reader.log.errors import LogFileError
from kseg.segment_reader.log.scan.positions import TimedOffset

UNREADABLE = (KafkaError, LogFileError, RecordFormatError)
"""Errors that `Logs.batch_time` raises."""


class Logs(Protocol):
    """The logs of some partitions; each method reads their present state.

    Every method may raise KafkaError (brokers) or LogFileError (files) if they cannot be read.
    """

    @property
    def origin(self) -> Origin:
        """The source from which workers read."""

    def topics(
        self,
        *,
        topics: Collection[str] | None = None,
        pattern: str | None = None,
        assign: Mapping[str, Collection[int]] | None = None,
    ) -> dict[TopicPartition, TopicMetadata]:
        """The selected partitions, sorted, each with its topic's metadata, which is requested again.

        Raises:
            UnknownTopic: a named topic or partition does not exist.
            ConfigurationError: the pattern is not a regular expression, or the location does not exist.
        """

    def cluster_id(self, topics: Collection[str]) -> str | None:
        """The id of the logs' cluster; None if unknown."""

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        """Log start, last stable offset and high watermark of each partition, with the leader epoch of the ends."""

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
        """A concrete offset for every partition. Offsets given by the user are not checked.

        group: the group of `committed`. unnamed: the offset of partitions that a map does not name. fail_on_data_loss:
        see `resolve.unread`.

        Raises:
            ConfigurationError: `committed` if no group's offsets are known; a map of other partitions.
            TimeNotFoundError: there is no record at or after the time of `AtTime(otherwise="error")`.
            OffsetsLost: as `resolve.unread`.
        """

    def first_at(
        self, millis: int, partitions: Collection[TopicPartition], *, ends: bool = False
    ) -> dict[TopicPartition, TimedOffset | None]:
        """The first record at or after a time (ms) below the last stable offset; None where there is none.

        It may be a transaction's marker, or a record of an aborted one. ends: as in `AtTime`.
        """

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset at which each leader epoch ended (KIP-320); -1 if unknown."""

    def compacted(self, topics: Collection[str]) -> frozenset[str]:
        """The compacted topics; a topic without this information counts as not compacted."""

    def batch_time(self, tp: TopicPartition, offset: int) -> int | None:
        """The largest timestamp (ms) of the batch at an offset, aborted or not; None if it has none, or is not there.

        Raises:
            RecordFormatError: the batch's header is corrupt.
        """

    def sizes(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogSize]:
        """The size of each partition's log on disk; partitions with an unknown size are left out."""

    def tasks(
        self,
        ranges: Iterable[SupportsRange],
        *,
        max_records: int | None = None,
        min_tasks: int = 1,
        topics: Mapping[str, UUID | None],
        leaders: Mapping[TopicPartition, int] | None = None,
    ) -> tuple[RangeTask, ...]:
        """Split the ranges into tasks, always in the same way; see `etl.source.tasks.split`.

        topics: the plan's topic ids. leaders: if they are known, neighbouring tasks use different brokers.
        """


@contextmanager
def open_logs(origin: Origin) -> Iterator[Logs]:
    """The logs at a location. No request is sent before a method is called."""
    with ExitStack() as stack:
        yield logs_at(origin, None if isinstance(origin, LogFiles) else stack.enter_context(Cluster(origin)))


def logs_at(origin: Origin, cluster: Cluster | None, *, copy: bool = False) -> Logs:
    """The logs at a location; `cluster`: the client, if the location is brokers. copy: see `FileLogs`."""
    if isinstance(origin, LogFiles):
        # Walks over files with compiled code: half a second to import, of which a plan at brokers needs nothing.
        from kseg.etl.source.files.logs import FileLogs

        return FileLogs(origin, copy=copy)
    from kseg.etl.source.brokers.logs import BrokerLogs

    assert cluster is not None
    return BrokerLogs(cluster)
