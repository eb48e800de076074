"""What counts of a group's records: over random histories, over damage, and of every kind of group."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.client import TopicPartition
from kseg.client.protocol.embedded import consumer_group_records as modern
from kseg.client.protocol.embedded import streams_group_records as streams
from kseg.client.protocol.embedded.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from kseg.client.protocol.embedded.control_records import ControlRecordType, EndTxnMarker, encode_control_record
from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.embedded.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kseg.client.protocol.embedded.internal_topics import CONSUMER_OFFSETS, encode_internal
from kseg.etl.errors import KsegError
from kseg.etl.internal_topics.errors import UndecodableRecord
from kseg.etl.internal_topics.group_state import GroupState, group_state
from kseg.etl.internal_topics.locations import LogDirs
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.errors import RecordFormatError
from kseg.segment_reader.log.errors import LogFileError

GROUP = "g"
NOON = 1_767_268_800_000
HOUR = 3_600_000
WEEK = 7 * 24 * HOUR


class Step(NamedTuple):
    """What is written next: a commit (offset None: a tombstone) by a producer (None: no transaction), or a marker."""

    partition: int
    offset: int | None
    producer: int | None
    ends: bool | None = None  # a marker: committed or not
    stranger: bool = False  # another group's
    compressed: bool = False


class History:
    """One partition of `__consumer_offsets`, alone in its directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / f"{CONSUMER_OFFSETS}-0"
        self.folder.mkdir(parents=True)
        self.file = self.folder / f"{0:020d}.log"
        self.data = b""
        self.end = 0

    def add(self, *given: Record, **batch: Any) -> None:
        self.data += encode_batch(given, base_offset=self.end, **batch)
        self.end += len(given)

    def write(self, key: TypedMessage, value: TypedMessage | None, version: int = 0) -> None:
        self.add(Record(*encode_internal(CONSUMER_OFFSETS, key, value, version), timestamp=NOON))

    def step(self, step: Step) -> None:
        if step.ends is not None:
            kind = ControlRecordType.COMMIT if step.ends else ControlRecordType.ABORT
            marker = Record(*encode_control_record(kind, EndTxnMarker(coordinator_epoch=1)), timestamp=NOON)
            self.add(marker, producer_id=step.producer, producer_epoch=0, transactional=True, control=True)
            return
        key = OffsetCommitKey(group="other" if step.stranger else GROUP, topic="t", partition=step.partition)
        value = None if step.offset is None else OffsetCommitValue(offset=step.offset, commit_timestamp=NOON)
        record = Record(*encode_internal(CONSUMER_OFFSETS, key, value, 3), timestamp=NOON)
        batch = {} if step.producer is None else {"producer_id": step.producer, "producer_epoch": 0}
        self.add(
            record,
            transactional=step.producer is not None,
            base_sequence=-1 if step.producer is None else 0,
            compression="lz4" if step.compressed else "none",
            **batch,
        )

    def state(self, **more: Any) -> GroupState:
        self.file.write_bytes(self.data)
        return group_state(LogDirs([str(self.folder.parent)]), GROUP, at=NOON, **more)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "data")


def counted(steps: list[Step]) -> tuple[dict[int, int], set[tuple[int, int, int]]]:
    """What counts and what waits, (partition, offset, producer), by looking at each record's fate: the plain rule."""
    counts: dict[int, int] = {}
    waits: dict[tuple[int, int], int] = {}
    for at, step in enumerate(steps):
        if step.ends is not None or step.stranger:
            continue
        if step.offset is None:
            counts.pop(step.partition, None)
            waits = {slot: offset for slot, offset in waits.items() if slot[0] != step.partition}
            continue
        later = (one.ends for one in steps[at + 1 :] if one.ends is not None and one.producer == step.producer)
        fate = True if step.producer is None else next(later, None)
        if fate:
            counts[step.partition] = step.offset
        elif fate is None and step.producer is not None:
            waits[step.partition, step.producer] = step.offset
    return counts, {(partition, offset, producer) for (partition, producer), offset in waits.items()}


commits = st.builds(
    Step,
    partition=st.integers(0, 2),
    offset=st.integers(0, 99),
    producer=st.none() | st.integers(1, 3),
    ends=st.none(),
    stranger=st.booleans(),
    compressed=st.booleans(),
)
tombstones = st.builds(Step, st.integers(0, 2), st.none(), st.none(), st.none())
markers = st.builds(Step, st.just(-1), st.none(), st.integers(1, 3), st.booleans())


@given(st.lists(commits | commits | tombstones | markers, max_size=25))
def test_any_history_leads_to_what_counts(tmp_path_factory: pytest.TempPathFactory, steps: list[Step]) -> None:
    history = History(tmp_path_factory.mktemp("history"))
    for step in steps:
        history.step(step)
    told = history.state()
    shutil.rmtree(history.folder)
    counts, waits = counted(steps)
    assert {one.tp.partition: one.offset for one in told.offsets} == counts
    assert {(one.tp.partition, one.offset, one.producer_id) for one in told.pending} == waits


