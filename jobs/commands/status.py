"""`kseg status`: the state of a job."""

from __future__ import annotations

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import command_config_option, common_options, job_argument
from kseg.jobs.invocation.result import Result, run_result


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg status orders.yaml
  kseg status orders.yaml --run 4be1f00c52-17-9a3e11d0 --json | jq .tables
""",
)
@job_argument
@click.option("--run", "run_id", metavar="RUN", help="The report of this run, once it has ended, and nothing else.")
@click.option(
    "--runs", type=click.IntRange(1), default=10, show_default=True, help="How many of the last runs are listed."
)
@command_config_option
@common_options
def status(invocation: Invocation, job_file: str, run_id: str | None, runs: int) -> Result:
    """Show a job's last runs, its lag by partition, what became of its dead letters, and whether ledger, group
    offsets and tables agree.

    No JVM is started, nothing is written.
    """

    job = load_job(invocation, job_file)
    if run_id is not None:
        from kseg.etl.operations.status import run_report

        return run_result(run_report(job, run_id))
    from kseg.etl.operations.status import status as status_of

    document = status_of(job, runs).to_json()
    headline = f"{job.name}: {document['lag']} offsets behind"
    if open_letters := document["dead_letters"].get("open"):
        headline += f", {open_letters} open dead letters"
    return Result(document, headline)
