"""The main job over TLS and SASL, its password from the environment: rows land, and the password stands nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kseg.client import ClientConfig, Cluster, TopicPartition, committed_offsets

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ROWS = 200
STORE_KEY = "marked-store-key"  # of a property whose name Spark's own pattern does not match


@pytest.fixture(scope="module")
def topic(secure_kafka: Any) -> str:
    from confluent_kafka import Producer

    name: str = secure_kafka.topic(2)
    producer = Producer({"bootstrap.servers": secure_kafka.bootstrap_servers})
    for number in range(ROWS):
        producer.produce(name, key=b"k", value=b"v%d" % number, partition=number % 2)
    assert producer.flush(60) == 0
    return name


@pytest.fixture
def job_file(secure_kafka: Any, topic: str, tmp_path: Path) -> Path:
    events = tmp_path / "events"
    events.mkdir()
    file = tmp_path / "orders.yaml"
    file.write_text(
        f"""
version: 1
name: orders
kafka:
  bootstrap.servers: {secure_kafka.servers("SECURE")}
  security.protocol: SASL_SSL
  ssl.truststore.location: {secure_kafka.authority.pem}
  sasl.mechanism: SCRAM-SHA-512
  sasl.jaas.config: >-
    org.apache.kafka.common.security.scram.ScramLoginModule required username="bob" password="${{BOB_PASSWORD}}";
source: {{topics: [{topic}]}}
transform:
  - sql: "SELECT *, CAST(value AS STRING) AS body FROM __rows__"
sink: {{path: ./lake/orders}}
group: {topic}-etl
ledger: ./lake/_kseg_ledger
spark:
  master: local[2]
  conf:
    spark.eventLog.enabled: true
    spark.eventLog.compress: false
    spark.eventLog.dir: {events.as_uri()}
    spark.sql.shuffle.partitions: 2
    spark.hadoop.fs.azure.account.key.acct: ${{STORE_KEY}}
"""
    )
    return file


def ingest(job_file: Path, password: str) -> subprocess.CompletedProcess[str]:
    """`kseg ingest` with everything told that it can tell."""
    environment = os.environ | {"BOB_PASSWORD": password, "STORE_KEY": STORE_KEY, "KSEG_TRACE": "1"}
    command = [sys.executable, "-m", "kseg.jobs.cli", "ingest", str(job_file), "--json", "--debug"]
    return subprocess.run(
        command, env=environment, cwd=job_file.parent, capture_output=True, text=True, timeout=500, check=False
    )


def everything_written(folder: Path) -> str:
    """All files below a folder as text: event logs, Delta logs, the ledger, the tables."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any("events" in path.parts for path in files)
    return "\n".join(path.read_bytes().decode("latin-1") for path in files)


def test_rows_land_over_sasl_ssl_and_the_password_stands_nowhere(
    secure_kafka: Any, job_file: Path, topic: str, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq
    from deltalake import DeltaTable

    done = ingest(job_file, secure_kafka.bob)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)
    table = DeltaTable(str(tmp_path / "lake" / "orders")).to_pyarrow_table()
    assert sorted(table["body"].to_pylist()) == sorted(f"v{number}" for number in range(ROWS))
    config = ClientConfig.from_properties(secure_kafka.properties("SECURE"), client_id="check")
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with Cluster(config) as cluster:
        committed = committed_offsets(cluster, f"{topic}-etl", partitions)
    assert [committed[partition].offset for partition in partitions] == [ROWS // 2, ROWS // 2]

    # The trace was on, in driver and workers, and the event log has the plans that the UI shows.
    assert "SaslAuthenticate" in done.stderr
    written = everything_written(tmp_path)
    assert "SparkListenerSQLExecutionStart" in written
    ledger = "".join(
        str(pq.read_table(path).to_pylist()) for path in (tmp_path / "lake" / "_kseg_ledger").rglob("*.parquet")
    )
    assert "${BOB_PASSWORD}" in ledger, "the ledger pins the job with its reference"
    for place, text in {"output": done.stdout + done.stderr, "files": written, "ledger": ledger}.items():
        for secret in (secure_kafka.bob, STORE_KEY):
            assert secret not in text, place


def test_a_wrong_password_ends_the_job_at_once_and_is_not_told(job_file: Path) -> None:
    done = ingest(job_file, "wrong-hunter2")
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "AuthenticationFailed"
    assert not error["retriable"]
    assert "SCRAM-SHA-512: authentication failed" in error["message"]
    assert "hunter2" not in done.stdout + done.stderr