def test_a_commit_that_ended_late_does_not_replace_a_later_one(history: History) -> None:
    for step in (Step(0, 5, 1), Step(0, 9, None), Step(-1, None, 1, ends=True)):
        history.step(step)
    (told,) = history.state().offsets
    assert (told.offset, told.record_offset) == (9, 1)


@settings(max_examples=150)
@given(st.data())
def test_damage_is_a_typed_error_with_its_address_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    history = History(tmp_path_factory.mktemp("damaged"))
    prefixes = [({}, set())]
    steps = [
        Step(0, 5, None),
        Step(1, 6, 1),
        Step(1, 7, None, stranger=True),
        Step(-1, None, 1, ends=True),
        Step(2, 8, 2),
    ]
    for number, step in enumerate(steps, start=1):
        history.step(step)
        prefixes.append(counted(steps[:number]))  # type: ignore[arg-type]
    content = bytearray(history.data)
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:at]
    else:
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    history.data = bytes(content)
    told: Any
    try:
        state = history.state()
        told = (
            {one.tp.partition: one.offset for one in state.offsets},
            {(one.tp.partition, one.offset, one.producer_id) for one in state.pending},
        )
    except (KsegError, LogFileError, RecordFormatError) as error:
        told = str(error)
    shutil.rmtree(history.folder)
    # A cut or a torn end leaves whole batches, which is what a broker would go on from.
    assert str(history.folder) in told if isinstance(told, str) else told in prefixes


def test_commits_of_all_ages_are_read(history: History) -> None:
    history.write(
        LegacyOffsetCommitKey(group=GROUP, topic="t", partition=0),
        LegacyOffsetCommitValue(offset=1, metadata="old", commit_timestamp=NOON),
    )
    for version in range(5):
        value = OffsetCommitValue(offset=10 + version, leader_epoch=version, commit_timestamp=NOON)
        if version == 1:
            value.expire_timestamp = NOON + HOUR
        if version < 3:
            value.leader_epoch = -1
        history.write(OffsetCommitKey(group=GROUP, topic="t", partition=version + 1), value, version)
    # The same partition by the newer type of key: one offset.
    history.write(
        OffsetCommitKey(group=GROUP, topic="t", partition=1), OffsetCommitValue(offset=99, commit_timestamp=NOON), 3
    )
    told = history.state(retention_ms=2 * WEEK).offsets
    assert [one.offset for one in told] == [1, 99, 11, 12, 13, 14]
    assert [one.leader_epoch for one in told] == [-1, -1, -1, -1, 3, 4]
    assert told[2].expires == NOON + HOUR  # as the client wanted it then
    assert told[3].expires == NOON + 2 * WEEK


def test_a_record_that_cannot_be_understood_is_told(history: History) -> None:
    key = OffsetCommitKey(group=GROUP, topic="t", partition=0)
    history.write(key, OffsetCommitValue(offset=1, commit_timestamp=NOON), 3)
    coded = encode_internal(CONSUMER_OFFSETS, key, None, -1)[0]
    assert coded is not None
    history.add(Record(key=b"\x03\xe7" + coded[2:], value=b"\0\1new"))
    told = history.state()
    assert told.notes == ("offset 1: a record whose type is newer than this release supports",)
    assert [one.offset for one in told.offsets] == [1]
    for value, reason in ((b"\0\x63new", "newer than this release"), (b"\0\3", "OffsetCommitValue")):
        broken = History(history.folder.parent.parent / reason.split()[0])
        broken.data, broken.end = history.data, history.end
        broken.add(Record(key=coded, value=value))
        with pytest.raises(UndecodableRecord, match=reason) as error:
            broken.state()
        assert error.value.address == {
            "topic": CONSUMER_OFFSETS,
            "partition": 0,
            "offset": 2,
            "file": str(broken.folder),
        }


def classic(protocol_type: str, *members: Any, since: int = NOON) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=protocol_type, protocol="range", leader="m", members=list(members), current_state_timestamp=since
    )


def classic_member(topics: list[str]) -> GroupMetadataValue.MemberMetadata:
    parts = [ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=[0]) for topic in topics]
    return GroupMetadataValue.MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=10,
        subscription=encode_subscription(ConsumerProtocolSubscription(topics=topics)),
        assignment=encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts)),
    )


