"""Base class of all operators: starts a driver or finds it again, waits for it, and sets the task's state.

    execute ──► a driver of an earlier try (previous.py): attach to it, or take its result
                   └─► none: start one ──► deferrable: trigger watches, slot is free ──► execute_complete
                                        └► else: poll it

Correctness depends on the ledger, never on the files here: a second driver of the same run ends with exit 5, and a
rerun of a landed run lands nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from kseg_airflow import commands, exchange, ledger, outcomes
from kseg_airflow.assets import landed_tables, read_job
from kseg_airflow.compat import (
    AirflowException,
    AirflowFailException,
    BaseOperator,
    conf,
    in_pod_of_its_own,
    logical_identity,
    this_try,
)
from kseg_airflow.connections import properties_of_connection
from kseg_airflow.drivers.handles import Handle, Pause, handle_of
from kseg_airflow.drivers.local import LocalDriver
from kseg_airflow.drivers.submitted import Submitted
from kseg_airflow.exit_codes import ANOTHER_RUN_ACTIVE, DONE
from kseg_airflow.hooks import KsegHook
from kseg_airflow.links import DeltaVersionLink, DriverLogLink, RunReportLink
from kseg_airflow.outcomes import Outcome
from kseg_airflow.previous import Asked, Previous, mark_of, not_shared, previous_driver
from kseg_airflow.retention import retention_days, tidy
from kseg_airflow.run_folder import DriverRecord, RunFolder, asked_hash, default_run_dir, mark_stopped
from kseg_airflow.submit import Submission, submitter_of
from kseg_airflow.triggers import KsegRunTrigger
from kseg_airflow.watching import outcome_so_far, show_rest, wait_for_submission, watch, where

_POLL_INTERVALS = {"local": 2.0}
_POLL_INTERVAL = 15.0


class KsegOperator(BaseOperator):
    """Runs one `kseg` command as a separate driver, and waits for it.

    Args:
        kseg: the command; default is KSEG_BINARY of the environment, else `kseg` on the PATH.
        submit: where the driver runs: "local" (a process of its own on this machine, Spark as the job file says),
            "spark-submit" (as the connection `spark_conn_id` says: standalone, YARN, Kubernetes) or "livy".
        submit_options: for "spark-submit" and "livy": conf, py_files, archives, files, jars, application and whatever
            else the Apache provider's hook takes.
        kafka_conn_id: a connection of type `kafka` whose properties override the job file's `kafka:` section.
        spark_conn_id: a connection of type `spark` (or `livy`).
        run_dir: where drivers leave run files and logs; workers and triggerers see the same folder. Default is
            KSEG_RUN_DIR, `[kseg] run_dir`, or `kseg` in AIRFLOW_HOME.
        env: more environment for the driver, and where that runs in a cluster for spark-submit; templated. Secrets
            belong into connections.
        cwd: the driver's working directory.
        deferrable: wait in the triggerer, so that no worker slot is taken while Spark runs. A driver in a pod of
            KubernetesExecutor is waited for there, and so is the end of a spark-submit to a cluster.
        poll_interval: seconds between two polls of the driver; default is 2 for a process on this machine, 15 for what
            a cluster or Livy is asked for.
        kill_grace: seconds that a driver has to stop in order before force is used.
        lease_wait: how long to wait for another run's lease before the task fails with a retry; the lease of a driver
            of this very task that is proven dead is taken over at once.
        report: write the run's HTML page into the driver's folder, unless the job file or `options` name a place.
        report_url: an address under which `run_dir` is served, for the links to the run's page and the driver's log;
            their places below `run_dir` are appended (of a page elsewhere its file name). Default is KSEG_REPORT_URL,
            or `[kseg] report_url`.
        options: further options of the command, by name: {"report": "…"} becomes `--report …`.
    """

    template_fields: Sequence[str] = (
        *("job_file", "env", "cwd", "run_dir", "options", "report_url", "submit_options"),
        *("kafka_conn_id", "spark_conn_id"),
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"env": "json", "options": "json", "submit_options": "json"}
    operator_extra_links = (RunReportLink(), DriverLogLink(), DeltaVersionLink())
    ui_color = "#e3f1ff"
    command: ClassVar[str] = ""
    #: Whether runs of the command are in the ledger of the job file, and have asset events.
    lands: ClassVar[bool] = False

    def __init__(
        self,
        *,
        job_file: str | os.PathLike[str] | None = None,
        kseg: str | None = None,
        submit: str = "local",
        submit_options: Mapping[str, Any] | None = None,
        kafka_conn_id: str | None = None,
        spark_conn_id: str | None = None,
        run_dir: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        poll_interval: float | None = None,
        kill_grace: float = 30.0,
        lease_wait: timedelta | float = timedelta(minutes=5),
        report: bool = True,
        report_url: str | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job_file: Any = os.fspath(job_file) if isinstance(job_file, os.PathLike) else job_file
        self.kseg = kseg
        self.submit = submit
        self.submit_options = dict(submit_options or {})
        self.kafka_conn_id = kafka_conn_id
        self.spark_conn_id = spark_conn_id
        self.run_dir = run_dir
        self.env: Any = dict(env) if isinstance(env, Mapping) else env or {}
        self.cwd = cwd
        self.deferrable = deferrable
        self.poll_interval = poll_interval or _POLL_INTERVALS.get(submit, _POLL_INTERVAL)
        self.kill_grace = kill_grace
        self.lease_wait = lease_wait
        self.report = report
        self.report_url = report_url
        self.options = dict(options or {})
        self.kseg_outlets: list[Any] = []
        self.left: dict[str, Any] = {}
        self.reported: Mapping[str, Any] = {}
        self._handle: Handle | None = None
        self._follower = ""
        self._until: str | None = None
        self._told_to_stop = False
        self._folder: RunFolder | None = None

    # What a subclass says about its command

    def arguments(self, context: Any) -> list[str]:
        """The command's arguments, without those that all commands share."""
        return [self.command, *([self.job_file] if self.job_file else []), *commands.words_of(self.options)]

    def interval_of_run(self) -> tuple[str, str] | None:
        """The data interval of the run, for the asset event; None if there is none."""
        return None

    def secret_environment(self) -> dict[str, str]:
        """Additional environment variables of the driver, from connections."""
        return {}

    def judge(self, outcome: Outcome) -> Outcome:
        """Change an outcome, for commands whose exit code 1 is not a failure."""
        return outcome

    def conclude(self, report: Mapping[str, Any]) -> None:
        """Called after a success, when its result has been delivered. May raise AirflowSkipException."""

    # The way through

    def execute(self, context: Any) -> Any:
        """Start the driver, or attach to it again."""
        if self.execution_timeout is not None:
            self._until = (datetime.now(UTC) + self.execution_timeout).isoformat()
        return self._follow(context, waited=0.0)

    def execute_complete(
        self, context: Any, event: Mapping[str, Any], waited: float = 0.0, until: str | None = None
    ) -> Any:
        """Resume after the driver has ended. until: the end of the try's `execution_timeout`."""
        self._until = until
        self._folder = self._run_folder(context)
        record = self._folder.record()
        if record is None or "unseen_on" in event:
            if record is not None:
                self._stop(self._folder, record, this_try(context))
            raise AirflowFailException(not_shared(self._folder, event.get("unseen_on")))
        if "outcome" not in event:  # the driver's status could not be read
            return self._follow(context, waited)
        self._handle = handle_of(record.handle)
        return self._finish(context, Outcome(**event["outcome"]), waited)

    def execute_again(
        self, context: Any, event: Mapping[str, Any], waited: float = 0.0, until: str | None = None
    ) -> Any:
        """Resume after the wait for another run's lease."""
        self._until = until
        return self._follow(context, waited)

    def _follow(self, context: Any, waited: float, *, take_over: bool = False) -> Any:
        self._folder = self._run_folder(context)
        found = self._start_or_find(context, take_over=take_over)
        self._handle = handle = found.handle
        if self._told_to_stop:  # while it was being started or searched
            self.on_kill()  # once more: now there is a record to mark
            raise AirflowException("the task was stopped while its driver was being started; the driver is stopped too")
        deferrable = self.deferrable
        if deferrable and in_pod_of_its_own():  # with which all processes end that the task has started
            deferrable = not isinstance(handle, LocalDriver)
            if isinstance(handle, Submitted):
                wait_for_submission(handle)
        outcome = found.outcome or (outcome_so_far(handle, self.log) if deferrable else None)
        if deferrable and outcome is None:
            self._defer(context, handle, "execute_complete", waited)
        shown = 0
        if outcome is None:
            outcome, shown = watch(handle, self.poll_interval, self.log)
        return self._finish(context, outcome, waited, shown=shown)

    def _defer(self, context: Any, handle: Handle, method: str, waited: float) -> None:
        trigger = KsegRunTrigger(
            handle=handle.to_json(),
            poll_interval=self.poll_interval,
            kill_grace=self.kill_grace,
            folder=str(self._folder.path) if self._folder else None,
            follower=this_try(context),
        )
        left = datetime.fromisoformat(self._until) - datetime.now(UTC) if self._until else None
        timeout = max(left, timedelta(seconds=1)) if left is not None else None
        self.defer(
            trigger=trigger, method_name=method, kwargs={"waited": waited, "until": self._until}, timeout=timeout
        )

    # Starting, or finding again

    def _run_folder(self, context: Any) -> RunFolder:
        return RunFolder.of(self.run_dir or default_run_dir(), logical_identity(context))

    def _start_or_find(self, context: Any, *, take_over: bool) -> Previous:
        folder = self._folder
        assert folder is not None
        words = self.arguments(context)
        asked = Asked.by(context, asked_hash([self.submit, *words]))
        self._follower = asked.follower
        with folder.locked():
            previous = previous_driver(folder, asked, self.kill_grace, self.log)
            if previous is not None:
                if previous.outcome is None:
                    self.log.info("Attached to the driver of a previous try: %s", where(previous.handle))
                return previous
            if self._told_to_stop:
                raise AirflowException("the task was stopped before its driver was started")
            folder.remove_secrets()
            record = folder.record()
            attempt = record.attempt + 1 if record is not None else 1
            submission = Submission(
                words=words,
                folder=folder.try_folder(attempt),
                kseg=self.kseg or commands.default_kseg(),
                env=self.env,
                secret_env=self.secret_environment(),
                cwd=self.cwd,
                properties=self._kafka_properties(),
                options=self.submit_options,
                conn_id=self.spark_conn_id,
                take_over=take_over and self.command in commands.WITH_LEASE,
                name=f"{context['ti'].dag_id}.{context['ti'].task_id}",
                job_file=self.job_file,
                report=self._wants_report(),
                mark=mark_of(context) if self.lands else None,
            )
            self._handle = handle = submitter_of(self.submit)(submission)
            folder.keep(
                DriverRecord(
                    attempt=attempt,
                    handle=handle.to_json(),
                    asked=asked.hash,
                    started_at=datetime.now(UTC).isoformat(),
                    taken_over=submission.take_over,
                    follower=asked.follower,
                    clear=asked.clear,
                    drivers=[*(record.drivers if record else []), handle.to_json()][-20:],
                )
            )
        self.log.info("Started %s: %s", " ".join(["kseg", *words]), where(handle))
        self._tidy()
        return Previous(handle)

    def _tidy(self) -> None:
        """Remove old run folders. Failures are logged, and do not fail the task."""
        try:
            for path in tidy(self.run_dir or default_run_dir(), retention_days(), self.log.warning):
                self.log.info("Removed the folder of an old run: %s", path)
        except (OSError, ValueError) as error:
            self.log.warning("Old run folders cannot be removed: %s", error)

    def _wants_report(self) -> bool:
        """Whether the driver writes a page into its folder: if neither the job file nor an option sets a path."""
        if not self.report or self.command not in commands.WITH_REPORT or "report" in self.options:
            return False
        reporting = read_job(self.job_file).get("reporting") if self.job_file else None
        return not (isinstance(reporting, Mapping) and reporting.get("report"))

    def _kafka_properties(self) -> dict[str, str]:
        if self.kafka_conn_id is None or self.command not in commands.WITH_CONNECTION:
            return {}
        return properties_of_connection(self.kafka_conn_id)

    # The end

    def _finish(self, context: Any, outcome: Outcome, waited: float, *, shown: int = 0) -> Any:
        handle, folder = self._handle, self._folder
        assert handle is not None
        assert folder is not None
        show_rest(handle, shown, self.log)
        if outcome.document is None and self.job_file is not None and self.command in commands.WITH_LEASE:
            outcome = self._told_by_ledger(handle, outcome, folder)
        if outcome.exit_code == ANOTHER_RUN_ACTIVE:
            return self._after_another_run(context, outcome, waited)
        outcome = self.judge(outcome)
        if outcome.exit_code != DONE:
            folder.take()
            raise outcomes.failure_of(outcome, self._what(), log=self.log_file)
        report, earlier = self._with_earlier_landings(context, outcome.document or {})
        exchange.publish(context, self, report, earlier)
        folder.take(outcome.to_json())
        self.reported = report
        self.conclude(report)
        return exchange.for_xcom(report)

    def _with_earlier_landings(
        self, context: Any, report: dict[str, Any]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The report of this task's landing, with the reports of earlier tries without asset events.

        If a try died after its driver had ended, or its run folder is not visible here, only the ledger has its
        result. If the last driver found nothing to do, the report of the driver before it is the task's.
        """
        if not self.lands or self.job_file is None or getattr(context["ti"], "try_number", 1) < 2:
            return report, []
        earlier = ledger.landed_before(mark_of(context), report, self._status)
        if earlier and not landed_tables(report):
            self.log.info("A previous try has landed what this one was to land; its event is delivered now.")
            return earlier[-1], earlier[:-1]
        return report, earlier

    def _told_by_ledger(self, handle: Handle, outcome: Outcome, folder: RunFolder) -> Outcome:
        record = folder.record()
        if record is None:
            return outcome
        return ledger.completed(outcome, handle, self._status, lambda owner: _left_by_the_dead(record, owner))

    def _status(self, *words: str) -> Outcome:
        hook = KsegHook(self.kseg, self.kafka_conn_id, self.env, self.cwd)
        return hook.ask("status", str(self.job_file), *words)

    def _after_another_run(self, context: Any, outcome: Outcome, waited: float) -> Any:
        """After exit 5: take over the lease of a dead driver of this task, or wait for another run's lease."""
        folder = self._folder
        assert folder is not None
        record = folder.record()
        folder.take()
        address = outcome.error.get("address") or {}
        owner, until = str(address.get("owner") or ""), address.get("until")
        if record is not None and not record.taken_over and _left_by_the_dead(record, owner):
            self.log.info("The lease belongs to a dead driver of this task: taking it over.")
            return self._follow(context, waited, take_over=True)
        left = _seconds(self.lease_wait) - waited
        if until is None or left <= 0:
            raise outcomes.failure_of(outcome, self._what())
        wait = (datetime.fromisoformat(until) - datetime.now(UTC)).total_seconds() + 1
        wait = min(max(wait, self.poll_interval), left)
        self.log.info("Another run of the job holds its lease (%s); waiting %.0f s.", owner, wait)
        if self.deferrable:
            pause = Pause((datetime.now(UTC) + timedelta(seconds=wait)).isoformat())
            self._defer(context, pause, "execute_again", waited + wait)
        time.sleep(wait)
        return self._follow(context, waited + wait)

    @property
    def log_file(self) -> str | None:
        """The driver's log, if it is a file that this worker can read."""
        return str(self._handle.log_file) if isinstance(self._handle, LocalDriver) else None

    def _what(self) -> str:
        return " ".join(["kseg", self.command, os.path.basename(self.job_file or "")]).strip()  # noqa: PTH119

    def on_kill(self) -> None:
        """The running task was stopped: stop its driver and all processes that it has started.

        Airflow calls this from a signal handler, at any line of `execute`, which then continues. So this prevents
        `execute` from starting a driver, and does not wait for the record's lock, which `execute` may have. Airflow 3
        kills the task five seconds later, so longer work is done by a separate process.
        """
        self._told_to_stop = True
        record = self._folder.record() if self._folder is not None else None
        if self._handle is None or self._folder is None or (record and record.follower != self._follower):
            return
        mark_stopped(self._handle.to_json(), self._folder)
        self._handle.stop_detached(self.kill_grace)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Overrides Airflow's method: if a deferral ends by the task's timeout, the driver is stopped."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except Exception as error:
            if type(error).__name__ == "TaskDeferralTimeout":
                folder = self._run_folder(context)
                record = folder.record()
                if record is not None and not record.taken:
                    self.log.info("The task timed out: stopping its driver.")
                    self._stop(folder, record, this_try(context))
            raise

    def _stop(self, folder: RunFolder, record: DriverRecord, follower: str) -> None:
        # Airflow gives a resumed task `execution_timeout` once more, which may be shorter than `kill_grace`.
        if folder.stop_by(follower, record.handle):
            handle_of(record.handle).stop_detached(self.kill_grace)


def _left_by_the_dead(record: DriverRecord, owner: str) -> bool:
    return any(handle_of(values).proven_dead(owner) for values in record.drivers)


def _seconds(value: timedelta | float) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)
