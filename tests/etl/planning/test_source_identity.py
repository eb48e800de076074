"""What of a source's answers is another source, a truncated log, or only out of date; and what accepting it reopens."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.sections import Source
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.epoch_ends import LeaderEpoch
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.planning.source_acceptance import NamedSource, accept
from kseg.etl.planning.source_identity import absent_topics, behind, check_source, ends_of_epochs, identities
from kseg.etl.source.resolve import LogBounds

TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
ID, NEW_ID = UUID(int=1), UUID(int=2)


def seen(
    end: int = 20, epoch: int = 5, *, topic_id: UUID | None = ID, cluster: str = "c", **more: Any
) -> SourceSnapshot:
    """One partition whose log goes from 0 to `end`."""
    metadata = TopicMetadata("orders", topic_id, False, {0: PartitionMetadata(0, 1, epoch, (1,), (1,))})
    bounds = {TP: LogBounds(0, end, end, leader_epoch=epoch)}
    return SourceSnapshot(cluster, {"orders": metadata}, bounds, {TP: 0}, {TP: end}, **more)


def known(
    landed: int = 20, epoch: int = 5, end: int | None = None, *, topic_id: UUID | None = ID, **more: Any
) -> JobState:
    """A job that has landed offsets 0 to `landed`, and last saw the partition in this epoch, with this end."""
    partitions = {0: ev.PartitionIdentity(epoch, landed if end is None else end)}
    topics = {"orders": ev.TopicIdentity(topic_id, "c", partitions)}
    offsets = {TP: OffsetSet.single(0, landed)}
    return JobState("job", "L", bases={TP: 0}, landed_offsets=offsets, topics=topics, **more)


def epoch_ends(**ends: int) -> dict[LeaderEpoch, int]:
    """e5=12: epoch 5 ended at offset 12."""
    return {LeaderEpoch(TP, int(name[1:])): end for name, end in ends.items()}


def code(snapshot: SourceSnapshot, state: JobState, **ends: int) -> str | None:
    found = epoch_ends(**ends)
    try:
        check_source(snapshot, state, found)
    except Refused as refused:
        return refused.code
    return None


@pytest.mark.parametrize(
    ("snapshot", "state", "ends", "expected"),
    [
        (seen(), known(), {}, None),
        (seen(50, 7), known(), {"e5": 20}, None),
        (seen(50, 7), known(), {"e5": 33}, None),
        (seen(50, 7), known(), {"e5": -1}, None),  # retention removed that epoch
        (seen(cluster="d"), known(), {}, "another-cluster"),
        (seen(topic_id=NEW_ID), known(), {}, "topic-recreated"),
        (seen(epoch=4, topic_id=None), known(topic_id=None), {}, "topic-recreated"),
        (seen(epoch=4), known(), {}, None),  # out of date: asked again before
        (seen(12), known(), {}, "log-truncated"),
        (seen(50, 7), known(), {"e5": 12}, "log-truncated"),
        (seen(50, 8), known(epoch=6), {"e5": 12}, None),  # asked about an epoch that is not the last seen any more
        # Landed since the epoch was seen: those records were written in later ones.
        (seen(50, 7), known(30, 5, end=20), {"e5": 20}, None),
        (seen(12, copy=True), known(), {}, None),
        (seen(12, topic_id=None, copy=True), known(topic_id=None), {}, "log-truncated"),
        (seen(16, 6, copy=True), known(), {"e5": 12}, "log-truncated"),  # copied after the election
        (seen(30, 6, copy=True), known(), {"e5": 12}, "log-truncated"),
        (seen(30, 6, copy=True), known(), {"e5": 20}, None),
        (seen(30, 6, copy=True), known(), {"e5": -1}, None),
    ],
)
def test_what_is_refused(snapshot: SourceSnapshot, state: JobState, ends: dict[str, int], expected: str | None) -> None:
    assert code(snapshot, state, **ends) == expected


def test_a_start_beyond_the_log_is_no_truncation() -> None:
    state = replace(known(0), bases={TP: 100_000}, topics={})
    assert code(seen(37), state) == "start-beyond-end"
    assert code(seen(37), replace(state, bases={TP: 37})) is None


def test_what_a_run_has_planned_counts_like_what_has_landed() -> None:
    plan = ev.RunPlan(
        run_id="r1",
        mode="incremental",
        chain=ev.INCREMENTAL,
        app_id="a",
        app_version=1,
        config_hash="h",
        pinned_config="{}",
        cluster_id="c",
        topics={},
        ranges=(ev.PlannedRange("orders", 0, 10, 20),),
        tables={},
    )
    state = known(10, runs={"r1": RunState(plan, datetime.now(UTC))})
    assert code(seen(12), state) == "log-truncated"
    with pytest.raises(Refused) as refused:
        accepted(seen(12), state, "orders")
    assert refused.value.code == "run-unfinished"
    assert "--abandon r1" in str(refused.value.remedy)


class Logs:
    """Answers to OffsetForLeaderEpoch: epoch 5 ended at 50, 6 at 60 … `requests` is what was asked."""

    def __init__(self) -> None:
        self.requests: list[dict[TopicPartition, int]] = []

    def ends_of_epochs(self, asked: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.requests.append(asked)
        return {tp: epoch * 10 for tp, epoch in asked.items()}


def test_the_epoch_that_is_asked_about_is_the_one_last_seen() -> None:
    def ends(epoch: int) -> Any:
        return ends_of_epochs(Logs(), seen(epoch=epoch), known())  # type: ignore[arg-type]

    assert ends(7) == epoch_ends(e5=50)
    assert ends(5) == ends(4) == ends(-1) == {}


@pytest.mark.parametrize(
    ("committed", "ends", "requests"),
    [
        ((), {"e5": 50}, 1),
        ((5,), {"e5": 50}, 1),
        ((6,), {"e5": 50, "e6": 60}, 2),  # a request has one epoch of a partition
        ((7,), {"e5": 50}, 1),  # has not ended
    ],
)
def test_the_epochs_of_the_groups_offsets_are_asked_about_with_the_ledgers(
    committed: tuple[int, ...], ends: dict[str, int], requests: int
) -> None:
    logs = Logs()
    found = ends_of_epochs(logs, seen(epoch=7), known(), [LeaderEpoch(TP, epoch) for epoch in committed])  # type: ignore[arg-type]
    assert (found, len(logs.requests)) == (epoch_ends(**ends), requests)


def test_an_older_epoch_of_the_same_topic_is_out_of_date() -> None:
    assert behind(seen(epoch=4), known().topics) == TP
    assert behind(seen(epoch=5), known().topics) is None
    assert behind(seen(epoch=4, copy=True), known().topics) is None
    assert behind(seen(epoch=4, topic_id=None), known(topic_id=None).topics) is None
    assert behind(seen(epoch=-1), known().topics) is None


def known_after(snapshot: SourceSnapshot, state: JobState, **ends: int) -> ev.PartitionIdentity:
    """What the ledger knows of the partition after a plan of this snapshot."""
    return identities(snapshot, state, epoch_ends(**ends))["orders"].partitions[0]


@pytest.mark.parametrize(
    ("start", "ends", "epoch", "end"),
    [
        (0, {"e5": 20}, 7, 50),
        (19, {"e5": 35}, 7, 50),
        (20, {"e5": 20}, 5, 20),  # it has nothing of what landed: the log may have been truncated before it was copied
        (0, {"e5": -1}, 5, 20),
        (0, {}, 5, 20),
    ],
)
def test_a_copys_newer_epoch_counts_if_the_copy_continues_the_log_that_has_landed(
    start: int, ends: dict[str, int], epoch: int, end: int
) -> None:
    """Otherwise the brokers would not be asked any more where the ledger's epoch ended."""
    copy = replace(seen(50, 7, copy=True), bounds={TP: LogBounds(start, 50, 50, leader_epoch=7)})
    assert known_after(copy, known(), **ends) == ev.PartitionIdentity(epoch, end)
    assert known_after(replace(copy, copy=False), known(), **ends) == ev.PartitionIdentity(7, 50)


