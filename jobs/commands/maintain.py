"""`kseg maintain`: OPTIMIZE and VACUUM of a job's tables, retention of its dead letters and in its ledger."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

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
from kseg.jobs.invocation.result import Result

if TYPE_CHECKING:
    from kseg.etl.config.job import Job


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg maintain orders.yaml --dry-run
  kseg maintain orders.yaml --optimize --z-order topic --z-order offset
  kseg maintain orders.yaml --vacuum 14d --ledger
""",
)
@job_argument
@click.option("--optimize", is_flag=True, help="Merge small files into fewer large ones (OPTIMIZE).")
@click.option(
    "--z-order",
    multiple=True,
    metavar="COLUMN",
    help="OPTIMIZE with Z-order by this column, with Spark; implies --optimize. Repeatable.",
)
@click.option("--vacuum", metavar="DURATION", help="Delete files that only table versions older than this use (7d).")
@click.option(
    "--dead-letters", is_flag=True, help="Delete dead letters that are older than sink.dead_letters.retention."
)
@click.option(
    "--ledger", is_flag=True, help="Summarise and compact the ledger and delete old events, as runs do at their end."
)
@click.option(
    "--keep", metavar="DURATION", default="90d", show_default=True, help="How long the ledger keeps events for queries."
)
@click.option(
    "--allow-short-retention",
    is_flag=True,
    help="Let --vacuum be shorter than seven days, and than a table's own retention.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing.")
@take_over_option
@command_config_option
@run_file_option
@common_options
def maintain(
    invocation: Invocation,
    job_file: str,
    optimize: bool,
    z_order: tuple[str, ...],
    vacuum: str | None,
    dead_letters: bool,
    ledger: bool,
    keep: str,
    allow_short_retention: bool,
    dry_run: bool,
    take_over: bool,
) -> Result:
    """Optimize and vacuum a job's tables, and compact its ledger, without changing rows of target tables.

    By default does all of --optimize, --vacuum 7d, --dead-letters and --ledger; with any of these options, only what
    they name. A table's own retention (`delta.deletedFileRetentionDuration`) counts if it is longer than --vacuum. Runs
    may be active: files that an unfinished run may still commit are kept. Z-order is done by Spark, and needs a store
    that is put-if-absent for Spark, or `sink.single_driver` and no unfinished run.

    Exit 5 if another maintenance is active, or if a run holds the lease of a table with `sink.single_driver`.
    --take-over takes over the lease of a maintenance that died, but not that of a run.
    """

    job = _load(invocation, job_file)
    from kseg.etl.operations.maintain import MaintenanceRequest, maintain_job

    everything = not (optimize or z_order or vacuum or dead_letters or ledger)
    request = MaintenanceRequest(
        optimize=everything or optimize or bool(z_order),
        z_order=z_order,
        vacuum=_duration("--vacuum", vacuum or "7d") if everything or vacuum else None,
        letters=everything or dead_letters,
        ledger=everything or ledger,
        keep=_duration("--keep", keep),
        dry_run=dry_run,
        allow_short=allow_short_retention,
    )
    report = maintain_job(job, request, invocation.progress, take_over=take_over)
    saved = [t.vacuumed.bytes for t in report.tables if t.vacuumed is not None]
    expired = sum(letters.deleted or 0 for letters in report.letters)
    headline = f"{len(report.tables)} tables" + (f", {sum(saved)} bytes deleted" if saved else "")
    headline += f", {expired} dead letters deleted" if expired else ""
    return Result(report.to_json(), f"{job.name}: {headline}" + (" (nothing was changed)" if dry_run else ""))


def _load(invocation: Invocation, job_file: str) -> Job:
    """With Java if it is installed: only tables that Spark has to write to need it."""
    from kseg.jobs.broker.errors import JavaMissing

    try:
        return load_job(invocation, job_file, starts_spark=True)
    except JavaMissing:
        return load_job(invocation, job_file)


def _duration(option: str, text: str) -> timedelta:
    from kseg.etl.config.times import DURATION_REMEDY, parse_duration
    from kseg.etl.errors import ConfigurationError

    try:
        return parse_duration(text)
    except ValueError as error:
        raise ConfigurationError.of(option, f"{text!r} {error}", DURATION_REMEDY) from None
