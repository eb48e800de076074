"""Runs with nothing to do: a scheduler starts many more of them than of others."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kseg.etl.config.load import load_job
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.maintenance import SMALL_FILES, count_files
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.ledger.store import Ledger
from kseg.etl.run.pipeline import IDLE_RUNS_PER_MAINTENANCE, _nothing_to_do, run_ingest
from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.etl.telemetry.stopwatch import Stopwatch


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
    runs = SMALL_FILES // 2 + IDLE_RUNS_PER_MAINTENANCE
    for _ in range(runs):
        assert run_ingest(job).status == "nothing-to-do"
    ledger = Ledger.open(job.ledger)
    files, _ = count_files(ledger)
    assert files <= 2 * IDLE_RUNS_PER_MAINTENANCE
    assert ledger.read(job.name).leases["incremental"].attempt == runs


@pytest.mark.parametrize("finished", [True, False])
def test_a_backfill_that_was_abandoned_was_not_finished_before(finished: bool) -> None:
    """Other runs have landed its offsets since, so nothing is left to plan; its rows were removed."""
    ranges = (ev.PlannedRange("orders", 0, 0, 10, table="t"),)
    plan = ev.RunPlan("b", "backfill-missing", "b", "app", 1, "", "{}", None, {}, ranges, {})
    commit = ev.TableCommit(1, 10, ev.TableState("id", 1, 10))
    now = datetime.now(UTC)
    run = RunState(plan, now, landed={"t": commit}, finished=finished, abandoned=not finished, ended_at=now)
    job = SimpleNamespace(name="orders", reporting=SimpleNamespace(freshness=None))
    context: Any = SimpleNamespace(
        job=job,
        clients=SimpleNamespace(read_state=lambda: JobState("orders", "L", runs={"b": run})),
        progress=NULL_PROGRESS,
        inputs=SimpleNamespace(partitions=tuple),
        stopwatch=Stopwatch(),
    )
    lease: Any = SimpleNamespace(chain="b", attempt=1)
    report = _nothing_to_do(context, lease)
    assert (report.status, report.mode) == ("nothing-to-do", "backfill-missing")
    assert (report.run_id, len(report.ranges), len(report.tables)) == (("b", 1, 1) if finished else (None, 0, 0))
    assert bool(report.notes) == finished
