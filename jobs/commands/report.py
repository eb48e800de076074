"""`kseg report`: the page of a run that is over, made from the ledger."""

from __future__ import annotations

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import common_options, job_argument
from kseg.jobs.invocation.result import Result


@click.command(cls=KsegCommand, epilog="Example:  kseg report orders.yaml --run 17-9a3e11d0 -o report.html")
@job_argument
@click.option(
    "--run",
    "run_id",
    metavar="RUN",
    help="The run's id, or a unique prefix of it or of its part after the first dash.  [default: the last run]",
)
@click.option(
    "-o", "--output", default=".", show_default=True, metavar="PATH", help="An HTML file, or a folder; a path or URL."
)
@common_options
def report(invocation: Invocation, job_file: str, run_id: str | None, output: str) -> Result:
    """Write a run's page from the ledger: ranges, counts, tables, offsets.

    Throughput and requests are not stored: `kseg ingest --report` writes a page with them. No broker is needed and no
    JVM is started.
    """

    job = load_job(invocation, job_file)
    from kseg.jobs.report.from_ledger import outcome_of
    from kseg.jobs.report.page import write_page

    outcome = outcome_of(job, run_id)
    outcome.document["report"] = write_page(output, outcome)
    return Result(outcome.document, f"{job.name}: {outcome.document['report']}")
