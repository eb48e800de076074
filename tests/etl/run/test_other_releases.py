"""The main job on other releases of Kafka: what it needs of them is what they have, or it says what they lack."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from deltalake import DeltaTable

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError, ExitCode
from kseg.etl.operations.verify import verify
from kseg.etl.run.pipeline import run_ingest
from skips import full_scale_only

TRANSACTIONS_SINCE = "1.1.1"


def produce(servers: str, topic: str, count: int, *, transaction: str | None = None) -> None:
    """Records through librdkafka, in turn to both partitions; `transaction` is commit or abort."""
    settings = {"bootstrap.servers": servers, "log_level": 0}
    producer = Producer(settings | ({} if transaction is None else {"transactional.id": f"t-{uuid.uuid4()}"}))
    if transaction is not None:
        producer.init_transactions(60)
        producer.begin_transaction()
    for number in range(count):
        value = f"{transaction or 'plain'} {number}".encode()
        producer.produce(topic, key=b"k%d" % number, value=value, partition=number % 2)
    assert producer.flush(60) == 0
    if transaction == "commit":
        producer.commit_transaction(60)
    if transaction == "abort":
        producer.abort_transaction(60)


def committed(servers: str, group: str, topic: str, until: list[int]) -> list[int]:
    """What the group has committed, as soon as it is that: old releases tell nothing of a transaction's offsets before
    its markers are written, which is after its end."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    deadline = time.monotonic() + 60
    while True:
        asked = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=60)
        found = [tp.offset for tp in asked]
        if found == until or time.monotonic() > deadline:
            consumer.close()
            return found
        time.sleep(0.05)


@pytest.fixture
def job_on(tmp_path: Path, spark: Any) -> Callable[..., Job]:
    def make(servers: str, topic: str, **changes: Any) -> Job:
        name = f"job-{uuid.uuid4().hex[:8]}"
        document = {
            "version": 1,
            "name": name,
            "kafka": {"bootstrap.servers": servers},
            "source": {"topics": [topic]},
            "sink": {"path": "./lake"},
            "group": f"group-of-{name}",
            "ledger": "./ledger",
            "run": {"lease": "2m", "deadline": "2m"},
        } | changes
        file = tmp_path / "job.yaml"
        file.write_text(json.dumps(document))  # JSON is YAML
        return load_job(file)

    return make


def values(tmp_path: Path) -> list[bytes]:
    return sorted(DeltaTable(tmp_path / "lake").to_pyarrow_table()["value"].to_pylist())


@pytest.mark.parametrize(
    ("release", "group_commit"),
    [
        ("0.10.2.2", "plain"),
        pytest.param("1.1.1", "transactional", marks=full_scale_only),
        pytest.param("3.9.2", "transactional", marks=full_scale_only),
    ],
)
def test_the_main_job_lands_verifies_and_commits(
    release: str,
    group_commit: str,
    kafka_release: Callable[[str], Any],
    job_on: Any,
    await_markers: Callable[[str, str], None],
    tmp_path: Path,
):
    kafka = kafka_release(release)
    servers, topic = kafka.bootstrap_servers, kafka.topic(2)
    job = job_on(servers, topic, group_commit=group_commit)
    produce(servers, topic, 20)
    wanted = [b"plain %d" % number for number in range(20)]
    if group_commit == "transactional":
        produce(servers, topic, 10, transaction="commit")
        produce(servers, topic, 10, transaction="abort")
        await_markers(servers, topic)
        wanted += [b"commit %d" % number for number in range(10)]
    first = run_ingest(job)
    assert (first.status, values(tmp_path)) == ("done", sorted(wanted))
    ends = [10, 10] if group_commit == "plain" else [22, 22]
    assert committed(servers, str(job.group), topic, ends) == ends
    produce(servers, topic, 4)
    second = run_ingest(job)
    assert (second.status, values(tmp_path)) == ("done", sorted([*wanted, *wanted[:4]]))
    assert run_ingest(job).status == "nothing-to-do"
    assert verify(job).ok


def test_without_transactions_a_transactional_commit_is_refused_before_anything_lands(
    kafka_release: Callable[[str], Any], job_on: Any, tmp_path: Path
):
    kafka = kafka_release("0.10.2.2")
    topic = kafka.topic(2)
    produce(kafka.bootstrap_servers, topic, 3)
    job = job_on(kafka.bootstrap_servers, topic)
    with pytest.raises(
        ConfigurationError, match=r"(?s)group_commit.*too old for transactions.*group_commit: plain"
    ) as caught:
        run_ingest(job)
    assert caught.value.exit_code == ExitCode.BAD_CONFIGURATION
    assert not (tmp_path / "lake").exists()
    nothing = [-1001, -1001]
    assert committed(kafka.bootstrap_servers, str(job.group), topic, nothing) == nothing
