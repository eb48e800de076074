"""Whether a checkpoint's offsets still mean what they meant: same cluster, same topics, logs that only grew.

The counterpart of `etl.planning.source_identity` for queries whose memory is Spark's checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.source.logs import Logs
from kseg.etl.source.resolve import LogBounds
from kseg.etl.spark_format.stream_offsets import StreamOffsets

_NEW_CHECKPOINT = (
    "start a new query with a new checkpoint; or set failOnDataLoss to false to continue with the topic as it is"
)


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that a partition lost. at: the offset to go on from; None: from the beginning, it is another log."""

    tp: TopicPartition
    refusal: Refused
    at: int | None


def check_cluster(began: StreamOffsets, cluster: str | None) -> None:
    """Raises Refused: `another-cluster`; no option lets a query go on there."""
    if began.cluster and cluster and began.cluster != cluster:
        raise Refused(
            "another-cluster",
            f"the checkpoint's offsets are those of cluster {began.cluster}, and this is {cluster}",
            remedy="check kafka.bootstrap.servers; another cluster needs another checkpoint",
        )


def behind(began: StreamOffsets, now: StreamOffsets) -> TopicPartition | None:
    """A partition of the very topic that the checkpoint knows, answered for in an older leader epoch."""
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
    """What the logs have lost below the checkpoint's offsets, at their ends; `now` has the ids and epochs of now.

    An end below the offset shows that a log was truncated, and so does the end of the leader epoch that the offset was
    seen in (OffsetForLeaderEpoch, KIP-320) where the log has grown again since. A lower epoch is another topic's only
    where there are no topic ids; of the same id it is an answer that is out of date (`behind`).
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
        # -1: the leader no longer knows that epoch, which retention brings about as well.
        if 0 <= end < began.offsets[tp]:
            yield Loss(tp, _truncated(tp, began.offsets[tp], end), end)


def _recreated(began: StreamOffsets, now: StreamOffsets, tp: TopicPartition, known: int, epoch: int) -> Refused:
    if began.same_topic(now, tp.topic):
        reason = f"its leader epoch was {known} and is {epoch}"
    else:
        reason = f"its id was {began.ids[tp.topic]} and is {now.ids[tp.topic]}"
    return Refused(
        "topic-recreated",
        f"the topic was deleted and created again: {reason}",
        remedy=_NEW_CHECKPOINT,
        topic=tp.topic,
        partition=tp.partition,
    )


def _truncated(tp: TopicPartition, offset: int, end: int) -> Refused:
    return Refused(
        "log-truncated",
        f"the query has read up to offset {offset}, and the log that it read ends at {end}: records were lost in the "
        "cluster (an unclean leader election), or the topic is another one",
        remedy=_NEW_CHECKPOINT,
        topic=tp.topic,
        partition=tp.partition,
        offset=end,
    )
