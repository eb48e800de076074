"""The options of commands that land rows, and what they mean together with the job file's `reporting:` section."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kseg.etl.config.job import Job

F = TypeVar("F", bound=Callable[..., Any])

_KEY = "kseg.reporting"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for. report: a file, or a folder for a page a run; a path or URL."""

    report: str | None = None
    metrics_file: str | None = None
    push_gateway: str | None = None

    def with_job(self, job: Job) -> Wishes:
        """The command line's words, and the job file's where it has none."""
        section = job.reporting
        return Wishes(
            report=self.report or section.report,
            metrics_file=self.metrics_file or section.metrics_file,
            push_gateway=self.push_gateway or section.push_gateway,
        )


def _noted(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    assert parameter.name is not None
    if value is not None and parameter.name in ("push_gateway", "metrics_file"):
        value = _checked(value, ctx, parameter)
    ctx.meta[_KEY] = replace(ctx.meta.get(_KEY, Wishes()), **{parameter.name: value})


def _checked(value: str, ctx: click.Context, parameter: click.Parameter) -> str:
    """As the job file's section checks it."""
    from pydantic_core import PydanticCustomError

    from kseg.etl.config import reporting

    check = reporting.gateway_address if parameter.name == "push_gateway" else reporting.local_file
    try:
        return check(value)
    except PydanticCustomError as error:
        told = error.context or {}
        raise click.BadParameter(f"{told.get('told')}: {told.get('remedy')}", ctx, parameter) from None
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


_OPTIONS = (
    click.option(
        "--report",
        metavar="PATH",
        expose_value=False,
        callback=_noted,
        help="Write the run's page: one HTML file, or into a folder. A path, or a URL of an object store.",
    ),
    click.option(
        "--metrics-file",
        metavar="FILE",
        expose_value=False,
        callback=_noted,
        help="Write the run's metrics in Prometheus' text format, for node_exporter's textfile collector (*.prom).",
    ),
    click.option(
        "--push-gateway",
        metavar="URL",
        expose_value=False,
        callback=_noted,
        help="Push the run's metrics to a Prometheus Pushgateway.",
    ),
)


def reporting_options(command: F) -> F:
    """--report, --metrics-file and --push-gateway, for commands that land rows."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def wishes_of(ctx: click.Context) -> Wishes | None:
    """What the command line asked for; None of a command that has no such options."""
    return ctx.meta.get(_KEY)