@pytest.mark.parametrize(
    ("value", "state", "expires"),
    [
        (classic("consumer", since=NOON + HOUR), "Empty", NOON + HOUR + WEEK),
        (classic("consumer", since=-1), "Empty", NOON + WEEK),
        (classic("", since=NOON + HOUR), "Empty", NOON + WEEK),
        (classic("consumer", classic_member(["t"])), "Stable", None),
        (classic("consumer", classic_member(["other"])), "Stable", NOON + WEEK),
        (classic("connect", GroupMetadataValue.MemberMetadata(member_id="w", assignment=b"??")), "Stable", None),
        (classic("consumer", GroupMetadataValue.MemberMetadata(member_id="w", subscription=b"?")), "Stable", None),
    ],
)
def test_when_a_classic_group_s_offsets_expire(
    history: History, value: GroupMetadataValue, state: str, expires: int | None
) -> None:
    history.write(GroupMetadataKey(group=GROUP), value, 3)
    history.step(Step(0, 5, None))
    told = history.state()
    assert (told.kind.kind, told.kind.state, told.kind.protocol_type) == ("classic", state, value.protocol_type)
    assert told.offsets[0].expires == expires
    history.write(GroupMetadataKey(group=GROUP), None)
    gone = history.state()  # the group is deleted, its offsets are not yet
    assert (gone.kind.state, gone.kind.members, len(gone.offsets)) == ("Empty", (), 1)


def test_an_offset_that_waits_for_another_commit_does_not_expire(history: History) -> None:
    history.step(Step(0, 5, None))
    history.step(Step(0, 6, 1))
    history.file.write_bytes(history.data)
    told = group_state(LogDirs([str(history.folder.parent)]), GROUP, at=NOON + 2 * WEEK)
    assert ([one.offset for one in told.offsets], told.expired) == ([5], ())
    history.step(Step(-1, None, 1, ends=False))
    history.file.write_bytes(history.data)
    told = group_state(LogDirs([str(history.folder.parent)]), GROUP, at=NOON + 2 * WEEK)
    assert ([one.offset for one in told.expired], told.offsets) == ([5], ())


@pytest.mark.parametrize(
    ("group_epoch", "target", "member_epoch", "member_state", "expected"),
    [(3, 3, 3, 0, "Stable"), (4, 3, 3, 0, "Assigning"), (3, 3, 2, 0, "Reconciling"), (3, 3, 3, 1, "Reconciling")],
)
def test_a_modern_group_s_state_follows_from_its_epochs(
    history: History, group_epoch: int, target: int, member_epoch: int, member_state: int, expected: str
) -> None:
    me = {"group_id": GROUP, "member_id": "m"}
    history.write(
        modern.ConsumerGroupMemberMetadataKey(**me),
        modern.ConsumerGroupMemberMetadataValue(
            client_id="c", client_host="/h", subscribed_topic_names=["t"], instance_id=None, rack_id="r"
        ),
    )
    history.write(modern.ConsumerGroupMetadataKey(group_id=GROUP), modern.ConsumerGroupMetadataValue(epoch=group_epoch))
    history.write(
        modern.ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP),
        modern.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=target),
    )
    history.write(
        modern.ConsumerGroupCurrentMemberAssignmentKey(**me),
        modern.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=member_epoch, state=member_state),
    )
    history.write(
        modern.ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="x.*"),
        modern.ConsumerGroupRegularExpressionValue(topics=["xa"]),
    )
    told = history.state().kind
    assert (told.kind, told.state, told.members[0].rack) == ("consumer", expected, "r")
    assert [told.expires_from(topic, 1) for topic in ("t", "xa", "other")] == [None, None, 1]


def test_a_streams_group_keeps_the_offsets_of_its_topology(history: History) -> None:
    sub = streams.StreamsGroupTopologyValue.Subtopology
    history.write(streams.StreamsGroupMetadataKey(group_id=GROUP), streams.StreamsGroupMetadataValue(epoch=1))
    history.write(
        streams.StreamsGroupMemberMetadataKey(group_id=GROUP, member_id="m"),
        streams.StreamsGroupMemberMetadataValue(client_id="c", client_host="/h", instance_id=None, rack_id=None),
    )
    assert history.state().kind.state == "NotReady"
    inner = streams.StreamsGroupTopologyValue.TopicInfo(name="repartition")
    history.write(
        streams.StreamsGroupTopologyKey(group_id=GROUP),
        streams.StreamsGroupTopologyValue(
            subtopologies=[sub(subtopology_id="0", source_topics=["t"], repartition_source_topics=[inner])]
        ),
    )
    history.write(
        streams.StreamsGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="m"),
        streams.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=1,
            active_tasks=[
                streams.StreamsGroupCurrentMemberAssignmentValue.TaskIds(subtopology_id="0", partitions=[0, 1])
            ],
        ),
    )
    told = history.state().kind
    assert (told.kind, told.state) == ("streams", "Assigning")
    assert told.members[0].assigned == {"0": [0, 1]}
    assert [told.expires_from(topic, 1) for topic in ("t", "repartition", "other")] == [None, None, 1]


def test_offsets_are_told_by_topic_and_partition(history: History) -> None:
    for number in (2, 0, 1):
        history.step(Step(number, number, None))
    assert [one.tp for one in history.state().offsets] == [TopicPartition("t", number) for number in range(3)]
