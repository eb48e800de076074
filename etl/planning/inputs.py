"""Reads the inputs of plans from logs, the consumer group and the ledger."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import KafkaError, UnknownTopic
from kseg.client.groups.offsets import committed_offsets
from kseg.client.protocol.partition import TopicPartition
from kseg.client.protocol.suggestion import did_you_mean
from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError, KsegError, Refused
from kseg.etl.ledger.events import TableState
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.group_reconciliation import GroupView
from kseg.etl.planning.snapshot import SourceSnapshot, find_partitions, take_bounds, take_snapshot
from kseg.etl.planning.source_identity import absent_topics, behind
from kseg.etl.source.lag import until_current
from kseg.etl.source.log_size import mean_sizes
from kseg.etl.source.logs import Logs, logs_at
from kseg.etl.source.origin import LogFiles
from kseg.etl.tables.values import KnownTable, TableDescription
from kseg.etl.telemetry.events import OffsetsObserved, PartitionView
from kseg.etl.telemetry.progress import NULL_PROGRESS, Progress
from kseg.segment_reader.log.errors import LogFileError

if TYPE_CHECKING:
    from kseg.client.registry.opening import Registry


class TargetTables(Protocol):
    """The interface through which plans use target tables (`etl.tables.targets`)."""

    def examine(
        self, table: str, known: Callable[[TableState | None], KnownTable], app: str, app_ids: Collection[str] = ()
    ) -> TableDescription:
        """The table's current state, and the versions of the last transactions of a job's apps in it.

        Raises:
            Refused: the table is not what the ledger last recorded.
        """

    def transaction_version(self, table: str, app_id: str) -> int:
        """The version of an app's last transaction in the table, 0 where it has none."""

    def refuse_other_ledger(self, table: str, known: Collection[str]) -> None:
        """Raises Refused (`ledger-lost`) if the job landed rows in the table with another ledger than these."""

    def refuse_spark(self, tables: Iterable[str]) -> None:
        """Raises ConfigurationError for a table that Spark's own writer would have to commit rows to."""

    def layout_notes(self, tables: Iterable[str]) -> list[str]:
        """Which of these tables exist and are not clustered as the job file says."""

    def refuse_spark_side_table(self, table: str, setting: str) -> None:
        """Raises ConfigurationError where a side table needs Spark's own writer."""


