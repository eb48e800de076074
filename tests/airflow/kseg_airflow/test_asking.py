"""Questions to `kseg` that never become one: what is told names what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg_airflow.asking import ask
from kseg_airflow.compat import AirflowFailException
from kseg_airflow.hooks import KsegHook
from kseg_airflow.outcomes import NOT_EXECUTABLE, NOT_FOUND


def test_a_missing_command_and_a_missing_folder_are_told_apart(tmp_path: Path) -> None:
    missing = ask([str(tmp_path / "kseg"), "status"])
    assert missing.exit_code == NOT_FOUND
    assert str(tmp_path / "kseg") in str(missing.detail)
    nowhere = ask(["/bin/echo", "{}"], cwd=str(tmp_path / "nowhere"))
    assert nowhere.exit_code == NOT_FOUND
    assert str(tmp_path / "nowhere") in str(nowhere.detail)
    assert ask(["/bin/echo", "{}"], cwd=str(tmp_path)).document == {}


def test_a_file_that_is_no_program_fails_for_good(tmp_path: Path) -> None:
    (tmp_path / "kseg").write_text("#!/bin/sh\n")
    assert ask([str(tmp_path / "kseg")]).exit_code == NOT_EXECUTABLE
    with pytest.raises(AirflowFailException, match="cannot be executed"):
        KsegHook(kseg=str(tmp_path / "kseg")).status("orders.yaml")


def program(folder: Path, text: str) -> str:
    """A program that prints the text and exits with 3."""
    path = folder / "kseg"
    path.write_text(f"#!/bin/sh\necho '{text}'\nexit 3\n")
    path.chmod(0o755)
    return str(path)


def test_the_status_of_a_job_that_needs_a_person_is_an_answer(tmp_path: Path) -> None:
    kseg = program(tmp_path, '{"runs": [], "problems": ["a run failed"]}')
    assert KsegHook(kseg=kseg).status("orders.yaml") == {"runs": [], "problems": ["a run failed"]}
    with pytest.raises(AirflowFailException):
        KsegHook(kseg=kseg).run("plan", "orders.yaml")


def test_a_refused_status_fails_for_good(tmp_path: Path) -> None:
    kseg = program(tmp_path, '{"error": {"message": "not this ledger"}, "exit_code": 3}')
    with pytest.raises(AirflowFailException, match="not this ledger"):
        KsegHook(kseg=kseg).status("orders.yaml")
