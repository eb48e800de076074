"""`kseg report`: the page of an ended run, from the ledger; and a folder of pages, served to a browser."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import command_config_option, common_options
from kseg.jobs.invocation.result import Result


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg report orders.yaml --run 17-9a3e11d0 -o report.html
  kseg report --serve reports
""",
)
@click.argument("job_file", metavar="[JOB.yaml]", required=False, type=click.Path(dir_okay=False))
@click.option(
    "--run",
    "run_id",
    metavar="RUN",
    help="The run's id, or a unique prefix of it or of its part after the first dash.  [default: the last run]",
)
@click.option(
    "-o", "--output", default=".", show_default=True, metavar="PATH", help="An HTML file, or a folder; a path or URL."
)
@click.option(
    "--serve",
    "folder",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Serve the pages in FOLDER, with their index, to browsers on this machine until Ctrl-C.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8099,
    show_default=True,
    help="With --serve: the port on 127.0.0.1; 0 takes a free one.",
)
@command_config_option
@common_options
def report(
    invocation: Invocation, job_file: str | None, run_id: str | None, output: str, folder: Path | None, port: int
) -> Result:
    """Write a run's page from the ledger: ranges, counts, tables, offsets. Or serve a folder of pages.

    Throughput and requests are not stored: `kseg ingest --report` writes a page with them. No broker is needed and no
    JVM is started. Pages are served only on the loopback interface; from another machine, use a tunnel, ssh -L
    8099:127.0.0.1:8099 HOST.
    """
    if folder is not None:
        return _serve(folder, port)
    if job_file is None:
        raise click.UsageError("give a job file, or --serve FOLDER")
    job = load_job(invocation, job_file)
    from kseg.jobs.report.from_ledger import outcome_of
    from kseg.jobs.report.page import write_page

    outcome = outcome_of(job, run_id)
    written = write_page(output, outcome)
    outcome.document["report"] = written.place
    if written.note is not None:
        outcome.document.setdefault("notes", []).append(written.note)
    return Result(outcome.document, f"{job.name}: {outcome.document['report']}")


def _serve(folder: Path, port: int) -> Result:
    """Serve the pages in a folder until Ctrl-C."""
    from kseg.jobs.api import bad_argument
    from kseg.jobs.report.serve import PageServer

    try:
        server = PageServer(folder, port)
    except OSError as error:
        raise bad_argument("--port", f"{port} cannot be used: {error.strerror}", "give another one") from error
    with server:
        click.echo(f"{server.address} has the pages of {folder}; stop with Ctrl-C", err=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return Result({"folder": str(folder), "address": server.address}, f"{folder}: no longer served")
