"""A real broker whose tiered storage is slow answers empty, without an error: nothing is absent for it."""

from __future__ import annotations

import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from java_programs import SHORT_LIVED
from kseg.client import ClientConfig, Cluster, TopicPartition
from kseg.client.fetch.partition_reader import PartitionReader
from kseg.client.offsets import EARLIEST_LOCAL, list_offsets
from kseg.etl.errors import ExitCode
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import NoProgress
from kseg.etl.source.reader import RangeReader
from kseg.etl.source.tasks import RangeTask
from kseg.jobs.broker import jars
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.process import EmbeddedKafka
from skips import full_scale_only

pytestmark = [pytest.mark.broker, full_scale_only]

SOURCE = Path(__file__).with_name("SlowStorage.java")
TOPIC, ROUNDS, RECORDS = "tiered", 4, 50
TP = TopicPartition(TOPIC, 0)
TIERED = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "SlowStorage",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "remote.fetch.max.wait.ms": "300",
}


def plugin(folder: Path) -> Path:
    """The storage as a jar that a JVM takes as an agent, and so onto its class path."""
    compiler = [find_java().command, *SHORT_LIVED, "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    compiler += ["-cp", jars.class_path(jars.KAFKA)]
    subprocess.run([*compiler, "-d", str(folder), str(SOURCE)], check=True, timeout=300)
    jar = folder / "storage.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Premain-Class: SlowStorage\n")
        for compiled in folder.glob("*.class"):
            archive.write(compiled, compiled.name)
    return jar


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file is there, a remote read takes longer than the broker waits for one."""
    return tmp_path_factory.mktemp("tiered") / "slow"


@pytest.fixture(scope="module")
def config(slow: Path) -> Iterator[ClientConfig]:
    """Of a broker with a topic that has most of its segments in tiered storage alone."""
    options = [f"-javaagent:{plugin(slow.parent)}", f"-Dslow={slow}"]
    with EmbeddedKafka(light=True, jvm=options, config=TIERED) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        settings = {"remote.storage.enable": "true", "local.retention.ms": "100", "segment.ms": "100"}
        for created in admin.create_topics([NewTopic(TOPIC, 1, 1, config=settings)]).values():
            created.result(60)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for _ in range(ROUNDS):
            for _ in range(RECORDS):
                producer.produce(TOPIC, value=b"v" * 100)
            assert producer.flush(60) == 0
            time.sleep(0.3)
        properties = {"bootstrap.servers": broker.bootstrap_servers, "default.api.timeout.ms": "5000"}
        config = ClientConfig.from_properties(properties, client_id="kseg-test")
        with Cluster(config) as cluster:
            deadline = time.monotonic() + 120
            while local_start(cluster) < (ROUNDS - 1) * RECORDS:
                assert time.monotonic() < deadline, "the broker has moved nothing"
                time.sleep(0.3)
        yield config


def local_start(cluster: Cluster) -> int:
    return list_offsets(cluster, {TP: EARLIEST_LOCAL}, isolation_level="read_uncommitted")[TP].offset


def read(config: ClientConfig) -> Any:
    reader = RangeReader(RangeTask(TOPIC, 0, 0, ROUNDS * RECORDS), config, DecodeOptions())
    rows = sum(batch.num_rows for batch in reader)
    assert reader.result.accounted
    return rows, reader.result.absent


def test_a_remote_read_that_expires_leaves_nothing_out(config: ClientConfig, slow: Path) -> None:
    slow.touch()
    try:
        with Cluster(config) as cluster, PartitionReader(cluster, TP, isolation_level="read_committed") as reader:
            reader.request(0)
            answer = reader.response()
        assert (len(answer.records), answer.high_watermark, answer.log_start_offset) == (0, ROUNDS * RECORDS, 0)
        with pytest.raises(NoProgress) as caught:
            read(config)
        assert caught.value.exit_code is ExitCode.RETRIABLE
        assert caught.value.address == {"topic": TOPIC, "partition": 0, "offset": 0}
    finally:
        slow.unlink()
    assert read(config) == (ROUNDS * RECORDS, 0)
