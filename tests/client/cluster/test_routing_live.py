"""Quotas, sizes, controllers and order of real brokers."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kseg.client import BrokerUnavailable, PartitionReader, TopicPartition, UnsupportedVersion, list_groups
from kseg.client.admin.quotas import alter_quotas, describe_quotas, quota_entity
from kseg.client.admin.topics import NewTopic, create_topics
from kseg.client.producer import produce
from kseg.client.protocol.messages.configs import DescribeConfigsRequest
from kseg.client.protocol.messages.fetch import FetchRequest
from kseg.client.protocol.messages.groups import ListGroupsRequest
from kseg.client.protocol.messages.metadata import DescribeClusterRequest
from kseg.client.protocol.messages.produce import ProduceRequest
from kseg.client.protocol.messages.quorum_voters import DescribeQuorumRequest
from kseg.client.protocol.messages.topics import CreateTopicsRequest
from kseg.client.retry import Deadline
from kseg.client.wire.trace import TRAFFIC
from kseg.segment_reader.encode.batches import Record, encode_batch
from sending import producer_on, send_batches


def now() -> int:
    return int(time.time() * 1000)


def fill(cluster: Any, tp: TopicPartition, batches: int, size: int = 100_000) -> None:
    with producer_on(cluster) as producer:
        for _ in range(batches):
            send_batches(producer, {tp: [Record(value=b"v" * size, timestamp=now())]})


def throttled_ms(api: str) -> int:
    return sum(tally.throttled_ms for (_, name, _), tally in TRAFFIC.snapshot().items() if name == api)


@pytest.fixture
def slow(kafka: Any, connect: Any) -> Iterator[tuple[Any, TopicPartition]]:
    """A client that may read 100 kB a second, and a partition with 1.5 MB in batches of 100 kB.

    A broker takes the mean of ten seconds, so the eleventh batch is one too many, by a second.
    """
    tp = TopicPartition(kafka.topic(), 0)
    plain = connect(kafka.bootstrap_servers)
    fill(plain, tp, 15)
    client_id = f"slow-{uuid.uuid4()}"
    entity = quota_entity(client_id=client_id)
    alter_quotas(plain, {entity: {"consumer_byte_rate": 100_000.0}}).or_raise()
    until = time.monotonic() + 60
    while not describe_quotas(plain, {"client-id": client_id}):
        assert time.monotonic() < until
        time.sleep(0.05)
    yield connect(kafka.bootstrap_servers, client_id), tp
    alter_quotas(plain, {entity: {"consumer_byte_rate": None}}).or_raise()


@pytest.mark.rule(265)
def test_over_its_quota_a_client_waits_as_long_as_the_broker_says_on_every_connection_to_it(slow: Any):
    cluster, tp = slow
    broker = next(iter(cluster.metadata([]).brokers.values()))
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(max_wait_ms=100, topics=[FetchRequest.FetchTopic(topic=tp.topic, partitions=[partition])])
    until, told = time.monotonic() + 60, 0
    with cluster.retry(lambda deadline: cluster.open_connection(broker, deadline)) as connection:
        while not told:
            started = time.monotonic()
            assert started < until
            told = connection.call(request, 12, deadline=Deadline.after(30)).throttle_time_ms
        cluster.metadata([], refresh=True)  # over another connection, and nothing that the quota counts
    assert time.monotonic() - started >= told / 1000


@pytest.mark.rule(171)
def test_a_throttled_reader_gets_everything_and_tells_how_long_it_had_to_wait(slow: Any):
    cluster, tp = slow
    before = throttled_ms("Fetch")
    started = time.monotonic()
    told = offset = 0
    with PartitionReader(cluster, tp, isolation_level="read_committed", max_bytes=100_000) as reader:
        while offset < 12:
            reader.request(offset)
            answer = reader.response()
            assert len(answer.records) > 100_000
            offset += 1
            told += answer.throttle_time_ms
    assert 500 < told <= (time.monotonic() - started) * 1000
    assert throttled_ms("Fetch") - before == told


@pytest.mark.rule(15)
def test_a_request_above_the_brokers_limit_ends_the_connection_and_the_error_says_why(kafka3: Any, connect: Any):
    cluster = connect(kafka3.bootstrap_servers)
    connection = cluster.retry(cluster.any_connection)
    data = ProduceRequest.PartitionProduceData(index=0, records=b"x" * 21_000_000)
    request = ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[data])])
    with pytest.raises(BrokerUnavailable, match=r"Produce v9 \(2100\d+ bytes\).*socket\.request\.max\.bytes"):
        connection.call(request, 9, deadline=Deadline.after(20))
    assert cluster.metadata([], refresh=True).brokers  # the broker goes on


@pytest.mark.rule(14)
def test_a_produce_without_acks_is_written_and_the_connection_stays_in_order(cluster: Any, kafka: Any):

    topic = kafka.topic()
    connection = cluster.retry(cluster.any_connection)
    batch = encode_batch([Record(value=b"silent", timestamp=now())])
    data = ProduceRequest.PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(acks=0, topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])])
    assert connection.call(request, 9, deadline=Deadline.after(10)) is None
    assert connection.call(ListGroupsRequest(), 4, deadline=Deadline.after(10)).error_code == 0
    with PartitionReader(cluster, TopicPartition(topic, 0), isolation_level="read_committed") as reader:
        reader.request(0)
        assert b"silent" in bytes(reader.response().records)


@pytest.mark.rule(11)
def test_a_connections_answers_come_in_order_and_a_long_poll_holds_up_what_follows(cluster: Any, kafka: Any):
    """Which is why fetches and coordinators have connections of their own."""
    topic = kafka.topic()
    topic_id = cluster.metadata([topic]).topics[topic].topic_id
    broker = next(iter(cluster.metadata([]).brokers.values()))
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchRequest.FetchTopic(topic_id=topic_id, partitions=[partition])]
    long_poll, longer = (FetchRequest(max_wait_ms=ms, min_bytes=1, topics=topics) for ms in (3000, 30_000))
    with cluster.retry(lambda deadline: cluster.open_connection(broker, deadline)) as connection:
        started = time.monotonic()
        connection.send(long_poll, 13, deadline=Deadline.after(10))
        connection.send(ListGroupsRequest(), 4, deadline=Deadline.after(10))
        assert connection.in_flight == 2
        assert connection.receive(deadline=Deadline.after(10)).responses
        assert time.monotonic() - started > 2.5
        assert connection.receive(deadline=Deadline.after(10)).error_code == 0
        started = time.monotonic()
        waiting = threading.Thread(target=lambda: connection.send(longer, 13, deadline=Deadline.after(10)))
        waiting.start()
        list_groups(cluster)
        assert time.monotonic() - started < 20
        waiting.join()


@pytest.mark.rule(153, 154)
def test_partitions_are_served_in_the_order_given_and_the_first_batch_comes_whole(cluster: Any):
    topic = f"order-{uuid.uuid4()}"
    create_topics(cluster, [NewTopic(topic, partitions=3, replication_factor=1)]).or_raise()
    for number in range(3):
        fill(cluster, TopicPartition(topic, number), 1, size=5000)
    topic_id = cluster.metadata([topic]).topics[topic].topic_id
    connection = cluster.retry(cluster.any_connection)
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        asked = [FetchRequest.FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=100) for n in order]
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1000,
            topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=asked)],
        )
        [answered] = connection.call(request, 13, deadline=Deadline.after(10)).responses
        sizes = {p.partition_index: len(p.records or b"") for p in answered.partitions}
        assert sizes[order[0]] > 5000  # above both limits: they are soft for the first one
        assert sizes[order[1]] == sizes[order[2]] == 0


@pytest.mark.rule(155)
def test_administrators_may_read_as_if_they_were_a_replica(cluster: Any, kafka: Any):
    """replica_id -2 is for debugging (`kseg api call`): the readers of this client never use it."""
    topic = kafka.topic()
    fill(cluster, TopicPartition(topic, 0), 1, size=100)
    connection = cluster.retry(cluster.any_connection)
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(
        replica_id=-2, max_wait_ms=100, topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])]
    )
    [answered] = connection.call(request, 12, deadline=Deadline.after(10)).responses
    assert len(answered.partitions[0].records or b"") > 100


@pytest.mark.rule(233)
def test_a_batch_without_a_producer_id_is_appended_each_time(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    batch = encode_batch([Record(value=b"v", timestamp=now())])
    assert produce(cluster, {tp: batch})[tp].base_offset == 0
    assert produce(cluster, {tp: batch})[tp].base_offset == 1


# -- controllers


@pytest.mark.rule(253)
def test_the_real_controllers_are_asked_directly(kafka: Any, connect: Any):
    [node] = kafka.broker.nodes
    controllers = connect("", bootstrap_controllers=f"127.0.0.1:{node.controller_port}")
    told = controllers.metadata([])
    assert list(told.brokers) == [told.controller_id] == [1]
    assert told.brokers[1].port == node.controller_port
    quorum = controllers.send(
        DescribeQuorumRequest(
            topics=[
                DescribeQuorumRequest.TopicData(
                    topic_name="__cluster_metadata", partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)]
                )
            ]
        ),
        controller=True,
    )
    assert quorum.error_code == 0
    assert quorum.topics[0].partitions[0].leader_id == 1
    name = f"by-controller-{uuid.uuid4()}"
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    made = controllers.send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), controller=True)
    assert made.topics[0].error_code == 0
    with pytest.raises(UnsupportedVersion):
        controllers.send(ListGroupsRequest())
    with pytest.raises(UnsupportedVersion, match=r"bootstrap\.servers"):
        controllers.metadata([name])


def test_controllers_of_a_quorum_are_all_found_from_one(kafka3: Any, connect: Any):
    ports = {node.id: node.controller_port for node in kafka3.broker.nodes}
    controllers = connect("", bootstrap_controllers=f"127.0.0.1:{ports[1]}")
    told = controllers.metadata([])
    assert {number: broker.port for number, broker in told.brokers.items()} == ports
    assert told.controller_id in ports
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=4, resource_name="2", configuration_keys=["node.id"]
    )
    answer = controllers.send(DescribeConfigsRequest(resources=[resource]), broker=2)
    assert [(entry.name, entry.value) for entry in answer.results[0].configs] == [("node.id", "2")]
    assert controllers.send(DescribeClusterRequest(endpoint_type=2), broker=3).controller_id == told.controller_id


def test_a_real_broker_says_that_it_is_no_controller(kafka: Any, connect: Any):
    with pytest.raises(Exception, match="MISMATCHED_ENDPOINT_TYPE"):
        connect("", bootstrap_controllers=kafka.bootstrap_servers).metadata([])
