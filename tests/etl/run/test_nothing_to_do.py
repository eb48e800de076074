"""Runs with nothing to do: a scheduler starts many more of them than of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config.load import load_job
from kseg.etl.ledger.maintenance import SMALL_FILES, count_files
from kseg.etl.ledger.store import Ledger
from kseg.etl.run.pipeline import ATTEMPTS_A_MAINTENANCE, run_ingest


@pytest.mark.broker
def test_runs_with_nothing_to_do_leave_few_files_in_the_ledger(kafka: Any, tmp_path: Path) -> None:
    """Each writes two, for its lease, and each opens all there are."""
    job = load_job(
        {
            "version": 1,
            "name": "quiet",
            "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
            "source": {"topics": [kafka.topic()]},
            "sink": {"path": str(tmp_path / "orders")},
            "ledger": str(tmp_path / "ledger"),
        }
    )
    runs = SMALL_FILES // 2 + ATTEMPTS_A_MAINTENANCE
    for _ in range(runs):
        assert run_ingest(job).status == "nothing-to-do"
    ledger = Ledger.open(job.ledger)
    files, _ = count_files(ledger)
    assert files <= 2 * ATTEMPTS_A_MAINTENANCE
    assert ledger.read(job.name).leases["incremental"].attempt == runs
