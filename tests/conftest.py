"""What all tests share: a real Kafka, a real Spark, and how much is tried.

``KSEG_TEST_SCALE=full`` (``make test-full``) runs the full counts; unset, the reduced ones.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from jobs.broker import EmbeddedKafka, JarsUnavailable, jars
from jobs.broker.java import use_java
from jobs.broker.releases import OtherKafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

FULL = os.environ.get("KSEG_TEST_SCALE") == "full"
ROOT = Path(__file__).parent.parent

_slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("reduced", max_examples=50, derandomize=True, deadline=None, suppress_health_check=_slow)
settings.register_profile("full", max_examples=1000, deadline=None, suppress_health_check=_slow)
settings.load_profile("full" if FULL else "reduced")


@pytest.fixture(scope="session")
def scale() -> Callable[[T, T], T]:
    """``scale(reduced, full)`` returns the one that this run is for."""
    return lambda reduced, full: full if FULL else reduced


class TestKafka:
    """The tests' shared broker: one node with every default of the release, started when it is first asked for."""

    __test__ = False

    def __init__(self, broker: EmbeddedKafka | OtherKafka) -> None:
        self.broker = broker
        self.version = broker.version
        self._numbers = itertools.count(1)

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        return self.broker.log_dirs

    def topic(self, partitions: int = 1, config: Mapping[str, str] | None = None, *, prefix: str = "topic") -> str:
        """Create a topic with a name that no other test has, and wait until its leaders answer; returns the name."""
        name = f"{prefix}-{os.getpid()}-{next(self._numbers)}"
        if isinstance(self.broker, OtherKafka) and self.broker.zookeeper_port is not None:
            self.broker.create_topic(name, partitions, config)
        else:
            self._create(name, partitions, config)
        return name

    def _create(self, name: str, partitions: int, config: Mapping[str, str] | None) -> None:
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import AdminClient, OffsetSpec
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        for created in admin.create_topics([new], operation_timeout=30).values():
            created.result(timeout=60)
        deadline = time.monotonic() + 60
        for number in range(partitions):
            place = TopicPartition(name, number)
            while True:
                try:
                    # A broker may be told that it leads a moment after the topic is there for all others.
                    admin.list_offsets({place: OffsetSpec.latest()}, request_timeout=10)[place].result(timeout=20)
                    break
                except KafkaException:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)


@pytest.fixture(scope="session")
def kafka() -> Iterator[TestKafka]:
    """A real single-node Kafka: ``bootstrap_servers``, ``log_dirs``, ``topic(partitions, config)``."""
    with EmbeddedKafka(light=True) as broker:
        yield TestKafka(broker)


@pytest.fixture(scope="session")
def kafka_release() -> Iterator[Callable[[str], TestKafka]]:
    """``kafka_release("0.10.2.2")``: a node of another release (`jobs.broker.releases`), shared like ``kafka``.

    Two at most run at a time: asking for a third stops the one that was not asked for the longest, with its data. So
    ask again in each test rather than keep what was given.
    """
    running: dict[str, TestKafka] = {}

    def ask(version: str) -> TestKafka:
        if version not in running:
            while len(running) > 1:
                running.pop(next(iter(running))).broker.stop()
            try:
                started = TestKafka(OtherKafka(version).start())
            except JarsUnavailable as error:
                pytest.skip(str(error))
        else:
            started = running.pop(version)
        running[version] = started
        return started

    yield ask
    for release in running.values():
        release.broker.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark session with Delta; its workers run this interpreter and find this project's packages."""
    from pyspark.sql import SparkSession

    use_java()
    # Read when the session starts; the setting spark.pyspark.python counts for spark-submit only.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.master": "local[2]",
        "spark.app.name": "tests",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": jars.class_path(jars.DELTA),
        "spark.driver.memory": "2g",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
    }
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
