"""``kseg recover``: lands a damaged log directory in a table, without a broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import with_remote
from kseg.jobs.invocation.layout_options import layout_options
from kseg.jobs.invocation.options import common_options, remote_option, run_file_option, take_over_option
from kseg.jobs.invocation.result import Result
from kseg.jobs.report.options import report_options

if TYPE_CHECKING:
    from kseg.etl.operations.recover import RecoverReport

_QUARANTINED: Final = 1


def _check(topics: str | None, pattern: str | None, **_: object) -> None:
    if topics and pattern:
        raise click.UsageError("--topics and --pattern cannot be combined")


@click.command(cls=KsegCommand, check=_check)
@click.argument("folders", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--to",
    "table",
    required=True,
    metavar="TABLE",
    help="The Delta table; with {topic} in it, one table for each topic.",
)
@click.option(
    "--quarantine", metavar="TABLE", help="The table for records that cannot be read.  [default: TABLE_quarantine]"
)
@click.option("--ledger", metavar="TABLE", help="The ledger, which records what has landed.  [default: TABLE_ledger]")
@click.option("--topics", metavar="TOPIC,...", help="Only these topics; internal topics can be named too.")
@click.option(
    "--pattern", metavar="REGEX", help="Topics whose name contains a match.  [default: all but internal ones]"
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="read_committed: leave out records of aborted transactions, and quarantine those of undecided ones.",
)
@click.option("--master", metavar="URL", help="Spark's master.  [default: no Spark, if there is little to read]")
@layout_options
@take_over_option
@remote_option
@run_file_option
@report_options
@common_options
def recover(
    invocation: Invocation,
    folders: tuple[str, ...],
    table: str,
    quarantine: str | None,
    ledger: str | None,
    topics: str | None,
    pattern: str | None,
    isolation_level: str,
    master: str | None,
    layout: str,
    layout_option: dict[str, str],
    take_over: bool,
) -> Result:
    """Land all that can be read from log directories; quarantine what cannot be read, with its address and bytes.

    DIR is a folder of a broker's log.dirs or a copy of one, a path or a URL. No broker is needed, and nothing in DIR is
    changed. Rows land exactly once: the same command again changes nothing, or lands records that were added to the
    log. If a broker still writes to DIR, stop the broker first, or use a copy.

    Exit 0: everything was read. 1: something could not be read and is in the quarantine table (`kseg fsck` too
    exits with 1 if something is damaged), or the recovery failed, with an error. 2 to 5 as with `kseg ingest`.

    \b
    Example:
      kseg recover /var/lib/kafka/data --to ./recovered
      kseg recover /disk1 /disk2 --to './lake/{topic}' --pattern '^orders'
      kseg recover s3://backups/broker-1 --to s3://lake/orders --topics orders --json | jq .damaged
      kseg recover s3://tiered --layout aiven --layout-option local=/var/lib/kafka/data --to ./recovered
    """
    from kseg.etl.operations.recover import recover as carry_out
    from kseg.etl.operations.recover import recovery_job
    from kseg.jobs.python_api import prepare_spark

    job = recovery_job(
        folders,
        table,
        quarantine=quarantine,
        ledger=ledger,
        topics=[name.strip() for name in topics.split(",")] if topics else (),
        pattern=pattern,
        isolation_level=isolation_level,
        master=master,
        layout=layout,
        options=layout_option,
    )
    if master is None:
        job = with_remote(job, invocation.remote)
    prepare_spark(job)
    return _result(carry_out(job, take_over=take_over, progress=invocation.progress))


def _result(report: RecoverReport) -> Result:
    headline = f"{report.rows} rows landed of {report.topics} topic(s), {report.partitions} partition(s); "
    if report.damaged:
        headline += f"{len(report.damaged)} damaged range(s) in {_short(report.quarantine)}"
    else:
        headline += "nothing is damaged"
    if report.run.status == "nothing-to-do":
        headline = "nothing new; " + headline.partition("; ")[2]
    return Result(report.to_json(), headline, _QUARANTINED if report.damaged else 0)


def _short(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
