"""`kseg interval`: may a data interval run?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kseg.etl.errors import ExitCode
from kseg.jobs.commands.command_config import command_config_option
from kseg.jobs.commands.running import Result, common_options, execute, job_argument, load

if TYPE_CHECKING:
    from kseg.etl.telemetry.progress import Progress


@click.command(epilog="Example:  kseg interval orders.yaml --interval 2026-01-01T00:00:00Z/2026-01-02T00:00:00Z --json")
@job_argument
@click.option("--interval", required=True, metavar="START/END", help="A data interval in ISO 8601 with time zones.")
@command_config_option
@common_options
def interval(job_file: str, interval: str, as_json: bool, debug: bool) -> None:
    """Tell whether a data interval is closed, and which offsets its end means; nothing is pinned.

    Exit 0: closed, `kseg backfill --interval` may run. Exit 4: still open; each partition tells what it waits for, and
    retry_after how many seconds later it is worth asking again. No JVM is started.
    """

    def work(progress: Progress) -> Result:
        from kseg.etl.planning.backfill_request import parse_interval

        asked = parse_interval(interval)
        job = load(job_file)
        from kseg.etl.operations.interval import interval_status

        found = interval_status(job, asked)
        told = "closed" if found.closed else f"open, ask again in {found.retry_after} s"
        code = ExitCode.DONE if found.closed else ExitCode.RETRIABLE
        return Result(found.to_json(), f"{job.name}: {told}", int(code))

    execute(work, as_json=as_json, debug=debug)
