"""What tests ask a running Airflow, over its REST API (`/api/v2`), and what they wait for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import requests

from airflow_process import AirflowProcesses, kill_family, wait_for

#: States in which a run, or a task, stays.
RUN_ENDS = {"success", "failed"}
TASK_ENDS = {"success", "failed", "skipped", "upstream_failed", "removed"}

Json = dict[str, Any]


class RunningAirflow(AirflowProcesses):
    """A running Airflow: DAG files go in, runs and what they left come out.

    Runs are named by their DAG and their run id; states are Airflow's own words.
    """

    api = "api/v2"

    # What it knows

    def add_dag(self, source: Path | str, name: str | None = None, *, expect: Collection[str] = ()) -> Path:
        """Put a DAG file (a path) or its text (with a ``name``) into the DAG folder; returns where it lies.

        With ``expect`` (ids of DAGs) it waits until Airflow knows these; an import error ends the waiting.
        """
        if isinstance(source, Path):
            target = self.dags_folder / (name or source.name)
            partial = target.with_name(f"{target.name}.part")
            shutil.copyfile(source, partial)
        else:
            assert name is not None
            target = self.dags_folder / name
            partial = target.with_name(f"{target.name}.part")
            partial.write_text(source)
        partial.replace(target)  # never read when half written
        for dag in expect:
            self.wait_for_dag(dag)
        return target

    def parse_again(self, file: Path) -> None:
        """Have a DAG file read again though it has not changed (what it reads has)."""
        os.utime(file)

    def wait_for_dag(self, dag: str, timeout: float = 300, *, ask: Callable[[], object] = lambda: None) -> Json:
        """Wait until Airflow knows a DAG; returns what it tells of it. ``ask`` is called before each look."""

        def known() -> Json | None:
            ask()
            errors = self.import_errors()
            assert not errors, "\n".join(f"{error['filename']}: {error['stack_trace']}" for error in errors)
            answer = self._ask("GET", f"dags/{dag}", accept=(404,))
            return None if "detail" in answer else answer

        return wait_for(known, f"DAG {dag}", timeout=timeout)

    def details(self, dag: str) -> Json:
        """All that Airflow tells of a DAG."""
        return self._ask("GET", f"dags/{dag}/details")

    def dag_tasks(self, dag: str) -> list[Json]:
        """A DAG's tasks, by name."""
        return sorted(self._ask("GET", f"dags/{dag}/tasks")["tasks"], key=lambda task: str(task["task_id"]))

    def import_errors(self) -> list[Json]:
        """The DAG files that Airflow could not read, each with its ``filename`` and ``stack_trace``."""
        return self._all("importErrors", "import_errors")

    def connection(self, conn_id: str, conn_type: str, *, extra: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Make a connection, or replace it; ``more``: host, port, login, password, schema, description."""
        body = {"connection_id": conn_id, "conn_type": conn_type, "extra": json.dumps(dict(extra or {})), **more}
        self._ask("DELETE", f"connections/{conn_id}", accept=(404,))
        self._ask("POST", "connections", body)

    def variable(self, key: str, value: str) -> None:
        """Set a variable."""
        self._ask("DELETE", f"variables/{key}", accept=(404,))
        self._ask("POST", "variables", {"key": key, "value": value})

    def pool(self, name: str, slots: int, *, include_deferred: bool = False) -> None:
        """Make a pool, or replace it."""
        self._ask("DELETE", f"pools/{name}", accept=(404,))
        self._ask("POST", "pools", {"name": name, "slots": slots, "include_deferred": include_deferred})

    # What it shall do

    def unpause(self, dag: str) -> None:
        self._ask("PATCH", f"dags/{dag}", {"is_paused": False})

    def pause(self, dag: str) -> None:
        self._ask("PATCH", f"dags/{dag}", {"is_paused": True})

    def trigger(
        self,
        dag: str,
        *,
        conf: Mapping[str, Any] | None = None,
        logical_date: datetime | str | None = None,
        interval: tuple[datetime | str, datetime | str] | None = None,
        run_id: str | None = None,
    ) -> str:
        """Begin a run by hand (the DAG is unpaused for it); returns its run id."""
        self.unpause(dag)
        body: Json = {"logical_date": _text(logical_date), "conf": dict(conf or {})}
        if interval:
            body |= {"data_interval_start": _text(interval[0]), "data_interval_end": _text(interval[1])}
        if run_id:
            body["dag_run_id"] = run_id
        return str(self._ask("POST", f"dags/{dag}/dagRuns", body)["dag_run_id"])

    def backfill(
        self,
        dag: str,
        since: datetime | str,
        until: datetime | str,
        *,
        max_active_runs: int = 2,
        backwards: bool = False,
        reprocess: str = "none",
        conf: Mapping[str, Any] | None = None,
    ) -> int:
        """Airflow's own backfill over logical dates ``since`` to ``until``, both included; returns its id."""
        self.unpause(dag)
        body = {
            "dag_id": dag,
            "from_date": _text(since),
            "to_date": _text(until),
            "max_active_runs": max_active_runs,
            "run_backwards": backwards,
            "reprocess_behavior": reprocess,
            "dag_run_conf": dict(conf or {}),
        }

        def made() -> Json | None:
            # Airflow finds SQLite locked and says so by 503, before or after the backfill is there (then 409).
            answer = self._ask("POST", "backfills", body, accept=(503, 409))
            if "id" not in answer:
                active = self._ask("GET", "backfills", dag_id=dag)["backfills"]
                answer = next((one for one in active if one["completed_at"] is None and one["id"] not in known), {})
            return answer if "id" in answer else None

        known = {one["id"] for one in self._ask("GET", "backfills", dag_id=dag)["backfills"]}
        return int(wait_for(made, f"a backfill of {dag}", every=1)["id"])

    def wait_for_backfill(self, number: int, timeout: float = 500) -> Json:
        """Wait until a backfill has made all of its runs and they have ended."""

        def completed() -> Json | None:
            answer = self._ask("GET", f"backfills/{number}")
            return answer if answer["completed_at"] else None

        return wait_for(completed, f"backfill {number}", timeout=timeout, every=0.5)

    def clear(self, dag: str, run: str, *tasks: str, only_failed: bool = False, downstream: bool = True) -> None:
        """Clear tasks of a run (all of them, if none is named), so that they run again."""
        body: Json = {
            "dry_run": False,
            "dag_run_id": run,
            "only_failed": only_failed,
            "include_downstream": downstream,
            "reset_dag_runs": True,
        }
        if tasks:
            body["task_ids"] = list(tasks)
        self._ask("POST", f"dags/{dag}/clearTaskInstances", body)

    def mark_task(self, dag: str, run: str, task: str, state: str = "failed") -> None:
        """Say that a task is "failed" or "success", as a person does in the UI: a running one is stopped."""
        self._ask("PATCH", f"dags/{dag}/dagRuns/{run}/taskInstances/{task}", {"new_state": state})

    def mark_run(self, dag: str, run: str, state: str = "failed") -> None:
        """Say that a run is "failed" or "success": its running tasks are stopped."""
        self._ask("PATCH", f"dags/{dag}/dagRuns/{run}", {"state": state})

    # What came of it

    def runs(self, dag: str) -> list[Json]:
        """A DAG's runs, the oldest first."""
        return self._all(f"dags/{dag}/dagRuns", "dag_runs", order_by="run_after")

    def run_state(self, dag: str, run: str) -> str:
        return str(self._ask("GET", f"dags/{dag}/dagRuns/{run}")["state"])

    def wait_for_run(self, dag: str, run: str, state: str = "success", timeout: float = 400) -> Json:
        """Wait until a run has ended; fails with its failed tasks' logs if it ended otherwise than in ``state``."""

        def ended() -> Json | None:
            answer = self._ask("GET", f"dags/{dag}/dagRuns/{run}")
            return answer if answer["state"] in RUN_ENDS else None

        try:
            answer = wait_for(ended, f"{dag} {run} ends", timeout=timeout, every=0.5)
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.account(dag, run)}") from None
        assert answer["state"] == state, f"{dag} {run} is {answer['state']}\n{self.account(dag, run)}"
        return answer

    def wait_for_next_run(self, dag: str, known: Collection[str] = (), timeout: float = 300) -> str:
        """Wait until a DAG has a run that is not among the ``known`` ones (Airflow made it); returns its run id."""

        def new() -> str | None:
            return next((run["dag_run_id"] for run in self.runs(dag) if run["dag_run_id"] not in known), None)

        return str(wait_for(new, f"a run of {dag}", timeout=timeout, every=0.5))

    def tasks(self, dag: str, run: str) -> list[Json]:
        """A run's task instances."""
        return self._all(f"dags/{dag}/dagRuns/{run}/taskInstances", "task_instances")

    def task(self, dag: str, run: str, task: str) -> Json:
        """One task instance: ``state``, ``try_number``, ``pid``, ``hostname``, ``trigger`` …"""
        return self._ask("GET", f"dags/{dag}/dagRuns/{run}/taskInstances/{task}")

    def wait_for_task(
        self, dag: str, run: str, task: str, state: str = "success", *, attempt: int | None = None, timeout: float = 400
    ) -> Json:
        """Wait until a task is in ``state`` ("running", "deferred", "success" …), in the given attempt if one is given;
        fails with its log if it ended otherwise."""

        def there() -> Json | None:
            answer = self.task(dag, run, task)
            if attempt is not None and answer["try_number"] < attempt:
                return None
            if answer["state"] == state:
                return answer
            ended = answer["state"] in TASK_ENDS
            assert not ended, f"{dag} {run} {task} is {answer['state']}\n{self.account(dag, run)}"
            return None

        try:
            return wait_for(there, f"{dag} {run} {task} is {state}", timeout=timeout, every=0.5)
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.account(dag, run)}") from None

    def kill_task(self, dag: str, run: str, task: str) -> None:
        """Kill a running task's process (SIGKILL), and what descends from it."""
        kill_family(int(self.task(dag, run, task)["pid"]))

    def log(self, dag: str, run: str, task: str, attempt: int | None = None) -> str:
        """A task's log, as lines of ``level event``; of its last attempt, if none is given. Empty before it begins."""
        if attempt is None:
            attempt = int(self.task(dag, run, task)["try_number"])
        path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}"
        content = self._ask("GET", path, accept=(404,), full_content="true").get("content", "")
        if isinstance(content, str):
            return content
        return "\n".join(_line(entry) for entry in content)

    def wait_for_log(
        self, dag: str, run: str, task: str, words: str, *, attempt: int | None = None, timeout: float = 300
    ) -> str:
        """Wait until a task's log has ``words``; returns the log. Its process, its supervisor and the triggerer each
        write on their own, and a state may be known before the words that led to it."""

        def told() -> str | None:
            found = self.log(dag, run, task, attempt)
            return found if words in found else None

        try:
            return wait_for(told, f"{words!r} in the log of {dag} {run} {task}", timeout=timeout, every=0.5)
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.account(dag, run)}") from None

    def wait_until_watched(self, dag: str, run: str, task: str) -> None:
        """Wait until a triggerer watches a deferred task's driver: before it has taken the trigger up, nobody would
        hear of a task that a person clears or fails."""
        self.wait_for_task(dag, run, task, "deferred")
        self.wait_for_log(dag, run, task, "kseg: ")

    def xcom(self, dag: str, run: str, task: str, key: str = "return_value") -> Any:
        """What a task pushed under a key, as a value. Fails if there is nothing."""
        path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/{key}"
        return self._ask("GET", path, deserialize="false", stringify="false")["value"]

    def links(self, dag: str, run: str, task: str) -> dict[str, str | None]:
        """A task's extra links: name to address."""
        return self._ask("GET", f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/links")["extra_links"]

    def rendered(self, dag: str, run: str, task: str) -> Json:
        """A task's templated fields as they were filled in."""
        return dict(self.task(dag, run, task)["rendered_fields"])

    def asset_events(
        self, *, dag: str | None = None, run: str | None = None, asset_id: int | None = None
    ) -> list[Json]:
        """Asset events, the oldest first: ``uri``, ``extra``, ``source_run_id``, ``created_dagruns`` …"""
        asked = {"source_dag_id": dag, "source_run_id": run, "asset_id": asset_id, "order_by": "timestamp"}
        known = {key: value for key, value in asked.items() if value is not None}
        return self._all("assets/events", "asset_events", **known)

    def assets(self) -> list[Json]:
        return self._all("assets", "assets")

    def account(self, dag: str, run: str) -> str:
        """What went wrong: a run's tasks, and the logs of those that did not succeed."""
        parts = []
        for task in self.tasks(dag, run):
            parts.append(f"--- {task['task_id']}: {task['state']}, attempt {task['try_number']} ---")
            if task["state"] not in {"success", "skipped", None} and task["try_number"]:
                try:
                    parts.append(self.log(dag, run, task["task_id"], task["try_number"])[-6000:])
                except (AssertionError, requests.RequestException) as error:
                    parts.append(f"(no log: {error})")
        return "\n".join(parts)

    # How it is asked

    def _all(self, path: str, name: str, **asked: Any) -> list[Json]:
        found: list[Json] = []
        while True:
            answer = self._ask("GET", path, limit=100, offset=len(found), **asked)
            found += answer[name]
            if not answer[name] or len(found) >= (answer.get("total_entries") or 0):
                return found

    def _ask(
        self, method: str, path: str, body: Json | None = None, *, accept: tuple[int, ...] = (), **asked: Any
    ) -> Json:
        """One request; ``accept`` are error statuses that are answers. Waits while the API server is away."""

        def answered() -> requests.Response | None:
            try:
                # One connection a request: a test may have killed the server of the last one.
                return requests.request(
                    method,
                    f"{self.url}/{self.api}/{path}",
                    json=body,
                    params=asked,
                    headers={"Accept": "application/json", "Connection": "close"},
                    timeout=60,
                )
            except requests.ConnectionError:
                return None
            except requests.Timeout:
                if method != "GET":
                    raise
                return None

        [answer] = wait_for(lambda: _some(answered()), f"{method} {path}", timeout=300)
        assert answer.ok or answer.status_code in accept, f"{method} {path}: {answer.status_code} {answer.text}"
        return dict(answer.json()) if answer.content else {}


def _some(answer: requests.Response | None) -> list[requests.Response]:
    return [] if answer is None else [answer]  # an error's Response is false


def _text(time: datetime | str | None) -> str | None:
    return time.isoformat() if isinstance(time, datetime) else time


def _line(entry: Json | str) -> str:
    if isinstance(entry, str):
        return entry
    known = {"timestamp", "event", "level", "logger", "filename", "lineno"}
    more = " ".join(f"{key}={value}" for key, value in entry.items() if key not in known)
    return f"{entry.get('level') or ''} {entry.get('event', '')} {more}".strip()
