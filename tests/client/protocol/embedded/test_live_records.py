"""What a real broker has written into its own topics is what our definitions say, read from its log files."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
from confluent_kafka import Consumer, Producer

from kseg.client.protocol.embedded import consumer_protocol
from kseg.client.protocol.embedded.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kseg.client.protocol.embedded.control_records import (
    ControlRecordType,
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
    decode_control_record,
)
from kseg.client.protocol.embedded.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kseg.client.protocol.embedded.internal_topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    InternalRecord,
    decode_internal,
)
from kseg.client.protocol.embedded.metadata_records import FeatureLevelRecord, PartitionRecord, TopicRecord
from kseg.client.protocol.embedded.transaction_records import TransactionLogKey, TransactionLogValue, TransactionStatus
from kseg.segment_reader.decode.batch import frames
from kseg.segment_reader.decode.reference import batch_records, read_body

pytestmark = pytest.mark.broker
FAMILIES: dict[str, dict[str, str]] = {"classic": {}, "consumer": {"group.protocol": "consumer"}}


class Kafka(Protocol):
    bootstrap_servers: str
    log_dirs: tuple[Path, ...]

    def topic(self, partitions: int = 1) -> str: ...


class Raw(NamedTuple):
    """A record as it stands in a log."""

    control: bool
    key: bytes | None
    value: bytes | None


def raw_records(kafka: Kafka, topic: str, suffix: str = "*.log") -> Iterator[Raw]:
    """All records of all partitions of a topic that lie on the broker's disk."""
    for path in sorted(path for folder in kafka.log_dirs for path in folder.glob(f"{topic}-*/{suffix}")):
        data = path.read_bytes()
        for frame in frames(data):
            for _, _, reader in batch_records(memoryview(data), frame, 1 << 26):
                body = read_body(reader)
                yield Raw(frame.control, body.key, body.value)


def understood(kafka: Kafka, topic: str) -> list[InternalRecord]:
    """A topic's records; none of a broker of our definitions' own release may be unknown."""
    told = [decode_internal(topic, raw.key, raw.value) for raw in raw_records(kafka, topic) if not raw.control]
    assert not [one for one in told if isinstance(one.key, bytes) or isinstance(one.value, bytes)]
    return told


