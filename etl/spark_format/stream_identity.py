"""Checks that a checkpoint's offsets are still valid: same cluster, same topics, no truncated logs.

The counterpart of `etl.planning.source_identity` for queries, whose state is Spark's checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.source.logs import Logs
from kseg.etl.source.resolve import LogBounds
from kseg.etl.spark_format.stream_offsets import StreamOffsets


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that a partition lost. at: the offset to continue from; None: from the start of a different log."""

    tp: TopicPartition
    refusal: Refused
    at: int | None


def check_cluster(began: StreamOffsets, cluster: str | None) -> None:
    """Raises Refused: `another-cluster`; no option makes a query continue on another cluster."""
    if began.cluster and cluster and began.cluster != cluster:
        raise Refused.of("another-cluster", {"known": began.cluster, "found": cluster}, case="query")


def behind(began: StreamOffsets, now: StreamOffsets) -> TopicPartition | None:
    """A partition of the same topic (by its id) with an older leader epoch than in the checkpoint: stale metadata."""
    return next(
        (
            tp
            for tp, known in sorted(began.epochs.items())
            if -1 < now.epochs.get(tp, -1) < known and began.same_id(now, tp.topic)
        ),
        None,
    )


def lost_records(
    began: StreamOffsets, now: StreamOffsets, bounds: Mapping[TopicPartition, LogBounds], logs: Logs
) -> Iterator[Loss]:
    """Logs that were truncated below the checkpoint's offsets, or replaced. now: the current ids and epochs.

    A log was truncated if it ends below the offset. If it has grown again since, the end of the offset's leader epoch
    shows the truncation (OffsetForLeaderEpoch, KIP-320). Without topic ids, a lower leader epoch means a recreated
    topic; with the same id, the response is stale (`behind`).
    """
    asked: dict[TopicPartition, int] = {}
    for tp, offset in began.offsets.items():
        known, epoch = began.epochs.get(tp, -1), now.epochs.get(tp, -1)
        same_id = began.same_id(now, tp.topic)
        if not began.same_topic(now, tp.topic) or (-1 < epoch < known and not same_id):
            yield Loss(tp, _recreated(began, now, tp, known, epoch), None)
        elif bounds[tp].high_watermark < offset:
            yield Loss(tp, _truncated(tp, offset, bounds[tp].high_watermark), bounds[tp].high_watermark)
        elif -1 < known < epoch:
            asked[tp] = known
    for tp, end in logs.ends_of_epochs(asked).items():
        # -1: the leader does not know that epoch, which may also be due to retention.
        if 0 <= end < began.offsets[tp]:
            yield Loss(tp, _truncated(tp, began.offsets[tp], end), end)


def _recreated(began: StreamOffsets, now: StreamOffsets, tp: TopicPartition, known: int, epoch: int) -> Refused:
    by_epoch = began.same_topic(now, tp.topic)
    was, is_now = (known, epoch) if by_epoch else (began.ids[tp.topic], now.ids[tp.topic])
    case = "query, by epoch" if by_epoch else "query, by id"
    values = {"was": was, "now": is_now}
    return Refused.of("topic-recreated", values, case=case, topic=tp.topic, partition=tp.partition)


def _truncated(tp: TopicPartition, offset: int, end: int) -> Refused:
    return Refused.of(
        "log-truncated", {"read": offset}, case="query", topic=tp.topic, partition=tp.partition, offset=end
    )