def test_an_older_copy_changes_nothing_that_is_known() -> None:
    assert known_after(seen(50, 4, copy=True), known()) == ev.PartitionIdentity(5, 20)
    assert known_after(seen(15, 5, copy=True), known()) == ev.PartitionIdentity(5, 20)
    assert known_after(seen(25, 5, copy=True), known()) == ev.PartitionIdentity(5, 25)
    assert known_after(seen(25, 5, copy=True), JobState("job", "L")) == ev.PartitionIdentity(5, 25)


# --- what a response lacks


def test_a_response_that_lacks_a_partition_of_the_same_topic_is_out_of_date() -> None:
    """An interval would end without it, and its records would count to a later one."""
    state = known()
    partitions = state.topics["orders"].partitions | {1: ev.PartitionIdentity(5, 9)}
    more = {"orders": replace(state.topics["orders"], partitions=partitions)}
    assert behind(seen(), more) == OTHER
    both = {number: PartitionMetadata(number, 1, 5, (1,), (1,)) for number in (0, 1)}
    topic = seen().topics["orders"]
    assert behind(replace(seen(), topics={"orders": replace(topic, partitions=both)}), more) is None, "assign"
    for other in (seen(copy=True), seen(complete=False), seen(topic_id=NEW_ID), seen(topic_id=None)):
        assert behind(other, more) is None


