"""`kseg status`: where a job stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jobs.commands.running import Result, common_options, execute, job_argument, load

if TYPE_CHECKING:
    from etl.progress import Progress


@click.command(epilog="Example:  kseg status orders.yaml")
@job_argument
@common_options
def status(job_file: str, as_json: bool, debug: bool) -> None:
    """Show a job's last runs, its lag by partition, and ledger against group offsets against tables.

    No JVM is started, nothing is written.
    """

    def work(progress: Progress) -> Result:
        job = load(job_file)
        from etl.status import status as status_of

        document = status_of(job).to_json()
        lag = document.get("lag")
        return Result(document, f"{job.name}: {lag} offsets behind" if lag is not None else job.name)

    execute(work, as_json=as_json, debug=debug)
