"""What accepting a changed source means for the ledger: the event that leads out of a refusal of `source_identity`.

Pure: snapshot and ledger state go in, the event comes out. Named are topics, partitions, or a partition with the first
offset that means another record than before:

    orders         every change of the topic, and of its partitions
    orders:0       of one partition, from where the brokers say that its log was cut off
    orders:0:35    as before, but from offset 35 on: where the user knows better. At or above all that has landed it
                   says that the log lost nothing, and no offset is reopened
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.epoch_ends import EpochEnds
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.planning.source_identity import SourceChange, log_changes, topic_changes
from kseg.etl.planning.unread_partitions import unread_fault

OPTION = "--accept-source"
_NAMED = re.compile(r"(?P<topic>[^:]+)(:(?P<partition>\d+)(:(?P<offset>\d+))?)?")


@dataclass(frozen=True, slots=True)
class NamedSource:
    """A change of the source that a user accepts. partition None: all of the topic's. offset None: as the brokers
    answer."""

    topic: str
    partition: int | None = None
    offset: int | None = None

    @classmethod
    def parse(cls, word: str) -> NamedSource:
        """Raises ConfigurationError."""
        match = _NAMED.fullmatch(word)
        if match is None:
            raise ConfigurationError.of(
                OPTION, f"{word!r} does not name a topic", "give TOPIC, TOPIC:PARTITION or TOPIC:PARTITION:OFFSET"
            )
        numbers = (None if match[name] is None else int(match[name]) for name in ("partition", "offset"))
        return cls(match["topic"], *numbers)

    def covers(self, change: SourceChange) -> bool:
        return self.topic == change.topic and self.partition in (None, change.partition)


def first_offsets(snapshot: SourceSnapshot, words: Sequence[str]) -> dict[TopicPartition, int]:
    """From which offset on each named log is another one, where no ledger knows it as it was.

    Raises ConfigurationError: it is no log of the snapshot, or a partition without an offset.
    """
    firsts: dict[TopicPartition, int] = {}
    for word in words:
        named = NamedSource.parse(word)
        if named.partition is not None and named.offset is None:
            message = f"without a ledger it is unknown from which offset on {word} has changed"
            raise ConfigurationError.of(OPTION, message, f"give TOPIC, or TOPIC:PARTITION:OFFSET: {word}:0")
        _refuse_unread([named], snapshot.partitions)
        found = (
            tp for tp in snapshot.partitions if tp.topic == named.topic and named.partition in (None, tp.partition)
        )
        firsts |= dict.fromkeys(found, named.offset or 0)
    return firsts


def accept(
    snapshot: SourceSnapshot, state: JobState, ends: EpochEnds, named: Sequence[NamedSource]
) -> ev.SourceAccepted | None:
    """The event for what is named; None where nothing of it has changed.

    Raises:
        ConfigurationError: a topic is another one and only a partition of it is named; an offset beyond a log's end;
            neither the source nor the ledger has what is named.
        Refused: `run-unfinished`, where a run has yet to land offsets that would be reopened.
    """
    _refuse_unread(named, _all_partitions(snapshot, state))
    changes = _named_changes(snapshot, state, ends, named)
    if not changes:
        return None
    offsets = {TopicPartition(n.topic, n.partition): n.offset for n in named if n.partition is not None}
    firsts: dict[TopicPartition, int] = {}
    seen: dict[str, dict[int, ev.PartitionIdentity]] = {}
    for change in changes:
        for tp in _partitions(change, snapshot, state):
            if not _is_known(state, tp):
                continue  # it came with the new topic: the next plan takes it for a partition that was added
            given = offsets.get(tp)
            first = change.first if given is None else given
            bounds = snapshot.bounds.get(tp)
            if bounds is not None:
                if first > bounds.high_watermark:
                    message = f"{tp} would continue from offset {first}, and the log ends at {bounds.high_watermark}"
                    raise ConfigurationError.of(OPTION, message)
                identity = ev.PartitionIdentity(snapshot.leader_epoch(tp), bounds.high_watermark)
                seen.setdefault(tp.topic, {})[tp.partition] = identity
            firsts[tp] = min(first, firsts.get(tp, first))
    blocking = state.planned_above(firsts)
    if blocking is not None:
        raise Refused.of("run-unfinished", {"phase": blocking.phase}, case="accepting a source", run=blocking.run_id)
    return ev.SourceAccepted(
        topics={topic: _identity(snapshot, state, topic, partitions) for topic, partitions in seen.items()},
        reopened={tp: first for tp, first in sorted(firsts.items()) if first < _known_to(state, tp)},
        reason=", ".join(sorted({change.refusal.code for change in changes})),
    )


def _named_changes(
    snapshot: SourceSnapshot, state: JobState, ends: EpochEnds, named: Sequence[NamedSource]
) -> list[SourceChange]:
    topics = list(topic_changes(snapshot, state))
    others = {change.topic for change in topics if change.partition is None}
    logs = [change for change in log_changes(snapshot, state, ends) if change.topic not in others]
    wholes = {n.topic for n in named if n.partition is None}
    for one in named:
        if one.topic in others and one.offset is None and one.topic not in wholes:
            message = f"{one.topic} was recreated: accept all of its partitions"
            raise ConfigurationError.of(OPTION, message, f"{OPTION} {one.topic}")
    return [
        c for c in [*topics, *logs] if any(n.covers(c) or (c.partition is None and n.topic == c.topic) for n in named)
    ]


def _partitions(change: SourceChange, snapshot: SourceSnapshot, state: JobState) -> Iterator[TopicPartition]:
    """The partitions that a change is about, those included that are not there any more."""
    if change.partition is not None:
        yield TopicPartition(change.topic, change.partition)
        return
    yield from sorted(tp for tp in _all_partitions(snapshot, state) if tp.topic == change.topic)


def _is_known(state: JobState, tp: TopicPartition) -> bool:
    topic = state.topics.get(tp.topic)
    return tp in state.bases or (topic is not None and tp.partition in topic.partitions)


def _all_partitions(snapshot: SourceSnapshot, state: JobState) -> set[TopicPartition]:
    return {*snapshot.bounds, *state.bases, *state.landed_offsets}


def _refuse_unread(named: Iterable[NamedSource], read: Collection[TopicPartition]) -> None:
    faults = (unread_fault(OPTION, one.topic, one.partition, read) for one in named)
    if found := [fault for fault in faults if fault is not None]:
        raise ConfigurationError(found)


def _known_to(state: JobState, tp: TopicPartition) -> int:
    """The highest offset that the ledger has given a meaning to."""
    boundaries = (offset for (of, _), offset in state.boundaries.items() if of == tp)
    return max(state.frontier(tp) or 0, *(end for _, end in state.landed(tp)), *boundaries, 0)


def _identity(
    snapshot: SourceSnapshot, state: JobState, topic: str, partitions: dict[int, ev.PartitionIdentity]
) -> ev.TopicIdentity:
    known = state.topics.get(topic, ev.TopicIdentity())
    topic_id, cluster = snapshot.topics[topic].topic_id, snapshot.cluster_id
    return ev.TopicIdentity(topic_id or known.topic_id, cluster or known.cluster_id, partitions)


def landed_above(state: JobState, firsts: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """How many landed offsets lie at or above these."""
    return {tp: sum(max(0, end - max(start, first)) for start, end in state.landed(tp)) for tp, first in firsts.items()}