def test_topics_that_a_pattern_selects_and_nobody_lists_are_absent() -> None:
    of_pattern = Source(pattern="^o|^pay")
    names = ["payments", "orders", "shipments", "open"]
    assert absent_topics(seen(), of_pattern, names) == ["open", "payments"]
    assert absent_topics(seen(copy=True), of_pattern, names) == []
    assert absent_topics(seen(), Source(topics=("orders",)), names) == []


# --- accepting


def accepted(snapshot: SourceSnapshot, state: JobState, *named: str, **ends: int) -> ev.SourceAccepted | None:
    found = epoch_ends(**ends)
    return accept(snapshot, state, found, [NamedSource.parse(word) for word in named])


@pytest.mark.parametrize(
    ("named", "message", "remedy"),
    [
        ("ordres", "the job reads no topic ordres", "did you mean orders?"),
        ("nope:0:3", "the job reads no topic nope", "it reads: orders"),
        ("orders:5", "the job reads no partition 5 of orders", "it reads partition 0"),
    ],
)
def test_what_the_job_does_not_read_cannot_be_accepted(named: str, message: str, remedy: str) -> None:
    """A misspelt topic looked as if it had been accepted: exit 0, nothing to do."""
    with pytest.raises(ConfigurationError) as caught:
        accepted(seen(12), known(), named)
    [fault] = caught.value.faults
    assert (fault.path, fault.message, fault.remedy) == ("--accept-source", message, remedy)


def test_a_partition_that_only_the_ledger_has_can_be_named() -> None:
    state = replace(known(), bases={TP: 0, OTHER: 0})
    assert accepted(seen(), state, "orders:1") is None
    with pytest.raises(ConfigurationError, match="it reads partitions 0 to 1"):
        accepted(seen(), state, "orders:2")


def test_a_truncated_log_is_reopened_from_its_truncation() -> None:
    event = accepted(seen(50, 7), known(), "orders:0", e5=12)
    assert event is not None
    assert (event.reopened, event.reason) == ({TP: 12}, "log-truncated")
    assert event.topics["orders"] == ev.TopicIdentity(ID, "c", {0: ev.PartitionIdentity(7, 50)})


