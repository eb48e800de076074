"""Each case reaches the same topic, as far away and as encrypted as it says. All of it lands in `test_measuring.py`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kseg.client.admin.topics import create_topic
from kseg.client.cluster.cluster import Cluster
from kseg.client.config import ClientConfig
from kseg.client.errors import KafkaError
from kseg.client.offsets import EARLIEST, list_offsets
from kseg.client.protocol.partition import TopicPartition
from kseg.jobs.bench import far
from kseg.jobs.bench.figures import OURS, TUNED, MeasuredRun
from kseg.jobs.bench.relay import Relay
from kseg.jobs.bench.workload import BenchTopic, client_config
from kseg.jobs.broker.process import EmbeddedKafka

TOPIC = "orders"


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> far.FarListeners:
    return far.FarListeners.make(tmp_path_factory.mktemp("far") / "certificates")


@pytest.fixture(scope="module")
def kafka(listeners: far.FarListeners) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(light=True, listeners=listeners.listeners) as started:
        with Cluster(client_config(started.bootstrap_servers)) as cluster:
            create_topic(cluster, TOPIC, partitions=1, replication_factor=1)
        yield started


@pytest.fixture(scope="module")
def between(kafka: EmbeddedKafka) -> Iterator[Relay]:
    with far.relay(kafka) as started:
        yield started


def seconds_to_ask(topic: BenchTopic) -> float:
    """For where the topic begins: the leader's address is the one that the listener advertises."""
    properties = {"bootstrap.servers": topic.servers, **topic.properties}
    began = time.monotonic()
    with Cluster(ClientConfig.from_properties(properties, client_id="test")) as cluster:
        place = TopicPartition(TOPIC, 0)
        assert list_offsets(cluster, {place: EARLIEST}, isolation_level="read_committed")[place].offset == 0
    return time.monotonic() - began


@pytest.mark.broker
@pytest.mark.parametrize("case", far.CASES)
def test_a_case_is_as_far_away_as_it_says(
    kafka: EmbeddedKafka, listeners: far.FarListeners, between: Relay, case: str
) -> None:
    topic = listeners.topic(kafka, BenchTopic(kafka.bootstrap_servers, TOPIC, 0, 1), case)
    between.take()
    taken = seconds_to_ask(topic)
    turns = between.take().turns
    if case in (far.LOCAL, far.TLS):
        assert turns == 0
    else:
        assert turns >= 3, "versions, metadata, offsets"
    if case in (far.FAR, far.FAR_TLS):
        assert taken >= turns * 2 * far.ONE_WAY


@pytest.mark.broker
@pytest.mark.parametrize("case", [far.TLS, far.FAR_TLS])
def test_a_case_with_tls_takes_no_plain_text(
    kafka: EmbeddedKafka, listeners: far.FarListeners, between: Relay, case: str
) -> None:
    topic = listeners.topic(kafka, BenchTopic(kafka.bootstrap_servers, TOPIC, 0, 1), case)
    with pytest.raises(KafkaError):
        seconds_to_ask(replace(topic, properties={}))


def test_ratios_are_those_of_median_times() -> None:
    seconds = {(OURS, far.LOCAL): [1.0, 9.0, 2.0], (TUNED, far.LOCAL): [8.0, 8.0, 8.0]}
    seconds |= {(OURS, case): [4.0, 4.0, 4.0] for case in far.CASES[1:]}
    seconds |= {(TUNED, case): [10.0, 10.0, 10.0] for case in far.CASES[1:]}
    runs = [
        MeasuredRun(way, case, number, 1000, taken, {"land": taken / 2} if way == OURS else {})
        for (way, case), all_of in seconds.items()
        for number, taken in enumerate(all_of, 1)
    ]
    found = far.figures(runs, {case: [30, 50, 40] for case in far.CASES})
    assert found["ratios"]["far"] == {"vs_spark_tuned": 2.5, "vs_local": 0.5, "spark_tuned_vs_its_local": 0.8}
    local, relay, *_ = found["cases"]
    assert (local["land_seconds"], local["other_seconds"], local.get("round_trips")) == (1.0, 1.0, None)
    assert relay["round_trips"] == 40
