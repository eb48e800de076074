"""`kseg init` on a real broker: the file that it writes lands the topic as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from deltalake import DeltaTable

from kseg.jobs.cli import cli

pytestmark = pytest.mark.broker


def init(kafka: Any, topic: str, *more: str) -> Result:
    args = ["init", "--topic", topic, "--bootstrap", kafka.bootstrap_servers, *more]
    return CliRunner().invoke(cli, args)


def write(kafka: Any, topic: str, records: list[tuple[bytes | None, bytes | None]]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def order(number: int) -> bytes:
    document: dict[str, Any] = {
        "id": number,
        "user name": "ann",
        "amount": 9.5,
        "created_at": "2026-01-01T10:00:00Z",
        "day": "2026-01-01",
        "items": [{"sku": "a", "quantity": number}],
        "odd": number if number % 2 else "even",
    }
    return json.dumps(document).encode()


@pytest.mark.parametrize("words", [["init", "-o", "orders.yaml", "--topic"], ["peek"]])
def test_a_sample_does_not_wait_for_the_compiler(kafka: Any, tmp_path: Path, words: list[str]) -> None:
    topic = kafka.topic()
    write(kafka, topic, [(b"key", order(number)) for number in range(10)])
    command = [sys.executable, "-m", "kseg.jobs.cli", *words, topic, "--bootstrap", kafka.bootstrap_servers]
    nothing_compiled = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    subprocess.run(command, cwd=tmp_path, env=nothing_compiled, check=True, capture_output=True, timeout=300)
    assert not list((tmp_path / "compiled").rglob("kernel.*.nbi"))


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_file_lands_typed_rows(kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    topic = kafka.topic(2)
    write(kafka, topic, [(str(number).encode(), order(number)) for number in range(3000)] + [(b"gone", None)])
    result = init(kafka, topic, "--table", "./lake/orders", "-o", "orders.yaml", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["key"], document["value"], document["columns"]) == ("string", "json", 6)
    assert document["records"] == 3001
    assert document["notes"] == ["1 field(s) are not declared and land in _kseg_rescued: odd"]
    for command in (["check", "orders.yaml"], ["ingest", "orders.yaml", "--progress", "none"]):
        ran = CliRunner().invoke(cli, command)
        assert ran.exit_code == 0, ran.output
    rows = DeltaTable("lake/orders").to_pyarrow_table().to_pylist()
    assert len(rows) == 3001
    (row,) = (row for row in rows if row["key"] == "7")
    assert (row["id"], row["user_name"], row["amount"], row["day"]) == (7, "ann", 9.5, date(2026, 1, 1))
    assert row["created_at"] == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert row["items"] == [{"sku": "a", "quantity": 7}]
    assert json.loads(row["_kseg_rescued"]) == {"odd": 7}
    (tombstone,) = (row for row in rows if row["key"] == "gone")
    assert tombstone["id"] is None


def test_a_file_is_overwritten_with_force_alone(kafka: Any, tmp_path: Path) -> None:
    topic = kafka.topic(1)
    write(kafka, topic, [(None, b'{"a": 1}')])
    file = tmp_path / "x.yaml"
    file.write_text("mine")
    refused = init(kafka, topic, "-o", str(file))
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert file.read_text() == "mine"
    assert init(kafka, topic, "-o", str(file), "--force").exit_code == 0
    assert "a: bigint" in file.read_text()


def test_an_empty_topic_is_said_and_writes_nothing(kafka: Any, tmp_path: Path) -> None:
    result = init(kafka, kafka.topic(2), "-o", str(tmp_path / "x.yaml"))
    assert result.exit_code == 2
    assert "nothing to sample" in result.stderr
    assert "it is empty" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_mixed_formats_land_as_what_all_are(kafka: Any, tmp_path: Path) -> None:
    topic = kafka.topic(1)
    write(kafka, topic, [(None, b'{"a": 1}'), (None, b"text"), (None, b'{"a": 2}')])
    file = tmp_path / "x.yaml"
    result = init(kafka, topic, "-o", str(file), "--json")
    assert json.loads(result.stdout)["notes"] == [
        "values are of several formats (2 JSON objects, 1 UTF-8 text): they land as string"
    ]
    assert CliRunner().invoke(cli, ["check", str(file)]).exit_code == 0


def test_both_ends_of_a_partition_are_sampled(kafka: Any, tmp_path: Path) -> None:
    topic = kafka.topic(1)
    records = [(None, json.dumps({"id": n, f"part{n // 1000}": 1}).encode()) for n in range(4000)]
    write(kafka, topic, records)
    file = tmp_path / "x.yaml"
    assert json.loads(init(kafka, topic, "-o", str(file), "--json").stdout)["records"] == 2000
    assert "part0: bigint" in file.read_text()
    assert "part3: bigint" in file.read_text()
    assert "part1" not in file.read_text()


def test_a_given_format_and_partitions(kafka: Any, tmp_path: Path) -> None:
    topic = kafka.topic(1)
    write(kafka, topic, [(None, b'{"day": "2026-01-01", "n": 1, "tags": [1]}'), (None, b"oops")])
    file = tmp_path / "x.yaml"
    made = init(kafka, topic, "-o", str(file), "--format", "json", "--partition-by", "day")
    assert made.exit_code == 0, made.output
    job = yaml.safe_load(file.read_text())
    assert job["decode"]["value"]["schema"]["columns"] == {"day": "date", "n": "bigint", "tags": "array<bigint>"}
    assert (job["sink"]["partition_by"], job["decode"]["on_error"]) == (["day"], "dead_letter")
    for column, message in {"tags": "is array<bigint>", "other": "is no column"}.items():
        refused = init(kafka, topic, "-o", str(file), "--force", "--format", "json", "--partition-by", column)
        assert refused.exit_code == 2
        assert f"--partition-by: {column} {message}" in refused.stderr
    write(kafka, other := kafka.topic(1), [(None, b"text")])
    refused = init(kafka, other, "-o", str(tmp_path / "y"), "--format", "json")
    assert "no sampled value has fields: JSON objects are expected" in refused.stderr
