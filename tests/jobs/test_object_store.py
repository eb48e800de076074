"""A job whose table and ledger lie in a bucket: the commands as a user runs them, on a real S3 server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
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


@pytest.fixture
def kseg(kseg_folder: Path) -> Callable[..., Any]:
    """kseg(command, file, exit_code=0): its JSON output. Spark has no file system for S3 here: nothing but `AWS_`
    variables is set."""

    def run(command: str, file: Path, *, exit_code: int = 0) -> Any:
        words = [kseg_folder / "kseg", command, file, "--json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == exit_code, done.stderr
        return json.loads(done.stdout)

    return run


def test_runs_land_in_a_bucket_one_after_the_other(
    kafka: Any, s3: Any, kseg: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        assert kseg("ingest", file)["counts"]["records"] == COUNT
        landed = pa.table(DeltaTable(f"s3://logs/{topic}").scan(["offset"]))
        assert sorted(landed["offset"].to_pylist()) == list(range(run * COUNT))

    races = {one.path.rpartition("/")[0] for one in s3.asked if one.method == "PUT" and "/_kseg/race-" in one.path}
    assert len(races) == 1, "ledger and table are made in one store"

    assert kseg("ingest", file)["status"] == "nothing-to-do"
    verified = kseg("verify", file)
    assert (verified["ok"], verified["tables"][0]["rows"]) == (True, 2 * COUNT)
    DeltaTable(f"s3://logs/{topic}").delete("offset = 7")
    (gap,) = kseg("verify", file, exit_code=1)["findings"]
    assert (gap["kind"], gap["offset"]) == ("gap", 7)

    job = load_job(file)
    state = Ledger.open(job.ledger, create=False).read(job.name)
    assert [run.finished for run in state.runs.values()] == [True, True]
    assert all((s3.folder / name / "_delta_log").is_dir() for name in (topic, f"{topic}-ledger"))
