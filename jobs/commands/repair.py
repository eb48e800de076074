"""`kseg repair`: finish or abandon an unfinished run, accept a changed table or source, or rebuild a lost ledger."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

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
from kseg.jobs.invocation.result import Result, run_result
from kseg.jobs.report.options import report_options

if TYPE_CHECKING:
    from kseg.etl.config.job import Job
    from kseg.etl.operations.rows_at_stake import RowsAtStake


_ACTIONS = {
    "finish": "--finish RUN",
    "abandon": "--abandon RUN",
    "accept_table": "--accept-table TABLE",
    "accept_source": "--accept-source TOPIC",
    "rebuild_ledger": "--rebuild-ledger",
}


def _check(no_verify: bool, **given: object) -> None:
    both = bool(given["rebuild_ledger"] and given["accept_source"])
    if sum(bool(given[action]) for action in _ACTIONS) - both != 1:
        raise click.UsageError(f"give one of {', '.join(_ACTIONS.values())}")
    if no_verify and not given["accept_table"]:
        raise click.UsageError("--no-verify needs --accept-table")
    if given["lose_rows"] and not given["abandon"]:
        raise click.UsageError("--lose-rows needs --abandon")
    if given["lost_ledger"] and not given["rebuild_ledger"]:
        raise click.UsageError("--lost-ledger needs --rebuild-ledger")


@click.command(
    cls=KsegCommand,
    check=_check,
    epilog="""\b
Examples:
  kseg repair orders.yaml --finish 17-9a3e11d0 --dry-run
  kseg repair orders.yaml --abandon 17-9a3e11d0
  kseg repair orders.yaml --abandon 17-9a3e11d0 --lose-rows
  kseg repair orders.yaml --accept-table s3://lake/orders
  kseg repair orders.yaml --accept-source orders:0 --dry-run
  kseg repair orders.yaml --rebuild-ledger --dry-run
""",
)
@job_argument
@click.option("--finish", metavar="RUN", help="Complete this run with the configuration it was planned with.")
@click.option("--abandon", metavar="RUN", help="Abandon this run: remove its rows; its offsets can land again.")
@click.option(
    "--accept-table",
    metavar="TABLE",
    help="Continue with this table as it is, after it was restored, overwritten or recreated. Its rows are compared "
    "with Kafka first.",
)
@click.option("--no-verify", is_flag=True, help="With --accept-table: do not compare the rows.")
@click.option(
    "--accept-source",
    multiple=True,
    metavar="TOPIC[:PARTITION[:OFFSET]]",
    help="Continue with a truncated log, a recreated topic or another cluster. Offsets from the change on (or from "
    "OFFSET on) are read again; rows that have landed stay. If the topic was recreated or is on another cluster, "
    "partitions that are not named are read from offset 0 (but not with --rebuild-ledger). Repeatable.",
)
@click.option(
    "--rebuild-ledger",
    is_flag=True,
    help="If the job's ledger is lost: create one from the tables' rows. Offsets that have rows do not land again.",
)
@click.option(
    "--lost-ledger",
    multiple=True,
    metavar="ID",
    help="With --rebuild-ledger: id of the lost ledger, if the tables name several for a job of this name. Repeatable.",
)
@click.option(
    "--lose-rows",
    is_flag=True,
    help="With --abandon: remove rows also if they cannot be landed again, because Kafka (or the files) no longer has "
    "their records. Without this option you are asked, and without a terminal the command is refused.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing.")
@take_over_option
@run_file_option
@command_config_option
@report_options
@common_options
def repair(
    invocation: Invocation,
    job_file: str,
    finish: str | None,
    abandon: str | None,
    accept_table: str | None,
    no_verify: bool,
    accept_source: tuple[str, ...],
    rebuild_ledger: bool,
    lost_ledger: tuple[str, ...],
    lose_rows: bool,
    dry_run: bool,
    take_over: bool,
) -> Result:
    """End an unfinished run, accept a table or a source that has changed, or rebuild a lost ledger.

    RUN is a run's id, or a unique prefix of it or of its part after the first dash. `kseg status` lists the runs, and
    shows what is wrong with a table. `kseg explain CODE` shows which command resolves a refusal.
    """
    if accept_source and not rebuild_ledger:
        return _accept_source(invocation, job_file, accept_source, dry_run=dry_run, take_over=take_over)
    job = load_job(invocation, job_file, starts_spark=True)
    if rebuild_ledger:
        return _rebuild(job, invocation, lost=lost_ledger, accepted=accept_source, dry_run=dry_run, take_over=take_over)
    if accept_table is not None:
        return _accept(job, accept_table, invocation, verify_rows=not no_verify, dry_run=dry_run, take_over=take_over)
    from kseg.etl.operations.repair import abandon as abandon_run
    from kseg.etl.operations.repair import finish as finish_run

    if finish is not None:
        return run_result(finish_run(job, finish, dry_run=dry_run, take_over=take_over, progress=invocation.progress))
    assert abandon is not None
    ask = _ask if not invocation.as_json and sys.stdin.isatty() and sys.stderr.isatty() else None
    report = abandon_run(
        job,
        abandon,
        dry_run=dry_run,
        take_over=take_over,
        lose_rows=lose_rows,
        ask=ask,
        progress=invocation.progress,
    )
    return run_result(report)


def _ask(stake: RowsAtStake) -> bool:
    """On stderr, since stdout has the command's result."""
    return click.confirm(f"This removes rows that cannot be landed again: {stake}. Go on?", default=False, err=True)


def _accept(job: Job, table: str, invocation: Invocation, **how: bool) -> Result:
    from kseg.etl.operations.accept_table import accept_table

    report = accept_table(job, table, progress=invocation.progress, **how)
    headline = {
        "accepted": f"{report.table} is accepted as it is",
        "dry-run": f"{report.table} would be accepted as it is",
        "nothing-to-do": f"{report.table} is as the ledger left it",
    }[report.status]
    return Result(report.to_json(), f"{job.name}: {headline}")


def _accept_source(
    invocation: Invocation, job_file: str, named: tuple[str, ...], *, dry_run: bool, take_over: bool
) -> Result:
    job = load_job(invocation, job_file)
    from kseg.etl.operations.accept_source import accept_source

    return run_result(accept_source(job, named, dry_run=dry_run, take_over=take_over, progress=invocation.progress))


def _rebuild(job: Job, invocation: Invocation, **how: Any) -> Result:
    from kseg.etl.operations.rebuild_ledger import rebuild_ledger

    report = rebuild_ledger(job, progress=invocation.progress, **how)
    done = "the ledger is rebuilt" if report.status == "rebuilt" else "the ledger would be rebuilt"
    aside = f" and {report.set_aside} of dead letters and quarantined bytes" if report.set_aside else ""
    return Result(report.to_json(), f"{job.name}: {done} from {report.rows} rows{aside}")
