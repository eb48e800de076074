"""The section on scaling lands what it should, in small; no figure is judged here."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.jobs.bench import history, scaling
from kseg.jobs.bench.workload import fill_topic
from skips import full_scale_only


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
@full_scale_only
def test_partitions_tables_and_workers_are_measured(kafka: Any, tmp_path: Path) -> None:
    effort = scaling.ScalingEffort((30,), (5,), 1, 4000, history.HistoryEffort((5,), (5,)))
    topic = fill_topic(kafka, f"workers-{uuid.uuid4()}", effort.rows, NULL_PROGRESS)
    found = scaling.measure(kafka.bootstrap_servers, topic, tmp_path, effort, NULL_PROGRESS)
    (wide,) = found["partitions"]
    assert wide["plan"]["status"] == "dry-run"
    assert wide["ingest"]["rows"] == 30 * scaling.RECORDS
    assert wide["files"] == 1
    assert wide["ledger_bytes"] > 0
    assert [plan["reserved_ranges"] for plan in found["planning"]] == [30]
    (many,) = found["tables"]
    assert (many["first"]["rows"], many["again"]["rows"]) == (5 * scaling.RECORDS, 5 * scaling.RECORDS)
    assert (found["ledgers"][0]["transitions"], found["table_logs"][0]["versions"]) == (35, 5)
    assert set(found["workers"]["land_seconds"]) == {"1", "2"}
    assert found["workers"]["two_over_one"] > 0
