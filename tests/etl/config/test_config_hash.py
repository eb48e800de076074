"""Job files of 0.1.0 keep what ledgers, tables and clusters know them by: their hashes, transactional ids, app
transactions, run ids of backfills and pinned configurations. `data/` was written by 0.1.0 and is not written again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document, load_job
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.planning.group_reconciliation import commit_metadata
from kseg.etl.run.group_commit import transactional_id

DATA = Path(__file__).parent / "data"
KNOWN: dict[str, Any] = json.loads((DATA / "config_hashes.json").read_text())
OF = KNOWN.pop("_of")
#: What job files of 0.1.0 need since then: no Livy job could be submitted without the driver's file.
ADDED: dict[str, dict[str, Any]] = {
    "07_airflow.yaml": {
        "airflow": {
            "execution": KNOWN["07_airflow.yaml"]["pinned"]["airflow"]["execution"]
            | {"submit_options": {"file": "/kseg_driver.py"}}
        }
    },
}
FIELDS: dict[str, bool] = json.loads((DATA / "field_decides.json").read_text())


def as_of_0_1_0(pinned: dict[str, Any]) -> dict[str, Any]:
    """A pinned configuration without the keys that 0.1.0 did not have."""
    with_fields = {place.partition(".")[0] for place in FIELDS if "." in place} | {"airflow.execution"}

    def known(part: Any, place: str) -> Any:
        if place not in with_fields or not isinstance(part, dict):
            return part
        return {key: known(value, f"{place}.{key}") for key, value in part.items() if f"{place}.{key}" in FIELDS}

    return {key: known(part, key) for key, part in pinned.items() if key in FIELDS}


@pytest.fixture(params=KNOWN)
def known(request: pytest.FixtureRequest) -> tuple[Job, dict[str, Any]]:
    name: str = request.param
    return load_job(DATA / "job_files" / name, env=OF["environment"], overrides=ADDED.get(name)), KNOWN[name]


def test_hash_and_pinned_configuration(known: tuple[Job, dict[str, Any]]) -> None:
    job, expected = known
    assert job.config_hash == expected["config_hash"]
    spark = {key: value for key, value in expected["pinned"]["spark"].items() if key != "remote"}  # it may have a token
    assert as_of_0_1_0(job.pinned()) == expected["pinned"] | {"spark": spark}
    assert job_from_document(expected["pinned"], env=OF["environment"]).config_hash == expected["config_hash"]


def test_names_made_from_a_job(known: tuple[Job, dict[str, Any]]) -> None:
    job, expected = known
    state = JobState(job=job.name, ledger_id=OF["ledger_id"])
    requests = {name: BackfillRequest.parse(**words) for name, words in OF["backfill_requests"].items()}
    assert {
        "client_id": job.client_id,
        "group_commit": job.group_commit,
        "transactional_id": transactional_id(job, OF["ledger_id"]),
        "app_transaction_incremental": list(state.next_app_transaction()),
        "app_transaction_backfill": list(state.next_app_transaction(requests["interval"].digest(job.name))),
        "offset_metadata": commit_metadata(OF["ledger_id"], OF["run_id"]),
        "backfill_run_ids": {name: request.digest(job.name) for name, request in requests.items()},
        "targets": {route: str(target) for route, target in job.sink.targets.items()},
    }.items() <= expected.items()
