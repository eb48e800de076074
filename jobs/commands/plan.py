"""`kseg plan`: what a run would read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kseg.jobs.commands.command_config import command_config_option
from kseg.jobs.commands.running import Result, common_options, execute, job_argument, load

if TYPE_CHECKING:
    from kseg.etl.telemetry.progress import Progress


@click.command(epilog="Example:  kseg plan orders.yaml")
@job_argument
@command_config_option
@common_options
def plan(job_file: str, as_json: bool, debug: bool) -> None:
    """Show the ranges that the next run would read. Nothing is written, no JVM is started."""

    def work(progress: Progress) -> Result:
        job = load(job_file)
        from kseg.etl.run.dry_run import plan_only

        document = plan_only(job).to_json()
        ranges = document.get("ranges", [])
        offsets = sum(r["end"] - r["start"] for r in ranges)
        return Result(document, f"{job.name}: {offsets} offsets in {len(ranges)} range(s) to read")

    execute(work, as_json=as_json, debug=debug)
