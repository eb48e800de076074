"""Children: waited for until they are ready, and told about with their log where they are not."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kseg.jobs.broker.child import Child, await_ready, end_all, run_logged
from kseg.jobs.broker.errors import StartFailed
from kseg.jobs.broker.ports import on_free_ports


@pytest.fixture
def children(tmp_path: Path) -> Iterator[dict[str, Child]]:
    def child(name: str, script: str) -> Child:
        return Child(["/bin/sh", "-c", script], log_file=tmp_path / name, directory=tmp_path, remove=False)

    found = {
        "the first": child("first.log", "exec sleep 600"),
        "the second": child("second.log", "echo no port; exit 1"),
    }
    yield found
    end_all(list(found.values()), signal.SIGKILL, 20)


def test_one_that_ended_is_told_with_its_log_although_somebody_answers(children: dict[str, Child]) -> None:
    children["the second"].end(20)
    with pytest.raises(StartFailed, match=r"the second ended during its start:\nno port"):
        await_ready(children, lambda: True, within=60)


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_one_that_is_left_running_outlives_its_object_without_a_warning(tmp_path: Path) -> None:
    child = Child(["/bin/sh", "-c", "exec sleep 600"], log_file=tmp_path / "log", directory=tmp_path, remove=False)
    process = psutil.Process(child.pid)
    child.leave_running()
    del child
    gc.collect()
    assert process.is_running()
    process.kill()
    process.wait(60)


def test_one_that_does_not_answer_is_told(children: dict[str, Child]) -> None:
    first = {"the first": children["the first"]}
    with pytest.raises(StartFailed, match="the first did not answer within 0 s"):
        await_ready(first, lambda: False, within=0)
    asked: list[int] = []
    await_ready(first, lambda: asked.append(1) or len(asked) == 3, within=60)
    assert len(asked) == 3


def test_what_comes_before_a_start_tells_what_it_wrote(tmp_path: Path) -> None:
    log = tmp_path / "format.log"
    run_logged(["/bin/sh", "-c", "echo formatted"], log, "nothing")
    with pytest.raises(StartFailed, match=r"node 1 could not be formatted:\nformatted\nno disk"):
        run_logged(["/bin/sh", "-c", "echo no disk; exit 3"], log, "node 1 could not be formatted")


@pytest.mark.parametrize(("message", "tries"), [("java.net.BindException: in use", 3), ("no such setting", 1)])
def test_other_ports_are_tried_only_where_a_port_was_taken(message: str, tries: int) -> None:
    done: list[str] = []

    def start() -> None:
        done.append("start")
        raise StartFailed(message)

    with pytest.raises(StartFailed, match=message):
        on_free_ports(start, lambda: done.append("clear"))
    assert done == ["start", "clear"] * tries
