"""What a driver on YARN makes of what the ResourceManager tells. On a real YARN: test_on_yarn.py."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_process import wait_for
from answering import Cluster
from kseg_airflow.drivers.handles import handle_of
from kseg_airflow.drivers.local import start
from kseg_airflow.drivers.yarn import YarnDriver
from kseg_airflow.outcomes import Look, Outcome, failure_of, worth_a_retry
from kseg_airflow.triggers import KsegRunTrigger
from kseg_airflow.watching import watch

APPLICATION = "application_1767225600000_0042"
APPS = "GET /ws/v1/cluster/apps"
APP = f"{APPS}/{APPLICATION}"
OWNER = "container_e17_1767225600000_0042_01_000001:4711:ab12"


@pytest.fixture
def server() -> Iterator[Cluster]:
    running = Cluster()
    yield running
    running.stop()


def driver_at(server: Cluster, tmp_path: Path, script: str = "exit 0") -> YarnDriver:
    """The handle as a record keeps it; script: what runs in spark-submit's place."""
    folder = tmp_path / "task" / "try-1"
    folder.mkdir(parents=True)
    submission = start(["/bin/sh", "-c", script], folder, env=dict(os.environ))
    driver = handle_of(YarnDriver(submission.to_json(), server.url, "kseg-7", "etl").to_json())
    assert isinstance(driver, YarnDriver)
    return driver


def app(state: str, final: str = "UNDEFINED", diagnostics: str = "", **more: Any) -> tuple[int, Any]:
    return 200, {"app": {"id": APPLICATION, "state": state, "finalStatus": final, "diagnostics": diagnostics, **more}}


def known(server: Cluster, *state: str, **more: Any) -> None:
    """By the tag and by the id, with the same words."""
    server.answers[APP] = app(*(state or ("RUNNING",)), **more)
    server.answers[APPS] = 200, {"apps": {"app": [server.answers[APP][1]["app"]]}}


def test_it_is_found_by_its_tag_as_soon_as_yarn_knows_it_and_then_asked_for_by_its_id(
    server: Cluster, tmp_path: Path
) -> None:
    # spark-submit logs the id seconds before it hands the application over.
    driver = driver_at(server, tmp_path, f"echo 'uploading to .sparkStaging/{APPLICATION}' >&2; sleep 600")
    server.answers[APPS] = 200, {"apps": None}
    try:
        assert (driver.look(), driver.application_id) == (Look(), None)
        known(server)
        for state in ("NEW", "ACCEPTED", "RUNNING", "FINAL_SAVING"):
            server.answers[APP] = app(state)
            assert driver.poll() is None
        assert driver.look() == Look(None, f"{APPLICATION} is FINAL_SAVING: {server.url}/cluster/app/{APPLICATION}")
        assert driver.application_id == APPLICATION
        del server.answers[APPS]
        server.answers[APP] = app("FINISHED", "SUCCEEDED")
        assert driver.poll() == Outcome(0)
    finally:
        driver.submitter.stop(0)
    assert server.queries == {"applicationTags=kseg-7&user.name=etl", "user.name=etl"}


@pytest.mark.parametrize(
    ("diagnostics", "code"),
    [
        ("User application exited with status 3", 3),
        ("Application application_1_1 failed 2 times due to AM Container exited with  exitCode: 13\nFailing", None),
        ("Final app status: FAILED, exitCode: 11, (reason: Max number of executor failures (4) reached)", None),
        ("Final app status: FAILED, exitCode: 10, (reason: Uncaught exception: java.lang.IllegalStateException)", None),
        ("AM Container for appattempt_1_1_000001 exited with exitCode: -100. Container released on a lost node", None),
        ("Final app status: FAILED, exitCode: 13, (reason: User application exited with status 2)\nexitCode: 13", 2),
        ("Max number of executor failures (4) reached", None),
    ],
)
def test_a_failed_application_tells_its_exit_code_where_yarn_knows_it_and_where_its_log_is(
    server: Cluster, tmp_path: Path, diagnostics: str, code: int | None
) -> None:
    driver = driver_at(server, tmp_path)
    known(server, "FINISHED", "FAILED", diagnostics, amContainerLogs="http://node:8042/node/logs")
    detail = f"{APPLICATION}: FAILED. {diagnostics}\nThe driver's log: http://node:8042/node/logs"
    outcome = Outcome(code, detail=detail)
    assert driver.poll() == outcome
    # Spark's and the container's codes are none of the driver's: `retries` of the task was not used.
    assert worth_a_retry(outcome) == (code is None)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("watched_by", ["worker", "triggerer"])
