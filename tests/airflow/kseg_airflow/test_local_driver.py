"""A driver as a process of its own: detached, watched by id and creation time, stopped with all that it has started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from kseg_airflow.drivers import local
from kseg_airflow.drivers.handles import handle_of
from kseg_airflow.drivers.local import DriverAlive, LocalDriver, followed_lines, progress_line, start
from kseg_airflow.outcomes import Outcome
from kseg_airflow.processes import find, session_members, ticks_of

if TYPE_CHECKING:
    from kseg_process import Kseg


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "task" / "try-1"
    path.mkdir(parents=True)
    return path


def sh(folder: Path, script: str, **more: object) -> LocalDriver:
    return start(["/bin/sh", "-c", script], folder, env=dict(os.environ), **more)  # type: ignore[arg-type]


def until(found: Callable[[], object], what: str) -> object:
    deadline = time.monotonic() + 120
    while not (answer := found()):
        assert time.monotonic() < deadline, f"{what} has not happened"
        time.sleep(0.05)
    return answer


def ended(driver: LocalDriver) -> Outcome:
    outcome = until(driver.poll, "the driver's end")
    assert isinstance(outcome, Outcome)
    return outcome


@pytest.mark.parametrize("code", [0, 2, 3, 4, 5])
def test_exit_code_and_printed_document_are_the_outcome(folder: Path, code: int) -> None:
    driver = sh(folder, f"""echo '{{"job": "orders"}}'; echo working >&2; exit {code}""")
    assert ended(driver) == Outcome(code, {"job": "orders"})
    assert driver.log_file.read_text() == "working\n"


def test_a_command_that_is_not_there_is_told_by_the_shells_code(folder: Path) -> None:
    driver = start([str(folder / "missing")], folder, env=dict(os.environ))
    assert ended(driver).exit_code == 127
    assert "not found" in driver.log_file.read_text()


def test_the_driver_outlives_whoever_started_it_and_is_found_by_its_handle(folder: Path) -> None:
    gate = folder / "gate"
    code = f"""
import json, os
from pathlib import Path
from kseg_airflow.drivers.local import start
script = "while [ ! -e {gate} ]; do sleep 0.05; done; exit 3"
driver = start(["/bin/sh", "-c", script], Path({str(folder)!r}), env=dict(os.environ))
print(json.dumps(driver.to_json()), flush=True)
os.kill(os.getpid(), 9)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    starter = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert starter.returncode == -signal.SIGKILL, starter.stderr
    driver = handle_of(json.loads(starter.stdout))
    assert isinstance(driver, LocalDriver)
    assert driver.poll() is None
    process = find(driver.pid, driver.began)
    assert process is not None
    assert os.getsid(process.pid) not in (
        os.getsid(0),
        process.pid,
    )
    gate.touch()
    assert ended(driver).exit_code == 3


def test_no_second_driver_is_started_beside_a_living_one(folder: Path) -> None:
    driver = sh(folder, "exec sleep 600")
    second = folder.with_name("try-2")
    second.mkdir()
    try:
        with pytest.raises(DriverAlive):
            sh(second, "true")
    finally:
        driver.stop(10)
    assert ended(sh(second, "true")).exit_code == 0


def test_what_a_driver_of_which_nobody_has_a_record_left_in_a_folder_is_not_the_next_ones(folder: Path) -> None:
    assert ended(sh(folder, "echo '{}'; exit 3")).exit_code == 3
    driver = sh(folder, "exec sleep 600")
    try:
        assert driver.poll() is None
    finally:
        driver.stop(10)


def test_a_killed_driver_is_told_by_the_shell_above_it(folder: Path) -> None:
    driver = sh(folder, f"echo $$ > {folder}/pid; exec sleep 600")
    pid = int(str(until(lambda: (folder / "pid").exists() and (folder / "pid").read_text().strip(), "a pid")))
    os.kill(pid, signal.SIGKILL)
    outcome = ended(driver)
    assert outcome.exit_code == 128 + signal.SIGKILL
    assert outcome.killed


def test_a_driver_that_is_gone_with_its_shell_leaves_no_exit_code(folder: Path) -> None:
    driver = sh(folder, "exec sleep 600")
    for process in session_members(driver.session):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    outcome = ended(driver)
    assert outcome.exit_code is None
    assert outcome.killed


def test_a_process_id_that_is_used_again_is_not_taken_for_the_driver(folder: Path) -> None:
    driver = sh(folder, "exec sleep 600")
    try:
        assert driver.alive()
        assert driver.ticks is not None
        assert not replace(driver, ticks=driver.ticks - 1).alive()
        # Records of releases before this one.
        assert replace(driver, ticks=None).alive()
        assert not replace(driver, ticks=None, began=driver.began - 100).alive()
    finally:
        driver.stop(10)


