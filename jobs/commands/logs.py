"""`kseg logs`: the log files of commands that failed on this machine."""

from __future__ import annotations

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import common_options
from kseg.jobs.invocation.result import Result


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg logs
  kseg logs 9a3e11d0 | less
""",
)
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--job", metavar="NAME", help="Only logs of this job.")
@common_options
def logs(invocation: Invocation, run: str | None, job: str | None) -> Result:
    """List the log files of commands that failed on this machine, or print the newest one of a run.

    RUN is a run's id or a part of it. A log has the tracebacks of an error, Spark's and the workers' own included; the
    newest 50 are kept, in $KSEG_LOGS or the folder `logs` of the cache.
    """
    from kseg.client.protocol.printable import printable
    from kseg.jobs.invocation.error_log import log_folder, written_logs

    found = [log for log in written_logs() if job is None or log.job == job]
    if run is not None:
        log = next((log for log in found if log.run is not None and run in log.run), None)
        if log is None:
            raise click.UsageError(
                f"no log of a run {run} in {log_folder()}; `kseg logs` lists all, `kseg runs` errors"
            )
        document = {**log.to_json(), "text": log.read()}
        return Result(document, printable(document["text"].rstrip(), keep="\n\t"), people={})
    document = {"folder": str(log_folder()), "logs": [log.to_json() for log in found]}
    shown = [
        {"at": log.at[:16].replace("T", " "), "command": log.command, "run": log.run, "error": log.error}
        for log in found
    ]
    return Result(document, f"{len(found)} log file(s) in {log_folder()}", people={"logs": shown})
