"""``kseg doctor``: checks whether jobs can run on this machine."""

from __future__ import annotations

import json
import sys

import click
from rich.table import Table
from rich.text import Text

from kseg.etl.errors import ExitCode
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import command_config_option
from kseg.jobs.output.standard_streams import while_read
from kseg.jobs.output.tables import console_for
from kseg.jobs.packaging.doctor import DoctorFinding, examine, healthy

_COLOURS = {"ok": "green", "note": "yellow", "missing": "red"}


@click.command()
@click.argument("job_file", metavar="[JOB.yaml]", type=click.Path(dir_okay=False), required=False)
@command_config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(job_file: str | None, command_config: str | None, as_json: bool) -> int:
    """Show what is installed, what is missing, and what to do. Exit 1 if a job could not run on this machine.

    With a job file, also test whether the stores of its ledger and tables are put-if-absent: several writers try to
    create the same 100 keys, which are deleted afterwards. Exit 2 if a store is not put-if-absent.

    \b
    Examples:
      kseg doctor
      kseg doctor orders.yaml
      kseg doctor --json | jq '.findings[] | select(.level == "missing")'
    """
    findings = examine()
    stores = _examine_stores(job_file, command_config) if job_file is not None else []
    fit = healthy([*findings, *stores])
    with while_read(sys.stdout):
        if as_json:
            shown = [finding.to_json() for finding in (*findings, *stores)]
            click.echo(json.dumps({"healthy": fit, "findings": shown}, indent=2))
        else:
            _show([*findings, *stores], fit)
    return int(ExitCode.DONE if fit else ExitCode.BAD_CONFIGURATION if not healthy(stores) else ExitCode.FAILED)


def _examine_stores(job_file: str, command_config: str | None) -> list[DoctorFinding]:
    from kseg.etl.errors import KsegError
    from kseg.jobs.packaging.store_findings import examine_stores

    try:
        return examine_stores(load_job(Invocation(command="doctor", command_config=command_config), job_file))
    except KsegError as error:
        return [DoctorFinding("job file", "missing", str(error), error.remedy or "")]


def _show(findings: list[DoctorFinding], fit: bool) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        level = Text(finding.level, style=_COLOURS[finding.level])
        table.add_row(level, Text(finding.subject), Text(finding.found))
        if finding.remedy:
            table.add_row("", "", Text(f"-> {finding.remedy}", style="bold"))
    console = console_for(sys.stdout)
    console.print(table)
    console.print(Text("A job can run here.") if fit else Text("A job cannot run here yet.", style="red"))
