"""The log files of failed commands: the newest are kept, and no other program's file is removed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from kseg.jobs.invocation.error_log import KEPT, write_log


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: Any) -> Path:
    monkeypatch.setenv("KSEG_LOGS", str(tmp_path))
    return tmp_path


def write_many(folder: Path, year: int, text: str = "command: ingest\n\nTraceback\n") -> list[str]:
    names = [f"{year}0101T0000{number:02}-ingest-1.log" for number in range(KEPT + 10)]
    for name in names:
        (folder / name).write_text(text)
    return names


def test_the_newest_logs_are_kept(folder: Path) -> None:
    names = write_many(folder, 2020)
    new = write_log("ingest", "Traceback")
    assert new is not None
    assert {path.name for path in folder.iterdir()} == {*names[-(KEPT - 1) :], new.name}


def test_a_log_stays_where_the_clock_was_set_back(folder: Path) -> None:
    names = write_many(folder, 2999)
    new = write_log("ingest", "Traceback")
    assert new is not None
    assert {path.name for path in folder.iterdir()} == {*names[-(KEPT - 1) :], new.name}


def test_logs_of_other_programs_stay(folder: Path) -> None:
    other = {f"spark-{number}.log" for number in range(KEPT + 10)}
    other |= {f"0-{number}.log" for number in range(KEPT + 10)}
    for name in other:
        (folder / name).write_text("command: ingest\n")
    other |= set(write_many(folder, 2020, "INFO started\n"))
    new = write_log("ingest", "Traceback")
    assert new is not None
    assert {path.name for path in folder.iterdir()} == {*other, new.name}


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize("given", ["", "~/logs", "~nobody-at-all/logs"])
def test_a_user_without_a_home_has_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """The handler of errors raised RuntimeError itself, and hid what had happened."""
    for variable in ("KSEG_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("KSEG_LOGS", given)
    new = write_log("ingest", "Traceback")
    assert new is not None
    assert new.is_relative_to(tmp_path)


@pytest.mark.usefixtures("homeless")
def test_without_any_place_to_write_there_is_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("KSEG_LOGS", "KSEG_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "away"))
    assert write_log("ingest", "Traceback") is None