def test_each_poll_asks_yarn_once(
    server: Cluster, tmp_path: Path, watched_by: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the end and for the line in the log; also where the file with the id cannot be written."""
    driver = driver_at(server, tmp_path)
    if not shared:
        monkeypatch.setattr("kseg_airflow.drivers.yarn.write_private", _read_only)
    states = iter(["ACCEPTED", "RUNNING", "RUNNING"])
    asked = []

    def state() -> None:
        """What YARN says to the next poll."""
        asked.append(len(server.asked))
        known(server, *next((((now,) for now in states)), ("FINISHED", "SUCCEEDED")))

    log = Lines()
    if watched_by == "worker":
        state()
        monkeypatch.setattr("kseg_airflow.watching.time.sleep", lambda _: state())
        assert watch(driver, 0.0, log) == (Outcome(0), 0)
    else:

        async def pause(_: float) -> None:
            state()

        async def event() -> Any:
            state()
            trigger = KsegRunTrigger(driver.to_json(), 0.0)
            monkeypatch.setattr(KsegRunTrigger, "log", log)
            monkeypatch.setattr("kseg_airflow.triggers.FIRST_EVENT", 0.0)
            monkeypatch.setattr("kseg_airflow.triggers.asyncio.sleep", pause)
            return [event.payload async for event in trigger.run()]

        assert asyncio.run(event()) == [{"outcome": Outcome(0).to_json()}]
    assert asked == [0, 1, 2, 3]
    assert len(server.asked) == 4
    page = f"{server.url}/cluster/app/{APPLICATION}"
    assert log.lines[0] == f"kseg: {APPLICATION} is ACCEPTED: {page}"


class Lines:
    """A task's log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str, *values: Any) -> None:
        self.lines.append(text % values)

    warning = info


def _read_only(*_: Any) -> None:
    raise PermissionError("not shared")


def test_stopping_kills_the_application(server: Cluster, tmp_path: Path) -> None:
    driver = driver_at(server, tmp_path)
    known(server, "KILLED", "KILLED", "Application killed by user.")
    server.answers[f"PUT /ws/v1/cluster/apps/{APPLICATION}/state"] = (202, {"state": "KILLED"})
    assert driver.stop(10)
    assert (f"PUT /ws/v1/cluster/apps/{APPLICATION}/state", {"state": "KILLED"}) in server.asked
    outcome = driver.poll()
    assert outcome is not None
    assert outcome.killed


def test_a_resource_manager_that_is_away_or_refuses_is_an_error_of_the_question_alone(
    server: Cluster, tmp_path: Path
) -> None:
    driver = driver_at(server, tmp_path)
    server.answers[APPS] = (503, {})
    with pytest.raises(OSError, match="503"):
        driver.look()
    known(server)
    server.answers[f"PUT /ws/v1/cluster/apps/{APPLICATION}/state"] = (403, {})
    with pytest.raises(OSError, match="403"):
        driver.stop(1)


def test_a_submission_that_fails_before_there_is_an_application_is_tried_again(server: Cluster, tmp_path: Path) -> None:
    """spark-submit's exit code 1 was taken for the driver's, which no retry helps. It may be a ResourceManager that was
    away, or a store that did not take the files."""
    driver = driver_at(server, tmp_path, "echo 'Exception: no queue' >&2; exit 1")
    server.answers[APPS] = 200, {"apps": None}
    outcome = wait_for(driver.poll, "the end of spark-submit")
    assert worth_a_retry(outcome)
    assert "spark-submit ended with exit code 1" in str(failure_of(outcome, "kseg ingest"))
    assert driver.log_lines()[0] == ["Exception: no queue"]


@pytest.mark.parametrize(("code", "told"), [(127, "spark-submit was not found"), (126, "spark-submit cannot be exec")])
def test_a_spark_submit_that_cannot_be_run_is_named(server: Cluster, tmp_path: Path, code: int, told: str) -> None:
    driver = driver_at(server, tmp_path, f"exit {code}")
    server.answers[APPS] = 200, {"apps": None}
    outcome = wait_for(driver.poll, "the end of spark-submit")
    assert not worth_a_retry(outcome)
    assert told in str(failure_of(outcome, "kseg ingest"))


def test_a_submission_that_was_killed_is_tried_again(server: Cluster, tmp_path: Path) -> None:
    driver = driver_at(server, tmp_path, "exit 143")
    server.answers[APPS] = 200, {"apps": None}
    assert wait_for(driver.poll, "the end of spark-submit").killed


def test_an_application_that_is_forgotten_may_be_tried_again(server: Cluster, tmp_path: Path) -> None:
    driver = driver_at(server, tmp_path)
    known(server)
    assert driver.poll() is None
    del server.answers[APP]
    outcome = driver.poll()
    assert outcome is not None
    assert outcome.killed
    assert APPLICATION in str(outcome.detail)


def test_its_container_names_it_in_the_ledger_and_its_end_proves_the_holder_dead(
    server: Cluster, tmp_path: Path
) -> None:
    driver = driver_at(server, tmp_path)
    server.answers[APPS] = 200, {"apps": None}
    assert not driver.is_owner(OWNER)
    known(server)
    assert driver.is_owner(OWNER)
    assert driver.is_owner(OWNER.replace("_e17", ""))
    assert not driver.is_owner(OWNER.replace("_0042", "_0043"))
    assert not driver.is_owner("host:4711:ab12")
    assert not driver.proven_dead(OWNER)
    server.answers[APP] = app("KILLED", "KILLED")
    assert driver.proven_dead(OWNER)
