"""The main job over TLS and SASL, its secrets from the environment: rows land, and no secret is written anywhere.

Looked through are output and logs, Spark's event log (all that its UI shows), the ledger, the tables, the run's page,
metrics, lineage events, and the job's package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kseg.client import ClientConfig, Cluster, TopicPartition, committed_offsets
from skips import full_scale_only

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ROWS = 200
CLIENT_SECRET = "marked-client-secret"
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


def scram(kafka: Any) -> str:
    return f"""
  bootstrap.servers: {kafka.servers("SECURE")}
  security.protocol: SASL_SSL
  ssl.truststore.location: {kafka.authority.pem}
  sasl.mechanism: SCRAM-SHA-512
  sasl.jaas.config: >-
    org.apache.kafka.common.security.scram.ScramLoginModule required username="bob" password="${{BOB_PASSWORD}}";"""


def oauth(kafka: Any, endpoint: str) -> str:
    return f"""
  bootstrap.servers: {kafka.servers("OAUTH")}
  security.protocol: SASL_PLAINTEXT
  sasl.mechanism: OAUTHBEARER
  sasl.oauthbearer.token.endpoint.url: {endpoint}
  sasl.oauthbearer.client.credentials.client.id: service
  sasl.oauthbearer.client.credentials.client.secret: ${{CLIENT_SECRET}}"""


@pytest.fixture
def job_file(secure_kafka: Any, topic: str, tmp_path: Path) -> Path:
    return written_job(tmp_path, topic, scram(secure_kafka))


def written_job(tmp_path: Path, topic: str, kafka: str, group: str = "etl") -> Path:
    events = tmp_path / "events"
    events.mkdir()
    file = tmp_path / "orders.yaml"
    file.write_text(
        f"""
version: 1
name: orders
kafka:{kafka}
source: {{topics: [{topic}]}}
transform:
  - sql: "SELECT *, CAST(value AS STRING) AS body FROM __rows__"
sink: {{path: ./lake/orders}}
group: {topic}-{group}
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
    folder = job_file.parent
    lineage = json.dumps({"transport": {"type": "file", "log_file_path": str(folder / "lineage")}})
    environment = os.environ | {
        "BOB_PASSWORD": password,
        "CLIENT_SECRET": CLIENT_SECRET,
        "STORE_KEY": STORE_KEY,
        "KSEG_TRACE": "1",
        "KSEG_LOGS": str(folder / "logs"),
        "OPENLINEAGE_CONFIG": str(folder / "openlineage.yml"),
    }
    (folder / "openlineage.yml").write_text(lineage)
    reports = ["--report", str(folder / "page.html"), "--metrics-file", str(folder / "run.prom")]
    command = [sys.executable, "-m", "kseg.jobs.cli", "ingest", str(job_file), "--json", "--debug", *reports]
    return subprocess.run(
        command, env=environment, cwd=job_file.parent, capture_output=True, text=True, timeout=500, check=False
    )


def everything_written(folder: Path) -> str:
    """All files below a folder as text: event logs, Delta logs, the ledger, the tables."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any("events" in path.parts for path in files)
    assert {"page.html", "run.prom"} <= {path.name for path in files}
    assert any(path.name.startswith("lineage") for path in files)
    return "\n".join(path.read_bytes().decode("latin-1") for path in files)


def test_rows_land_over_sasl_ssl_and_the_password_stands_nowhere(
    secure_kafka: Any, job_file: Path, topic: str, tmp_path: Path
) -> None:
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
    ledger = rows_of(tmp_path / "lake" / "_kseg_ledger")
    assert "${BOB_PASSWORD}" in ledger, "the ledger pins the job with its reference"
    for place, text in {"output": done.stdout + done.stderr, "files": written, "ledger": ledger}.items():
        for secret in (secure_kafka.bob, STORE_KEY):
            assert secret not in text, place


def rows_of(folder: Path) -> str:
    """The rows of a table's files: Parquet compresses them."""
    import pyarrow.parquet as pq

    return "".join(str(pq.read_table(path).to_pylist()) for path in folder.rglob("*.parquet"))


@contextmanager
def token_endpoint(token: str) -> Iterator[str]:
    """The URL of a server that gives this token to whoever asks."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps({"access_token": token, "expires_in": 600}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/token"
        server.shutdown()
        thread.join()


@full_scale_only
def test_a_client_s_secret_and_its_token_are_written_nowhere(secure_kafka: Any, topic: str, tmp_path: Path) -> None:
    token = secure_kafka.jwt("service", lifetime=600)
    with token_endpoint(token) as endpoint:
        done = ingest(written_job(tmp_path, topic, oauth(secure_kafka, endpoint), "oauth"), "")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "SaslAuthenticate" in done.stderr
    ledger = rows_of(tmp_path / "lake" / "_kseg_ledger")
    assert "${CLIENT_SECRET}" in ledger
    written = everything_written(tmp_path)
    for place, text in {"output": done.stdout + done.stderr, "files": written, "ledger": ledger}.items():
        for secret in (CLIENT_SECRET, token, token.rpartition(".")[2], STORE_KEY):
            assert secret not in text, place


def test_a_wrong_password_ends_the_job_at_once_and_is_not_told(job_file: Path) -> None:
    done = ingest(job_file, "wrong-hunter2")
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "AuthenticationFailed"
    assert not error["retriable"]
    assert "SCRAM-SHA-512: authentication failed" in error["message"]
    assert "hunter2" not in done.stdout + done.stderr
