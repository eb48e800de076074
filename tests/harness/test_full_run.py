"""The full run in parts: each test is in one, what has passed is not run again, and the page tells the commit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import full_run
from full_run import PARTS, ROOT, main, page, passed_on
from skips import parts_of_table

DONE = {"passed": 9, "skipped": 0, "seconds": 90, "at": "2026-01-01T00:00:00+00:00"}


def parts_of(file: str) -> list[str]:
    """The parts whose command collects a file. Files of Airflow's suite are collected in its environment alone."""
    in_airflow = file.startswith("tests/airflow/")
    return [
        name
        for name, part in PARTS.items()
        if any(Path(file).is_relative_to(path) for path in part.tests)
        and not any(Path(file).is_relative_to(path) for path in part.left_out)
        and in_airflow == ("test-airflow" in part.make)
    ]


def test_each_test_is_in_one_part() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    for file in files:
        found = parts_of(file)
        assert found == ["airflow", "airflow-2.11"] if file.startswith("tests/airflow/") else len(found) == 1, file


def test_the_table_leaves_files_to_the_part_that_has_them() -> None:
    table = parts_of_table(ROOT / "CONTRIBUTING.md")
    assert table.keys() <= PARTS.keys()
    assert [(name, file) for name, files in table.items() for file in files if name not in parts_of(file)] == []
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in PARTS if f"`{name}`" not in told] == []


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A commit without changes, whose parts all pass; "commit" and "changes" may be set."""
    told = {"commit": "c1", "changes": ""}
    monkeypatch.setattr(full_run, "ROOT", tmp_path)
    monkeypatch.setattr(full_run, "RECORD", tmp_path / ".test-full.json")
    monkeypatch.setattr(full_run, "PAGE", tmp_path / "FULL_RUN.md")
    monkeypatch.setattr(full_run, "_git", lambda *words: told["commit" if words[0] == "rev-parse" else "changes"])
    monkeypatch.setattr(full_run, "passed_on", lambda commit: passed_on(commit, tmp_path / ".test-full.json"))
    return told


def ask(monkeypatch: pytest.MonkeyPatch, *words: str, failing: str = "") -> tuple[int, list[str]]:
    """The exit code, and the parts that were run."""
    ran: list[str] = []

    def run(name: str) -> dict[str, object] | None:
        ran.append(name)
        return None if name == failing else dict(DONE)

    monkeypatch.setattr(full_run, "run", run)
    monkeypatch.setattr("sys.argv", ["full_run.py", *words])
    return main(), ran


def test_it_goes_on_where_it_was_left_and_says_on_which_commit_all_has_passed(
    repository: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert ask(monkeypatch, "client") == (0, ["client"])
    assert ask(monkeypatch, failing="etl") == (1, [name for name in PARTS if name != "client"])
    assert not (tmp_path / "FULL_RUN.md").exists()
    assert ask(monkeypatch) == (0, ["etl"])
    assert (tmp_path / "FULL_RUN.md").read_text() == page("c1", dict.fromkeys(PARTS, DONE))
    assert ask(monkeypatch) == (0, [])
    assert ask(monkeypatch, "jobs", "--again") == (0, ["jobs"])


def test_another_commit_begins_anew_and_changes_are_not_recorded(
    repository: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert ask(monkeypatch, "client") == (0, ["client"])
    repository["commit"] = "c2"
    repository["changes"] = " M Makefile"
    assert ask(monkeypatch, "client") == (0, ["client"])
    repository["changes"] = ""
    assert ask(monkeypatch, "client", "jobs") == (0, ["client", "jobs"])
    told = json.loads((tmp_path / ".test-full.json").read_text())
    assert (told["commit"], list(told["passed"])) == ("c2", ["client", "jobs"])


def test_a_part_that_nobody_knows_is_refused(repository: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        ask(monkeypatch, "clients")
