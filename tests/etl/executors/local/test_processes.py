"""Worker processes that fail in ways of their own, and what the driver's surroundings are to them. No broker: the
records are in log files."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

import local_writes
from kseg.etl.executors.local.pool import LocalExecutor
from kseg.etl.executors.port import Read
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import WorkerError
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.encode.batches import Record, encode_batch

COUNT = 100


@pytest.fixture
def executor() -> Iterator[LocalExecutor]:
    made = LocalExecutor(workers=1)
    yield made
    made.close()


@pytest.fixture
def read(tmp_path: Path, log_files: Any) -> Read:
    folder = tmp_path / "logs" / "t-0"
    log_files.write_partition(folder, [[encode_batch([Record(None, b"v")] * COUNT)]])
    task = RangeTask("t", 0, 0, COUNT, folder=str(folder))
    return Read((task,), LogFiles((str(folder.parent),)), DecodeOptions(), local_writes.count)


def marks_in(folder: Path) -> int:
    return len(list(folder.glob("mark-*")))


def test_a_worker_that_dies_in_the_middle_of_its_answer_is_replaced(
    executor: LocalExecutor, read: Read, tmp_path: Path
) -> None:
    [result] = executor.run(replace(read, write=local_writes.DiesInItsAnswer(tmp_path)))
    assert [fact["rows"] for batch in result.outputs for fact in batch.to_pylist()] == [COUNT]
    assert marks_in(tmp_path) == 1


def test_a_library_that_ends_the_process_is_named_and_not_tried_again(
    executor: LocalExecutor, read: Read, tmp_path: Path
) -> None:
    with pytest.raises(WorkerError, match="SystemExit: of a library"):
        executor.run(replace(read, write=local_writes.Leaves(tmp_path)))
    assert marks_in(tmp_path) == 1


def test_processes_find_modules_where_the_driver_does(
    executor: LocalExecutor, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the working folder first; and Python ignores entries of its search path that are not text."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for module in ("contextlib", "json", "signal", "socket"):
        (elsewhere / f"{module}.py").write_text("raise RuntimeError('of the working folder')\n")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(sys, "path", [*(entry for entry in sys.path if entry), tmp_path])
    assert len(executor.run(read)) == 1


@pytest.mark.parametrize("way", ["fork", "program"])
def test_a_process_that_a_step_has_started_does_not_hide_the_end_of_its_worker(
    executor: LocalExecutor, read: Read, tmp_path: Path, way: str
) -> None:
    try:
        [result] = executor.run(replace(read, write=local_writes.LeavesAChild(tmp_path, way)))
    finally:
        for mark in tmp_path.glob("mark-*"):
            os.kill(int(mark.name.removeprefix("mark-")), signal.SIGKILL)
    assert [fact["attempt"] for batch in result.outputs for fact in batch.to_pylist()] == [1]


def test_the_processor_time_of_workers_counts_as_the_servers(executor: LocalExecutor, read: Read) -> None:
    """And with it as the driver's, once it has waited for the server. The times of children that nobody waits for are
    lost."""
    before = {child.pid for child in psutil.Process().children()}
    assert len(executor.run(replace(read, write=local_writes.works))) == 1
    [server] = [child for child in psutil.Process().children() if child.pid not in before]
    while server.children():  # the worker, which ends after its last answer
        time.sleep(0.01)
    assert server.cpu_times().children_user + server.cpu_times().children_system >= local_writes.WORK_SECONDS


def test_what_a_step_prints_goes_to_stderr(
    executor: LocalExecutor, read: Read, capfd: pytest.CaptureFixture[str]
) -> None:
    """The driver's stdout is a command's result, such as its JSON."""
    assert len(executor.run(replace(read, write=local_writes.prints))) == 1
    executor.close()
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == ["printed by a step", "written by a library"]
