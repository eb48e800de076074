"""Run folders are removed when they are old and their driver has ended, and no others."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kseg_airflow.drivers.local import LocalDriver, start
from kseg_airflow.retention import retention_days, tidy
from kseg_airflow.run_folder import DriverRecord, RunFolder

DAY = 86_400


def task(run_dir: Path, run: str, script: str = "true", *, days: float = 0, taken: bool = True) -> RunFolder:
    """The folder of a task whose driver ran a script; last written so many days ago."""
    folder = RunFolder.of(str(run_dir), {"dag_id": "orders", "run_id": run, "task_id": "ingest"})
    with folder.locked():
        driver = start(["/bin/sh", "-c", script], folder.try_folder(1), env=dict(os.environ))
        folder.keep(DriverRecord(1, driver.to_json(), "asked", "", taken=taken))
    if "sleep" not in script:
        deadline = time.monotonic() + 300
        while driver.alive() or not (folder.path / "try-1" / "exit").exists() or may_write_yet(folder.path / "try-1"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    age(folder.path, days)
    return folder


def may_write_yet(try_folder: Path) -> bool:
    """Whether the process that tells that a driver lives has yet to look, which may be after the driver's end."""
    heartbeat = try_folder / "heartbeat"
    if heartbeat.exists() and heartbeat.read_text():
        return False
    processes = psutil.process_iter(["cmdline"])
    return any(str(try_folder) in (process.info["cmdline"] or ()) for process in processes)


def age(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    for each in (*path.rglob("*"), path):
        os.utime(each, (then, then))


def driver_of(folder: RunFolder) -> LocalDriver:
    record = folder.record()
    assert record is not None
    return LocalDriver(**record.handle)


def test_what_is_old_goes_and_what_is_young_or_not_ours_stays(tmp_path: Path) -> None:
    old, young = task(tmp_path, "old", days=31), task(tmp_path, "young", days=29)
    nobody_took = task(tmp_path, "nobody-took", "exit 4", days=31, taken=False)
    foreign = tmp_path / "somebody" / "elses" / "folder"
    foreign.mkdir(parents=True)
    age(tmp_path / "somebody", 400)
    assert sorted(tidy(str(tmp_path), 30)) == sorted([str(nobody_took.path), str(old.path)])
    assert not old.path.parent.exists()
    assert (young.path / "try-1" / "exit").exists()
    assert foreign.exists()


def test_a_driver_that_lives_keeps_its_folder_however_old(tmp_path: Path) -> None:
    folder = task(tmp_path, "long", "exec sleep 600", days=400, taken=False)
    driver = driver_of(folder)
    try:
        assert tidy(str(tmp_path), 30) == []
    finally:
        driver.stop(10)
    age(folder.path, 400)
    (tmp_path / ".tidied").unlink()
    assert tidy(str(tmp_path), 30) == [str(folder.path)]
    assert not (tmp_path / "orders").exists()


def test_a_cluster_that_cannot_be_asked_keeps_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = task(tmp_path, "far", taken=False)
    record = folder.record()
    assert record is not None

    def away(_: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr(LocalDriver, "poll", away)
    age(folder.path, 31)
    assert tidy(str(tmp_path), 30) == []
    folder.keep(replace(record, stopped=True))
    age(folder.path, 31)
    (tmp_path / ".tidied").unlink()
    assert tidy(str(tmp_path), 30) == [str(folder.path)]


def test_it_looks_once_a_day_and_never_where_all_is_kept(tmp_path: Path) -> None:
    task(tmp_path, "a", days=31)
    assert tidy(str(tmp_path), 0) == []
    (tmp_path / ".tidied").unlink()
    assert len(tidy(str(tmp_path), 30)) == 1
    task(tmp_path, "b", days=31)
    assert tidy(str(tmp_path), 30) == []
    os.utime(tmp_path / ".tidied", (time.time() - DAY - 1,) * 2)
    assert len(tidy(str(tmp_path), 30)) == 1


def test_secrets_that_a_killed_driver_has_left_go_at_any_age(tmp_path: Path) -> None:
    folder = task(tmp_path, "young", days=0, taken=False)
    living = task(tmp_path, "living", "exec sleep 600", days=0, taken=False)
    left, used = (of.path / "try-1" / "kafka.properties" for of in (folder, living))
    try:
        for file in (left, used):
            file.write_text("sasl.password=hunter2")
        assert tidy(str(tmp_path), 0) == []
        assert (left.exists(), used.exists()) == (False, True)
        assert (folder.path / "record.json").exists()
    finally:
        driver_of(living).stop(10)


def test_another_tasks_folder_that_cannot_be_tidied_is_a_warning(tmp_path: Path) -> None:
    """Its driver's connection was deleted, so that it cannot be asked for: the task that tidied failed."""
    deleted = RunFolder.of(str(tmp_path), {"dag_id": "orders", "run_id": "deleted", "task_id": "ingest"})
    with deleted.locked():
        batch = {"kind": "livy", "batch_id": 7, "conn_id": "kseg_deleted", "name": "n", "mark": "m"}
        deleted.keep(DriverRecord(1, batch, "asked", ""))
    age(deleted.path, 31)
    old = task(tmp_path, "old", days=31)
    told: list[str] = []
    assert tidy(str(tmp_path), 30, told.append) == [str(old.path)]
    [warning] = told
    assert str(deleted.path) in warning
    assert "kseg_deleted" in warning


def test_a_task_that_comes_while_its_old_folder_is_removed_makes_a_new_one(tmp_path: Path) -> None:
    folder = task(tmp_path, "cleared", days=31)
    entered: list[bool] = []

    def enter() -> None:
        with folder.locked():
            entered.append((folder.path / "lock").exists() and folder.record() is None)

    comes = threading.Thread(target=enter)

    def over(_: RunFolder) -> bool:
        comes.start()
        time.sleep(0.2)  # it waits for the lock of the folder that is about to go, or finds none: both are right
        return True

    assert folder.remove_if(over)
    comes.join(60)
    assert entered == [True]


def test_the_setting_is_a_number_of_days(monkeypatch: pytest.MonkeyPatch) -> None:
    assert retention_days() == 30
    monkeypatch.setenv("KSEG_RUN_RETENTION_DAYS", "0.5")
    assert retention_days() == 0.5
    monkeypatch.setenv("KSEG_RUN_RETENTION_DAYS", "-1")
    with pytest.raises(ValueError, match="run_retention_days"):
        retention_days()