def test_a_clock_that_is_set_does_not_end_a_driver(folder: Path) -> None:
    """The time when a process began, in seconds since 1970, is computed from the clock as it is now."""
    driver = sh(folder, "exec sleep 600")
    try:
        assert replace(driver, began=driver.began - 3600).alive()
    finally:
        driver.stop(10)


def test_stopping_lets_a_driver_end_in_order_and_takes_along_what_it_started(folder: Path) -> None:
    driver = sh(folder, f"trap 'echo released >&2; exit 1' TERM; sleep 600 & echo $! > {folder}/child; wait")
    child = int(str(until(lambda: (folder / "child").exists() and (folder / "child").read_text().strip(), "a child")))
    assert driver.stop(30)
    assert "released" in driver.log_file.read_text()
    assert ended(driver).exit_code == 1
    assert child not in [process.pid for process in session_members(driver.session)]


def test_a_driver_that_does_not_listen_is_stopped_by_force(folder: Path) -> None:
    driver = sh(folder, f"trap '' TERM; touch {folder}/ready; while :; do sleep 0.1; done")
    until((folder / "ready").exists, "the driver's start")
    assert driver.stop(0.5)
    assert session_members(driver.session) == []


def test_a_process_that_is_gone_at_the_last_look_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ends while it is looked at for the last time was an error."""
    driver = sh(folder, "exec sleep 600")

    def slow(members: list[psutil.Process], timeout: float) -> tuple[list[psutil.Process], list[psutil.Process]]:
        gone, alive = wait(members, timeout=120)
        return [], [*gone, *alive]

    wait = psutil.wait_procs
    monkeypatch.setattr(psutil, "wait_procs", slow)
    assert driver.stop(0)


def test_secrets_are_removed_with_the_driver(folder: Path) -> None:
    secrets = folder / "kafka.properties"
    secrets.write_text("sasl.password=hunter2")
    driver = sh(folder, f"cat {secrets} >&2", secrets=secrets)
    assert ended(driver).exit_code == 0
    assert driver.log_file.read_text() == "sasl.password=hunter2"
    assert not secrets.exists()


FAR = "another-host/boot/pid:[1]"


def test_from_another_host_a_driver_lives_as_long_as_its_run_file_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the other host's clock says: a living driver was taken for dead where that was two minutes behind."""
    far = LocalDriver(str(folder), 1, time.time(), 1, FAR)
    assert far.poll() is None
    (folder / "run.json").write_text(json.dumps({"updated_at": "2026-01-01T00:00:00+00:00"}))
    assert far.poll() is None
    monkeypatch.setattr(local, "_SILENT_FOR", 0.0)
    assert far.poll() == Outcome(None, None)
    (folder / "run.json").write_text(json.dumps({"updated_at": "2026-01-01T00:00:10+00:00"}))
    monkeypatch.setattr(local, "_SILENT_FOR", 120.0)
    assert far.poll() is None
    assert not far.stop(1)


