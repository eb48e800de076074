"""A second try: what passes then is named, and what decides on rows has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import second_try

FLAKY = """
from pathlib import Path
def test_well(): pass
def test_of_a_busy_machine():
    seen = Path(__file__).with_name("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
BROKEN = "def test_broken(): assert False\n"
LACKING = f"""
def pytest_sessionfinish(session):
    session.config.cache.set({second_try.WHOLE_FAILED!r}, ["Fetch"])
"""
INTERRUPTED = (
    BROKEN
    + """
def test_then_ctrl_c():
    import os, signal
    os.kill(os.getppid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
"""
)


def run(folder: Path, text: str, most: int, conftest: str = "") -> subprocess.CompletedProcess[str]:
    of_processes = folder / "tests" / "jobs"
    of_processes.mkdir(parents=True)
    (of_processes / "test_it.py").write_text(text)
    (folder / "conftest.py").write_text(conftest)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-c", "/dev/null", "--rootdir", str(folder)]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "KSEG_TEST_SECOND_TRY": str(most)}
    words = [sys.executable, second_try.__file__, *command, str(folder)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)


def test_what_passes_at_the_second_try_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY, most=3)
    assert done.returncode == 0, done.stdout
    assert "test_of_a_busy_machine: failed, and passed at the second try" in done.stdout
    assert "1 passed" in done.stdout.rpartition("A second try")[2]


def test_what_the_suite_lacks_as_a_whole_is_not_hidden(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY, most=3, conftest=LACKING)
    assert done.returncode == 1
    assert "A second try" not in done.stdout


def test_without_being_asked_there_is_none(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY, most=0)
    assert done.returncode == 1
    assert "second try" not in done.stdout


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    done = run(tmp_path, BROKEN, most=3)
    assert done.returncode == 1
    assert "A second try" in done.stdout
    assert "FLAKY" not in done.stdout


def test_a_run_that_is_interrupted_tells_what_had_failed(tmp_path: Path) -> None:
    done = run(tmp_path, INTERRUPTED, most=3)
    assert done.returncode == 2
    assert "test_broken" in done.stdout
    assert "A second try" not in done.stdout


@pytest.mark.parametrize(
    "failed",
    [
        [],
        ["tests/client/live/test_a.py"],
        ["tests/etl/exactly_once/test_a.py::test_rows"],
        ["tests/etl/kafka_writer/test_a.py::test_rows"],
        ["tests/client/live/test_a.py::test_one", "tests/faults/test_drivers.py::test_drivers"],
        [f"tests/client/live/test_a.py::test_{number}" for number in range(4)],
    ],
    ids=["no test, but the run", "not collected", "rows", "rows written to Kafka", "rows among others", "too many"],
)
def test_these_have_no_second_try(failed: list[str]) -> None:
    assert not second_try.may_try_again(failed, 3)


def test_others_have_one() -> None:
    assert second_try.may_try_again(["tests/client/live/test_a.py::test_one[a::b]"], 3)
