"""A try of a task that comes upon the driver of an earlier one: it attaches, takes, delivers again, or starts anew.

`kseg` is a script that counts how often it was started, and prints what a run would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import psutil
import pytest

from airflow_process import wait_for
from kseg_airflow import base
from kseg_airflow.compat import AirflowException, AirflowFailException, logical_identity
from kseg_airflow.drivers.handles import handle_of
from kseg_airflow.drivers.local import LocalDriver
from kseg_airflow.drivers.yarn import YarnDriver
from kseg_airflow.operators import KsegCommandOperator
from kseg_airflow.previous import mark_of
from kseg_airflow.processes import session_members
from kseg_airflow.run_folder import DriverRecord, RunFolder
from kseg_airflow.submission import Submission
from kseg_airflow.submit import local
from kseg_airflow.triggers import KsegRunTrigger

RETRIES = 2


class Deferred(Exception):
    pass


class Task(KsegCommandOperator):
    """Airflow does not run it: a deferral is kept."""

    trigger: KsegRunTrigger | None = None
    kwargs: ClassVar[dict[str, Any]] = {}
    time_left: timedelta | None = None

    def defer(self, *, trigger: Any, kwargs: Any, timeout: Any, **_: Any) -> None:  # type: ignore[override]
        self.trigger, self.kwargs, self.time_left = trigger, kwargs, timeout
        raise Deferred


class Tries:
    """One task instance with two retries, tried again and cleared."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        self.last_retry = RETRIES
        self.run_started = datetime(2026, 5, 1, 2, tzinfo=UTC)
        self.pushed: list[str] = []

    @property
    def run_dir(self) -> Path:
        return self.folder / "runs"

    def task(self, **more: Any) -> Task:
        program = self.folder / "kseg"
        return Task(
            task_id="tidy",
            command="maintain",
            kseg=str(program),
            run_dir=str(self.run_dir),
            poll_interval=0.05,
            kill_grace=10,
            **{"deferrable": False, **more},
        )

    def kseg(self, script: str) -> None:
        program = self.folder / "kseg"
        program.write_text(f"#!/bin/sh\necho run >>{self.folder}/started\n{script}\n")
        program.chmod(0o755)

    def next(self, *, cleared: bool = False) -> dict[str, Any]:
        """The context of another try. cleared: as Airflow clears one task alone; `clear_number` may stay as it is."""
        if cleared:
            self.last_retry = self.number + RETRIES
        self.number += 1
        ti = SimpleNamespace(
            dag_id="orders",
            task_id="tidy",
            run_id="by_hand",
            map_index=-1,
            id=f"id-{self.number}",
            try_number=self.number,
            max_tries=self.last_retry,
            xcom_push=lambda key, value: self.pushed.append(key),
        )
        run = SimpleNamespace(run_id="by_hand", clear_number=0, start_date=self.run_started)
        return {"ti": ti, "dag_run": run}

    def made_again(self) -> None:
        """Its DAG run is deleted, and another one is made with the same id."""
        self.number, self.last_retry = 0, RETRIES
        self.run_started += timedelta(hours=1)

    @property
    def started(self) -> int:
        file = self.folder / "started"
        return len(file.read_text().splitlines()) if file.exists() else 0

    @property
    def run_folder(self) -> RunFolder:
        return RunFolder.of(str(self.run_dir), logical_identity(self.context))

    @property
    def context(self) -> dict[str, Any]:
        ti = SimpleNamespace(dag_id="orders", task_id="tidy", run_id="by_hand", map_index=-1)
        return {"ti": ti}

    def record(self) -> DriverRecord:
        record = self.run_folder.record()
        assert record is not None
        return record

    def driver(self) -> LocalDriver:
        return LocalDriver(**self.record().handle)


@pytest.fixture
def tries(tmp_path: Path) -> Tries:
    return Tries(tmp_path)


SUCCESS = """echo '{"status": "done", "tables": []}'"""
FAILURE = """echo '{"error": {"kind": "ConfigurationError", "message": "wrong"}, "exit_code": 2}'; exit 2"""


