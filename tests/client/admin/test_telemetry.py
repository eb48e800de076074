"""Metrics that a client pushes arrive at the broker's plugin, byte for byte (KIP-714)."""

from __future__ import annotations

import base64
import gzip
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from java_programs import SHORT_LIVED
from kseg.client import Cluster
from kseg.client.admin.telemetry import push_telemetry, telemetry_subscription
from kseg.client.cluster.metadata import NO_ID
from kseg.client.errors import KafkaError
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.configs import IncrementalAlterConfigsRequest
from kseg.jobs.broker import jars
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.process import EmbeddedKafka

pytestmark = pytest.mark.broker

CLIENT_METRICS = 16
GZIP = 1
SOURCE = Path(__file__).with_name("TelemetryTaker.java")


def plugin(folder: Path) -> Path:
    """The plugin as a jar that a JVM takes as an agent, and so onto its class path."""
    compiler = [find_java().command, *SHORT_LIVED, "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    compiler += ["-cp", jars.class_path(jars.KAFKA)]
    subprocess.run([*compiler, "-d", str(folder), str(SOURCE)], check=True, timeout=300)
    jar = folder / "taker.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Premain-Class: TelemetryTaker\n")
        for compiled in folder.glob("*.class"):
            archive.write(compiled, compiled.name)
    return jar


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("telemetry") / "taken"


@pytest.fixture(scope="module")
def taker(taken: Path) -> Iterator[EmbeddedKafka]:
    """A broker that takes clients' metrics, and writes them into a file."""
    options = [f"-javaagent:{plugin(taken.parent)}", f"-Dtaken={taken}"]
    with EmbeddedKafka(light=True, jvm=options, config={"metric.reporters": "TelemetryTaker"}) as broker:
        yield broker


def subscribe(cluster: Cluster, **settings: str) -> None:
    """Have the cluster want metrics of all clients."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=CLIENT_METRICS,
        resource_name="all",
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=name.replace("_", "."), value=value)
            for name, value in settings.items()
        ],
    )
    (answer,) = cluster.send(IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert answer.error_code == 0, answer.error_message


def eventually(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 120
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


def test_what_the_cluster_wants_is_told_and_what_is_pushed_arrives(
    taker: EmbeddedKafka, taken: Path, connect: Callable[..., Cluster]
) -> None:
    cluster = connect(taker.bootstrap_servers)
    nothing = telemetry_subscription(cluster)
    assert (nothing.client_instance_id == NO_ID, nothing.metrics) == (False, ())

    subscribe(cluster, metrics="org.apache.kafka.consumer.", interval_ms="100")
    wanted = eventually(lambda: (told := telemetry_subscription(cluster)).metrics and told)
    assert wanted.metrics == ("org.apache.kafka.consumer.",)
    assert wanted.push_interval_ms == 100
    assert GZIP in wanted.compressions
    assert wanted.client_instance_id not in (NO_ID, nothing.client_instance_id)

    metrics = b"\x0a\x05bytes of a MetricsData"
    push_telemetry(cluster, wanted, metrics)
    time.sleep(0.2)  # sooner than the interval, a push is refused
    push_telemetry(cluster, wanted, gzip.compress(metrics * 2), compression=GZIP, terminating=True)
    lines = eventually(lambda: len(found := taken.read_text().splitlines()) == 2 and found)
    shown = base64.urlsafe_b64encode(wanted.client_instance_id.bytes).decode().rstrip("=")
    assert [line.split() for line in lines] == [
        [shown, "false", metrics.hex()],
        [shown, "true", (metrics * 2).hex()],
    ]


def test_a_subscription_that_has_changed_is_told(taker: EmbeddedKafka, connect: Callable[..., Cluster]) -> None:
    cluster = connect(taker.bootstrap_servers)
    old = telemetry_subscription(cluster)
    subscribe(cluster, metrics="org.apache.kafka.producer.", interval_ms="100")
    eventually(lambda: telemetry_subscription(cluster).subscription_id != old.subscription_id)
    time.sleep(0.2)
    with pytest.raises(KafkaError) as caught:
        push_telemetry(cluster, old, b"metrics")
    assert caught.value.code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID  # type: ignore[attr-defined]
