"""Files go to processes that run already what they ask for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import scheduling
from scheduling import Demand, choose, quotas, read_demands, write_demands

HARNESS = Path(__file__).parent
NOTHING: frozenset[str] = frozenset()
KAFKA, SPARK, THREE = frozenset({"kafka"}), frozenset({"kafka", "spark"}), frozenset({"kafka", "kafka3"})


FILES = {
    "crashes": Demand(100, SPARK),
    "runs": Demand(80, SPARK),
    "leaders": Demand(50, THREE),
    "groups": Demand(40, KAFKA),
    "start": Demand(35, NOTHING),
    "racks": Demand(30, THREE),
    "words": Demand(3, NOTHING),
    "topics": Demand(3, KAFKA),
}
QUOTA = quotas(FILES, 3)


def order(started: frozenset[str], *others: frozenset[str]) -> list[str]:
    """All files as one process would take them."""
    queue, taken = dict(FILES), []
    while queue:
        taken.append(choose(queue, QUOTA, started, others))
        started |= queue.pop(taken[-1]).needs
    return taken


def test_as_many_start_a_thing_as_is_its_share_of_the_work() -> None:
    assert {need: count for need, count in QUOTA.items() if count} == {"kafka": 3, "spark": 2, "kafka3": 1}
    assert order(NOTHING, NOTHING, NOTHING)[:2] == ["crashes", "runs"]
    assert order(NOTHING, SPARK, NOTHING)[:2] == ["crashes", "runs"]
    assert order(NOTHING, SPARK, SPARK)[:2] == ["leaders", "racks"]


def test_long_files_come_first_then_short_ones_that_ask_for_nothing_then_what_others_have() -> None:
    """But for those that ask for three nodes: such files follow each other, so that the nodes can be stopped then."""
    assert order(KAFKA, SPARK, SPARK | THREE) == [
        *("groups", "start", "topics"),
        "words",
        *("crashes", "runs", "leaders", "racks"),
    ]
    assert order(THREE, SPARK, SPARK) == [
        *("leaders", "racks", "groups", "start", "topics"),
        "words",
        *("crashes", "runs"),
    ]


def test_word_of_what_files_take_is_read_once() -> None:
    write_demands("of-a-test", FILES)
    assert read_demands("of-a-test") == FILES
    assert read_demands("of-a-test") == {}


CONFTEST = """
import scheduling

def pytest_xdist_make_scheduler(config, log):
    return scheduling.ByNeeds(config, log)

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(scheduling.Failures(config), "failures")
"""
DIES = """
import os, pytest

@pytest.mark.parametrize("number", range(5))
def test_it(number):
    if number == 2:
        os._exit(1)
"""
PASSES = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_it(number):
    pass
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_of_a_process_that_dies_all_other_tests_run_once_and_the_run_ends(tmp_path: Path, processes: int) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(4):
        (tmp_path / f"test_before{number}.py").write_text(PASSES)
    (tmp_path / "test_dies.py").write_text(DIES)
    (tmp_path / "test_later.py").write_text(PASSES)
    command = [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-p", "no:cacheprovider", "-rA"]
    command += ["--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(
        [*command, "--numprocesses", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"],
        env=os.environ | {"PYTHONPATH": str(HARNESS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "1 failed, 29 passed" in done.stdout
    named = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert [line.partition("::")[2].partition(" ")[0] for line in named] == 2 * ["test_it[2]"], (
        "at once, and at the end"
    )
    assert "crashed while running" in named[0]


def test_what_files_take_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "seconds.json"
    record.write_text('{"tests/a.py": 40, "tests/b.py": 50, "tests/gone.py": 60}')
    (tmp_path / "tests").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "tests" / f"{name}.py").touch()
    monkeypatch.setattr(scheduling, "RECORD", record)
    recorder = scheduling.Recorder(tmp_path)
    for name, seconds in (("a.py::x", 3.0), ("a.py::y", 2.6), ("c.py::x", 0.5)):
        recorder.pytest_runtest_logreport(SimpleNamespace(nodeid=f"tests/{name}", duration=seconds))
    recorder.pytest_sessionfinish()
    assert json.loads(record.read_text()) == {"tests/a.py": 6, "tests/b.py": 50}
