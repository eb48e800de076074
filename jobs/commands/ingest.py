"""`kseg ingest`: one run of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kseg.jobs.commands.command_config import command_config_option
from kseg.jobs.commands.remote import remote_option
from kseg.jobs.commands.run_file import run_file_option
from kseg.jobs.commands.running import Report, Result, common_options, execute, job_argument, load, take_over_option
from kseg.jobs.report.options import reporting_options

if TYPE_CHECKING:
    from kseg.etl.telemetry.progress import Progress


@click.command(epilog="Example:  kseg ingest orders.yaml --json")
@job_argument
@click.option("--dry-run", is_flag=True, help="Plan and check everything, read and write nothing.")
@take_over_option
@click.option(
    "--accept-group-offsets",
    is_flag=True,
    help="Go on from the group's offsets although somebody else moved them; what is jumped over is given up.",
)
@remote_option
@run_file_option
@command_config_option
@reporting_options
@common_options
def ingest(
    job_file: str, dry_run: bool, take_over: bool, accept_group_offsets: bool, as_json: bool, debug: bool
) -> None:
    """Run a job once: read what is new, land it exactly once, commit the group's offsets.

    An unfinished run is taken up first, with the ranges it had pinned. Exit 0: done, also when there was nothing to do;
    2: bad configuration; 3: refused, because state does not agree or data is lost; 4: broker or storage away, try
    again; 5: another run is active; 1: anything else.
    """

    def work(progress: Progress) -> Result:
        job = load(job_file, starts_spark=True)
        from kseg.etl.run.pipeline import run_ingest

        report = run_ingest(
            job,
            take_over=take_over,
            accept_group_offsets=accept_group_offsets,
            dry_run=dry_run,
            progress=progress,
        )
        return run_result(report)

    execute(work, as_json=as_json, debug=debug)


def run_result(report: Report) -> Result:
    """A run's report with the line that sums it up."""
    document = report.to_json()
    counts, tables = document.get("counts", {}), document.get("tables", [])
    told = f"{document.get('job')}: {document.get('status')}"
    if document.get("status") == "done":
        rows = sum(table.get("rows") or 0 for table in tables)
        told += f", {counts.get('records', 0)} records read, {rows} rows landed in {len(tables)} table(s)"
    return Result(document, told)