def awaited(seek: Callable[[], Any]) -> Any:
    """What `seek` finds; a broker may write a moment after it has answered."""
    deadline = time.monotonic() + 120
    while not (found := seek()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def transaction(kafka: Kafka) -> tuple[str, str]:
    """(topic, transactional id) of one transaction that has been aborted, and one that has been committed."""
    topic, name = kafka.topic(), f"writer-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(120)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"value")
        producer.flush(120)
        end(120)
    return topic, name


@pytest.mark.rule(182, 232)
@pytest.mark.parametrize("protocol", FAMILIES)
def test_a_group_is_told_with_its_member_and_its_offset(kafka: Kafka, transaction: Any, protocol: str) -> None:
    topic, _ = transaction
    group = f"group-{uuid.uuid4().hex[:8]}"
    base = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(base | FAMILIES[protocol] | {"client.id": "somebody"})
    consumer.subscribe([topic])
    message = awaited(lambda: consumer.poll(1))
    consumer.commit(message, asynchronous=False)

    def offsets() -> list[int]:
        key = OffsetCommitKey(group=group, topic=topic)
        told = [one.value for one in understood(kafka, CONSUMER_OFFSETS) if one.key == key]
        return [value.offset for value in told if isinstance(value, OffsetCommitValue)]

    assert awaited(offsets)[-1] == message.offset() + 1

    by_type: dict[type, list[Any]] = defaultdict(list)
    for key, value, _ in understood(kafka, CONSUMER_OFFSETS):
        if group in (getattr(key, "group", None), getattr(key, "group_id", None)):
            by_type[type(value)].append((key, value))
    if protocol == "classic":
        key, value = [one for one in by_type[GroupMetadataValue] if one[1].members][-1]
        (member,) = value.members
        assert (key, value.protocol_type) == (GroupMetadataKey(group=group), "consumer")
        assert member.client_id == "somebody"
        assert consumer_protocol.decode_subscription(member.subscription).topics == [topic]
        (assigned,) = consumer_protocol.decode_assignment(member.assignment).assigned_partitions
        assert (assigned.topic, assigned.partitions) == (topic, [0])
    else:
        key, value = by_type[ConsumerGroupMemberMetadataValue][-1]
        assert (type(key), value.client_id) == (ConsumerGroupMemberMetadataKey, "somebody")
        assert value.subscribed_topic_names == [topic]
        (assigned,) = by_type[ConsumerGroupCurrentMemberAssignmentValue][-1][1].assigned_partitions
        assert assigned.partitions == [0]
    consumer.close()

    if protocol == "consumer":

        def gone() -> list[Any]:
            """The member that left is deleted: its key with no value."""
            told = understood(kafka, CONSUMER_OFFSETS)
            return [one for one in told if one.value is None and one.key == key]

        assert awaited(gone)


@pytest.mark.rule(128, 246)
def test_a_transaction_is_told_from_its_beginning_to_its_end(kafka: Kafka, transaction: Any) -> None:
    topic, name = transaction
    key = TransactionLogKey(transactional_id=name)

    def states() -> list[TransactionLogValue] | None:
        told = [one.value for one in understood(kafka, TRANSACTION_STATE) if one.key == key]
        values = [value for value in told if isinstance(value, TransactionLogValue)]
        return values if values and values[-1].transaction_status == TransactionStatus.COMPLETE_COMMIT else None

    values = awaited(states)
    seen = [TransactionStatus(value.transaction_status).name for value in values]
    assert seen[0] == "EMPTY"
    assert seen.index("COMPLETE_ABORT") < seen.index("PREPARE_COMMIT") < seen.index("COMPLETE_COMMIT")
    (ongoing,) = {
        (topic.topic, *topic.partition_ids)
        for value in values
        if value.transaction_status == TransactionStatus.ONGOING
        for topic in value.transaction_partitions or []
    }
    assert ongoing == (topic, 0)

    markers = [
        decode_control_record(raw.key or b"", raw.value or b"") for raw in raw_records(kafka, topic) if raw.control
    ]
    assert [marker.type for marker in markers] == [ControlRecordType.ABORT, ControlRecordType.COMMIT]
    assert all(isinstance(marker.value, EndTxnMarker) and marker.value.coordinator_epoch == 0 for marker in markers)


def test_the_metadata_log_tells_topics_and_features(kafka: Kafka, transaction: Any) -> None:
    topic, _ = transaction
    told = [one.value for one in understood(kafka, CLUSTER_METADATA)]
    (created,) = [value for value in told if isinstance(value, TopicRecord) and value.name == topic]
    (partition,) = [v for v in told if isinstance(v, PartitionRecord) and v.topic_id == created.topic_id]
    assert (partition.partition_id, len(partition.replicas), partition.leader) == (0, 1, partition.replicas[0])
    assert any(isinstance(v, FeatureLevelRecord) and v.name == "transaction.version" for v in told)


def test_the_metadata_quorums_control_records(kafka: Kafka) -> None:
    raws = [*raw_records(kafka, CLUSTER_METADATA), *raw_records(kafka, CLUSTER_METADATA, "*.checkpoint")]
    records = [decode_control_record(raw.key or b"", raw.value or b"") for raw in raws if raw.control]
    assert not [one for one in records if isinstance(one.value, bytes)]
    found = {type(one.value): one.value for one in records}
    change, voters = found[LeaderChangeMessage], found[VotersRecord]
    assert isinstance(change, LeaderChangeMessage)
    assert isinstance(voters, VotersRecord)
    assert change.leader_id in [voter.voter_id for voter in change.voters]
    assert [voter.voter_id for voter in change.voters] == [voter.voter_id for voter in voters.voters]
    assert [endpoint.port > 0 for endpoint in voters.voters[0].endpoints] == [True]
    assert isinstance(found[KRaftVersionRecord], KRaftVersionRecord)
    kinds = [one.type for one in records]
    assert kinds.index(ControlRecordType.SNAPSHOT_HEADER) < kinds.index(ControlRecordType.SNAPSHOT_FOOTER)
