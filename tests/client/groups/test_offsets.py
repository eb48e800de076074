"""What groups commit, on the real broker, through other clients too; and the shapes that only older brokers have."""

from __future__ import annotations

import time
import uuid
from typing import Any

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client import (
    CommittedOffset,
    KafkaError,
    OffsetCommitFailed,
    ProtocolFault,
    TopicPartition,
    UnsupportedVersion,
    commit_offsets,
    committed_offsets,
)
from kseg.client.groups.offsets import COMMIT_BYTES, in_parts
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kseg.client.transactions.transaction import Transaction
from kseg.segment_reader.encode.batches import Record
from offsets_elsewhere import through_kafka_python
from sending import send_to

SOME_ID = uuid.UUID(int=7)


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4()}"


@pytest.mark.rule(202)
def test_a_plain_commit_is_what_other_clients_read(cluster: Any, kafka: Any, group: str):
    topic = kafka.topic(partitions=3)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    send_to(cluster, {tp: [Record(value=b"v")] * 9 for tp in partitions})
    offsets = {partitions[0]: CommittedOffset(5, 0, "kseg:ledger:run"), partitions[1]: CommittedOffset(7)}
    commit_offsets(cluster, group, offsets)

    assert through_kafka_python(kafka.bootstrap_servers, group) == {
        partitions[0]: (5, "kseg:ledger:run"),
        partitions[1]: (7, ""),
    }
    assert committed_offsets(cluster, group, partitions) == offsets | {partitions[2]: CommittedOffset(-1)}
    assert committed_offsets(cluster, group) == offsets


def test_more_offsets_than_a_broker_writes_at_once_are_committed(cluster: Any, kafka: Any, group: str):
    """A coordinator writes a request's offsets as one batch, of 1 MB at most."""
    topic = kafka.topic(300)
    offsets = {TopicPartition(topic, p): CommittedOffset(p, metadata="m" * 4000) for p in range(300)}
    assert len(list(in_parts(group, offsets))) > 4
    commit_offsets(cluster, group, offsets)
    assert committed_offsets(cluster, group, list(offsets)) == offsets
    more = {tp: CommittedOffset(offset.offset + 1, metadata=offset.metadata) for tp, offset in offsets.items()}
    with Transaction(cluster, f"txn-{group}", timeout_ms=60_000) as transaction:
        transaction.begin()
        transaction.commit_offsets(group, more)
        assert committed_offsets(cluster, group, list(offsets), require_stable=False) == offsets
        transaction.commit()
    assert committed_offsets(cluster, group, list(offsets)) == more


@given(st.dictionaries(st.integers(0, 10**6), st.tuples(st.text(max_size=50), st.integers(0, 4096)), max_size=300))
def test_parts_of_a_commit_are_all_of_it_and_none_is_too_large(wanted: dict[int, tuple[str, int]]):
    offsets = {
        TopicPartition(f"t{topic}", partition): CommittedOffset(1, metadata="m" * size)
        for partition, (topic, size) in wanted.items()
    }
    parts = list(in_parts("group", offsets))
    assert [entry for part in parts for entry in part.items()] == list(offsets.items())
    assert all(parts)
    for part in parts:
        assert len(part) == 1 or sum(len(offset.metadata) for offset in part.values()) < COMMIT_BYTES


def test_another_clients_commit_is_read(cluster: Any, kafka: Any, group: str):
    tp = TopicPartition(kafka.topic(), 0)
    send_to(cluster, {tp: [Record(value=b"v")] * 9})
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(*tp, 4, "by hand")], asynchronous=False)
    consumer.close()
    found = committed_offsets(cluster, group)[tp]
    assert (found.offset, found.leader_epoch) == (4, -1)
    assert found.metadata.rstrip("\0") == "by hand"  # confluent-kafka sends C's closing zero along


@pytest.mark.rule(195, 199)
def test_a_group_that_never_was_has_no_offsets(cluster: Any, kafka: Any, group: str):
    tp = TopicPartition(kafka.topic(), 0)
    assert committed_offsets(cluster, group, [tp]) == {tp: CommittedOffset(-1)}
    assert committed_offsets(cluster, group) == {}
    assert committed_offsets(cluster, group, []) == {}


