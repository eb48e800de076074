"""Replaying the metadata log: where it begins, what counts, and what is told of a log that is not whole."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.client.protocol.embedded import metadata_records as records
from kseg.client.protocol.embedded.control_records import (
    ControlRecordType,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    encode_control_record,
)
from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.embedded.internal_topics import _LOGS, CLUSTER_METADATA, encode_internal
from kseg.etl.errors import ConfigurationError, KsegError
from kseg.etl.internal_topics.errors import MetadataUnreadable
from kseg.etl.internal_topics.locations import LogDirs
from kseg.etl.internal_topics.metadata_image import APPLY, MetadataImage
from kseg.etl.internal_topics.metadata_log import read_metadata
from kseg.etl.internal_topics.metadata_tables import NAMES, SCHEMAS, metadata_tables
from kseg.segment_reader.decode.batch import FRAME_OVERHEAD
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.errors import LogFileError

ORDERS, BILLS = UUID(int=11), UUID(int=12)


def topic(name: str, topic_id: UUID, replicas: list[int] | None = None) -> list[TypedMessage]:
    replicas = [1, 2, 3] if replicas is None else replicas
    part = records.PartitionRecord(
        partition_id=0, topic_id=topic_id, replicas=replicas, isr=replicas, leader=1, leader_epoch=0, partition_epoch=0
    )
    return [records.TopicRecord(name=name, topic_id=topic_id), part]


def coded(message: TypedMessage) -> Record:
    version = type(message).VERSIONS.highest
    return Record(value=encode_internal(CLUSTER_METADATA, None, message, version)[1], timestamp=1000)


class Log:
    """A metadata log in a directory: `write` appends a batch."""

    def __init__(self, folder: Path, base: int = 0) -> None:
        self.folder = folder / "__cluster_metadata-0"
        self.folder.mkdir(parents=True)
        self.base = self.end = base
        self.file = self.folder / f"{base:020d}.log"
        self.file.touch()

    @property
    def dirs(self) -> LogDirs:
        return LogDirs([str(self.folder.parent)])

    def write(self, *messages: TypedMessage) -> int:
        """The offset of the first."""
        return self.raw(*map(coded, messages))

    def raw(self, *given: Record) -> int:
        first = self.end
        with self.file.open("ab") as file:
            file.write(encode_batch(given, base_offset=first, partition_leader_epoch=4))
        self.end += len(given)
        return first

    def snapshot(self, end: int, *messages: TypedMessage, footer: bool = True) -> Path:
        def control(kind: ControlRecordType, message: Any) -> bytes:
            key, value = encode_control_record(kind, message)
            return encode_batch([Record(key=key, value=value)], base_offset=0, control=True)

        header = SnapshotHeaderRecord(last_contained_log_timestamp=777)
        data = control(ControlRecordType.SNAPSHOT_HEADER, header)
        data += encode_batch([coded(one) for one in messages], base_offset=1) if messages else b""
        data += control(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord()) if footer else b""
        path = self.folder / f"{end:020d}-{4:010d}.checkpoint"
        path.write_bytes(data)
        return path

    def names(self, at: int | None = None) -> list[str]:
        return sorted(one.name for one in read_metadata(self.dirs, at).image.topics.values())


def test_every_type_of_record_is_handled() -> None:
    assert set(APPLY) == set(_LOGS[CLUSTER_METADATA].values())
    assert set(NAMES) == set(metadata_tables(read_nothing())) == set(SCHEMAS)


def read_nothing() -> Any:
    from kseg.etl.internal_topics.metadata_log import ReplayedMetadata

    return ReplayedMetadata()


def test_records_below_the_offset_count(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(*topic("orders", ORDERS))
    log.write(*topic("bills", BILLS), records.NoOpRecord())
    assert [log.names(at) for at in (0, 1, 2, 3)] == [[], ["orders"], ["orders"], ["bills", "orders"]]
    assert log.names() == ["bills", "orders"]
    found = read_metadata(log.dirs)
    assert (found.end_offset, found.epoch, found.timestamp, found.snapshot) == (5, 4, 1000, None)
    with pytest.raises(ConfigurationError, match="the log ends at offset 5"):
        read_metadata(log.dirs, 6)


def test_the_newest_snapshot_at_or_below_the_offset_is_begun_with(tmp_path: Path) -> None:
    log = Log(tmp_path, base=10)  # what was before is in snapshots alone
    log.snapshot(10, *topic("first", ORDERS))
    log.write(*topic("second", BILLS))
    second = log.snapshot(12, *topic("only-in-snapshot", ORDERS))
    log.write(records.RemoveTopicRecord(topic_id=ORDERS))
    assert [log.names(at) for at in (10, 11, 12, 13)] == [["first"], ["first", "second"], ["only-in-snapshot"], []]
    assert read_metadata(log.dirs, 12).snapshot == str(second)
    assert read_metadata(log.dirs, 12).timestamp == 777
    with pytest.raises(MetadataUnreadable, match="the log begins at 10") as told:
        read_metadata(log.dirs, 9)
    assert (told.value.address["offset"], told.value.address["file"]) == (0, str(log.folder))


@pytest.mark.parametrize("damage", ["no footer", "a flipped byte", "cut off"])
def test_a_snapshot_that_is_not_whole_is_passed_over(tmp_path: Path, damage: str) -> None:
    log = Log(tmp_path)
    log.write(*topic("orders", ORDERS))
    path = log.snapshot(2, *topic("wrong", ORDERS), footer=damage != "no footer")
    if damage == "a flipped byte":
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
    if damage == "cut off":
        path.write_bytes(path.read_bytes()[:-7])
    found = read_metadata(log.dirs)
    assert [one.name for one in found.image.topics.values()] == ["orders"]
    assert "a snapshot was skipped" in found.notes[0]
    assert path.name in found.notes[0]


def test_a_transaction_counts_when_it_has_ended(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(records.BeginTransactionRecord(name="one"), *topic("orders", ORDERS))
    log.write(records.NoOpRecord(), records.EndTransactionRecord())
    log.write(records.BeginTransactionRecord(), *topic("bills", BILLS), records.AbortTransactionRecord(reason="no"))
    log.write(*topic("alone", UUID(int=13)))
    log.write(records.BeginTransactionRecord(), *topic("open", UUID(int=14)))
    assert [log.names(at) for at in (3, 4, 5, 9, 11)] == [[], [], ["orders"], ["orders"], ["alone", "orders"]]
    assert log.names() == ["alone", "orders"]
    assert read_metadata(log.dirs).notes == ["a transaction is open from offset 11 on: its records do not count"]
    assert read_metadata(log.dirs, 11).notes == []


def test_what_is_newer_is_noted_and_the_rest_counts(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.raw(
        Record(value=b"\1\x7f\0"), *map(coded, topic("orders", ORDERS)), Record(value=b"\1\2\x09"), Record(value=None)
    )
    assert log.names() == ["orders"]
    assert read_metadata(log.dirs).notes == [
        "offset 0 was skipped: type 127 is not known",
        "offset 3 was skipped: version 9 of TopicRecord is not known",
        "offset 4 was skipped: it has no value",
    ]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (records.PartitionChangeRecord(topic_id=BILLS, partition_id=0), "no topic with id"),
        (records.PartitionChangeRecord(topic_id=ORDERS, partition_id=7), "no partition orders-7"),
        (records.FenceBrokerRecord(id=5, epoch=1), "broker 5 is not registered with epoch 1"),
        (records.RemoveTopicRecord(topic_id=BILLS), "no topic with id"),
        (records.ClearElrRecord(topic_name="bills"), "no topic bills"),
        (records.PartitionRecord(topic_id=ORDERS, replicas=[1, 2], directories=[UUID(int=9)]), "2 replicas in 1"),
    ],
)
def test_a_record_that_contradicts_is_told_with_its_address(tmp_path: Path, message: Any, reason: str) -> None:
    log = Log(tmp_path)
    log.write(*topic("orders", ORDERS))
    offset = log.write(message)
    with pytest.raises(MetadataUnreadable, match=reason) as told:
        read_metadata(log.dirs)
    assert told.value.address["offset"] == offset
    assert told.value.address["file"] == str(log.file)
    assert log.names(offset) == ["orders"]


def test_what_the_last_write_left_half_is_nobody_s(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(*topic("orders", ORDERS))
    whole = log.file.read_bytes()
    log.write(*topic("bills", BILLS))
    more = log.file.read_bytes()[len(whole) :]
    for cut in (1, FRAME_OVERHEAD, len(more) - 1):
        log.file.write_bytes(whole + more[:cut])
        assert log.names() == ["orders"]


def test_a_partition_changes_as_kafka_changes_it(tmp_path: Path) -> None:
    log = Log(tmp_path)
    first, second = UUID(int=101), UUID(int=102)
    log.write(records.TopicRecord(name="orders", topic_id=ORDERS))
    log.write(
        records.PartitionRecord(
            partition_id=0,
            topic_id=ORDERS,
            replicas=[1, 2],
            isr=[1, 2],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[first, second],
        )
    )

    def after(**changes: Any) -> Any:
        log.write(records.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, **changes))
        return read_metadata(log.dirs).image.topics[ORDERS].partitions[0]

    shrunk = after(isr=[1], eligible_leader_replicas=[2])
    assert (shrunk.isr, shrunk.elr, shrunk.leader_epoch, shrunk.partition_epoch) == ((1,), (2,), 0, 1)
    moved = after(replicas=[2, 3], adding_replicas=[3])
    assert (moved.replicas, moved.directories) == ((2, 3), (second, UUID(int=0)))
    leaderless = after(leader=-1)
    assert (leaderless.leader, leaderless.leader_epoch, leaderless.partition_epoch) == (-1, 1, 3)
    placed = after(directories=[second, first], adding_replicas=[], leader=2, leader_recovery_state=1)
    assert (placed.directories, placed.leader, placed.leader_epoch) == ((second, first), 2, 2)
    assert (placed.leader_recovery_state, placed.adding_replicas) == (1, ())
    log.write(records.ClearElrRecord())
    cleared = read_metadata(log.dirs).image.topics[ORDERS].partitions[0]
    assert (cleared.elr, cleared.partition_epoch) == ((), 5)


def test_replicas_are_offline_where_their_broker_or_its_disk_is(tmp_path: Path) -> None:
    log = Log(tmp_path)
    good, lost = UUID(int=7), UUID(int=1)
    for number, fenced in ((1, False), (2, True), (3, False)):
        log.write(
            records.RegisterBrokerRecord(
                broker_id=number, broker_epoch=number, fenced=fenced, log_dirs=[good], rack=None
            )
        )

    def offline(directories: list[UUID]) -> Any:
        image = read_metadata(log.dirs).image
        log_topic = UUID(int=50 + log.end)
        log.write(
            records.TopicRecord(name="t", topic_id=log_topic),
            records.PartitionRecord(topic_id=log_topic, replicas=[1, 2, 3, 4], directories=directories, partition_id=0),
        )
        image = read_metadata(log.dirs).image
        return image.offline_replicas(image.topics[log_topic].partitions[0])

    assert offline([good] * 4) == (2, 4)  # fenced; not registered
    assert offline([]) == (2, 4)
    assert offline([lost, good, UUID(int=8), good]) == (1, 2, 3, 4)
    log.write(
        records.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, fenced=-1),
        records.UnregisterBrokerRecord(broker_id=1, broker_epoch=1),
        records.FenceBrokerRecord(id=3, epoch=3),
    )
    assert offline([good] * 4) == (1, 3, 4)
    log.write(records.UnfenceBrokerRecord(id=3, epoch=3))
    assert offline([good] * 4) == (1, 4)


def test_things_that_are_removed_are_gone(tmp_path: Path) -> None:
    log = Log(tmp_path)
    entity = [records.ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)]
    acl, config = UUID(int=3), {"resource_type": 2, "resource_name": "orders", "name": "retention.ms"}
    log.write(
        *topic("orders", ORDERS),
        records.ConfigRecord(**config, value="5"),
        records.AccessControlEntryRecord(id=acl, resource_type=99, operation=3),
        records.ClientQuotaRecord(entity=entity, key="k", value=1.0),
        records.UserScramCredentialRecord(name="bob", mechanism=1, iterations=4096),
        records.DelegationTokenRecord(token_id="t"),
        records.FeatureLevelRecord(name="f", feature_level=3),
        records.ZkMigrationStateRecord(zk_migration_state=1),
        records.RegisterControllerRecord(controller_id=9),
    )
    before = {name: table.to_pylist() for name, table in metadata_tables(read_metadata(log.dirs)).items()}
    counts = {name: len(rows) for name, rows in before.items()}
    assert counts == dict.fromkeys(NAMES, 1) | {"brokers": 0, "voters": 0, "producer_ids": 0}
    assert before["acls"][0]["resource_type"] == "UNKNOWN(99)"
    assert before["quotas"][0]["entity"] == [{"type": "user", "name": None}]
    assert before["cluster"][0]["zookeeper_migration"] == 1
    log.write(
        records.ConfigRecord(**config, value=None),
        records.RemoveAccessControlEntryRecord(id=acl),
        records.ClientQuotaRecord(entity=entity, key="k", remove=True),
        records.RemoveUserScramCredentialRecord(name="bob", mechanism=1),
        records.RemoveDelegationTokenRecord(token_id="t"),
        records.FeatureLevelRecord(name="f", feature_level=0),
        records.RemoveTopicRecord(topic_id=ORDERS),
    )
    after = metadata_tables(read_metadata(log.dirs))
    assert {name for name, table in after.items() if table.num_rows} == {"cluster", "controllers"}


def test_secrets_are_left_out(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(
        records.ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="hunter2"),
        records.ConfigRecord(resource_type=4, resource_name="1", name="retention.ms", value="5"),
        records.UserScramCredentialRecord(name="bob", mechanism=1, salt=b"hunter2", stored_key=b"hunter2"),
    )
    found = read_metadata(log.dirs)
    tables = metadata_tables(found)
    assert [(row["value"], row["sensitive"]) for row in tables["configs"].to_pylist()] == [("5", False), (None, True)]
    assert "hunter2" not in str([table.to_pylist() for table in tables.values()])


def test_the_leader_is_the_last_one_below_the_offset(tmp_path: Path) -> None:
    log = Log(tmp_path)

    def elect(leader: int) -> None:
        change = LeaderChangeMessage(version=1, leader_id=leader)
        data = encode_control_record(ControlRecordType.LEADER_CHANGE, change)
        with log.file.open("ab") as file:
            file.write(encode_batch([Record(*data)], base_offset=log.end, control=True))
        log.end += 1

    log.write(records.NoOpRecord())
    elect(5)
    log.write(records.NoOpRecord())
    elect(6)
    log.write(records.NoOpRecord())
    assert [read_metadata(log.dirs, at).leader for at in range(6)] == [-1, -1, 5, 5, 6, 6]
    log.snapshot(5)  # none of them is behind it
    assert (read_metadata(log.dirs).leader, read_metadata(log.dirs).snapshot is None) == (6, False)


@pytest.mark.spark
def test_the_tables_are_dataframes_too(spark: Any, tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(*topic("orders", ORDERS), *topic("bills", BILLS, [7]))
    frame = spark.createDataFrame(metadata_tables(read_metadata(log.dirs))["partitions"])
    assert [row.topic for row in frame.where("array_contains(offline_replicas, 7)").collect()] == ["bills"]


def test_a_directory_without_the_log_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no folder __cluster_metadata-0"):
        read_metadata(LogDirs([str(tmp_path)]))


def test_any_records_lead_to_tables_or_a_typed_error(
    tmp_path: Path, any_metadata: Callable[[random.Random], list[TypedMessage]], scale: Callable[[int, int], int]
) -> None:
    replayed = 0
    for seed in range(scale(60, 2000)):
        rng = random.Random(seed)
        image = MetadataImage()
        for message in any_metadata(rng):
            try:
                image.apply(message)
            except ValueError:
                continue
            replayed += 1
        found = read_nothing()
        found.image = image
        for name, table in metadata_tables(found).items():
            table.validate(full=True)
            assert table.schema == SCHEMAS[name]
    assert replayed > 1000


@settings(max_examples=100)
@given(st.data())
def test_a_damaged_log_is_read_right_or_a_typed_error(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    log = Log(folder)
    log.write(*topic("orders", ORDERS), records.NoOpRecord())
    log.snapshot(3, *topic("orders", ORDERS))
    log.write(*topic("bills", BILLS))
    right = [[], ["orders"], ["bills", "orders"]]
    path = data.draw(st.sampled_from(sorted(log.folder.iterdir())))
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:at]
    else:
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    try:
        told: Any = log.names()
    except (KsegError, LogFileError) as error:
        told = str(error)
    shutil.rmtree(folder)
    assert str(log.folder) in told if isinstance(told, str) else told in right
