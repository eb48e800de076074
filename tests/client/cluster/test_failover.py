"""Three real brokers, of which leaders and coordinators die: reads and commits go on."""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import Any

import pytest

from kseg.client import (
    LATEST,
    CommittedOffset,
    PartitionReader,
    TopicPartition,
    Transaction,
    committed_offsets,
    describe_group,
    list_groups,
    list_offsets,
)
from kseg.client.admin.log_dirs import describe_log_dirs
from kseg.client.admin.placement import alter_reassignments, elect_leaders
from kseg.client.admin.topics import NewTopic, create_topics
from kseg.client.wire.trace import TRAFFIC
from kseg.segment_reader.decode.next_offset import next_offset
from kseg.segment_reader.encode.batches import Record
from sending import send_to


@pytest.mark.rule(44, 162, 163)
def test_a_reader_reads_in_its_own_rack_and_from_the_leader_when_that_replica_dies(kafka3: Any, connect: Any):
    cluster = connect(kafka3.bootstrap_servers)
    tp = TopicPartition(f"racks-{uuid.uuid4()}", 0)
    create_topics(cluster, [NewTopic(tp.topic, partitions=1, replication_factor=3)]).or_raise()

    def produce() -> None:
        send_to(cluster, {tp: [Record(value=b"v" * 100, timestamp=int(time.time() * 1000))] * 50})

    produce()
    leader = cluster.metadata([tp.topic]).topics[tp.topic].partitions[0].leader_id
    racks = {node: broker.rack for node, broker in cluster.metadata([]).brokers.items()}
    assert racks == {1: "rack-1", 2: "rack-2", 3: "rack-3"}
    follower = next(node for node in racks if node != leader)

    def read(reader: PartitionReader, start: int, end: int) -> None:
        offset, until = start, time.monotonic() + 60
        while offset < end:
            assert time.monotonic() < until
            reader.request(offset)
            offset = next_offset(reader.response().records, offset)

    for node in racks:
        near = connect(kafka3.bootstrap_servers, client_rack=racks[node])
        with PartitionReader(near, tp, isolation_level="read_committed") as reader:
            read(reader, 0, 50)
            assert reader.replica == (None if node == leader else node)

    near = connect(kafka3.bootstrap_servers, client_rack=racks[follower])
    with PartitionReader(near, tp, isolation_level="read_committed") as reader:
        read(reader, 0, 50)
        assert reader.replica == follower
        kafka3.broker.kill(follower)
        produce()
        read(reader, 50, 100)
        assert reader.replica is None
    # A reader that comes now hears of no replica in its rack, once the cluster has noticed.
    with PartitionReader(
        connect(kafka3.bootstrap_servers, client_rack=racks[follower]), tp, isolation_level="read_committed"
    ) as reader:
        read(reader, 0, 100)
        assert reader.replica is None


def test_a_leader_that_moves_is_followed_by_what_the_old_one_answers(kafka3: Any, connect: Any):
    """KIP-951: the answer names the new leader and where it listens, so nobody asks for metadata."""
    cluster = connect(kafka3.bootstrap_servers)
    tp = TopicPartition(f"moving-{uuid.uuid4()}", 0)
    create_topics(cluster, [NewTopic(tp.topic, assignments=[[1, 2, 3]])]).or_raise()
    send_to(cluster, {tp: [Record(value=b"v", timestamp=int(time.time() * 1000))] * 10})
    administrator = connect(kafka3.bootstrap_servers)

    def metadata_requests() -> int:
        return sum(tally.requests for (_, api, _), tally in TRAFFIC.snapshot().items() if api == "Metadata")

    with PartitionReader(cluster, tp, isolation_level="read_committed") as reader:
        reader.request(0)
        assert next_offset(reader.response().records, 0) == 10
        for leader, replicas in ((2, [2, 3, 1]), (3, [3, 1, 2])):
            alter_reassignments(administrator, {tp: replicas}).or_raise()
            elect_leaders(administrator, "preferred", [tp]).or_raise()
            until = time.monotonic() + 120
            while administrator.metadata([tp.topic], refresh=True).topics[tp.topic].partitions[0].leader_id != leader:
                assert time.monotonic() < until
                time.sleep(0.1)
            asked = metadata_requests()
            while cluster.retry(lambda deadline: cluster.leader(tp, deadline)).broker.node_id != leader:
                assert time.monotonic() < until  # the old leader serves until it has heard that it is none any more
                reader.request(0, last=True)
                # A new leader may answer before its high watermark has caught up: with nothing, then.
                assert next_offset(reader.response().records, 0) in (0, 10)
            assert metadata_requests() == asked
    send_to(cluster, {tp: [Record(value=b"w", timestamp=int(time.time() * 1000))]})


@pytest.mark.rule(262)
def test_reads_and_commits_go_on_when_a_leader_dies(kafka3: Any, connect: Any):
    cluster = connect(kafka3.bootstrap_servers)
    topic, group = f"failover-{uuid.uuid4()}", f"group-{uuid.uuid4()}"
    create_topics(cluster, [NewTopic(topic, partitions=6, replication_factor=3)]).or_raise()
    partitions = [TopicPartition(topic, number) for number in range(6)]
    send_to(cluster, {tp: [Record(value=b"v" * 100, timestamp=int(time.time() * 1000))] * 50 for tp in partitions})

    metadata = cluster.metadata([topic])
    leaders = {tp: metadata.topics[topic].partitions[tp.partition].leader_id for tp in partitions}
    assert len(metadata.brokers) == 3
    assert set(leaders.values()) == {1, 2, 3}
    assert set(describe_log_dirs(cluster, partitions).or_raise()) == {1, 2, 3}
    assert set(list_offsets(cluster, dict.fromkeys(partitions, LATEST), isolation_level="read_committed")) == {
        *partitions
    }

    with contextlib.ExitStack() as readers_open:
        readers = {
            tp: readers_open.enter_context(PartitionReader(cluster, tp, isolation_level="read_committed", max_bytes=1))
            for tp in partitions
        }
        for reader in readers.values():
            reader.request(0)
            assert next_offset(reader.response().records, 0) == 50
        send_to(cluster, {tp: [Record(value=b"w", timestamp=int(time.time() * 1000))] for tp in partitions})
        with Transaction(cluster, topic, timeout_ms=600_000) as transaction:
            transaction.begin()
            transaction.commit_offsets(group, dict.fromkeys(partitions, CommittedOffset(50, 0)))

            victim = leaders[partitions[0]]
            kafka3.broker.kill(victim)
            for tp, reader in readers.items():
                reader.request(50, last=True)
                offset = 50
                while offset == 50:  # a new leader may answer before its high watermark has caught up
                    offset = next_offset(reader.response().records, 50)
                    if offset == 50:
                        reader.request(50, last=True)
                assert offset == 51, tp
            transaction.commit()
    assert committed_offsets(cluster, group, partitions) == dict.fromkeys(partitions, CommittedOffset(50, 0))
    until = time.monotonic() + 120
    while True:  # the broker that answers may have heard of some moves later than the new leaders
        after = cluster.metadata([topic], refresh=True).topics[topic].partitions
        if victim not in {partition.leader_id for partition in after.values()}:
            break
        assert time.monotonic() < until
        time.sleep(0.1)
    assert after[0].leader_epoch > 0
    assert describe_group(cluster, group).state == "Empty"
    assert group in {listed.group for groups in list_groups(cluster).done().values() for listed in groups}
