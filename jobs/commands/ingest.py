"""`kseg ingest`: one run of a job."""

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
    with_spark_option,
)
from kseg.jobs.invocation.result import Result, run_result
from kseg.jobs.report.options import report_options


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg ingest orders.yaml --json
  kseg ingest orders.yaml --drain             # a backlog, run after run
  kseg ingest orders.yaml --drain --dry-run   # how many runs that would be
""",
)
@job_argument
@click.option("--dry-run", is_flag=True, help="Plan and check the run, and list what was not checked; write nothing.")
@with_spark_option
@take_over_option
@click.option(
    "--drain",
    is_flag=True,
    help="Repeat runs that are capped by run.max_records or run.max_bytes, until the current backlog has landed.",
)
@click.option(
    "--accept-group-offsets",
    is_flag=True,
    help="Continue from the group's offsets although another client moved them; skipped offsets are recorded.",
)
@remote_option
@run_file_option
@command_config_option
@report_options
@common_options
def ingest(
    invocation: Invocation,
    job_file: str,
    dry_run: bool,
    with_spark: bool,
    drain: bool,
    take_over: bool,
    accept_group_offsets: bool,
) -> Result:
    """Run a job once: read what is new, land it exactly once, commit the group's offsets.

    If a run is unfinished, it is continued first, with the ranges that it had planned. With --drain, the exit code is
    that of the first run that fails; the runs before it have landed, and the same command continues the failed run.

    Exit 0: done, or nothing to do; 2: invalid configuration; 3: refused, because ledger, source, tables and group do
    not agree, data is lost, or records cannot be decoded; 4: a broker or an object store is not available, try again;
    5: another run is active; 1: anything else.
    """

    if with_spark and not dry_run:
        raise click.UsageError("--with-spark goes with --dry-run: a run starts Spark in any case")
    job = load_job(invocation, job_file, starts_spark=True, decodes=True)
    progress = invocation.progress
    if dry_run:
        from kseg.etl.run.dry_run import plan_only

        planned = plan_only(
            job, accept_group_offsets=accept_group_offsets, with_spark=with_spark, drain=drain, progress=progress
        )
        return run_result(planned)
    if drain:
        from kseg.etl.run.drain import run_drain

        drained = run_drain(job, take_over=take_over, accept_group_offsets=accept_group_offsets, progress=progress)
        return run_result(drained)
    from kseg.etl.run.pipeline import run_ingest

    report = run_ingest(job, take_over=take_over, accept_group_offsets=accept_group_offsets, progress=progress)
    return run_result(report)