def test_a_truncated_log_that_is_growing_again_is_reopened_from_its_truncation() -> None:
    """It is still shorter than what has landed. Its end of now was taken, and all in between was never read."""
    with pytest.raises(Refused, match="the log ends at 12") as refused:
        check_source(seen(15, 7), known(), epoch_ends(e5=12))
    assert refused.value.address["offset"] == 12
    event = accepted(seen(15, 7), known(), "orders:0", e5=12)
    assert event is not None
    assert event.reopened == {TP: 12}
    assert event.topics["orders"].partitions == {0: ev.PartitionIdentity(7, 15)}


def test_a_truncated_log_whose_epochs_say_nothing_is_reopened_from_its_end() -> None:
    for ends in ({}, {"e5": -1}, {"e4": 3}):
        event = accepted(seen(15, 7), known(), "orders:0", **ends)
        assert event is not None
        assert event.reopened == {TP: 15}


def test_a_log_that_lost_nothing_keeps_all_that_has_landed() -> None:
    """An epoch was noted that was not the one of the end: the user says that the log is whole."""
    event = accepted(seen(50, 7), known(), "orders:0:20", e5=12)
    assert event is not None
    assert (event.reopened, event.topics["orders"].partitions) == ({}, {0: ev.PartitionIdentity(7, 50)})


@pytest.mark.parametrize("snapshot", [seen(50, topic_id=NEW_ID), seen(50, cluster="d")])
def test_another_topic_is_reopened_from_its_first_offset(snapshot: SourceSnapshot) -> None:
    state = known()
    state = replace(
        state, bases={TP: 0, OTHER: 5}, landed_offsets={**state.landed_offsets, OTHER: OffsetSet.single(5, 9)}
    )
    event = accepted(snapshot, state, "orders")
    assert event is not None
    assert event.reopened == {TP: 0, OTHER: 0}
    assert event.topics["orders"].partitions == {0: ev.PartitionIdentity(5, 50)}
    with pytest.raises(ConfigurationError, match="all of its partitions"):
        accepted(snapshot, state, "orders:0")
    mirrored = accepted(snapshot, state, "orders", "orders:0:20")
    assert mirrored is not None
    assert mirrored.reopened == {OTHER: 0}


def test_a_partition_that_only_the_recreated_topic_has_is_left_to_the_next_plan_as_an_added_one() -> None:
    """It is read from its first record, and what retention has removed of it is refused; as a partition of a plan, it
    would begin at the log's start without a word."""
    topic = seen(topic_id=NEW_ID).topics["orders"]
    both = {number: PartitionMetadata(number, 1, 5, (1,), (1,)) for number in (0, 1)}
    snapshot = replace(
        seen(topic_id=NEW_ID),
        topics={"orders": replace(topic, partitions=both)},
        bounds={TP: LogBounds(0, 20, 20, leader_epoch=5), OTHER: LogBounds(3, 9, 9, leader_epoch=5)},
    )
    event = accepted(snapshot, known(), "orders")
    assert event is not None
    assert (event.reopened, list(event.topics["orders"].partitions)) == ({TP: 0}, [0])


def test_a_start_beyond_the_end_is_moved_into_the_log() -> None:
    state = replace(known(0), bases={TP: 100_000}, landed_offsets={})
    event = accepted(seen(37), state, "orders")
    assert event is not None
    assert event.reopened == {TP: 37}
    event = accepted(seen(37), state, "orders:0:0")
    assert event is not None
    assert event.reopened == {TP: 0}


def test_what_has_not_changed_is_not_accepted() -> None:
    assert accepted(seen(), known(), "orders") is None
    assert accepted(seen(12), replace(known(), bases={TP: 0, OTHER: 0}), "orders:1") is None


def test_an_offset_beyond_the_log_is_none() -> None:
    with pytest.raises(ConfigurationError, match="the log ends at 12"):
        accepted(seen(12), known(), "orders:0:20")


@pytest.mark.parametrize("word", ["", ":0", "orders:x", "orders:0:", "orders:0:1:2"])
def test_other_words_name_no_source(word: str) -> None:
    with pytest.raises(ConfigurationError):
        NamedSource.parse(word)
