"""`kseg audit`: differences between asset events, ledger, tables and group offsets."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kseg.etl.errors import ExitCode
from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import command_config_option, common_options, job_argument
from kseg.jobs.invocation.result import Result


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg audit orders.yaml
  kseg audit orders.yaml --events events.json --json
""",
)
@job_argument
@click.option(
    "--events",
    metavar="FILE|-",
    help="A JSON list of the extras of Airflow's asset events, to compare with the ledger; - is stdin.",
)
@command_config_option
@common_options
def audit(invocation: Invocation, job_file: str, events: str | None) -> Result:
    """Find differences between asset events, ledger, tables and the group's offsets. Writes nothing, starts no JVM.

    Exit 3 if there are differences; each is shown with its address and what to do. `kseg verify` compares rows.
    """

    from kseg.etl.operations.audit_events import parse_events

    extras = parse_events(_read(events)) if events is not None else None
    job = load_job(invocation, job_file)
    from kseg.etl.operations.audit import audit as audit_job

    report = audit_job(job, extras)
    found = f"{len(report.differences)} differences" if report.differences else "all agree"
    code = ExitCode.DONE if report.ok else ExitCode.REFUSED
    return Result(report.to_json(), f"{job.name}: {found}", int(code))


def _read(place: str) -> str:
    from kseg.etl.errors import ConfigurationError

    if place == "-":
        return sys.stdin.read()
    try:
        return Path(place).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigurationError.of("--events", f"cannot read {place}: {reason}") from None
