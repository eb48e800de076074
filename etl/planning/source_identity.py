"""Checks that the source is the same as in the ledger: cluster, topics, and logs that were not truncated.

    difference                                             code                reopened when accepted
    -----------------------------------------------------  ------------------  -------------------------------------
    another cluster id                                     another-cluster     every offset
    another topic id; without ids a lower leader epoch     topic-recreated     every offset
    a log, or the ledger's leader epoch, that ends below   log-truncated       from that end on
    landed or planned offsets
    a log that ends below the start of the next run        start-beyond-end    from that end on

A copy of the topic's files may be of any age, so its end says nothing. If its leader epoch is newer than the ledger's,
the end of the ledger's epoch does.

On another cluster or in a recreated topic, offsets belong to other records, and so do the offsets of a log that was
truncated below landed offsets. These differences are refused, because a retry does not help; `kseg repair
--accept-source` accepts them (`etl.operations.accept_source`). A lower leader epoch with the same topic id is no
difference: the broker's response is out of date (`etl.source.lag`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.sections import Source
from kseg.etl.errors import Refused
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import PartitionIdentity, TopicIdentity
from kseg.etl.planning.epoch_ends import EpochEnds, LeaderEpoch, ends_of
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.source.logs import Logs


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
    """A partition of a known topic whose leader epoch in a response is older than in the ledger, or that it lacks.

    The partitions of one topic id only become more. Files may be of some partitions alone.
    """
    if snapshot.copy:
        return None
    for name, topic in snapshot.topics.items() if snapshot.complete else ():
        numbers = known[name].partitions.keys() - topic.partitions.keys() if name in known else ()
        if numbers and _same_id(snapshot, known, lacking := TopicPartition(name, min(numbers))):
            return lacking
    for tp in snapshot.partitions:
        seen = _seen(known, tp)
        if seen is not None and 0 <= snapshot.leader_epoch(tp) < seen.leader_epoch and _same_id(snapshot, known, tp):
            return tp
    return None


def absent_topics(snapshot: SourceSnapshot, source: Source, names: Iterable[str]) -> list[str]:
    """Those of these topics that the job's pattern selects and the source does not list.

    They were deleted, a broker is out of date, or the user may no longer describe them. A topic that the job names must
    exist, so there is none of those.
    """
    if source.pattern is None or snapshot.copy:
        return []
    expression = re.compile(source.pattern)
    return sorted(name for name in names if name not in snapshot.topics and expression.search(name))


def ends_of_epochs(
    logs: Logs, snapshot: SourceSnapshot, state: JobState, committed: Iterable[LeaderEpoch] = ()
) -> dict[LeaderEpoch, int]:
    """The end of each partition's leader epoch in the ledger (OffsetForLeaderEpoch, KIP-320), if the epoch has changed.

    committed: leader epochs of the group's offsets, whose ends are requested too.

    A log that was truncated and written again may be as long as before, but its old epoch ends below landed offsets.
    The same is true for files of a broker with records that its followers never had.

    Raises:
        KafkaError, LogFileError: the logs cannot be read.
    """
    known = {
        LeaderEpoch(tp, seen.leader_epoch)
        for tp in snapshot.partitions
        if (seen := _seen(state.topics, tp)) is not None
    }
    return ends_of(logs, {epoch for epoch in known.union(committed) if _has_ended(snapshot, epoch)})


def _has_ended(snapshot: SourceSnapshot, epoch: LeaderEpoch) -> bool:
    return epoch.tp in snapshot.bounds and 0 <= epoch.number < snapshot.leader_epoch(epoch.tp)


def topic_changes(snapshot: SourceSnapshot, state: JobState) -> Iterator[SourceChange]:
    """Topics that differ from the topics in the ledger."""
    for name, metadata in snapshot.topics.items():
        known = state.topics.get(name)
        if known is None:
            continue
        if known.cluster_id and snapshot.cluster_id and known.cluster_id != snapshot.cluster_id:
            values = {"known": known.cluster_id, "found": snapshot.cluster_id}
            yield SourceChange(name, None, 0, Refused.of("another-cluster", values, case="job", topic=name))
        elif known.topic_id and metadata.topic_id and known.topic_id != metadata.topic_id:
            ids = {"was": known.topic_id, "now": metadata.topic_id}
            yield SourceChange(name, None, 0, Refused.of("topic-recreated", ids, case="job, by id", topic=name))
        elif not (known.topic_id and metadata.topic_id) and not snapshot.copy:
            yield from _lower_epochs(snapshot, known, name)


def _lower_epochs(snapshot: SourceSnapshot, known: TopicIdentity, topic: str) -> Iterator[SourceChange]:
    """Partitions with a lower leader epoch. A topic's epochs never decrease, so the topic (without id) is a new one."""
    for number, seen in known.partitions.items():
        tp = TopicPartition(topic, number)
        now = snapshot.leader_epoch(tp) if tp in snapshot.bounds else -1
        if 0 <= now < seen.leader_epoch:
            values = {"was": seen.leader_epoch, "now": now}
            refusal = Refused.of("topic-recreated", values, case="job, by epoch", topic=topic, partition=number)
            yield SourceChange(topic, number, 0, refusal)


