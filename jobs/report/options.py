"""The options of commands that land rows, and what they mean together with the job file's `reporting:` section."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kseg.etl.config.job import Job

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The destinations of a run's page and metrics; None: they are not written.

    Attributes:
        report: an HTML file, or a folder that gets one page for each run; a path or URL.
        metrics_file: a file in Prometheus' text format.
        push_gateway: the address of a Prometheus Pushgateway.
    """

    report: str | None = None
    metrics_file: str | None = None
    push_gateway: str | None = None

    def with_job(self, job: Job) -> ReportOptions:
        """The command line's values, and the job file's where it has none."""
        section = job.reporting
        return ReportOptions(
            report=self.report or section.report,
            metrics_file=self.metrics_file or section.metrics_file,
            push_gateway=self.push_gateway or section.push_gateway,
        )


def _checked(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """An option's callback: the value, checked as the job file's section checks it."""
    if value is None:
        return None
    from pydantic_core import PydanticCustomError

    from kseg.etl.config import reporting

    check = reporting.gateway_address if parameter.name == "push_gateway" else reporting.local_file
    try:
        return check(value)
    except PydanticCustomError as error:
        found = error.context or {}
        raise click.BadParameter(f"{found.get('told')}: {found.get('remedy')}", ctx, parameter) from None
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


_OPTIONS = (
    click.option(
        "--report",
        metavar="PATH",
        help="Write an HTML page about the run, as this file or into this folder: a path, or a URL of an object store.",
    ),
    click.option(
        "--metrics-file",
        metavar="FILE",
        callback=_checked,
        help="Write the run's metrics in Prometheus' text format, for node_exporter's textfile collector (*.prom).",
    ),
    click.option(
        "--push-gateway",
        metavar="URL",
        callback=_checked,
        help="Push the run's metrics to a Prometheus Pushgateway.",
    ),
)


def report_options(command: F) -> F:
    """--report, --metrics-file and --push-gateway, for commands that land rows."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
