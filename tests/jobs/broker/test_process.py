"""The embedded broker starts, answers, survives its nodes, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from kseg.jobs.broker.errors import StartFailed
from kseg.jobs.broker.ports import is_free
from kseg.jobs.broker.probe import live_brokers
from kseg.jobs.broker.process import EmbeddedKafka
from kseg.jobs.broker.properties import EmbeddedNode
from skips import full_scale_only

pytestmark = pytest.mark.broker


def _produce(servers: str, topic: str, value: bytes, **config: Any) -> None:
    from confluent_kafka import Producer

    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": servers, **config})
    producer.produce(topic, value=value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(200) == 0
    assert errors == [None]


def _consume(servers: str, topic: str, count: int) -> list[bytes | None]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes | None] = []
    deadline = time.monotonic() + 120
    while len(values) < count and time.monotonic() < deadline:
        # Beside records there are errors that pass: of a leader that is about to change.
        values += [message.value() for message in consumer.consume(count, 1) if message.error() is None]
    consumer.close()
    return values


def _create(servers: str, topic: str, *, replicas: int) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=replicas)]).values():
        created.result(60)


def _gone(pid: int, *, within: float = 120) -> bool:
    deadline = time.monotonic() + within
    try:
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
    except psutil.NoSuchProcess:
        pass
    return True


def test_a_later_node_that_ends_is_noticed_while_the_first_one_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program took its port: all start again."""
    brokers = EmbeddedKafka(tmp_path, nodes=2)
    started: list[int] = []

    def launch(node: EmbeddedNode) -> None:
        started.append(node.id)
        script = "exec sleep 600" if node.id == 1 else "echo java.net.BindException: Address already in use; exit 1"
        brokers._launch(node.id, ["/bin/sh", "-c", script], log_file=node.log_file)

    monkeypatch.setattr(brokers, "_launch_node", launch)
    monkeypatch.setattr(brokers, "_format", lambda nodes: None)
    with pytest.raises(StartFailed, match="Node 2 ended during its start"):
        brokers.start()
    assert started == [1, 2] * 3


def test_a_record_comes_back_and_lies_in_the_segment(kafka: Any) -> None:
    topic = kafka.topic()
    _produce(kafka.bootstrap_servers, topic, b"v")
    assert _consume(kafka.bootstrap_servers, topic, 1) == [b"v"]
    assert (kafka.log_dirs[0] / f"{topic}-0" / "00000000000000000000.log").stat().st_size > 0


def test_it_listens_on_loopback_only(kafka: Any) -> None:
    (pid,) = kafka.broker.pids.values()
    listening = [c.laddr.ip for c in psutil.Process(pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert len(listening) == 2
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_topics_and_ports_outlive_a_stop(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path, features={"transaction.version": 1}, light=True) as kafka:
        first = kafka.bootstrap_servers
        _create(first, "kept", replicas=1)
        _produce(first, "kept", b"before")
        pid = kafka.pids[1]
    assert _gone(pid)
    assert "name='transaction.version', featureLevel=1" in (tmp_path / "node-1" / "broker.log").read_text()
    with EmbeddedKafka(tmp_path, light=True) as kafka:
        assert kafka.bootstrap_servers == first
        assert _consume(first, "kept", 1) == [b"before"]


def test_a_node_that_cannot_start_tells_why_and_leaves_no_process(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.raises(StartFailed, match=r"compression\.type") as failure:
        EmbeddedKafka(tmp_path, config={"compression.type": "shrink"}).start()
    assert "broker.log" in str(failure.value)
    # Fewer may be left: Spark, if a test before has started it, ends workers that have nothing to do.
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_neither_process_nor_files_stay_when_the_parent_goes(tmp_path: Path, how: signal.Signals) -> None:
    program = """
        import signal, time
        from kseg.jobs.broker.process import EmbeddedKafka
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        with EmbeddedKafka(light=True) as kafka:
            print(kafka.pids[1], flush=True)
            time.sleep(600)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    os.kill(parent.pid, how)
    parent.wait(200)
    parent.stdout.close()
    assert _gone(pid)
    deadline = time.monotonic() + 120
    while any(child.name.startswith("kseg-kafka-") for child in tmp_path.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.rule(262)
@pytest.mark.slow
@full_scale_only
def test_three_nodes_go_on_without_one(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path, nodes=3, light=True) as kafka:
        assert len(kafka.log_dirs) == len(kafka.pids) == 3
        assert all(live_brokers(node.port) == frozenset({1, 2, 3}) for node in kafka.nodes)
        servers = kafka.bootstrap_servers
        _create(servers, "spread", replicas=3)
        _produce(servers, "spread", b"by three", acks="all")
        kafka.kill(2)
        assert sorted(kafka.pids) == [1, 3]
        _produce(servers, "spread", b"by two", acks="all")
        assert not is_free(kafka.nodes[0].port)
        kafka.restart(2)
        assert sorted(kafka.pids) == [1, 2, 3]
        assert all(live_brokers(node.port) == frozenset({1, 2, 3}) for node in kafka.nodes)
        assert kafka.bootstrap_servers == servers
        _produce(servers, "spread", b"by three again", acks="all")
        assert _consume(servers, "spread", 3) == [b"by three", b"by two", b"by three again"]
