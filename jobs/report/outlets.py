"""The listener behind a run's page, metrics and lineage: gathers while it runs, writes when it has ended or failed.

What cannot be written never changes what a run has done: it is told in a line on stderr and in the result's notes.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from kseg.etl.errors import ConfigurationError
from kseg.etl.telemetry.events import JobOpened, RunEvent
from kseg.etl.telemetry.progress import NullProgress
from kseg.etl.telemetry.recorder import Recorder
from kseg.jobs.commands.failures import REDACTOR
from kseg.jobs.report.lineage import Lineage, wanted
from kseg.jobs.report.options import Wishes
from kseg.jobs.report.outcome import Outcome

if TYPE_CHECKING:
    from kseg.etl.config.job import Job

LOGGER = logging.getLogger(__name__)


class Outlets(NullProgress):
    """One command's outlets. wishes: of its command line; the job file's join them when it is known."""

    def __init__(self, wishes: Wishes, command: str) -> None:
        self._wishes = wishes
        self._command = command
        self._recorder = Recorder()
        self._lineage = Lineage(command, self._recorder.telemetry)
        self._closed = False

    def phase(self, name: str) -> None:
        self._recorder.phase(name)

    def message(self, text: str) -> None:
        self._recorder.message(text)

    def event(self, event: RunEvent) -> None:
        if isinstance(event, JobOpened):
            self._wishes = self._wishes.with_job(event.job)
            self._check_installed(event.job)
        try:
            self._recorder.event(event)
            self._lineage.event(event)
        except Exception:
            # A run goes on whatever becomes of its report: a defect here must not stand between commit and ledger.
            LOGGER.warning("a event of the run is missing in its report: %s", type(event).__name__, exc_info=True)

    def close(self, document: dict[str, Any], exit_code: int) -> dict[str, Any]:
        """Write what was asked for. document: what --json prints of a result or an error; it gets what was measured,
        `report`, and notes of what went wrong here. Returns what was added. The second call does nothing."""
        if self._closed:
            return {}
        self._closed = True
        telemetry, wishes, before = self._recorder.close(), self._wishes, set(document)
        outcome = Outcome(self._command, telemetry, document, exit_code)
        outcome.tell_in(document)
        if wishes.report is not None:
            path = wishes.report
            document["report"] = self._tried("the report", lambda: _write_page(path, outcome), document)
        if wishes.metrics_file is not None and not outcome.dry:
            file = wishes.metrics_file
            self._tried("the metrics", lambda: _write_metrics(file, outcome), document)
        if wishes.push_gateway is not None and not outcome.dry:
            gateway = wishes.push_gateway
            self._tried("the metrics", lambda: _push_metrics(gateway, outcome), document)
        fault = self._lineage.close(outcome)
        if fault is not None:
            self._tell(f"lineage events could not be sent: {fault}", document)
        return {key: value for key, value in document.items() if key not in before}

    def _tried(self, what: str, write: Callable[[], str | None], document: dict[str, Any]) -> str | None:
        try:
            return write()
        except Exception as error:
            self._tell(f"{what} could not be written: {type(error).__name__}: {error}", document)
            return None

    def _tell(self, fault: str, document: dict[str, Any]) -> None:
        told = REDACTOR.clean(fault)
        click.echo(f"kseg: {told}", file=sys.stderr)
        document.setdefault("notes", []).append(told)

    def _check_installed(self, job: Job) -> None:
        """Before a run, not after it. Raises ConfigurationError."""
        for wished, module, extra in (
            (self._wishes.metrics_file or self._wishes.push_gateway, "prometheus_client", "prometheus"),
            (wanted(job), "openlineage", "openlineage"),
        ):
            if wished and find_spec(module) is None:
                raise ConfigurationError.of(
                    "reporting",
                    f"needs {module}, which is not installed",
                    f"pip install 'kafka-segment-etl[{extra}]'",
                )


def _write_page(path: str, outcome: Outcome) -> str:
    from kseg.jobs.report.page import write_page

    return write_page(path, outcome)


def _write_metrics(path: str, outcome: Outcome) -> None:
    from kseg.jobs.report.metrics import write_file

    write_file(path, outcome)


def _push_metrics(gateway: str, outcome: Outcome) -> None:
    from kseg.jobs.report.metrics import push

    push(gateway, outcome)
