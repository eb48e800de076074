"""`kseg status`: the state of a job."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from time import sleep
from typing import TYPE_CHECKING

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import command_config_option, common_options, job_argument
from kseg.jobs.invocation.result import Result, run_result

if TYPE_CHECKING:
    from kseg.etl.config.job import Job


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg status orders.yaml
  kseg status orders.yaml --watch
  kseg status orders.yaml --run 4be1f00c52-17-9a3e11d0 --json | jq .tables
""",
)
@job_argument
@click.option("--run", "run_id", metavar="RUN", help="Show only the report of this run, which must have ended.")
@click.option(
    "--runs", type=click.IntRange(1), default=10, show_default=True, help="How many of the last runs to list."
)
@click.option(
    "--watch",
    type=click.FloatRange(min=0.1),
    is_flag=False,
    flag_value=5.0,
    metavar="SECONDS",
    help="Refresh the output every SECONDS, until Ctrl-C.  [5 if no number is given]",
)
@command_config_option
@common_options
def status(invocation: Invocation, job_file: str, run_id: str | None, runs: int, watch: float | None) -> Result:
    """Show a job's last runs, its lag by partition, the state of its dead letters, and whether ledger, group offsets
    and tables agree. Lag is the number of offsets that have not landed.

    A failed run is shown with its error and what to do. Exit code 3: a problem needs your attention. Starts no JVM,
    and writes nothing.
    """

    job = load_job(invocation, job_file)
    if run_id is not None:
        from kseg.etl.operations.status import run_report

        return run_result(run_report(job, run_id))
    if watch is not None:
        return _watch(invocation, job, runs, watch)
    return _result(job, runs)


def _result(job: Job, runs: int) -> Result:
    from kseg.etl.errors import ExitCode
    from kseg.etl.operations.status import status as status_of
    from kseg.jobs.output.status import status_headline, status_view

    document = status_of(job, runs).to_json()
    code = ExitCode.REFUSED if document.get("problems") else ExitCode.DONE
    return Result(document, status_headline(document), int(code), people=status_view(document))


def _watch(invocation: Invocation, job: Job, runs: int, seconds: float) -> Result:
    """Show the status repeatedly until Ctrl-C; the last one is the result, and is not shown a second time."""
    from kseg.client.errors import KafkaError
    from kseg.etl.errors import KsegError
    from kseg.jobs.output.tables import show

    result: Result | None = None
    with suppress(KeyboardInterrupt):
        while True:
            try:
                result = _result(job, runs).masked()
            except (KsegError, KafkaError) as error:
                if not error.retriable:
                    raise
                invocation.progress.message(str(error))
            else:
                if not invocation.as_json:
                    click.clear()  # does nothing if stdout is not a terminal
                    show(
                        result.people or {},
                        f"{result.headline}, at {datetime.now(UTC):%H:%M:%S} UTC",
                        stream=sys.stdout,
                    )
            sleep(seconds)
    if result is None:
        raise KeyboardInterrupt
    return replace(result, people={})
