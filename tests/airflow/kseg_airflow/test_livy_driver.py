"""Batches of Livy, against a server that answers as a Livy 0.7.1 did (test_on_livy.py runs that)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from answering import Cluster
from kseg_airflow import ledger
from kseg_airflow.compat import AirflowException
from kseg_airflow.drivers.handles import handle_of
from kseg_airflow.drivers.livy import LivyDriver
from kseg_airflow.outcomes import Outcome, worth_a_retry
from kseg_airflow.submission import Submission
from kseg_airflow.submit.livy import submit

REPORT = {"job": "orders", "run": "r2", "status": "done"}
REFUSED = {"error": {"kind": "Refused", "message": "m"}, "exit_code": 3}
#: What Spark's own shutdown adds behind the driver's last word.
SHUTDOWN = [
    "26/01/01 00:00:00 INFO SparkContext: Invoking stop() from shutdown hook",
    "26/01/01 00:00:00 INFO SparkContext: SparkContext is stopping with exitCode 0 from run at Executors.java:539.",
    "26/01/01 00:00:00 INFO SparkContext: Successfully stopped SparkContext (Uptime: 24527 ms)",
]


class Livy(Cluster):
    """Batch 7, in the state and with the lines that a test gives."""

    def batch(self, state: str, *lines: str, name: str = "orders-try-1-ab", app: str | None = None) -> None:
        info = {"driverLogUrl": None, "sparkUiUrl": None}
        log = ["stdout: ", *lines, "\nstderr: "]
        batch = {"id": 7, "name": name, "owner": None, "proxyUser": None, "state": state, "appId": app, "appInfo": info}
        self.answers["GET /batches/7"] = (200, {**batch, "log": log[-10:]})
        self.answers["GET /batches/7/log"] = (200, {"id": 7, "from": 0, "total": len(log), "log": log})
        self.answers["GET /batches"] = (200, {"from": 0, "total": 1, "sessions": [batch]})
        self.answers["DELETE /batches/7"] = (200, {"msg": "deleted"})

    def forget(self) -> None:
        for path in ("GET /batches/7", "GET /batches/7/log", "DELETE /batches/7"):
            self.answers[path] = (404, {"msg": "Session '7' not found."})

    def refuse(self, status: int) -> None:
        self.answers["GET /batches/7"] = (status, {"msg": "not now"})

    @property
    def deleted(self) -> bool:
        return ("DELETE /batches/7", None) in self.asked


@pytest.fixture
def livy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Livy]:
    running = Livy()
    host, port = running.server.server_address[:2]
    monkeypatch.setenv("AIRFLOW_CONN_KSEG_LIVY", json.dumps({"conn_type": "livy", "host": host, "port": port}))
    yield running
    running.stop()


@pytest.fixture
def driver() -> LivyDriver:
    driver = LivyDriver(7, "kseg_livy", "orders-try-1-ab", "ab")
    found = handle_of(driver.to_json())
    assert found == driver
    return driver


@pytest.fixture(params=["worker", "triggerer"])
def polled(request: pytest.FixtureRequest, driver: LivyDriver) -> Any:
    return driver.poll if request.param == "worker" else lambda: asyncio.run(driver.alook()).outcome


@pytest.fixture(params=["worker", "triggerer"])
def stopped(request: pytest.FixtureRequest, driver: LivyDriver) -> Any:
    return (lambda: driver.stop(1)) if request.param == "worker" else lambda: asyncio.run(driver.astop(1))


@pytest.mark.parametrize("state", ["not_started", "starting", "recovering", "running", "idle", "busy", "shutting_down"])
def test_a_batch_runs_in_all_states_that_are_not_an_end(livy: Livy, polled: Any, state: str) -> None:
    livy.batch(state)
    assert polled() is None


def test_its_result_is_what_it_printed_as_far_as_livy_keeps_that(livy: Livy, polled: Any) -> None:
    livy.batch("success", json.dumps(REPORT), *SHUTDOWN)
    assert polled() == Outcome(0, REPORT)
    livy.batch("success", *SHUTDOWN)
    assert polled() == Outcome(0)


def test_a_failed_batch_ends_with_the_exit_code_that_it_printed(livy: Livy, polled: Any) -> None:
    livy.batch("dead", json.dumps(REFUSED), *SHUTDOWN)
    assert polled() == Outcome(3, REFUSED, "Livy batch 7: dead")


def test_a_failed_batch_without_a_document_of_an_error_ends_with_its_exit_code(livy: Livy, polled: Any) -> None:
    """`kseg verify` prints its findings, and fails: it was taken for a driver that is gone, and tried again."""
    livy.batch("dead", json.dumps({"job": "orders", "findings": [{}], "ok": False}), "kseg-exit: 1", *SHUTDOWN)
    outcome = polled()
    assert outcome == Outcome(1, None, "Livy batch 7: dead")
    assert not worth_a_retry(outcome)
    livy.batch("dead", json.dumps(REPORT), "kseg-exit: 0", *SHUTDOWN)
    assert polled().exit_code is None


def test_a_failed_batch_is_no_success_whatever_else_stands_in_its_log(livy: Livy, polled: Any) -> None:
    livy.batch("dead", "Killed: exit code 0", *SHUTDOWN)
    outcome = polled()
    assert outcome == Outcome(None, None, "Livy batch 7: dead")
    assert outcome.killed


def test_yarns_word_on_a_failed_application_is_its_exit_code(livy: Livy, polled: Any) -> None:
    lines = [*SHUTDOWN, "\nYARN Diagnostics: ", "User application exited with status 4"]
    livy.batch("dead", *lines, app="application_1_2")
    assert polled() == Outcome(4, None, "Livy batch 7: dead (application_1_2)")


def test_a_batch_that_is_deleted_or_forgotten_is_gone(livy: Livy, polled: Any) -> None:
    livy.forget()
    outcome = polled()
    assert outcome.killed
    assert "no longer known to Livy" in outcome.detail


def test_another_batch_of_the_same_id_is_not_ours(livy: Livy, polled: Any) -> None:
    """A Livy that was restarted counts from 0 again."""
    livy.batch("running", name="another")
    assert polled().killed


def test_another_batch_of_the_same_id_is_left_alone(livy: Livy, stopped: Any) -> None:
    livy.batch("running", name="another")
    assert stopped()
    assert not livy.deleted


@pytest.mark.parametrize("status", [401, 503])
def test_a_livy_that_cannot_answer_is_an_error_of_the_question_alone(livy: Livy, polled: Any, status: int) -> None:
    livy.refuse(status)
    with pytest.raises(OSError, match=str(status)):
        polled()


def test_a_livy_that_is_away_is_one_too(livy: Livy, polled: Any) -> None:
    livy.stop()
    with pytest.raises(OSError, match=r"(?i)connect"):
        polled()


def test_stopping_deletes_the_batch_and_a_deleted_one_is_stopped(livy: Livy, stopped: Any) -> None:
    livy.batch("running")
    assert stopped()
    assert livy.deleted
    livy.forget()
    assert stopped()
    livy.refuse(401)
    with pytest.raises(OSError, match="401"):
        stopped()


def test_what_livy_keeps_of_the_drivers_lines_is_to_be_had(livy: Livy, driver: LivyDriver) -> None:
    livy.batch("dead", "one", "two")
    assert driver.log_lines()[0] == ["stdout: ", "one", "two", "", "stderr: "]
    livy.forget()
    assert driver.log_lines()[0] == []


def submission(folder: Path, **more: Any) -> Submission:
    folder.mkdir(exist_ok=True)
    options = {"file": "/opt/kseg_driver.py"} | more
    return Submission(
        words=["ingest", "/jobs/orders.yaml"],
        folder=folder,
        options=options,
        conn_id="kseg_livy",
        name="dag.ingest",
        job_file="/jobs/orders.yaml",
    )


def test_a_batch_is_posted_under_a_name_that_no_other_has(livy: Livy, tmp_path: Path) -> None:
    names = []
    for folder in ("try-1", "try-2", "other"):
        livy.answers["POST /batches"] = (201, {"id": 7, "state": "starting"})
        handle = submit(submission(tmp_path / folder, name="mine", conf={"spark.ui.enabled": "false"}))
        request, body = livy.asked[-1]
        assert request == "POST /batches"
        mark = body["name"].rpartition("-")[2]
        assert body["args"] == ["--driver", mark, "ingest", "/jobs/orders.yaml", "--json"]
        assert handle.is_owner(f"host:4711:{mark}-4f1c")
        assert not handle.is_owner("host:4711:4f1c")
        assert body["conf"] == {"spark.ui.enabled": "false"}
        assert body["name"].startswith(f"mine-{folder}-")
        assert handle.to_json()["name"] == body["name"]
        names.append(body["name"])
    assert len(set(names)) == 3


def test_the_driver_of_a_batch_has_the_tasks_mark_and_its_own(livy: Livy, tmp_path: Path) -> None:
    """A later try looks in the ledger for what drivers of the task's mark have landed, and never found a batch's."""
    livy.answers["POST /batches"] = (201, {"id": 7, "state": "starting"})
    asked = submission(tmp_path / "try-1")
    asked.mark = "ab12"
    handle = submit(asked)
    option, mark = livy.asked[-1][1]["args"][:2]
    assert option == "--driver"
    owner = f"host:4711:{mark}-4f1c"
    assert handle.is_owner(owner)
    assert not handle.is_owner("host:4711:ab12-4f1c"), "another batch of the task"

    def status(*words: str) -> Outcome:
        runs = [{"run_id": "r1", "owner": owner, "ended_at": "2026-01-01T10:00:00Z"}]
        return Outcome(0, {"run": words[1]} if words[0] == "--run" else {"runs": runs})

    assert ledger.landed_before("ab12", {}, status) == [{"run": "r1"}]


def test_a_batch_whose_id_nobody_wrote_down_is_found_by_its_name(livy: Livy, tmp_path: Path) -> None:
    """Its worker was killed, or Livy's answer was lost: the next one posts the same, which Livy refuses."""
    asked = submission(tmp_path / "try-1")
    livy.answers["POST /batches"] = (201, {"id": 3, "state": "starting"})
    name = submit(asked).to_json()["name"]
    livy.answers["POST /batches"] = (400, {"msg": f"Duplicate session name: Some({name}) for session 8"})
    livy.batch("running", name=name)
    assert submit(asked).to_json()["batch_id"] == 7


def test_what_livy_refuses_for_another_reason_is_the_tasks_failure(livy: Livy, tmp_path: Path) -> None:
    livy.answers["POST /batches"] = (400, {"msg": "requirement failed: Local path /opt/x cannot be added"})
    livy.batch("running")
    with pytest.raises(AirflowException, match="cannot be added"):
        submit(submission(tmp_path / "try-1"))
