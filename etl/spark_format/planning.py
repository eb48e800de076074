"""Plans a `spark.read.format("kseg")`: options -> partitions -> offsets -> tasks, all at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.errors import OffsetsLost
from kseg.etl.source.lag import until_known
from kseg.etl.source.logs import open_logs
from kseg.etl.source.resolve import EARLIEST_OFFSET, AtOffsets, LogBounds, OffsetSpec, ending
from kseg.etl.source.tasks import RangeTask
from kseg.etl.spark_format.options import ReadOptions


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """Offsets `[start, end)` of one partition."""

    topic: str
    partition: int
    start: int
    end: int
    leader_epoch: int = -1


def plan_tasks(options: ReadOptions) -> tuple[RangeTask, ...]:
    """The tasks of one read, with the current offsets.

    Raises:
        ConfigurationError: offsets that do not fit the partitions, or end before they start.
        OffsetsLost: given offsets are outside of the log, or the log was truncated below a group's offsets, with
            failOnDataLoss.
        KafkaError: a request to the cluster failed.
        LogFileError: the log files cannot be read.
    """
    level = options.isolation_level
    with open_logs(options.origin) as logs:
        topics = until_known(lambda: logs.topics(topics=options.topics, pattern=options.pattern, assign=options.assign))
        starts = logs.offsets(
            options.start,
            topics,
            isolation_level=level,
            group=options.group,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        ends = logs.offsets(ending(options.end), topics, isolation_level=level)
        bounds = logs.bounds(topics)
        metadata = {tp: topic.partitions[tp.partition] for tp, topic in topics.items()}
        return logs.tasks(
            [
                PartitionRange(tp.topic, tp.partition, start, end, bounds[tp].leader_epoch)
                for tp, (start, end) in _ranges(options, starts, ends, bounds)
            ],
            max_records=options.max_records_per_partition,
            min_tasks=options.min_partitions or 1,
            topics={topic.name: topic.topic_id for topic in topics.values()},
            leaders={tp: partition.leader_id for tp, partition in metadata.items()},
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
            _check_inside(options, tp, start, end, log, visible)
        else:
            start, end = max(start, log.start), min(end, visible)
        if options.start == "committed" or not options.fail_on_data_loss:
            start = min(start, end)  # nothing is left to read
        if start > end:
            raise ConfigurationError.of("", f"{tp} starts at offset {start}, which is after its end {end}")
        yield tp, (start, end)


def is_given(spec: OffsetSpec, tp: TopicPartition) -> bool:
    """Whether an offset comes from a user or a group, so that it may be outside of the log; others were just listed."""
    return spec == "committed" or (isinstance(spec, AtOffsets) and spec.offsets.get(tp, EARLIEST_OFFSET) >= 0)


def _check_inside(options: ReadOptions, tp: TopicPartition, start: int, end: int, log: LogBounds, visible: int) -> None:
    """Raises OffsetsLost: a given offset is outside of the log."""
    if is_given(options.start, tp) and start < min(log.start, end):
        raise OffsetsLost(tp.topic, tp.partition, start, min(log.start, end))
    # A group's offset may be above the last stable offset; a user's is checked against the range's end.
    if options.start == "committed" and start > log.high_watermark:
        raise OffsetsLost(tp.topic, tp.partition, log.high_watermark, start, "truncation")
    if is_given(options.end, tp) and end > max(start, visible):
        raise OffsetsLost(tp.topic, tp.partition, max(start, visible), end, "truncation")
