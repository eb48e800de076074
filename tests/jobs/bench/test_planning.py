"""The benchmark of plans makes the plans that it should; no figure is judged here."""

from __future__ import annotations

from kseg.jobs.bench import planning


def test_plans_beside_other_runs_are_measured() -> None:
    found = planning.measure(12, 1, runs=5)
    assert (found["partitions"], found["reserved_ranges"]) == (12, 12)
    assert found.keys() >= {"incremental_seconds", "backfill_seconds"}
