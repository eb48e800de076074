"""Checks that the source is the same as in the ledger: cluster, topics, and logs that were not truncated.

    difference                                             code                reopened when accepted
    -----------------------------------------------------  ------------------  -------------------------------------
    another cluster id                                     another-cluster     every offset
    another topic id; without ids a lower leader epoch     topic-recreated     every offset
    a log, or the ledger's leader epoch, that ends below   log-truncated       from that end on
    landed or planned offsets
    a log that ends below the start of the next run        start-beyond-end    from that end on

On another cluster or in a recreated topic, offsets belong to other records, and so do the offsets of a log that was
truncated below landed offsets. These differences are refused, because a retry does not help; `kseg repair
--accept-source` accepts them (`etl.operations.accept_source`). A lower leader epoch with the same topic id is no
difference: the broker's response is out of date (`etl.source.lag`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import PartitionIdentity, TopicIdentity
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.source.logs import Logs

ACCEPT = "`kseg repair JOB --accept-source {}`"


class EpochEnd(NamedTuple):
    """The end of a leader epoch (OffsetForLeaderEpoch); -1: the leader no longer knows it, because of retention."""

    leader_epoch: int
    end: int


EpochEnds = Mapping[TopicPartition, EpochEnd]


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A difference between the source and the ledger.

    partition: None: all partitions of the topic. first: the first offset that now belongs to another record.
    """

    topic: str
    partition: int | None
    first: int
    refusal: Refused


def check_source(snapshot: SourceSnapshot, state: JobState, ends: EpochEnds) -> None:
    """Compare the state of brokers or files with the ledger. ends: the result of `ends_of_epochs`.

    Raises:
        Refused: `another-cluster`, `topic-recreated`, `log-truncated` or `start-beyond-end`.
    """
    check_topics(snapshot, state)
    check_logs(snapshot, state, ends)


def check_topics(snapshot: SourceSnapshot, state: JobState) -> None:
    """Raises Refused: `another-cluster` or `topic-recreated`."""
    for change in topic_changes(snapshot, state):
        raise change.refusal


def check_logs(snapshot: SourceSnapshot, state: JobState, ends: EpochEnds) -> None:
    """Raises Refused: `log-truncated` or `start-beyond-end`."""
    for change in log_changes(snapshot, state, ends):
        raise change.refusal


def behind(snapshot: SourceSnapshot, known: Mapping[str, TopicIdentity]) -> TopicPartition | None:
    """A partition of a known topic whose leader epoch in a response is older than in the ledger."""
    if snapshot.copy:
        return None
    for tp in snapshot.partitions:
        seen = _seen(known, tp)
        if seen is not None and 0 <= snapshot.leader_epoch(tp) < seen.leader_epoch and _same_id(snapshot, known, tp):
            return tp
    return None


def ends_of_epochs(logs: Logs, snapshot: SourceSnapshot, state: JobState) -> dict[TopicPartition, EpochEnd]:
    """The end of each partition's leader epoch in the ledger (OffsetForLeaderEpoch, KIP-320), if the epoch has changed.

    A log that was truncated and written again may be as long as before, but its old epoch ends below landed offsets.
    The same is true for files of a broker with records that its followers never had.

    Raises:
        KafkaError, LogFileError: the logs cannot be read.
    """
    asked: dict[TopicPartition, int] = {}
    for tp in snapshot.partitions:
        seen = _seen(state.topics, tp)
        if seen is not None and 0 <= seen.leader_epoch < snapshot.leader_epoch(tp):
            asked[tp] = seen.leader_epoch
    return {tp: EpochEnd(asked[tp], end) for tp, end in logs.ends_of_epochs(asked).items()}


def topic_changes(snapshot: SourceSnapshot, state: JobState) -> Iterator[SourceChange]:
    """Topics that differ from the topics in the ledger."""
    for name, metadata in snapshot.topics.items():
        known = state.topics.get(name)
        if known is None:
            continue
        if known.cluster_id and snapshot.cluster_id and known.cluster_id != snapshot.cluster_id:
            yield _another(
                "another-cluster",
                f"the ledger's offsets are of cluster {known.cluster_id}, and the brokers are of {snapshot.cluster_id}",
                "check bootstrap.servers",
                name,
            )
        elif known.topic_id and metadata.topic_id and known.topic_id != metadata.topic_id:
            yield _another(
                "topic-recreated",
                f"the topic was recreated: its id was {known.topic_id} and is now {metadata.topic_id}",
                "check bootstrap.servers and the topic's name",
                name,
            )
        elif not (known.topic_id and metadata.topic_id) and not snapshot.copy:
            yield from _lower_epochs(snapshot, known, name)


