"""`kseg peek` on a real broker and its files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from kseg.client.producer import KafkaProducer
from kseg.jobs.cli import cli

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def filled(kafka: Any) -> str:
    """Two partitions: 20 records in the first, aborted ones behind them; one younger record in the second."""
    topic: str = kafka.topic(2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(20):
        producer.produce(topic, f"v{number}".encode(), b"k", partition=0, timestamp=1767225600000 + number)
    producer.produce(topic, b"\xff\x1b", partition=1, timestamp=1767225700000)
    assert producer.flush(60) == 0
    aborting = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"{topic}-aborts"})
    aborting.init_transactions(60)
    aborting.begin_transaction()
    for _ in range(30):
        aborting.produce(topic, b"aborted", partition=0)
    aborting.flush(60)
    aborting.abort_transaction(60)
    return topic


def peek(kafka: Any, *args: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, ["peek", "--bootstrap", kafka.bootstrap_servers, "--json", *args])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def values(rows: list[dict[str, Any]]) -> list[str]:
    return [row.get("value") or row["valueBase64"] for row in rows]


def test_a_header_name_that_is_not_utf8_ends_nothing(kafka: Any) -> None:
    topic = kafka.topic(1)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for name in (b"ok", b"caf\xe9", b"ok"):
            producer.send(topic, b"v", headers=[(name, b"1")])
    rows = peek(kafka, topic, "--count", "3")
    assert [row["headers"] for row in rows] == [[["ok", "1"]], [["caf\ufffd", "1"]], [["ok", "1"]]]


def test_the_last_records_without_aborted_ones(kafka: Any, filled: str) -> None:
    assert values(peek(kafka, filled, "--count", "3")) == ["v18", "v19", "/xs="]
    assert values(peek(kafka, filled, "--offset", "-2")) == ["v18", "v19", "/xs="]
    uncommitted = peek(kafka, filled, "--count", "3", "--isolation-level", "read_uncommitted")
    assert values(uncommitted) == ["aborted"] * 3


def test_requests_can_be_traced(kafka: Any, filled: str) -> None:
    command = ["peek", "--bootstrap", kafka.bootstrap_servers, "--json", filled, "--count", "1", "--trace"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    assert "Fetch v" in result.stderr
    assert len(result.stdout.splitlines()) == 1


def test_from_an_offset_of_a_partition(kafka: Any, filled: str) -> None:
    found = peek(kafka, filled, "--partition", "0", "--offset", "5", "--count", "2")
    assert [(row["partition"], row["offset"], row["value"]) for row in found] == [(0, 5, "v5"), (0, 6, "v6")]
    assert len(peek(kafka, filled, "--offset", "earliest")) == 21
    assert peek(kafka, filled, "--offset", "latest") == []


def test_files_without_their_broker(kafka: Any, filled: str) -> None:
    folders = [argument for folder in kafka.log_dirs for argument in ("--log-dir", str(folder))]
    result = CliRunner().invoke(cli, ["peek", filled, *folders, "--offset", "earliest", "--count", "2"])
    assert result.exit_code == 0, result.output
    assert [line.split()[-1] for line in result.stdout.splitlines()] == ["v0", "v1"]


def test_what_arrives_is_shown_until_ctrl_c(kafka: Any) -> None:
    topic = kafka.topic(1)
    command = [sys.executable, "-m", "kseg.jobs.cli", "peek", topic, "--bootstrap", kafka.bootstrap_servers, "--follow"]
    running = subprocess.Popen(
        [*command, "--offset", "earliest"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce(topic, b"one")
        assert producer.flush(60) == 0
        assert running.stdout is not None
        assert running.stdout.readline().split()[-1] == "one"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
        assert (out, running.returncode) == ("", 0)
        assert "Traceback" not in err  # a busy broker may be reported as slow
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["{topic}-not"], "the cluster has no topic {topic}-not"),
        (["{topic}", "--partition", "9"], "the topic {topic} has no partition 9"),
    ],
)
def test_what_the_cluster_does_not_have(kafka: Any, filled: str, args: list[str], message: str) -> None:
    named = [arg.format(topic=filled) for arg in args]
    result = CliRunner().invoke(cli, ["peek", *named, "--bootstrap", kafka.bootstrap_servers])
    assert result.exit_code == 2
    assert message.format(topic=filled) in result.stderr
    assert "`kseg topics" in result.stderr


def test_an_offset_beyond_the_end_says_so(kafka: Any, filled: str) -> None:
    args = ["peek", filled, "--bootstrap", kafka.bootstrap_servers, "--partition", "1", "--offset", "7"]
    result = CliRunner().invoke(cli, args)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{filled}-1: no records from --offset on: the log ends at offset 1\n"


@pytest.mark.parametrize("command", [["peek", "t"], ["topics"], ["produce", "t"], ["init", "--topic", "t"]])
def test_without_a_cluster_the_option_is_named(command: list[str]) -> None:
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 2
    assert "give --bootstrap HOST:PORT" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [(["t", "--offset", "x"], "none of N"), (["t", "--log-dir", "/x", "--follow"], "--follow needs brokers")],
)
def test_options_that_do_not_fit(args: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["peek", *args])
    assert result.exit_code == 2
    assert message in result.stderr
