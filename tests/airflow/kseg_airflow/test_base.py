"""A task that is stopped while its driver is being started or stopped: nothing is left behind that nobody watches."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_process import wait_for
from kseg_airflow.compat import AirflowException, logical_identity
from kseg_airflow.drivers.handles import handle_of
from kseg_airflow.operators import KsegCommandOperator
from kseg_airflow.processes import session_members
from kseg_airflow.run_folder import RunFolder

#: A driver that ends by force alone: what it is asked to do it does not do.
DEAF = "trap '' TERM; touch $(dirname $0)/deaf; while :; do sleep 0.1; done"

CONTEXT: dict[str, Any] = {"ti": SimpleNamespace(dag_id="orders", task_id="tidy", run_id="by_hand", map_index=-1)}


@pytest.fixture
def stopped_by_signal() -> Iterator[list[KsegCommandOperator]]:
    """As Airflow's task process does: the handler calls `on_kill`, and `execute` goes on where it was."""
    tasks: list[KsegCommandOperator] = []
    before = signal.signal(signal.SIGTERM, lambda *_: tasks[0].on_kill())
    yield tasks
    signal.signal(signal.SIGTERM, before)


class Slow(KsegCommandOperator):
    """Has a driver, and nobody has its handle yet, until the signal has come."""

    def _tidy(self) -> None:
        wait_for(lambda: self._told_to_stop, "the signal")


def operator(folder: Path, script: str, **more: Any) -> KsegCommandOperator:
    program = folder / "kseg"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Slow(
        task_id="tidy",
        command="maintain",
        kseg=str(program),
        run_dir=str(folder / "runs"),
        **{"kill_grace": 10, **more},
    )


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_driver_that_is_just_being_started_is_stopped_too(
    tmp_path: Path, stopped_by_signal: list[KsegCommandOperator], deferrable: bool
) -> None:
    task = operator(tmp_path, f"kill -TERM {os.getpid()}; exec sleep 600", deferrable=deferrable)
    stopped_by_signal.append(task)
    with pytest.raises(AirflowException, match="being started"):
        task.execute(CONTEXT)
    record = RunFolder.of(str(tmp_path / "runs"), logical_identity(CONTEXT)).record()
    assert record is not None
    assert record.stopped
    assert session_members(record.handle["session"]) == []
    assert handle_of(record.handle).poll() is not None


def test_no_driver_is_started_for_a_task_that_is_stopped_by_then(tmp_path: Path) -> None:
    task = operator(tmp_path, "exec sleep 600")
    task.on_kill()
    with pytest.raises(AirflowException, match="before its driver was started"):
        task.execute(CONTEXT)
    assert RunFolder.of(str(tmp_path / "runs"), logical_identity(CONTEXT)).record() is None


class TimeIsOver(BaseException):
    """As Airflow's AirflowTaskTimeout: the handler of a signal raises it, wherever the task is."""


@pytest.mark.parametrize("how", ["overdue", "other arguments"])
def test_a_stop_that_airflow_cuts_off_goes_on_without_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A resumed task has `execution_timeout` once more: a driver that took longer to end lived on, or its JVM did."""
    task = operator(tmp_path, DEAF, deferrable=True, kill_grace=1)
    monkeypatch.setattr(task, "_tidy", lambda: None)
    with pytest.raises(TaskDeferred):
        task.execute(CONTEXT)
    record = RunFolder.of(str(tmp_path / "runs"), logical_identity(CONTEXT)).record()
    assert record is not None
    wait_for((tmp_path / "deaf").exists, "the driver's start")

    def cut_off(_: float) -> None:
        raise TimeIsOver

    def goes_on() -> None:
        if how == "overdue":
            task.resume_execution("__fail__", {"error": "Trigger timeout"}, CONTEXT)
        else:
            operator(tmp_path, DEAF, options={"vacuum": "7d"}, kill_grace=1).execute(CONTEXT)

    monkeypatch.setattr(time, "sleep", cut_off)
    with pytest.raises(TimeIsOver):
        goes_on()
    monkeypatch.undo()
    wait_for(lambda: not session_members(record.handle["session"]), "the driver's end")
