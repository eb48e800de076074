"""Share groups: joined by raw heartbeats, read by raw share fetches; their offsets are told, set and forgotten."""

from __future__ import annotations

import uuid
from typing import Any
from uuid import UUID

import pytest

from kseg.client import CommittedOffset, GroupError, TopicPartition, commit_offsets
from kseg.client.admin.groups import delete_groups
from kseg.client.admin.share_groups import alter_share_offsets, delete_share_offsets, describe_share_offsets
from kseg.client.admin.topics import NewTopic, create_topics
from kseg.client.groups.descriptions import describe_group, list_groups
from kseg.client.protocol.enums import AclOperation
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.share_fetch import ShareAcknowledgeRequest, ShareFetchRequest
from kseg.client.protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from kseg.client.protocol.messages.streams_groups import StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
from kseg.segment_reader.decode.next_offset import next_offset
from kseg.segment_reader.encode.batches import Record
from sending import send_to

LEAVE = -1


class ShareMember:
    """A member of a share group, request by request: joined, with its first assignment."""

    def __init__(self, cluster: Any, group: str, tp: TopicPartition, until: Any) -> None:
        self.cluster, self.group, self.tp = cluster, group, tp
        self.member = str(uuid.uuid4())
        self.epoch = 0
        self.session_epoch = 0
        self.topic_id = UUID(int=0)
        self.assigned = self.heartbeat([tp.topic])
        until(lambda: self.assigned or self.try_again())
        [partitions] = self.assigned
        assert partitions.partitions == [0]
        self.topic_id = partitions.topic_id

    def try_again(self) -> Any:
        self.assigned = self.heartbeat()
        return self.assigned

    def heartbeat(self, topics: list[str] | None = None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member, member_epoch=self.epoch, subscribed_topic_names=topics
        )
        answer = self.cluster.send(request, coordinator=("group", self.group))
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        return None if answer.assignment is None else answer.assignment.topic_partitions

    def leave(self) -> None:
        self.epoch = LEAVE
        self.heartbeat()

    def fetch(self) -> Any:
        """The partition's part of an answer, if records were acquired; the first fetch opens the session."""
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.session_epoch,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=100,
            batch_size=100,
            topics=[
                ShareFetchRequest.FetchTopic(
                    topic_id=self.topic_id,
                    partitions=[ShareFetchRequest.FetchPartition(partition_index=self.tp.partition)],
                )
            ],
        )
        answer = self.cluster.send(request, leader_of=self.tp)
        assert answer.error_code == 0, answer
        self.session_epoch += 1
        parts = [part for topic in answer.responses for part in topic.partitions if part.acquired_records]
        return parts[0] if parts else None

    def accept(self, last: int) -> int:
        """ACCEPT (1) offsets 0 to `last`; gives the partition's error code."""
        batch = ShareAcknowledgeRequest.AcknowledgementBatch(first_offset=0, last_offset=last, acknowledge_types=[1])
        place = ShareAcknowledgeRequest.AcknowledgePartition(
            partition_index=self.tp.partition, acknowledgement_batches=[batch]
        )
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.session_epoch,
            topics=[ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=self.topic_id, partitions=[place])],
        )
        answer = self.cluster.send(request, leader_of=self.tp)
        assert answer.error_code == 0, answer
        self.session_epoch += 1
        return int(answer.responses[0].partitions[0].error_code)


class StreamsMember:
    """A member of a streams group with one subtopology, request by request."""

    def __init__(self, cluster: Any, group: str, topic: str) -> None:
        self.cluster, self.group, self.topic = cluster, group, topic
        self.member = str(uuid.uuid4())
        self.epoch = 0

    def heartbeat(self) -> Any:
        """The active tasks that the answer assigns, if it assigns any."""
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member, member_epoch=self.epoch, process_id="p1"
        )
        if self.epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.topology = StreamsGroupHeartbeatRequest.Topology(
                epoch=0,
                subtopologies=[
                    StreamsGroupHeartbeatRequest.Subtopology(subtopology_id="0", source_topics=[self.topic])
                ],
            )
            request.client_tags, request.active_tasks = [], []
            request.standby_tasks, request.warmup_tasks = [], []
        answer = self.cluster.send(request, coordinator=("group", self.group))
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        return answer.active_tasks

    def leave(self) -> None:
        request = StreamsGroupHeartbeatRequest(group_id=self.group, member_id=self.member, member_epoch=LEAVE)
        assert self.cluster.send(request, coordinator=("group", self.group)).error_code == 0


@pytest.fixture
def impatient(kafka: Any, connect: Any) -> Any:
    """The same brokers, for questions about what is not there: until the deadline it might only not be known yet."""
    return connect(kafka.bootstrap_servers, default_api_timeout_ms=5000)


@pytest.fixture
def tp(cluster: Any, name: str) -> TopicPartition:
    create_topics(cluster, [NewTopic(name, 1, 1)]).or_raise()
    place = TopicPartition(name, 0)
    send_to(cluster, {place: [Record(value=b"v")] * 10})
    return place


