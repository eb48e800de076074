"""`kseg verify`: tables against Kafka, by address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kseg.etl.errors import ExitCode
from kseg.jobs.commands.command_config import command_config_option
from kseg.jobs.commands.remote import remote_option
from kseg.jobs.commands.run_file import run_file_option
from kseg.jobs.commands.running import Result, common_options, execute, job_argument, load

if TYPE_CHECKING:
    from kseg.etl.telemetry.progress import Progress


@click.command(epilog="Example:  kseg verify orders.yaml --json")
@job_argument
@click.option(
    "--segments",
    multiple=True,
    metavar="DIR",
    help="Compare with log files in place of the brokers, as far as they reach; as often as needed.",
)
@remote_option
@run_file_option
@command_config_option
@common_options
def verify(job_file: str, segments: tuple[str, ...], as_json: bool, debug: bool) -> None:
    """Read the ledger's ranges from Kafka again and compare with the tables, row by row.

    Every gap, duplicate and mismatch is told; exit 1 if there is one. Without a transform every column is compared,
    with one the addresses; where the transform changed the number of rows, the counts alone.
    """

    def work(progress: Progress) -> Result:
        job = load(job_file, starts_spark=True)
        from kseg.etl.operations.verify import verify as verify_job

        report = verify_job(job, progress=progress, segments=segments)
        told = "all rows agree" if report.ok else "rows do not agree"
        code = ExitCode.DONE if report.ok else ExitCode.FAILED
        return Result(report.to_json(), f"{job.name}: {told}", int(code))

    execute(work, as_json=as_json, debug=debug)