def test_a_success_that_airflow_has_not_recorded_is_delivered_again_to_a_retry_and_not_after_a_clear(
    tries: Tries,
) -> None:
    """A worker that died when it had read the result left a retry that found nothing to do, and no asset event."""
    tries.kseg(SUCCESS)
    result = tries.task().execute(tries.next())
    assert tries.task().execute(tries.next()) == result
    assert tries.task(deferrable=True).execute(tries.next()) == result
    assert tries.started == 1
    assert tries.task().execute(tries.next(cleared=True)) == result
    assert tries.started == 2


def test_a_dag_run_that_is_deleted_and_made_again_runs_again(tries: Tries) -> None:
    """Its first try got the old run's success, and nothing ran; so did a retry whose first try had left no record."""
    tries.kseg(SUCCESS)
    result = tries.task().execute(tries.next())
    before = mark_of(tries.next())
    tries.made_again()
    assert tries.task().execute(tries.next()) == result
    assert tries.started == 2
    assert mark_of(tries.next()) != before, "the ledger has what the old run has landed"
    tries.made_again()
    tries.next()
    assert tries.task().execute(tries.next()) == result
    assert tries.started == 3
    assert tries.task().execute(tries.next()) == result
    assert tries.started == 3


def test_a_retry_gets_the_success_although_another_task_of_the_run_was_cleared(tries: Tries) -> None:
    """Airflow 3 counts each clear of a task as one of its DAG run: the landing had no asset event."""
    tries.kseg(SUCCESS)
    result = tries.task().execute(tries.next())
    context = tries.next()
    context["dag_run"].clear_number = 1
    assert tries.task().execute(context) == result
    assert tries.started == 1


def test_a_record_of_an_earlier_release_is_read_and_its_success_is_not_delivered_again(tries: Tries) -> None:
    """It does not say which clear it was for; a driver that still runs is attached to."""
    tries.kseg(GATED.format(folder=tries.folder) + SUCCESS)
    with pytest.raises(Deferred):
        tries.task(deferrable=True).execute(tries.next())
    file = tries.run_folder.path / "record.json"

    def as_before() -> None:
        told = json.loads(file.read_text())
        del told["clear"]
        file.write_text(json.dumps({**told, "cleared": 0}))

    as_before()
    (tries.folder / "go").touch()
    assert tries.task().execute(tries.next())["status"] == "done"
    assert tries.started == 1
    as_before()
    assert tries.task().execute(tries.next())["status"] == "done"
    assert tries.started == 2


def test_other_arguments_are_another_driver(tries: Tries) -> None:
    tries.kseg(SUCCESS)
    tries.task().execute(tries.next())
    tries.task(options={"vacuum": "7d"}).execute(tries.next())
    assert tries.started == 2


def ended_unread(tries: Tries) -> None:
    """A deferred task's driver ends while no triggerer runs."""
    with pytest.raises(Deferred):
        tries.task(deferrable=True).execute(tries.next())
    (tries.folder / "go").touch()
    wait_for(lambda: tries.driver().poll(), "the driver's end")


GATED = "while [ ! -e {folder}/go ]; do sleep 0.05; done\n"


@pytest.mark.parametrize("cleared", [False, True])
def test_an_old_success_is_taken_and_an_old_failure_is_tried_again(tries: Tries, cleared: bool) -> None:
    """Exit 2, mended since: the cleared task failed at once with the old error."""
    gated = GATED.format(folder=tries.folder)
    tries.kseg(gated + SUCCESS)
    ended_unread(tries)
    assert tries.task().execute(tries.next(cleared=cleared))["status"] == "done"
    assert tries.started == 1

    (tries.folder / "go").unlink()
    tries.kseg(gated + FAILURE)
    tries.last_retry += 1
    ended_unread(tries)
    tries.kseg(SUCCESS)
    assert tries.task().execute(tries.next(cleared=cleared))["status"] == "done"
    assert tries.started == 3