def test_every_version_tells_sets_and_forgets_offsets(
    cluster: Any, impatient: Any, each_version: Any, name: str, tp: TopicPartition, until: Any
):
    """A group that is not there has none, and is made by setting its offsets."""
    assert describe_share_offsets(cluster, name) == {}
    assert describe_share_offsets(cluster, name, [tp]).or_raise()[tp].start_offset == -1
    # The first of all makes the topic of their states, in its time.
    alter_share_offsets(cluster, name, {tp: 0}).or_raise()
    for _ in each_version(cluster, AlterShareGroupOffsetsRequest):
        none = TopicPartition(f"{name}-none", 0)
        results = alter_share_offsets(impatient, name, {tp: 4, none: 0})
        assert results[tp] is None
        assert results.failed()[none].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (results.failed()[none].group, results.failed()[none].topic) == (name, none.topic)
    assert (describe_group(cluster, name).type, describe_group(cluster, name).state) == ("share", "Empty")
    assert name in {group.group for group in list_groups(cluster, types=["share"]).or_raise()[1]}
    for version in each_version(cluster, DescribeShareGroupOffsetsRequest):
        [(place, told)] = describe_share_offsets(cluster, name).or_raise().items()  # None is all there are
        assert (place, told.start_offset) == (tp, 4)
        assert told.lag == (6 if version >= 1 else -1)
        assert describe_share_offsets(cluster, name, [tp]).or_raise()[tp].start_offset == 4
        assert describe_share_offsets(cluster, name, []) == {}
    for _ in each_version(cluster, DeleteShareGroupOffsetsRequest):
        results = delete_share_offsets(impatient, name, [tp.topic, f"{name}-none"])
        assert results[tp.topic] is None
        assert results.failed()[f"{name}-none"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert until(lambda: not describe_share_offsets(cluster, name).done())
    delete_groups(cluster, [name]).or_raise()
    assert describe_group(cluster, name).state == "Dead"


def test_every_version_joins_and_is_described(
    cluster: Any, each_version: Any, name: str, tp: TopicPartition, until: Any
):
    alter_share_offsets(cluster, name, {tp: 0}).or_raise()
    for _ in each_version(cluster, ShareGroupHeartbeatRequest):
        member = ShareMember(cluster, name, tp, until)
        for _ in each_version(cluster, ShareGroupDescribeRequest):
            group = describe_group(cluster, name, operations=True)
            assert (group.type, group.state) == ("share", "Stable")
            [described] = group.members
            assert (described.member_id, described.epoch) == (member.member, member.epoch)
            assert described.assignment == {tp}
            assert AclOperation.READ in (group.operations or ())
        with pytest.raises(GroupError, match="NON_EMPTY_GROUP"):
            alter_share_offsets(cluster, name, {tp: 1}).or_raise()
        member.leave()


def test_every_version_delivers_and_acknowledges_records(
    cluster: Any, each_version: Any, name: str, tp: TopicPartition, until: Any
):
    for fetching in each_version(cluster, ShareFetchRequest):
        for acknowledging in each_version(cluster, ShareAcknowledgeRequest):
            group = f"{name}-{fetching}-{acknowledging}"
            alter_share_offsets(cluster, group, {tp: 0}).or_raise()
            member = ShareMember(cluster, group, tp, until)
            assert describe_share_offsets(cluster, group).or_raise()[tp].lag == 10
            part = until(member.fetch)
            [acquired] = part.acquired_records
            assert (acquired.first_offset, acquired.last_offset, acquired.delivery_count) == (0, 9, 1)
            assert next_offset(part.records, 0) == 10
            assert member.accept(acquired.last_offset) == 0
            # The window's start moves when it has to; that nothing waits any more is known at once.
            assert until(lambda group=group: describe_share_offsets(cluster, group).or_raise()[tp].lag == 0)
            member.leave()


def test_every_version_of_a_streams_groups_requests(
    cluster: Any, each_version: Any, name: str, tp: TopicPartition, until: Any
):
    for _ in each_version(cluster, StreamsGroupHeartbeatRequest):
        member = StreamsMember(cluster, name, tp.topic)
        assert until(member.heartbeat)[0].partitions == [0]
        for _ in each_version(cluster, StreamsGroupDescribeRequest):
            group = describe_group(cluster, name, operations=True)
            assert group.type == "streams"
            [described] = group.members
            assert (described.member_id, described.tasks) == (member.member, {("0", 0)})
            assert described.assignment is None
            assert AclOperation.READ in (group.operations or ())
        assert group.has_members
        member.leave()
        assert until(lambda: describe_group(cluster, name).state == "Empty")


def test_a_group_of_another_type_is_told_as_one(cluster: Any, name: str, tp: TopicPartition):
    commit_offsets(cluster, name, {tp: CommittedOffset(0)})
    with pytest.raises(GroupError, match="not a share group") as caught:
        alter_share_offsets(cluster, name, {tp: 1})
    assert (caught.value.group, caught.value.code) == (name, ErrorCode.GROUP_ID_NOT_FOUND)
