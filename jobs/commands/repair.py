"""`kseg repair`: finish or abandon an unfinished run."""

from __future__ import annotations

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import (
    command_config_option,
    common_options,
    job_argument,
    run_file_option,
    take_over_option,
)
from kseg.jobs.invocation.result import Result, run_result
from kseg.jobs.report.options import report_options


def _check(finish: str | None, abandon: str | None, **_: object) -> None:
    if (finish is None) == (abandon is None):
        raise click.UsageError("give one of --finish RUN and --abandon RUN")


@click.command(
    cls=KsegCommand,
    check=_check,
    epilog="""\b
Examples:
  kseg repair orders.yaml --finish 3f9c46bd --dry-run
  kseg repair orders.yaml --abandon 3f9c46bd
""",
)
@job_argument
@click.option("--finish", metavar="RUN", help="Finish this run with the configuration it was planned with.")
@click.option("--abandon", metavar="RUN", help="Give this run up and remove the rows it has landed.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing.")
@take_over_option
@run_file_option
@command_config_option
@report_options
@common_options
def repair(
    invocation: Invocation,
    job_file: str,
    finish: str | None,
    abandon: str | None,
    dry_run: bool,
    take_over: bool,
) -> Result:
    """Finish or abandon a run that stopped half way. `kseg status` lists the runs."""
    job = load_job(invocation, job_file, starts_spark=True)
    from kseg.etl.operations.repair import abandon as abandon_run
    from kseg.etl.operations.repair import finish as finish_run

    carry_out, run_id = (finish_run, finish) if finish is not None else (abandon_run, abandon)
    assert run_id is not None
    return run_result(carry_out(job, run_id, dry_run=dry_run, take_over=take_over, progress=invocation.progress))
