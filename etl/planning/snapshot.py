"""A job's source at one moment: partitions, log bounds, and the offsets where a read would start and end.

A plan is made from this value and the ledger's state alone (`etl.planning.plan`), so it can be stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kseg.client.cluster.metadata import TopicMetadata
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.sections import AtTime
from kseg.etl.ledger.events import PartitionIdentity, TopicIdentity
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.source.lag import until_known
from kseg.etl.source.logs import Logs
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.resolve import LogBounds, OffsetSpec, ending, offset_spec


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """cluster_id: None where the broker reports none. bounds, starts, ends: one entry for each partition of the source.

    starts, ends: what `starting_offsets` and `ending_offsets` mean now; an end is never above what the isolation level
    may see. copy: the files are a copy of some age and of some partitions, beside brokers that hold the topic.
    complete: the topics' metadata has all of their partitions; files may be of some of them.
    """

    cluster_id: str | None
    topics: Mapping[str, TopicMetadata]
    bounds: Mapping[TopicPartition, LogBounds]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    copy: bool = False
    complete: bool = True

    @property
    def of_files(self) -> bool:
        """Whether the source is log files."""
        return self.copy or not self.complete

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(self.bounds)

    def leader_epoch(self, tp: TopicPartition) -> int:
        """The leader's epoch in which the log's ends were answered, -1 where the broker reports none."""
        return self.bounds[tp].leader_epoch

    def readable(self, tp: TopicPartition, isolation_level: str) -> OffsetSet:
        """The offsets that should be there: all from the log's start on, in a copy up to its end."""
        bounds = self.bounds[tp]
        return OffsetSet.single(bounds.start, visible_end(bounds, isolation_level) if self.copy else 2**63 - 1)

    def identity(self, topic: str) -> TopicIdentity:
        """The topic as the ledger keeps it."""
        partitions = {
            number: PartitionIdentity(self.leader_epoch(tp), self.bounds[tp].high_watermark)
            for number in sorted(self.topics[topic].partitions)
            if (tp := TopicPartition(topic, number)) in self.bounds
        }
        return TopicIdentity(self.topics[topic].topic_id, self.cluster_id, partitions)


def take_snapshot(logs: Logs, job: Job, *, copy: bool = False) -> SourceSnapshot:
    """Ask about all of the job's partitions.

    Raises:
        UnknownTopic: a topic or partition that the job names does not exist.
        KafkaError, LogFileError: the logs cannot be asked.
    """
    source = job.source
    level = source.isolation_level
    found = find_partitions(logs, job)
    ends = starts = None
    if source.ending_offsets != "latest":
        ends = logs.offsets(
            ending(_spec(source.ending_offsets)), found, isolation_level=level, group=job.group, unnamed="latest"
        )
    if source.starting_offsets != "earliest":
        starts = logs.offsets(
            _spec(source.starting_offsets), found, isolation_level=level, group=job.group, unnamed="earliest"
        )
    # What begins and ends with the log needs no question of its own.
    bounds = logs.bounds(found)
    # Past damage the end of files may be asked for: a transaction that is open there is undecided, and quarantined.
    to_log_end = source.ending_offsets == "log_end" and job.quarantine is not None
    last = {tp: b.high_watermark if to_log_end else visible_end(b, level) for tp, b in bounds.items()}
    topics = {metadata.name: metadata for metadata in found.values()}
    return SourceSnapshot(
        cluster_id=logs.cluster_id(topics),
        topics=topics,
        bounds=bounds,
        starts={tp: log.start for tp, log in bounds.items()} if starts is None else starts,
        ends=last if ends is None else {tp: min(end, last[tp]) for tp, end in ends.items()},
        copy=copy,
        complete=_complete(logs),
    )


def take_bounds(logs: Logs, job: Job, *, copy: bool = False) -> SourceSnapshot:
    """The snapshot of `take_snapshot`, without the configured offsets: enough to compare the source with what the
    ledger knows."""
    found = find_partitions(logs, job)
    topics = {metadata.name: metadata for metadata in found.values()}
    bounds = logs.bounds(found)
    return SourceSnapshot(
        logs.cluster_id(topics), topics, bounds, starts={}, ends={}, copy=copy, complete=_complete(logs)
    )


def find_partitions(logs: Logs, job: Job) -> dict[TopicPartition, TopicMetadata]:
    """The job's current partitions, sorted, each with its topic's metadata.

    Raises:
        UnknownTopic: a topic or partition that the job names does not exist, also a few seconds later.
        KafkaError, LogFileError: the logs cannot be asked.
    """
    source = job.source
    return until_known(lambda: logs.topics(topics=source.topics, pattern=source.pattern, assign=source.assign))


def _complete(logs: Logs) -> bool:
    return not isinstance(logs.origin, LogFiles)


def visible_end(bounds: LogBounds, isolation_level: str) -> int:
    """The first offset that may not be read: last stable offset, or high watermark under read_uncommitted."""
    return bounds.last_stable if isolation_level == "read_committed" else bounds.high_watermark


def _spec(value: object) -> OffsetSpec:
    return offset_spec(value.timestamp if isinstance(value, AtTime) else value)  # type: ignore[arg-type]
