"""The page's tables are those of the recorded runs; a run is recorded with what it drew and what came of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from fault_suite import results

RUN = results.Result("drivers", 7, 2.0, "abc", True, {"rows": 1000, "faults": 2, "moments": 3, "gaps": 0}, {}, [])


def test_the_page_has_the_recorded_runs() -> None:
    text = results.PAGE.read_text(encoding="utf-8")
    assert results.page(text, results.read()) == text, "run tests/faults/fault_suite/results.py"


def test_outcomes_are_added_up_over_passed_runs_alone() -> None:
    drawn = results.grouped(Counter({("ingest, killed", "killed"): 2, ("ingest", "done"): 3}).items())
    failed = results.Result("drivers", 9, 2.0, "abc", False, RUN.counts | {"gaps": 4}, drawn, ["gaps: …"])
    passed = [results.Result("drivers", seed, 2.0, "abc", True, RUN.counts, drawn, []) for seed in (7, 8)]
    shown = results.markdown([*passed, failed])
    assert "| ingest, killed | killed 4 |" in shown
    assert "| drivers | 9 | 2 | `abc` | 1,000 | 2 | 3 | failed: gaps 4 |" in shown
    assert "(seeds 7, 8)" in shown


def test_a_recorded_run_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "results"
    results.append(RUN, file)
    results.append(RUN, file)
    assert results.read(file) == [RUN, RUN]
