"""`kseg verify`: compares tables with Kafka, by address."""

from __future__ import annotations

import click

from kseg.etl.errors import ExitCode
from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import (
    command_config_option,
    common_options,
    job_argument,
    remote_option,
    run_file_option,
)
from kseg.jobs.invocation.result import Result


@click.command(cls=KsegCommand, epilog="Example:  kseg verify orders.yaml --json")
@job_argument
@click.option(
    "--segments",
    multiple=True,
    metavar="DIR",
    help="Compare with log files instead of the brokers, for the offsets that these have. Repeatable.",
)
@click.option(
    "--reference",
    is_flag=True,
    help="With `decode:`, decode a sample of the records in plain Python instead of with the compiled decoders.",
)
@click.option(
    "--spark",
    "in_spark",
    is_flag=True,
    help="Compare small tables with Spark, too. By default they are compared without a JVM.",
)
@remote_option
@run_file_option
@command_config_option
@common_options
def verify(invocation: Invocation, job_file: str, segments: tuple[str, ...], reference: bool, in_spark: bool) -> Result:
    """Read the landed offsets from Kafka again and compare them with the tables, row by row.

    Reports every gap, duplicate and mismatch, and exits with 1 if there is one. All columns are compared; with
    `decode:` the records are decoded again, with the job file and the schemas of the run that landed them. With a
    transform, only the addresses are compared; if the transform changes the number of rows, only the counts.
    """

    job = load_job(invocation, job_file, starts_spark=True)
    from kseg.etl.operations.verify import verify as verify_job

    report = verify_job(job, progress=invocation.progress, segments=segments, reference=reference, in_spark=in_spark)
    code = ExitCode.DONE if report.ok else ExitCode.FAILED
    return Result(report.to_json(), f"{job.name}: {report.headline}", int(code))
