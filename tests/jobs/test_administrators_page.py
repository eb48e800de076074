"""What the page for administrators says that a run asks of brokers is what a run asks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kseg.client import Cluster, CommittedOffset, TopicPartition, Transaction
from kseg.client.producer import produce
from kseg.jobs.bench.workload import client_config
from kseg.segment_reader.encode.batches import Record, encode_batch

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "administrators.md"
PARTITIONS = 40


def told() -> dict[str, int]:
    """Requests by API, as the page's table has them for one leader and few partitions."""
    section = PAGE.read_text().split("## Requests of a run")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (\d+)\b", section, flags=re.MULTILINE)
    return {api: int(count) for api, count in rows}


def _wake_coordinators(cluster: Cluster, tp: TopicPartition) -> None:
    """Use every partition of the coordinators' topics: while one is being made or loaded, requests are repeated."""
    for number in range(12):
        with Transaction(cluster, f"awake-{tp.topic}-{number}") as transaction:
            transaction.begin()
            transaction.commit_offsets(f"awake-{tp.topic}-{number}", {tp: CommittedOffset(0)})
            transaction.commit()


@pytest.mark.broker
@pytest.mark.spark
def test_a_run_asks_as_often_as_the_page_says(kafka: Any, tmp_path: Path) -> None:
    topic = kafka.topic(PARTITIONS)
    batch = encode_batch([Record(value=b"v")])
    with Cluster(client_config(kafka.bootstrap_servers)) as cluster:
        produce(cluster, {TopicPartition(topic, p): batch for p in range(PARTITIONS)})
        _wake_coordinators(cluster, TopicPartition(topic, 0))
    job = tmp_path / "job.yaml"
    document = {
        "version": 1,
        "name": "asks",
        "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
        "source": {"topics": [topic]},
        "sink": {"path": str(tmp_path / "table")},
        "ledger": str(tmp_path / "ledger"),
        "group": topic,
        "spark": {"master": "local[1]"},
    }
    job.write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [sys.executable, "-m", "kseg.jobs.bench.one_run", str(job)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    run = json.loads(done.stdout.splitlines()[-1])
    assert run["rows"] == PARTITIONS
    assert {"ListOffsets", "OffsetFetch", "InitProducerId", "TxnOffsetCommit", "EndTxn"} == set(told())
    assert {api: run["requests"].get(api) for api in told()} == told()
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 1
