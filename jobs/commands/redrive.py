"""`kseg redrive`: land dead letters after the job file or a schema was corrected."""

from __future__ import annotations

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import (
    command_config_option,
    common_options,
    job_argument,
    remote_option,
    run_file_option,
    take_over_option,
)
from kseg.jobs.invocation.result import Result, run_result
from kseg.jobs.report.options import report_options


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg redrive orders.yaml
  kseg redrive orders.yaml --where "error = 'WRONG_TYPE' AND path = 'amount'"
  kseg redrive orders.yaml --run 4be1f00c52-17-9a3e11d0
""",
)
@job_argument
@click.option(
    "--where", metavar="SQL", help="Only dead letters that match this condition on the columns of their table."
)
@click.option("--run", "run_id", metavar="RUN", help="Only dead letters of this run: its id, or a unique prefix of it.")
@take_over_option
@remote_option
@run_file_option
@command_config_option
@report_options
@common_options
def redrive(invocation: Invocation, job_file: str, where: str | None, run_id: str | None, take_over: bool) -> Result:
    """Land the dead letters that the job file decodes now, each once; the others stay dead letters.

    The same command continues a redrive that was killed. Exit codes are those of `kseg ingest`.
    """
    from kseg.etl.operations.redrive import run_redrive

    job = load_job(invocation, job_file, starts_spark=True)
    return run_result(run_redrive(job, where=where, run_id=run_id, take_over=take_over, progress=invocation.progress))
