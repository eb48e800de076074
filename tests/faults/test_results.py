"""The page's tables are those of the recorded runs; a run is recorded with what it drew and what came of it."""

from __future__ import annotations

import subprocess
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


def test_recorded_runs_make_no_other_commit_of_a_checkout(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)

    root = results.FAULTS.parents[1]
    files = [tmp_path / one.relative_to(root) for one in (results.FILE, results.PAGE)]
    for file in [*files, tmp_path / "code"]:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("before")
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")
    clean = results.commit(tmp_path)
    for file in files:
        file.write_text("after")
    assert results.commit(tmp_path) == clean
    (tmp_path / "code").write_text("after")
    assert results.commit(tmp_path) == f"{clean}-dirty"
