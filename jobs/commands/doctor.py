"""``kseg doctor``: is this machine fit to run jobs?"""

from __future__ import annotations

import json
import sys

import click
from rich.table import Table

from kseg.jobs.output.tables import console_for
from kseg.jobs.packaging.doctor import Finding, examine, healthy

_MARKS = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "missing": "[red]missing[/]"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(as_json: bool) -> None:
    """Show what is installed, what is missing, and what to do: exit 1 if a job could not run here.

    \b
    Example:
      kseg doctor
      kseg doctor --json | jq '.findings[] | select(.level == "missing")'
    """
    findings = examine()
    fit = healthy(findings)
    if as_json:
        click.echo(json.dumps({"healthy": fit, "findings": [finding.to_json() for finding in findings]}, indent=2))
    else:
        _show(findings, fit)
    sys.exit(0 if fit else 1)


def _show(findings: list[Finding], fit: bool) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(_MARKS[finding.level], finding.subject, finding.found)
        if finding.remedy:
            table.add_row("", "", f"[bold]-> {finding.remedy}[/]")
    console = console_for(sys.stdout)
    console.print(table)
    console.print("A job can run here." if fit else "[red]A job cannot run here yet.[/]")