@pytest.mark.rule(190)
def test_a_group_with_live_members_refuses_a_plain_commit(cluster: Any, kafka: Any, group: str):
    tp = TopicPartition(kafka.topic(), 0)
    with live_member(kafka, group, tp.topic), pytest.raises(OffsetCommitFailed) as caught:
        commit_offsets(cluster, group, {tp: CommittedOffset(1)})
    assert caught.value.partitions == {tp: ErrorCode.UNKNOWN_MEMBER_ID}
    assert (caught.value.group, caught.value.retriable) == (group, False)


class live_member:  # noqa: N801
    """A consumer that is in the group while the block runs."""

    def __init__(self, kafka: Any, group: str, topic: str) -> None:
        self.consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
        self.consumer.subscribe([topic])

    def __enter__(self) -> None:
        until = time.monotonic() + 120
        while not self.consumer.assignment() and time.monotonic() < until:
            self.consumer.poll(0.1)
        assert self.consumer.assignment()

    def __exit__(self, *_: object) -> None:
        self.consumer.close()


@pytest.mark.rule(203)
def test_pending_offsets_are_waited_for(cluster: Any, connect: Any, kafka: Any, group: str):
    tp = TopicPartition(kafka.topic(), 0)
    send_to(cluster, {tp: [Record(value=b"v")] * 9})
    commit_offsets(cluster, group, {tp: CommittedOffset(2)})
    transaction = Transaction(cluster, f"tx-{uuid.uuid4()}")
    transaction.begin()
    transaction.commit_offsets(group, {tp: CommittedOffset(6)})
    first = f"first-{group}"
    transaction.commit_offsets(first, {tp: CommittedOffset(6)})

    impatient = connect(kafka.bootstrap_servers, default_api_timeout_ms=4000)
    with pytest.raises(KafkaError) as caught:
        committed_offsets(impatient, group, [tp])
    assert caught.value.code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert caught.value.retriable
    assert committed_offsets(impatient, group, [tp], require_stable=False)[tp].offset == 2
    assert committed_offsets(cluster, first) == {}  # asked for all, a broker leaves a pending first commit out
    transaction.commit()
    assert committed_offsets(cluster, group, [tp])[tp].offset == 6
    assert committed_offsets(cluster, first, [tp])[tp].offset == 6


def plain_commit(fake: Any, connect: Any, highest: int, topic_id: uuid.UUID = SOME_ID) -> Any:
    fake.add_topic("t", [1], topic_id=topic_id)
    fake.ranges[OffsetCommitRequest.KEY] = (2, highest)

    def committed(seen: Any) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponse.OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=p.partition_index)
                        for p in topic.partitions
                    ],
                )
                for topic in seen.request.topics
            ]
        )

    fake.on(OffsetCommitRequest, committed)
    commit_offsets(connect(fake.bootstrap_servers), "g", {TopicPartition("t", 0): CommittedOffset(3, 8, "m")})
    [seen] = fake.requests(OffsetCommitRequest)
    return seen


@pytest.mark.rule(189, 192)
@pytest.mark.parametrize("version", [2, 5, 6, 8, 9, 10])
def test_a_plain_commit_names_no_generation_and_carries_the_leader_epoch(fake: Any, connect: Any, version: int):
    seen = plain_commit(fake, connect, version)
    assert seen.version == version
    assert seen.request.generation_id_or_member_epoch == -1
    assert seen.request.member_id == ""
    [partition] = seen.request.topics[0].partitions
    assert (partition.committed_offset, partition.committed_metadata) == (3, "m")
    assert partition.committed_leader_epoch == (8 if version >= 6 else -1)


