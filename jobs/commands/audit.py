"""`kseg audit`: asset events, ledger, tables and group offsets against each other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kseg.etl.errors import ExitCode
from kseg.jobs.commands.command_config import command_config_option
from kseg.jobs.commands.running import Result, common_options, execute, job_argument, load

if TYPE_CHECKING:
    from kseg.etl.telemetry.progress import Progress


@click.command(
    epilog="""\b
Examples:
  kseg audit orders.yaml
  kseg audit orders.yaml --events events.json --json
"""
)
@job_argument
@click.option(
    "--events",
    metavar="FILE|-",
    help="A JSON list of the extras of Airflow's asset events, to be held against the ledger; - is stdin.",
)
@command_config_option
@common_options
def audit(job_file: str, events: str | None, as_json: bool, debug: bool) -> None:
    """Find drift between asset events, ledger, tables and the group's offsets. Nothing is written, no JVM is started.

    Exit 3 where something differs: each difference with its place and what to do. Rows are compared by `kseg verify`.
    """

    def work(progress: Progress) -> Result:
        from kseg.etl.operations.audit_events import parse_events

        told = parse_events(_read(events)) if events is not None else None
        job = load(job_file)
        from kseg.etl.operations.audit import audit as audit_job

        report = audit_job(job, told)
        found = f"{len(report.differences)} differences" if report.differences else "all agree"
        code = ExitCode.DONE if report.ok else ExitCode.REFUSED
        return Result(report.to_json(), f"{job.name}: {found}", int(code))

    execute(work, as_json=as_json, debug=debug)


def _read(place: str) -> str:
    from kseg.etl.errors import ConfigurationError

    if place == "-":
        return sys.stdin.read()
    try:
        return Path(place).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        told = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigurationError.of("--events", f"cannot read {place}: {told}") from None