def test_a_process_without_a_run_file_is_seen_from_another_host_by_its_heartbeat(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As spark-submit, which hands a driver over, and commands that only answer: after two minutes they were gone."""
    assert "sleep 10;" in local._HEART
    monkeypatch.setattr(local, "_HEART", local._HEART.replace("sleep 10;", "sleep 1;"))
    driver = sh(folder, "exec sleep 600")
    far = replace(driver, place=FAR)
    try:
        beat = until(lambda: (folder / "heartbeat").exists() and (folder / "heartbeat").read_text(), "a heartbeat")
        assert far.alive()
        monkeypatch.setattr(local, "_SILENT_FOR", 0.0)
        assert not far.alive()
        monkeypatch.setattr(local, "_SILENT_FOR", 120.0)
        until(lambda: (folder / "heartbeat").read_text() not in ("", beat), "another heartbeat")
        assert far.alive()
    finally:
        driver.stop(10)
    until(lambda: not _writes(folder), "the heartbeat's end")


def _writes(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(folder) in process.cmdline():
                found.append(process)
    return found


def test_a_task_that_is_killed_while_it_stops_its_driver_does_not_save_it(folder: Path) -> None:
    """Airflow 3 kills a task five seconds after SIGTERM; the force of `kill_grace` never came."""
    (folder / "kafka.properties").write_text("sasl.password=hunter2")
    driver = sh(folder, f"trap '' TERM; touch {folder}/ready; while :; do sleep 0.1; done")
    until((folder / "ready").exists, "the driver's start")
    code = f"""
import json, threading, os, time
from kseg_airflow.drivers import local
from kseg_airflow.drivers.handles import handle_of
driver = handle_of(json.loads({json.dumps(driver.to_json())!r}))
run = local.subprocess.run
def started(*words, **more):
    run(*words, **more)
    os.kill(os.getpid(), 9)
local.subprocess.run = started
driver.stop_detached(1)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    task = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert task.returncode == -signal.SIGKILL, task.stderr
    until(lambda: not session_members(driver.session), "the driver's end")
    until(lambda: not (folder / "kafka.properties").exists(), "the end of its secrets")


def test_secrets_of_a_driver_that_was_stopped_by_force_are_removed(folder: Path) -> None:
    secrets = folder / "kafka.properties"
    secrets.write_text("sasl.password=hunter2")
    driver = sh(folder, f"trap '' TERM; touch {folder}/ready; while :; do sleep 0.1; done", secrets=secrets)
    until((folder / "ready").exists, "the driver's start")
    assert driver.stop(0.5)
    assert not secrets.exists()


def test_from_another_host_a_driver_is_stopped_by_way_of_its_folder(kseg: Kseg, folder: Path, tmp_path: Path) -> None:
    """A triggerer seldom runs where the driver does: a task that was cancelled there had its driver go on."""
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a broker that says nothing: the run waits
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        job = tmp_path / "orders.yaml"
        job.write_text(
            json.dumps(
                {
                    "version": 1,
                    "name": "orders",
                    "kafka": {"bootstrap.servers": servers, "default.api.timeout.ms": "900000"}
                    | {"request.timeout.ms": "900000"},
                    "source": {"topics": ["orders"]},
                    "sink": {"path": "./table"},
                    "ledger": "./_ledger",
                    "group": "orders",
                }
            )
        )
        words = [str(kseg), "ingest", str(job), "--json", "--run-file", str(folder / "run.json")]
        driver = start(words, folder, env=dict(os.environ))
        try:
            until(driver.run_file, "the first sign of life")
            assert replace(driver, place="another-host/boot/pid:[1]").stop(120)
            outcome = ended(driver)
            assert outcome.error["kind"] == "Terminated"
            assert outcome.killed
        finally:
            driver.stop(10)


def test_a_lease_is_a_dead_drivers_only_where_its_process_is_proven_dead(folder: Path) -> None:
    driver = sh(folder, "exec sleep 600")
    process = psutil.Process(driver.pid)
    told = {"host": "here", "pid": process.pid, "pid_started": process.create_time(), "state": "running"}
    (folder / "run.json").write_text(json.dumps(told))
    assert not driver.proven_dead(f"here:{process.pid}:ab12")
    driver.stop(10)
    ended(driver)
    assert driver.proven_dead(f"here:{process.pid}:ab12")
    assert not driver.proven_dead(f"there:{process.pid}:ab12")
    assert not driver.proven_dead("here:1:ab12")


def test_a_clock_that_is_set_does_not_prove_a_driver_dead(folder: Path) -> None:
    """The kernel's creation times move with the wall clock: the lease of a driver that lived was taken over."""
    shell = sh(folder, f"sleep 600 & echo $! >{folder.parent}/pid; wait")
    pid = int(until(lambda: (folder.parent / "pid").exists() and (folder.parent / "pid").read_text(), "the driver"))
    before_the_step = psutil.Process(pid).create_time() - 5
    told = {"host": "here", "pid": pid, "pid_started": before_the_step, "pid_ticks": ticks_of(pid)}
    (folder / "run.json").write_text(json.dumps(told))
    os.kill(shell.pid, signal.SIGKILL)
    until(lambda: not shell.alive(), "the end of the shell above it")
    try:
        assert not shell.proven_dead(f"here:{pid}:ab12")
    finally:
        os.kill(pid, signal.SIGKILL)
    until(lambda: shell.proven_dead(f"here:{pid}:ab12"), "the end of the driver")


def test_lines_are_followed_whole(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    assert followed_lines(log, 0) == ([], 0)
    log.write_bytes("plan …\nla".encode())
    lines, offset = followed_lines(log, 0)
    assert lines == ["plan …"]
    with log.open("ab") as file:
        file.write(b"nd\n")
    assert followed_lines(log, offset) == (["land"], log.stat().st_size)


def test_progress_is_one_line() -> None:
    told = {"phase": "land", "progress": {"done": 250, "total": 1000, "unit": "rows"}}
    assert progress_line(told) == "land: 250 of 1000 (25%) rows"
    assert progress_line({"phase": "plan", "progress": None}) == "plan"
    assert progress_line(None) is None
