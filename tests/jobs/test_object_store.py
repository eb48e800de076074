"""A job whose table and ledger lie in a bucket: the command as a user runs it, on a real S3 server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from kseg.etl.config.load import load_job
from kseg.etl.ledger.store import Ledger

pytestmark = [pytest.mark.broker, pytest.mark.spark]

COUNT = 300


def test_runs_land_in_a_bucket_one_after_the_other(
    kafka: Any, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic(1, prefix="bucket")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    file = tmp_path / "job.yaml"
    file.write_text(
        f"version: 1\nname: bucket\nkafka: {{bootstrap.servers: '{kafka.bootstrap_servers}'}}\n"
        f"source: {{topics: [{topic}]}}\nsink: {{path: 's3://logs/{topic}'}}\n"
        f"group: {topic}-etl\nledger: 's3://logs/{topic}-ledger'\n"
    )
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")

    for run in (1, 2):
        for number in range(COUNT):
            producer.produce(topic, b"v %d" % number, partition=0)
        assert producer.flush(60) == 0
        done = subprocess.run(
            [sys.executable, "-m", "kseg.jobs.cli", "ingest", str(file), "--json"],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["counts"]["records"] == COUNT
        landed = pa.table(DeltaTable(f"s3://logs/{topic}").scan(["offset"]))
        assert sorted(landed["offset"].to_pylist()) == list(range(run * COUNT))

    job = load_job(file)
    state = Ledger.open(job.ledger, create=False).read(job.name)
    assert [run.finished for run in state.runs.values()] == [True, True]
    assert all((s3.folder / name / "_delta_log").is_dir() for name in (topic, f"{topic}-ledger"))