@dataclass(frozen=True, slots=True)
class InputReader:
    """Reads a job's planning inputs. Each call sends new requests to the brokers.

    cluster, registry: None for a job without brokers, without a schema registry. copy: the job's files are an older
    copy of some of its partitions.
    """

    job: Job
    logs: Logs
    cluster: Cluster | None
    tables: TargetTables
    read_state: Callable[[], JobState]
    progress: Progress = NULL_PROGRESS
    copy: bool = False
    registry: Registry | None = None

    def snapshot(self, state: JobState | None = None) -> SourceSnapshot:
        """Partitions, log bounds, and the configured start and end offsets.

        state: the job's state in the ledger. If responses are older than its topics, or lack a topic of its last plan
            that the job's pattern selects, the requests are repeated.

        Raises:
            RetriableFailure: the brokers' responses stay older than the ledger. Topics of a pattern may stay missing.
            Refused: `topic-missing`, if the ledger has the topic.
            ConfigurationError: the job names a topic or partition that does not exist.
            KafkaError, LogFileError: the logs cannot be read.
        """
        snapshot = self._current(take_snapshot, state)
        views = {tp: PartitionView(b.start, b.high_watermark, b.last_stable) for tp, b in snapshot.bounds.items()}
        self.progress.event(OffsetsObserved(views))
        return snapshot

    def bounds(self, state: JobState) -> SourceSnapshot:
        """Like `snapshot`, without the configured offsets."""
        return self._current(take_bounds, state)

    def _current(self, take: Callable[..., SourceSnapshot], state: JobState | None) -> SourceSnapshot:
        known = {} if state is None else state.topics
        # A topic that stays missing is no part of the next plan, and is not waited for again.
        expected = () if state is None else _last_planned(state)
        with self._typed_missing_topic():
            return until_current(
                lambda: take(self.logs, self.job, copy=self.copy),
                lambda seen: behind(seen, known),
                lambda seen: bool(absent_topics(seen, self.job.source, expected)),
            )

    def sizes(self, snapshot: SourceSnapshot) -> dict[TopicPartition, float]:
        """Estimated bytes of an offset of each partition.

        Raises:
            ConfigurationError: the brokers return no sizes.
            KafkaError, LogFileError: the logs cannot be read.
        """
        found = self.logs.sizes(snapshot.partitions)
        if snapshot.partitions and not found:
            # Brokers before 3.0 answer so where the right to describe the cluster is missing.
            raise ConfigurationError.of(
                "run.max_bytes",
                "needs the sizes of the partitions' logs, and the brokers list none of them",
                "allow DESCRIBE on the cluster (DescribeLogDirs), or use run.max_records",
            )
        return mean_sizes(found, snapshot.partitions)

    def at_brokers(self) -> InputReader:
        """These inputs with the brokers' logs instead of files. Not for a job without brokers."""
        if not isinstance(self.logs.origin, LogFiles):
            return self
        assert self.cluster is not None
        return replace(self, logs=logs_at(self.cluster.config, self.cluster), copy=False)

    def partitions(self) -> tuple[TopicPartition, ...]:
        """The job's current partitions, without their log bounds. Raises as `snapshot`."""
        with self._typed_missing_topic():
            return tuple(find_partitions(self.logs, self.job))

    def group_view(self, partitions: tuple[TopicPartition, ...], *, accept: bool = False) -> GroupView | None:
        """The group's stable committed offsets; None if the job has no group, or no brokers.

        Even if the job never commits the group's offsets, they determine the start of the first run.
        accept: the user accepts offsets that another client committed (`--accept-group-offsets`).
        """
        if self.job.group is None or self.cluster is None:
            return None
        offsets = committed_offsets(self.cluster, self.job.group, list(partitions))
        views = {tp: PartitionView(committed=found.offset) for tp, found in offsets.items()}
        self.progress.event(OffsetsObserved(views))
        return GroupView(self.job.group, offsets, watched=self.job.commits_offsets, accept=accept)

    @contextmanager
    def _typed_missing_topic(self) -> Iterator[None]:
        try:
            yield
        except UnknownTopic as error:
            if error.topic in self.read_state().topics:
                raise Refused.of(
                    "topic-missing", {"error": error.message}, case="job", topic=error.topic, partition=error.partition
                ) from error
            raise self._no_such_topic(error) from None  # which says no more

    def _no_such_topic(self, error: UnknownTopic) -> ConfigurationError:
        source = self.job.source
        setting = next(key for key in ("topics", "assign", "pattern") if getattr(source, key) is not None)
        where = " in the files" if isinstance(self.logs.origin, LogFiles) else ""
        if error.partition is not None:
            message, near = f"the topic {error.topic} has no partition {error.partition}{where}", None
        else:
            message = f"there is no topic {error.topic}{where}"
            near = did_you_mean(error.topic or "", self._topics_there())
        remedy = near or "check the topic's name and the brokers or files: kseg never creates topics"
        return ConfigurationError.of(f"source.{setting}", message, remedy)

    def _topics_there(self) -> frozenset[str]:
        """For a suggestion: none where they cannot be listed."""
        try:
            return frozenset(tp.topic for tp in self.logs.topics(pattern=""))
        except (KafkaError, LogFileError, KsegError):
            return frozenset()


def _last_planned(state: JobState) -> Collection[str]:
    """The topics of the newest plan that the ledger still has in full."""
    return next((run.plan.topics.keys() for run in reversed(state.runs.values()) if run.plan.topics), ())
