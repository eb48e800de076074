"""The listener that makes a run's page, metrics and lineage: it records while the run works, and writes at its end.

A report that cannot be written does not change the run's result: a line on stderr and the result's notes say so.
A command of several runs (`kseg ingest --drain`) has reports for each of them, written when it ends.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from kseg.etl.errors import ConfigurationError
from kseg.etl.telemetry.events import JobOpened, JobRead, RunEnded, RunEvent
from kseg.etl.telemetry.progress import NullProgress
from kseg.etl.telemetry.recorder import Recorder
from kseg.jobs.output.last_output import last_output
from kseg.jobs.output.redaction import REDACTOR
from kseg.jobs.report.lineage import LineageReporter, wanted
from kseg.jobs.report.options import ReportOptions
from kseg.jobs.report.outcome import CommandOutcome

if TYPE_CHECKING:
    from kseg.etl.config.job import Job

LOGGER = logging.getLogger(__name__)


class Reporter(NullProgress):
    """One command's reports. options: of its command line; those of the job file are added when it is loaded."""

    def __init__(self, options: ReportOptions, command: str) -> None:
        self._options = options
        self._command = command
        self._closed = False
        self._ended_runs = 0
        self._job_name: str | None = None
        self._begin()

    def _begin(self) -> None:
        self._recorder = Recorder()
        self._lineage = LineageReporter(self._command, self._recorder.telemetry)

    def phase(self, name: str) -> None:
        self._recorder.phase(name)

    def message(self, text: str) -> None:
        self._recorder.message(text)

    def event(self, event: RunEvent) -> None:
        if isinstance(event, RunEnded):
            self._write(event.document, 0)
            self._ended_runs += 1
            self._begin()
            return
        if isinstance(event, JobRead):
            self._job_name = event.name
            if event.job is not None:  # what fails before the ledger is open is reported where the file says
                self._options = self._options.with_job(event.job)
        if isinstance(event, JobOpened):
            self._options = self._options.with_job(event.job)
            self._check_installed(event.job)
        try:
            self._recorder.event(event)
            self._lineage.event(event)
        except Exception:
            # A defect in a report must not stop a run between its commit and its ledger.
            LOGGER.warning("an event of the run is missing in its report: %s", type(event).__name__, exc_info=True)

    def close(self, document: dict[str, Any], exit_code: int) -> dict[str, Any]:
        """Write the reports. document: what --json prints of a result or an error; measurements, `report`, and notes of
        what could not be written are added to it. Returns what was added. A second call does nothing."""
        if self._closed:
            return {}
        self._closed = True
        if self._ended_runs and exit_code == 0:
            return {}  # what came after the last run found nothing to do
        return self._write(document, exit_code)

    def _write(self, document: dict[str, Any], exit_code: int) -> dict[str, Any]:
        telemetry, options, before = self._recorder.close(), self._options, set(document)
        outcome = CommandOutcome(self._command, telemetry, document, exit_code, job_name=self._job_name)
        outcome.add_measurements_to(document)
        if options.report is not None:
            path = options.report
            document["report"] = self._attempt("the report", lambda: self._write_page(path, outcome), document)
        if options.metrics_file is not None and not outcome.is_dry_run:
            file = options.metrics_file
            self._attempt("the metrics", lambda: _write_metrics(file, outcome), document)
        if options.push_gateway is not None and not outcome.is_dry_run:
            gateway = options.push_gateway
            self._attempt("the metrics", lambda: _push_metrics(gateway, outcome), document)
        fault = self._lineage.close(outcome)
        if fault is not None:
            self._note(f"lineage events could not be sent: {fault}", document)
        return {key: value for key, value in document.items() if key not in before}

    def _attempt(self, what: str, write: Callable[[], str | None], document: dict[str, Any]) -> str | None:
        try:
            return write()
        except Exception as error:
            self._note(f"{what} could not be written: {type(error).__name__}: {error}", document)
            return None

    def _write_page(self, path: str, outcome: CommandOutcome) -> str:
        from kseg.jobs.report.page import write_page

        written = write_page(path, outcome)
        if written.note is not None:
            self._note(written.note, outcome.document)
        return written.place

    def _note(self, fault: str, document: dict[str, Any]) -> None:
        note = REDACTOR.clean(fault)
        with last_output(sys.stderr):
            click.echo(f"kseg: {note}", file=sys.stderr)
        document.setdefault("notes", []).append(note)

    def _check_installed(self, job: Job) -> None:
        """Before a run, not after it. Raises ConfigurationError."""
        for needed, module, extra in (
            (self._options.metrics_file or self._options.push_gateway, "prometheus_client", "prometheus"),
            (wanted(job), "openlineage", "openlineage"),
        ):
            if needed and find_spec(module) is None:
                raise ConfigurationError.of(
                    "reporting",
                    f"needs {module}, which is not installed",
                    f"pip install 'kafka-segment-etl[{extra}]'",
                )


def _write_metrics(path: str, outcome: CommandOutcome) -> None:
    from kseg.jobs.report.metrics import write_file

    write_file(path, outcome)


def _push_metrics(gateway: str, outcome: CommandOutcome) -> None:
    from kseg.jobs.report.metrics import push

    push(gateway, outcome)
