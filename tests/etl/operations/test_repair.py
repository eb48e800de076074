"""What a run that is finished as it was planned takes from the job file of today."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from kseg.etl.config.load import load_job
from kseg.etl.operations.repair import as_planned


def test_a_run_is_finished_with_the_brokers_and_the_registry_of_today() -> None:
    def job_at(place: str, **value: Any) -> Any:
        return load_job(
            {
                "version": 1,
                "name": "orders",
                "kafka": {"bootstrap.servers": f"{place}:9092"},
                "registry": {"url": f"http://{place}:8081"},
                "source": {"topics": ["orders"]},
                "decode": {"value": {"format": "avro", "schema": "registry", **value}},
                "sink": {"path": "./lake/orders"},
                "ledger": "./ledger",
            }
        )

    planned, today = job_at("old", tombstones="drop"), job_at("new")
    run: Any = SimpleNamespace(mode="incremental", plan=SimpleNamespace(pinned_config=json.dumps(planned.pinned())))
    made = as_planned(today, run)
    assert (made.kafka, made.registry) == (today.kafka, today.registry)
    assert made.config_hash == planned.config_hash != today.config_hash
