"""Jobs land in the store whole, and requests are those that were made. No figure is judged here."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

import light_java
from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.jobs.bench import lake, store
from kseg.jobs.bench.relay import RelayedTraffic
from kseg.jobs.bench.workload import fill_topic
from skips import full_scale_only

REQUESTS = {
    "PUT /lake/1/table/day=1/part-0.parquet": 1,
    "POST /lake/1/table/day=1/part-0.parquet": 2,
    "PUT /lake/1/table/_delta_log/0.json": 1,
    "PUT /lake/1/table/_kseg/race/1": 3,
    "GET /lake/ledger/job=1/part-0.parquet": 5,
}


def landed(seconds: float) -> store.StoreLanding:
    return store.StoreLanding(seconds, seconds / 2, 500_000_000, RelayedTraffic(requests=REQUESTS), 0.5, 7)


def test_requests_for_data_are_told_apart_and_by_the_size_of_files() -> None:
    found = store.figures(
        "raw", 1000, {store.DISK: [landed(1.0)] * 3, store.LATE: [landed(4.0), landed(9.0), landed(2.0)]}
    )
    disk, late = found
    assert "requests" not in disk
    assert late["case"] == "raw, store, 20 ms"
    assert (late["requests"], late["data_requests"], late["check_requests"]) == (12, 3, 3)
    assert (late["data_requests_a_gb"], late["idle_requests"], late["ratio"]) == (6, 7, 0.25)


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
@full_scale_only
def test_both_topics_land_on_a_disk_and_in_a_store(kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with another number of rows fails the measurement."""
    for name, value in light_java.ALL.items():
        monkeypatch.setenv(name, value)
    made = lake.formats()[0].records
    raw = fill_topic(kafka, f"raw-{uuid.uuid4()}", 4000, NULL_PROGRESS)
    wide = fill_topic(kafka, f"wide-{uuid.uuid4()}", 400, NULL_PROGRESS, made)
    found = store.measure(store.Plan(raw, wide, str(tmp_path), rounds=1, warm_up=0))
    cases = {entry["case"]: entry for entry in found["cases"]}
    assert list(cases) == [f"{topic}, {case}" for topic in ("raw", "wide") for case in store.CASES]
    for topic in ("raw", "wide"):
        near, late = cases[f"{topic}, store"], cases[f"{topic}, store, 20 ms"]
        assert late["data_requests"] == near["data_requests"] > 0
        assert late["idle_seconds"] > store.LATE_BY * 20, "a ledger is opened by one request after the other"
    assert cases["wide, store"]["data_requests"] > 20 * cases["raw, store"]["data_requests"], "a file a day"
