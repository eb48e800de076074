"""`kseg topics` on a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from kseg.jobs.cli import cli

pytestmark = pytest.mark.broker


def topics(kafka: Any, *args: str) -> dict[str, Any]:
    command = ["topics", "--bootstrap", kafka.bootstrap_servers, "--json", *args]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.fixture
def filled(kafka: Any) -> str:
    """Two partitions, of which the first has 30 records of January 2026 and one of now."""
    topic: str = kafka.topic(2, {"cleanup.policy": "compact", "retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(30):
        producer.produce(topic, b"v" * 100, str(number).encode(), partition=0, timestamp=1767225600000 + number)
    producer.produce(topic, b"now", b"now", partition=0)
    assert producer.flush(60) == 0
    return topic


def test_a_topic_with_its_partitions(kafka: Any, filled: str) -> None:
    document = topics(kafka, filled, "--minutes", "10")
    (topic,) = document["topics"]
    assert (topic["topic"], topic["partitions"], topic["replicas"], topic["cleanup"]) == (filled, 2, 1, "compact")
    assert topic["records"] == 31
    on_disk = sum(
        path.stat().st_size for folder in kafka.log_dirs for path in folder.glob(f"{filled}-*/*.log") if path.is_file()
    )
    assert topic["bytes"] == on_disk > 0
    assert topic["last_record"] > "2026-01-02"
    assert topic["per_second"] == pytest.approx(1 / 600)
    first, second = document["partitions"]
    assert (first["start"], first["end"], first["records"], first["leader"]) == (0, 31, 31, 1)
    assert (second["records"], second["last_record"], second["per_second"]) == (0, None, 0)


def test_all_topics_without_kafkas_own(kafka: Any, filled: str) -> None:
    names = [topic["topic"] for topic in topics(kafka)["topics"]]
    assert filled in names
    assert names == sorted(name for name in names if not name.startswith("__"))


def test_the_topics_of_a_job(kafka: Any, filled: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        f'version: 1\nname: j\nkafka: {{bootstrap.servers: "{kafka.bootstrap_servers}"}}\n'
        f"source: {{topics: [{filled}]}}\nsink: {{path: ./t}}\nledger: ./l\n"
    )
    result = CliRunner().invoke(cli, ["topics", str(file)])
    assert result.exit_code == 0, result.output
    assert "1 topic(s), 2 partition(s)" in result.stdout
    both = CliRunner().invoke(cli, ["topics", str(file), "--bootstrap", kafka.bootstrap_servers])
    assert both.exit_code == 2
    assert "the job file names the cluster" in both.stderr


def test_a_topic_that_is_not_there(kafka: Any, filled: str) -> None:
    result = CliRunner().invoke(cli, ["topics", "--bootstrap", kafka.bootstrap_servers, f"{filled}-not"])
    assert result.exit_code == 2
    assert f"the cluster has no topic {filled}-not" in result.stderr
