"""Records with given times at the tests' broker, and jobs over them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.etl.config.load import load_job


@pytest.fixture
def write(kafka: Any) -> Callable[..., None]:
    """write(topic, partition, *times): a record for each time (ms)."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    def do(topic: str, partition: int, *times: int) -> None:
        for at in times:
            producer.produce(topic, b"v", partition=partition, timestamp=at)
        assert producer.flush(60) == 0

    return do


@pytest.fixture
def job_of(kafka: Any, tmp_path: Path) -> Callable[..., Any]:
    """job_of(topic, source={…}, **interval): a job with an `interval` section; of files where source has `segments`."""

    def make(topic: str, *, source: dict[str, Any] | None = None, **interval: str) -> Any:
        document = {
            "version": 1,
            "name": "orders",
            "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
            "source": {"topics": [topic], **(source or {})},
            "sink": {"path": "./lake/orders"},
            "ledger": "./ledger",
            "interval": interval,
        }
        if source is not None and "segments" in source:
            del document["kafka"]
        file = tmp_path / "job.yaml"
        file.write_text(json.dumps(document))
        return load_job(file)

    return make
