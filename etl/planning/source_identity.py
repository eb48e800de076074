"""Whether the source is still the one that the ledger knows: cluster, topics, and logs that have not lost their end.

Offsets mean nothing on another cluster or in a recreated topic, and a log that was truncated below what has landed
gives its offsets to other records. Each of these is refused; none can be mended by trying again.
"""

from __future__ import annotations

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.source.logs import Logs

NEW_LEDGER = "a new topic of an old name needs a new ledger (and most often a new table)"


def check_source(snapshot: SourceSnapshot, state: JobState) -> None:
    """Compare what brokers or files say with what the ledger has seen.

    Raises:
        Refused: `another-cluster`, `topic-recreated` or `log-truncated`.
    """
    for name, metadata in snapshot.topics.items():
        known = state.topics.get(name)
        if known is None:
            continue
        if known.cluster_id and snapshot.cluster_id and known.cluster_id != snapshot.cluster_id:
            raise Refused(
                "another-cluster",
                f"the ledger's offsets are those of cluster {known.cluster_id}, and this is {snapshot.cluster_id}",
                remedy="check bootstrap.servers; another cluster needs another ledger",
                topic=name,
            )
        if known.topic_id and metadata.topic_id and known.topic_id != metadata.topic_id:
            raise Refused(
                "topic-recreated",
                f"the topic was deleted and created again: its id was {known.topic_id} and is {metadata.topic_id}",
                remedy=NEW_LEDGER,
                topic=name,
            )
    for tp, bounds in snapshot.bounds.items():
        if snapshot.copy and _same_id(snapshot, state, tp.topic):
            continue  # a copy of the very topic may be as old as it likes
        _check_log(tp, bounds.high_watermark, snapshot.leader_epoch(tp), state)


def _same_id(snapshot: SourceSnapshot, state: JobState, topic: str) -> bool:
    known = state.topics.get(topic)
    return known is not None and known.topic_id is not None and known.topic_id == snapshot.topics[topic].topic_id


def _check_log(tp: TopicPartition, high_watermark: int, leader_epoch: int, state: JobState) -> None:
    known = state.topics.get(tp.topic)
    seen = known.partitions.get(tp.partition) if known else None
    if seen is not None and 0 <= leader_epoch < seen.leader_epoch:
        # Epochs of one topic only grow; where brokers have no topic ids this is how a recreated topic shows.
        raise Refused(
            "topic-recreated",
            f"the leader epoch was {seen.leader_epoch} and is {leader_epoch}: this is another topic of the same name",
            remedy=NEW_LEDGER,
            topic=tp.topic,
            partition=tp.partition,
        )
    landed_to = _landed_to(state, tp)
    if landed_to is not None and high_watermark < landed_to:
        raise _truncated(tp, landed_to, high_watermark)


def _landed_to(state: JobState, tp: TopicPartition) -> int | None:
    return max((end for _, end in state.landed(tp)), default=state.frontier(tp))


def check_epochs(logs: Logs, snapshot: SourceSnapshot, state: JobState) -> None:
    """Ask where the epoch ended that each partition was last seen in (OffsetForLeaderEpoch, KIP-320).

    A log that was truncated and written again is as long as before, and still its old epoch ends below what has landed.
    So does the epoch of files that a broker left behind with records that its followers never had.

    Raises:
        Refused: `log-truncated`.
        KafkaError, LogFileError: the logs cannot be asked.
    """
    asked: dict[TopicPartition, int] = {}
    for tp in snapshot.partitions:
        known = state.topics.get(tp.topic)
        seen = known.partitions.get(tp.partition) if known else None
        if seen is not None and 0 <= seen.leader_epoch < snapshot.leader_epoch(tp):
            asked[tp] = seen.leader_epoch
    for tp, end in logs.ends_of_epochs(asked).items():
        landed_to = _landed_to(state, tp)
        # -1: the leader no longer knows that epoch, which retention brings about as well.
        if landed_to is not None and 0 <= end < landed_to:
            raise _truncated(tp, landed_to, end)


def _truncated(tp: TopicPartition, landed_to: int, end: int) -> Refused:
    return Refused(
        "log-truncated",
        f"offsets up to {landed_to} have landed, and the log that they came from ends at {end}: records were lost in "
        "the cluster (an unclean leader election), or the topic is another one",
        remedy="find out what was lost; `kseg backfill --mode replace` reads these offsets as they are now",
        topic=tp.topic,
        partition=tp.partition,
        offset=end,
    )
