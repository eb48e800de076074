"""What a `spark.read.format("kseg")` reads: options -> partitions -> offsets -> tasks, asked of the brokers once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from client import Cluster, TopicPartition
from etl.errors import ConfigurationError
from etl.source.errors import OffsetsLost
from etl.source.files import LogCatalog, LogFiles
from etl.source.options import ReadOptions
from etl.source.resolve import AtOffsets, LogBounds, log_bounds, resolve_offsets, resolve_topics
from etl.source.tasks import RangeTask, split


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """Offsets `[start, end)` of one partition."""

    topic: str
    partition: int
    start: int
    end: int
    leader_epoch: int = -1


def plan_tasks(options: ReadOptions) -> tuple[RangeTask, ...]:
    """The tasks of one read, as of now.

    Raises:
        ConfigurationError: offsets that do not fit the partitions, or end before they start.
        OffsetsLost: named offsets lie outside of the log, with failOnDataLoss.
        KafkaError: the cluster cannot be asked.
        LogFileError: the files cannot be walked.
    """
    if isinstance(options.origin, LogFiles):
        return _plan_files(options, options.origin)
    with Cluster(options.origin) as cluster:
        topics = resolve_topics(cluster, topics=options.topics, pattern=options.pattern, assign=options.assign)
        partitions = list(topics)
        level = options.isolation_level
        starts = resolve_offsets(cluster, options.start, partitions, isolation_level=level, group=options.group)
        ends = resolve_offsets(cluster, options.end, partitions, isolation_level=level)
        bounds = log_bounds(cluster, partitions)
    metadata = {tp: topic.partitions[tp.partition] for tp, topic in topics.items()}
    ranges = [
        PartitionRange(tp.topic, tp.partition, start, end, metadata[tp].leader_epoch)
        for tp, (start, end) in _ranges(options, starts, ends, bounds)
    ]
    return split(
        ranges,
        max_records=options.max_records_per_partition,
        min_tasks=options.min_partitions or 1,
        topic_ids={topic.name: topic.topic_id for topic in topics.values()},
        leaders={tp: partition.leader_id for tp, partition in metadata.items()},
    )


def _plan_files(options: ReadOptions, files: LogFiles) -> tuple[RangeTask, ...]:
    """The same from what stands in log directories."""
    catalog = LogCatalog(files)
    topics = catalog.topics(topics=options.topics, pattern=options.pattern, assign=options.assign)
    level = options.isolation_level
    starts = catalog.offsets(options.start, topics, isolation_level=level)
    ends = catalog.offsets(options.end, topics, isolation_level=level)
    bounds = {tp: catalog.bounds(tp) for tp in topics}
    return split(
        [
            PartitionRange(tp.topic, tp.partition, start, end, topics[tp].partitions[tp.partition].leader_epoch)
            for tp, (start, end) in _ranges(options, starts, ends, bounds)
        ],
        max_records=options.max_records_per_partition,
        min_tasks=options.min_partitions or 1,
        topic_ids={topic.name: topic.topic_id for topic in topics.values()},
        folders={tp: catalog.folder(tp) for tp in topics},
    )


def _ranges(
    options: ReadOptions,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    bounds: dict[TopicPartition, LogBounds],
) -> Iterator[tuple[TopicPartition, tuple[int, int]]]:
    for tp, start in starts.items():
        end, log = ends[tp], bounds[tp]
        visible = log.last_stable if options.isolation_level == "read_committed" else log.high_watermark
        if options.fail_on_data_loss:
            _check_inside(options, tp, start, end, log.start, visible)
        else:
            start, end = max(start, log.start), min(end, visible)
        if options.start == "committed" or not options.fail_on_data_loss:
            start = min(start, end)  # nothing is left to read
        if start > end:
            raise ConfigurationError.of("", f"{tp} starts at offset {start}, which is after its end {end}")
        yield tp, (start, end)


def _check_inside(options: ReadOptions, tp: TopicPartition, start: int, end: int, first: int, visible: int) -> None:
    """Offsets that a user or a group named may lie outside of the log; the others have just been asked for."""
    if start < first and start < end and (isinstance(options.start, AtOffsets) or options.start == "committed"):
        raise OffsetsLost(tp.topic, tp.partition, start, min(first, end))
    if end > visible and start < end and isinstance(options.end, AtOffsets):
        raise OffsetsLost(tp.topic, tp.partition, max(start, visible), end, "truncation")
