"""`kseg interval`: whether a data interval is closed, so that its run may start."""

from __future__ import annotations

import click

from kseg.etl.errors import ExitCode
from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import command_config_option, common_options, job_argument
from kseg.jobs.invocation.result import Result


@click.command(
    cls=KsegCommand,
    epilog="Example:  kseg interval orders.yaml --interval 2026-01-01T00:00:00Z/2026-01-02T00:00:00Z --json",
)
@job_argument
@click.option("--interval", required=True, metavar="START/END", help="A data interval in ISO 8601 with time zones.")
@command_config_option
@common_options
def interval(invocation: Invocation, job_file: str, interval: str) -> Result:
    """Show whether a data interval is closed, and at which offsets it ends; nothing is pinned.

    Exit 0: closed, `kseg backfill --interval` may run. Exit 4: still open; each partition shows what it waits for, and
    retry_after is the number of seconds to wait. Exit 3: closed, but retention may have removed records of it
    (`boundary-unproved`). No JVM is started.
    """

    from kseg.etl.planning.backfill_request import parse_interval

    asked = parse_interval(interval)
    job = load_job(invocation, job_file)
    from kseg.etl.operations.interval import interval_status

    found = interval_status(job, asked)
    headline = "closed" if found.closed else f"open, check again in {found.retry_after} s"
    code = ExitCode.DONE if found.closed else ExitCode.RETRIABLE
    return Result(found.to_json(), f"{job.name}: {headline}", int(code))
