"""`kseg check`: are job files sound?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kseg.etl.errors import ExitCode
from kseg.jobs.commands.running import Result, common_options, execute

if TYPE_CHECKING:
    from kseg.etl.telemetry.progress import Progress


@click.command(
    epilog="""\b
Examples:
  kseg check orders.yaml
  kseg check airflow/jobs/*.yaml --json
"""
)
@click.argument("job_files", metavar="JOB.yaml...", nargs=-1, required=True, type=click.Path())
@common_options
def check(job_files: tuple[str, ...], as_json: bool, debug: bool) -> None:
    """Check job files: all faults of all of them, and whether two of them are one job or one DAG.

    No broker, table or ledger is asked; references (${NAME}) are looked up as a run would. Exit 2 if there is a fault.
    --json tells each file's `airflow:` section with its defaults.
    """

    def work(progress: Progress) -> Result:
        from kseg.etl.config.check import check_files

        checked = check_files(dict.fromkeys(job_files))
        faulty = [one for one in checked if not one.ok]
        document = {"files": [one.to_json() for one in checked], "faults": sum(len(one.faults) for one in checked)}
        if faulty and not as_json:
            for one in faulty:
                click.echo("\n".join([f"{one.file}:", *(f"  {fault}" for fault in one.faults)]), err=True)
        told = f"{len(checked) - len(faulty)} of {len(checked)} job files are sound"
        shown = document if as_json else {"files": [{"file": one.file, "sound": one.ok} for one in checked]}
        return Result(shown, told, int(ExitCode.BAD_CONFIGURATION if faulty else ExitCode.DONE))

    execute(work, as_json=as_json, debug=debug)
