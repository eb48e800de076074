"""`kseg status`: where a job stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kseg.jobs.commands.command_config import command_config_option
from kseg.jobs.commands.ingest import run_result
from kseg.jobs.commands.running import Result, common_options, execute, job_argument, load

if TYPE_CHECKING:
    from kseg.etl.telemetry.progress import Progress


@click.command(
    epilog="""\b
Examples:
  kseg status orders.yaml
  kseg status orders.yaml --run 4f1c2d --json | jq .tables
"""
)
@job_argument
@click.option("--run", "run_id", metavar="RUN", help="The report of this run, once it has ended, and nothing else.")
@click.option(
    "--runs", type=click.IntRange(1), default=10, show_default=True, help="How many of the last runs are told."
)
@command_config_option
@common_options
def status(job_file: str, run_id: str | None, runs: int, as_json: bool, debug: bool) -> None:
    """Show a job's last runs, its lag by partition, and ledger against group offsets against tables.

    No JVM is started, nothing is written.
    """

    def work(progress: Progress) -> Result:
        job = load(job_file)
        if run_id is not None:
            from kseg.etl.operations.status import run_report

            return run_result(run_report(job, run_id))
        from kseg.etl.operations.status import status as status_of

        document = status_of(job, runs).to_json()
        lag = document.get("lag")
        return Result(document, f"{job.name}: {lag} offsets behind" if lag is not None else job.name)

    execute(work, as_json=as_json, debug=debug)
