"""`kseg repair`: an unfinished run, finished or abandoned by a person's word."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import click

from kseg.jobs.commands.command_config import command_config_option
from kseg.jobs.commands.ingest import run_result
from kseg.jobs.commands.run_file import run_file_option
from kseg.jobs.commands.running import Result, common_options, execute, job_argument, load, take_over_option
from kseg.jobs.report.options import reporting_options

if TYPE_CHECKING:
    from kseg.etl.telemetry.progress import Progress


class _How(TypedDict):
    dry_run: bool
    take_over: bool
    progress: Progress


@click.command(
    epilog="""\b
Examples:
  kseg repair orders.yaml --finish 3f9c46bd --dry-run
  kseg repair orders.yaml --abandon 3f9c46bd
"""
)
@job_argument
@click.option("--finish", metavar="RUN", help="Finish this run with the configuration it was planned with.")
@click.option("--abandon", metavar="RUN", help="Give this run up and remove the rows it has landed.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing.")
@take_over_option
@run_file_option
@command_config_option
@reporting_options
@common_options
def repair(
    job_file: str,
    finish: str | None,
    abandon: str | None,
    dry_run: bool,
    take_over: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """Finish or abandon a run that stopped half way. `kseg status` lists the runs."""
    if (finish is None) == (abandon is None):
        raise click.UsageError("give one of --finish RUN and --abandon RUN")

    def work(progress: Progress) -> Result:
        job = load(job_file, starts_spark=True)
        from kseg.etl.operations.repair import abandon as abandon_run
        from kseg.etl.operations.repair import finish as finish_run

        how: _How = {"dry_run": dry_run, "take_over": take_over, "progress": progress}
        if finish is not None:
            return run_result(finish_run(job, finish, **how))
        assert abandon is not None
        return run_result(abandon_run(job, abandon, **how))

    execute(work, as_json=as_json, debug=debug)
