"""`kseg backfill`: lands offsets, a time range or a data interval as a separate run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kseg.etl.ledger.modes import BACKFILLS
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

if TYPE_CHECKING:
    from kseg.etl.config.job import Job
    from kseg.etl.planning.backfill_request import BackfillRequest

_BOUND = "TOPIC:PARTITION:OFFSET|TIME"


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg backfill orders.yaml --from orders:0:1200 --to orders:0:1500 --dry-run
  kseg backfill orders.yaml --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z --mode replace
  kseg backfill orders.yaml --segments /mnt/broker-1/data
  kseg backfill orders.yaml --interval 2026-01-01T00:00:00Z/2026-01-02T00:00:00Z
""",
)
@job_argument
@click.option("--from", "from_", multiple=True, metavar=_BOUND, help="Where to begin. Repeatable with offsets.")
@click.option("--to", multiple=True, metavar=_BOUND, help="Where to end, exclusive. Repeatable with offsets.")
@click.option(
    "--interval",
    metavar="START/END",
    help="A data interval in ISO 8601 with time zones. Boundaries are resolved once; adjacent intervals share them.",
)
@click.option(
    "--mode",
    type=click.Choice(list(BACKFILLS)),
    default="missing",
    show_default=True,
    help=" ".join(f"{name}: {mode.words}." for name, mode in BACKFILLS.items()),
)
@click.option(
    "--label", metavar="TEXT", help="Part of the run's identity. To run the same backfill again, give another label."
)
@click.option(
    "--segments",
    multiple=True,
    metavar="DIR",
    help="Read log files instead of the brokers: a folder of log.dirs or a copy, as path or URL. Repeatable. Without "
    "bounds: everything in them that has not landed.",
)
@click.option(
    "--drop-compacted",
    is_flag=True,
    help="With --mode replace: also remove rows whose records compaction has removed from Kafka. They stay by default.",
)
@click.option(
    "--drop-older-generations",
    is_flag=True,
    help="With --mode replace: also remove rows that landed before a changed source was accepted. They "
    "stay by default.",
)
@click.option(
    "--adopt",
    multiple=True,
    metavar="LEDGER",
    help="With --mode replace: count rows of this older ledger as the job's own, if it read the same topic. "
    "Repeatable.",
)
@click.option("--commit-offsets", is_flag=True, help="Also advance the group's offsets. They stay by default.")
@click.option("--dry-run", is_flag=True, help="Plan and check everything; read no records, write nothing.")
@take_over_option
@remote_option
@run_file_option
@command_config_option
@report_options
@common_options
def backfill(invocation: Invocation, job_file: str, dry_run: bool, take_over: bool, **bounds: Any) -> Result:
    """Land offsets, a time range or a data interval, as a separate run.

    A backfill is identified by its request (job, mode, bounds, label): repeating it changes nothing. Partitions that no
    bound names are not read. Exit codes are those of `kseg ingest`.
    """

    job, request = _load_both(invocation, job_file, bounds)
    if dry_run:
        from kseg.etl.run.dry_run import plan_only

        return run_result(plan_only(job, request, progress=invocation.progress))
    from kseg.etl.operations.backfill import run_backfill

    return run_result(run_backfill(job, request, take_over=take_over, progress=invocation.progress))


def _load_both(invocation: Invocation, job_file: str, bounds: dict[str, Any]) -> tuple[Job, BackfillRequest]:
    """The job and the request. Raises ConfigurationError with the faults of both."""
    from kseg.etl.errors import ConfigurationError
    from kseg.etl.planning.backfill_request import BackfillRequest

    error: ConfigurationError | None = None
    try:
        request = BackfillRequest.parse(**bounds)
    except ConfigurationError as caught:
        error = caught
    try:
        job = load_job(invocation, job_file, starts_spark=True, decodes=True)
    except ConfigurationError as caught:
        before = error.faults if error else ()
        raise ConfigurationError([*before, *caught.faults], file=caught.file) from None
    if error is not None:
        raise error
    return job, request