def test_a_commit_names_the_topic_by_id_where_it_is_known_and_else_by_name(fake: Any, connect: Any, fakes: Any):
    assert plain_commit(fake, connect, 10).request.topics[0].topic_id == fakes.TOPIC_ID
    other = fakes.start()
    by_name = plain_commit(other, connect, 10, uuid.UUID(int=0))
    assert (by_name.version, by_name.request.topics[0].name) == (9, "t")

    def fetched(seen: Any) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g")])

    other.on(OffsetFetchRequest, fetched)
    committed_offsets(connect(other.bootstrap_servers), "g", [TopicPartition("t", 0)])
    [seen] = other.requests(OffsetFetchRequest)
    assert seen.version == 9
    assert seen.request.groups[0].topics[0].name == "t"


@pytest.mark.rule(203)
@pytest.mark.parametrize("version", [1, 5, 6, 7, 8, 9, 10])
def test_stable_offsets_are_required_wherever_the_version_carries_it(fake: Any, connect: Any, version: int):
    fake.add_topic("t", [1])
    fake.ranges[OffsetFetchRequest.KEY] = (1, version)

    def fetched(seen: Any) -> OffsetFetchResponse:
        if seen.version < 8:
            kinds: Any = (
                OffsetFetchResponse.OffsetFetchResponseTopic,
                OffsetFetchResponse.OffsetFetchResponsePartition,
            )
        else:
            kinds = (OffsetFetchResponse.OffsetFetchResponseTopics, OffsetFetchResponse.OffsetFetchResponsePartitions)
        partition = kinds[1](partition_index=0, committed_offset=11, metadata=None)
        topic = kinds[0](name="t", partitions=[partition])
        if seen.version < 8:
            return OffsetFetchResponse(topics=[topic])
        topic.topic_id = fake.topics["t"].topic_id
        return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", topics=[topic])])

    fake.on(OffsetFetchRequest, fetched)
    cluster = connect(fake.bootstrap_servers)
    tp = TopicPartition("t", 0)
    assert committed_offsets(cluster, "g", [tp]) == {tp: CommittedOffset(11, -1, "")}
    [seen] = fake.requests(OffsetFetchRequest)
    assert seen.version == version
    assert seen.request.require_stable == (version >= 7)


@pytest.mark.rule(201)
def test_version_1_cannot_tell_all_offsets(fake: Any, connect: Any):
    fake.ranges[OffsetFetchRequest.KEY] = (1, 1)
    with pytest.raises(UnsupportedVersion, match="too old"):
        committed_offsets(connect(fake.bootstrap_servers), "g")


@pytest.mark.rule(194)
def test_a_failed_commit_names_each_partition_and_is_retriable_only_if_all_are(fake: Any, connect: Any):
    fake.add_topic("t", [1, 1])
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    fake.on(
        OffsetCommitRequest,
        lambda seen: OffsetCommitResponse(
            topics=[
                OffsetCommitResponse.OffsetCommitResponseTopic(
                    topic_id=seen.request.topics[0].topic_id,
                    partitions=[
                        OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=number, error_code=code)
                        for number, code in enumerate(codes)
                    ],
                )
            ]
        ),
    )
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    with pytest.raises(OffsetCommitFailed) as caught:
        commit_offsets(connect(fake.bootstrap_servers), "g", dict.fromkeys(partitions, CommittedOffset(1)))
    assert caught.value.partitions == dict(zip(partitions, codes, strict=True))
    assert not caught.value.retriable
    assert len(fake.requests(OffsetCommitRequest)) == 1


def test_a_commit_is_not_done_for_a_partition_that_the_response_lacks(fake: Any, connect: Any):
    fake.add_topic("t", [1, 1])
    fake.on(
        OffsetCommitRequest,
        lambda seen: OffsetCommitResponse(
            topics=[
                OffsetCommitResponse.OffsetCommitResponseTopic(
                    topic_id=seen.request.topics[0].topic_id,
                    partitions=[OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=0)],
                )
            ]
        ),
    )
    offsets = {TopicPartition("t", number): CommittedOffset(1) for number in (0, 1)}
    with pytest.raises(ProtocolFault, match="lacks a requested partition") as caught:
        commit_offsets(connect(fake.bootstrap_servers), "g", offsets)
    assert (caught.value.topic, caught.value.partition, caught.value.group) == ("t", 1, "g")