def _lower_epochs(snapshot: SourceSnapshot, known: TopicIdentity, topic: str) -> Iterator[SourceChange]:
    """Partitions with a lower leader epoch. A topic's epochs never decrease, so the topic (without id) is a new one."""
    for number, seen in known.partitions.items():
        tp = TopicPartition(topic, number)
        now = snapshot.leader_epoch(tp) if tp in snapshot.bounds else -1
        if 0 <= now < seen.leader_epoch:
            message = f"the topic was recreated: its leader epoch was {seen.leader_epoch} and is now {now}"
            yield _another("topic-recreated", message, "check bootstrap.servers and the topic's name", topic, number)


def log_changes(snapshot: SourceSnapshot, state: JobState, ends: EpochEnds) -> Iterator[SourceChange]:
    """Logs that end, or have ended, below landed or planned offsets, or below the start of the next run."""
    dealt_with = _dealt_with(state)
    for tp, bounds in snapshot.bounds.items():
        if snapshot.copy and _same_id(snapshot, state.topics, tp):
            continue  # a copy of this very topic may be of any age
        last, start = dealt_with.get(tp, 0), state.frontier(tp) or 0
        end = bounds.high_watermark
        seen, epoch = _seen(state.topics, tp), ends.get(tp)
        if seen is None or epoch is None or epoch.end < 0 or epoch.leader_epoch != seen.leader_epoch:
            epoch = None
        if end < last:
            # What was written after the cut and is there by now are other records than those that have landed.
            yield _truncated(tp, last, end if epoch is None else min(end, epoch.end))
            continue
        if end < start:
            yield _starts_beyond(tp, start, end)
            continue
        if seen is None or epoch is None:
            continue
        # The epoch was seen beside an end: what lies above that may have been written in later epochs.
        last = max(last, start)
        last = min(last, seen.end_offset) if seen.end_offset >= 0 else last
        if epoch.end < last:
            yield _truncated(tp, last, epoch.end)


def _dealt_with(state: JobState) -> dict[TopicPartition, int]:
    """By partition, the end of the offsets that have landed or are planned by an unfinished run."""
    ends = {tp: landed.intervals[-1][1] for tp, landed in state.landed_offsets.items() if landed}
    for run in state.unfinished_runs():
        for planned in run.plan.ranges:
            end = min(planned.end, state.current_below(planned.tp, state.generation_of(run, planned.tp)))
            ends[planned.tp] = max(ends.get(planned.tp, 0), end)
    return ends


def _seen(known: Mapping[str, TopicIdentity], tp: TopicPartition) -> PartitionIdentity | None:
    topic = known.get(tp.topic)
    return topic.partitions.get(tp.partition) if topic is not None else None


def _same_id(snapshot: SourceSnapshot, known: Mapping[str, TopicIdentity], tp: TopicPartition) -> bool:
    topic = known.get(tp.topic)
    return topic is not None and topic.topic_id is not None and topic.topic_id == snapshot.topics[tp.topic].topic_id


def _another(code: str, message: str, check: str, topic: str, partition: int | None = None) -> SourceChange:
    accept = ACCEPT.format(topic)
    remedy = f"{check}; to continue with the new source, {accept} reads it from its first record; old rows stay"
    return SourceChange(topic, partition, 0, Refused(code, message, remedy=remedy, topic=topic, partition=partition))


def _truncated(tp: TopicPartition, last: int, end: int) -> SourceChange:
    refusal = Refused(
        "log-truncated",
        f"offsets up to {last} have landed or are planned, and the log ends at {end}: it was truncated (an unclean "
        "leader election), or this is another topic",
        remedy=f"find out what was lost; then {ACCEPT.format(f'{tp.topic}:{tp.partition}')} reads on from offset "
        f"{end}; rows above it stay",
        topic=tp.topic,
        partition=tp.partition,
        offset=end,
    )
    return SourceChange(tp.topic, tp.partition, end, refusal)


def _starts_beyond(tp: TopicPartition, start: int, end: int) -> SourceChange:
    refusal = Refused(
        "start-beyond-end",
        f"the next run starts at offset {start}, and the log ends at {end}",
        remedy="set the group's offset inside the log and run `kseg ingest JOB --accept-group-offsets`; or "
        f"{ACCEPT.format(f'{tp.topic}:{tp.partition}:OFFSET')} starts at OFFSET (by default at the log's end)",
        topic=tp.topic,
        partition=tp.partition,
        offset=start,
    )
    return SourceChange(tp.topic, tp.partition, end, refusal)
