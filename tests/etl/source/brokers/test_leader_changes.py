"""Logs' ends, asked for while their leader is killed: the epoch beside an end never ends below it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kseg.client import ClientConfig, Cluster, TopicPartition
from kseg.etl.source.brokers.logs import BrokerLogs
from kseg.etl.source.resolve import LogBounds

pytestmark = pytest.mark.broker


@contextmanager
def written_to(servers: str, topic: str, pause: float) -> Iterator[None]:
    """Records, steadily, as long as this lasts. pause: between two of them, in seconds."""
    stop = threading.Event()
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 1, "topic.metadata.refresh.interval.ms": 300, "log_level": 0}
    )

    def write() -> None:
        while not stop.is_set():
            producer.produce(topic, b"x" * 50, partition=0)
            producer.poll(0)
            time.sleep(pause)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        assert producer.flush(60) == 0


def look(config: ClientConfig, tp: TopicPartition) -> LogBounds:
    with Cluster(config) as cluster:
        logs = BrokerLogs(cluster)
        return logs.bounds(logs.topics(topics=[tp.topic]))[tp]


def test_the_epoch_beside_an_end_is_the_one_that_it_was_answered_in(kafka3: Any, scale: Any) -> None:
    admin = AdminClient({"bootstrap.servers": kafka3.bootstrap_servers, "log_level": 0})
    name = f"leader-changes-{time.time_ns()}"
    admin.create_topics([NewTopic(name, 1, 3)], operation_timeout=60)[name].result(60)
    tp = TopicPartition(name, 0)
    config = ClientConfig.from_properties({"bootstrap.servers": kafka3.bootstrap_servers}, client_id="kseg-test")
    looks: list[LogBounds] = []
    with written_to(kafka3.bootstrap_servers, name, scale(0.01, 0.002)):
        for _ in range(scale(1, 5)):
            before = look(config, tp).leader_epoch
            deadline = time.monotonic() + 240
            while not looks or looks[-1].leader_epoch <= before:
                assert time.monotonic() < deadline, f"the leader of epoch {before} does not change"
                # An election can come between this answer and the kill: then the next leader is killed.
                leader = admin.list_topics(name, timeout=60).topics[name].partitions[0].leader
                killer = threading.Timer(0.3, kafka3.broker.kill, [leader])
                killer.start()
                for _ in range(10):
                    looks.append(look(config, tp))
                    time.sleep(0.1)
                killer.join()
                looks.append(look(config, tp))
                kafka3.broker.restart(leader)
    with Cluster(config) as cluster:
        logs = BrokerLogs(cluster)
        for epoch in {look.leader_epoch for look in looks} - {looks[-1].leader_epoch}:
            end = logs.ends_of_epochs({tp: epoch})[tp]
            assert end >= max(look.high_watermark for look in looks if look.leader_epoch == epoch)