def log_changes(snapshot: SourceSnapshot, state: JobState, ends: EpochEnds) -> Iterator[SourceChange]:
    """Logs that end, or have ended, below landed or planned offsets, or below the start of the next run."""
    dealt_with = _dealt_with(state)
    for tp, bounds in snapshot.bounds.items():
        last, start = dealt_with.get(tp, 0), state.frontier(tp) or 0
        end, epoch = bounds.high_watermark, _known_end(state, ends, tp)
        if not (snapshot.copy and _same_id(snapshot, state.topics, tp)):
            if end < last:
                # What was written after the cut and is there by now are other records than those that have landed.
                yield _truncated(tp, last, end if epoch is None else min(end, epoch))
                continue
            if end < start:
                yield _starts_beyond(tp, start, end)
                continue
        if epoch is not None and epoch < (last := _last_in_epoch(state, tp, max(last, start))):
            yield _truncated(tp, last, epoch)


def identities(snapshot: SourceSnapshot, state: JobState, ends: EpochEnds) -> dict[str, TopicIdentity]:
    """The snapshot's topics as the ledger is to know them after this plan, whose source has been checked.

    With a newer leader epoch in the ledger, brokers are no longer asked where the old one ended. So a copy's newer
    epoch counts only if the copy shows that it continues the log that the ledger knows: it must still have the last
    offset that was dealt with. A copy that begins above it may come from a log that was truncated below it.
    """
    dealt_with = _dealt_with(state) if snapshot.copy else {}
    found = {}
    for topic in snapshot.topics:
        seen, known = snapshot.identity(topic), state.topics.get(topic)
        if snapshot.copy and known is not None:
            kept = {
                number: known.partitions[number]
                for number in seen.partitions.keys() & known.partitions.keys()
                if not _continues(snapshot, state, ends, TopicPartition(topic, number), dealt_with)
            }
            seen = replace(seen, partitions={**seen.partitions, **kept})
        found[topic] = seen.after(known)
    return found


def _continues(
    snapshot: SourceSnapshot,
    state: JobState,
    ends: EpochEnds,
    tp: TopicPartition,
    dealt_with: Mapping[TopicPartition, int],
) -> bool:
    """Whether a copy with a newer epoch has the last offset that was dealt with, in the ledger's epoch or before it."""
    seen = _seen(state.topics, tp)
    if seen is None or seen.leader_epoch < 0 or snapshot.leader_epoch(tp) <= seen.leader_epoch:
        return True
    last = _last_in_epoch(state, tp, max(dealt_with.get(tp, 0), state.frontier(tp) or 0))
    epoch = _known_end(state, ends, tp)
    return last == 0 or (epoch is not None and snapshot.bounds[tp].start < last <= epoch)


def _known_end(state: JobState, ends: EpochEnds, tp: TopicPartition) -> int | None:
    """The offset at which the ledger's leader epoch ended, by the source; None: it was not asked, or does not know."""
    seen = _seen(state.topics, tp)
    end = -1 if seen is None else ends.get(LeaderEpoch(tp, seen.leader_epoch), -1)
    return end if end >= 0 else None


def _last_in_epoch(state: JobState, tp: TopicPartition, last: int) -> int:
    """`last`, but not above the end that the epoch was seen with: what lies above may be of later epochs."""
    seen = _seen(state.topics, tp)
    return last if seen is None or seen.end_offset < 0 else min(last, seen.end_offset)


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


def _truncated(tp: TopicPartition, last: int, end: int) -> SourceChange:
    refusal = Refused.of(
        "log-truncated", {"last": last}, case="job", topic=tp.topic, partition=tp.partition, offset=end
    )
    return SourceChange(tp.topic, tp.partition, end, refusal)


def _starts_beyond(tp: TopicPartition, start: int, end: int) -> SourceChange:
    refusal = Refused.of(
        "start-beyond-end", {"end": end}, case="next run", topic=tp.topic, partition=tp.partition, offset=start
    )
    return SourceChange(tp.topic, tp.partition, end, refusal)