def test_one_look_that_fails_fails_no_task_whose_driver_runs(tries: Tries, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that does not answer right after the start, or when a retry comes. A watcher tolerates many such."""
    tries.kseg(GATED.format(folder=tries.folder) + SUCCESS)

    def unavailable(_: LocalDriver) -> None:
        raise OSError("the API server responds with 503")

    with monkeypatch.context() as patch:
        patch.setattr(LocalDriver, "poll", unavailable)
        for _ in range(2):
            with pytest.raises(Deferred):
                tries.task(deferrable=True).execute(tries.next())
        with pytest.raises(OSError, match="503"):  # it may run still, and is another one than the task wants
            tries.task(options={"vacuum": "7d"}).execute(tries.next())
    (tries.folder / "go").touch()
    assert tries.task().execute(tries.next())["status"] == "done"
    assert tries.started == 1


def test_a_failure_of_the_same_try_is_taken(tries: Tries) -> None:
    gated = GATED.format(folder=tries.folder)
    tries.kseg(gated + FAILURE)
    context = tries.next()
    with pytest.raises(Deferred):
        tries.task(deferrable=True).execute(context)
    (tries.folder / "go").touch()
    wait_for(lambda: tries.driver().poll(), "the driver's end")
    with pytest.raises(AirflowFailException, match="wrong"):
        tries.task(deferrable=True).execute_complete(context, {"problem": "no route"})
    assert tries.started == 1


def test_a_trigger_whose_task_was_cleared_leaves_the_driver_to_the_try_that_follows_it(tries: Tries) -> None:
    """The old trigger's stop killed the driver that the new try had attached to."""
    tries.kseg(GATED.format(folder=tries.folder) + SUCCESS)
    old, new = tries.task(deferrable=True), tries.task(deferrable=True)
    with pytest.raises(Deferred):
        old.execute(tries.next())
    with pytest.raises(Deferred):
        new.execute(tries.next(cleared=True))
    assert tries.record().attempt == 1
    driver = tries.driver()
    assert old.trigger is not None
    assert new.trigger is not None
    asyncio.run(old.trigger.on_kill())
    assert (driver.alive(), tries.record().stopped) == (True, False)
    old.on_kill()
    assert (driver.alive(), tries.record().stopped) == (True, False)
    asyncio.run(new.trigger.on_kill())
    assert (driver.alive(), tries.record().stopped) == (False, True)


def test_a_stop_and_a_change_of_the_record_do_not_undo_one_another(tries: Tries) -> None:
    tries.kseg("exec sleep 600")
    with pytest.raises(Deferred):
        tries.task(deferrable=True).execute(tries.next())
    folder, before = tries.run_folder, tries.record()
    task = tries.task()
    task._folder, task._handle, task._follower = folder, tries.driver(), before.follower
    with folder.locked():  # as `execute` may hold it when the signal comes
        task.on_kill()
        folder.keep(replace(before, taken_over=True))
    assert tries.record().stopped


def test_in_a_pod_that_ends_with_the_task_a_local_driver_is_waited_for(
    tries: Tries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KubernetesExecutor's pods end when their task is deferred: the driver was lost."""
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", "True")
    tries.kseg(SUCCESS)
    assert tries.task(deferrable=True).execute(tries.next())["status"] == "done"


@pytest.mark.parametrize("own_pod", [True, False])
def test_in_a_pod_that_ends_with_the_task_spark_submit_is_waited_for_before_the_task_defers(
    tries: Tries, monkeypatch: pytest.MonkeyPatch, own_pod: bool
) -> None:
    """It was killed with the pod before it had created the driver, in each try again."""
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", str(own_pod))
    tries.kseg(f"sleep 1; touch {tries.folder}/handed-over")
    monkeypatch.setattr(base, "submitter_of", lambda _: submit_to_a_cluster)
    with pytest.raises(Deferred):
        tries.task(deferrable=True).execute(tries.next())
    assert (tries.folder / "handed-over").exists() == own_pod
    driver = handle_of(tries.record().handle)
    assert isinstance(driver, YarnDriver)
    driver.submitter.stop(0)


def submit_to_a_cluster(submission: Submission) -> YarnDriver:
    """A driver for whom nobody answers."""
    return YarnDriver(local.submit(submission).to_json(), "http://127.0.0.1:1", "kseg-7", "etl")


def test_a_timeout_does_not_begin_again_when_a_task_is_deferred_again(tries: Tries) -> None:
    tries.kseg("exec sleep 600")
    task, context, hour = tries.task(deferrable=True, execution_timeout=timedelta(hours=1)), tries.next(), 3600
    with pytest.raises(Deferred):
        task.execute(context)
    assert task.time_left is not None
    assert hour / 2 < task.time_left.total_seconds() <= hour
    over = {"until": (datetime.now(UTC) + timedelta(minutes=10)).isoformat()}
    again = tries.task(deferrable=True, execution_timeout=timedelta(hours=1))
    with pytest.raises(Deferred):
        again.execute_complete(context, {"problem": "no route"}, **task.kwargs | over)
    assert again.time_left is not None
    assert again.time_left <= timedelta(minutes=10)
    assert again.kwargs["until"] == over["until"]
    tries.driver().stop(0)


async def first_event(trigger: KsegRunTrigger) -> dict[str, Any]:
    async for event in trigger.run():
        return dict(event.payload)
    raise AssertionError("no event")


def test_a_run_dir_that_the_triggerer_does_not_share_is_named_at_once(tries: Tries) -> None:
    """It waited two minutes for a sign of life, and the resumed task started a second driver: green, no event."""
    tries.kseg("exec sleep 600")
    task, context = tries.task(deferrable=True), tries.next()
    with pytest.raises(Deferred):
        task.execute(context)
    assert task.trigger is not None
    _, seen = task.trigger.serialize()
    elsewhere = str(tries.folder / "another-host" / "tidy")
    event = asyncio.run(first_event(KsegRunTrigger(**seen | {"folder": elsewhere})))
    assert set(event) == {"unseen_on"}
    assert not Path(elsewhere).exists()
    with pytest.raises(AirflowFailException, match="run_dir is not shared: the triggerer"):
        tries.task(deferrable=True).execute_complete(context, event)
    assert session_members(tries.driver().session) == []
    assert tries.record().stopped


def test_a_worker_that_resumes_a_task_and_does_not_see_its_record_starts_no_second_driver(
    tries: Tries, tmp_path: Path
) -> None:
    tries.kseg(SUCCESS)
    task = tries.task(deferrable=True)
    task.run_dir = str(tmp_path / "another-host")
    with pytest.raises(AirflowFailException, match="run_dir is not shared: the worker that resumed it"):
        task.execute_complete(tries.next(), {"outcome": {"exit_code": 0, "document": None, "detail": None}})
    assert tries.started == 0


@pytest.mark.parametrize("end", [lambda driver: driver.stop(0), lambda driver: kill(driver)])
def test_the_next_driver_removes_the_secrets_of_one_that_was_killed(
    tries: Tries, end: Callable[[LocalDriver], object]
) -> None:
    tries.kseg("exec sleep 600")
    with pytest.raises(Deferred):
        tries.task(deferrable=True).execute(tries.next())
    secrets = tries.run_folder.path / "try-1" / "kafka.properties"
    secrets.write_text("sasl.password=hunter2")
    end(tries.driver())
    tries.kseg(f"[ -e {secrets} ] && exit 3\n{SUCCESS}")
    tries.task().execute(tries.next())
    assert not secrets.exists()


def test_a_result_that_is_read_leaves_no_secrets(tries: Tries) -> None:
    tries.kseg("exec sleep 600")
    context = tries.next()
    with pytest.raises(Deferred):
        tries.task(deferrable=True).execute(context)
    secrets = tries.run_folder.path / "try-1" / "kafka.properties"
    secrets.write_text("sasl.password=hunter2")
    kill(tries.driver())
    with pytest.raises(AirflowException, match="gone"):
        tries.task(deferrable=True).execute_complete(context, {"outcome": {"exit_code": None}})
    assert not secrets.exists()


def kill(driver: LocalDriver) -> None:
    for process in session_members(driver.session):
        with contextlib.suppress(psutil.NoSuchProcess):  # one that ended since, with the one before it
            process.kill()
    wait_for(lambda: not session_members(driver.session), "the end of all processes")
