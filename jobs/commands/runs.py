"""`kseg runs`: a job's history."""

from __future__ import annotations

from typing import Any

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import command_config_option, common_options, job_argument
from kseg.jobs.invocation.result import Result


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg runs orders.yaml --failed
  kseg runs orders.yaml --limit 100 --json | jq '.runs[] | {run, seconds, rows_out}'
""",
)
@job_argument
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many of the newest runs.")
@click.option("--failed", is_flag=True, help="Only runs and attempts that had an error.")
@command_config_option
@common_options
def runs(invocation: Invocation, job_file: str, limit: int, failed: bool) -> Result:
    """Show a job's runs, the newest first: duration, rows, and the errors of their attempts.

    An attempt that failed before it planned a run has a separate line. Only the ledger is read, no broker and no
    table.
    """
    from kseg.etl.operations.runs import history

    report = history(load_job(invocation, job_file), limit, failed=failed)
    document = report.to_json()
    bad = sum(1 for run in report.runs if run.errors)
    headline = f"{report.job}: {len(report.runs)} {'run' if len(report.runs) == 1 else 'runs'}, {bad} with errors"
    return Result(document, headline, rows=limit, people=_readable(document))


def _readable(document: dict[str, Any]) -> dict[str, Any]:
    from kseg.jobs.output.durations import duration

    rows, errors = [], []
    engines = {f"{run['engine']}: {run['engine_reason']}": None for run in document["runs"] if run["engine"]}
    shown = ("engine",) if engines else ()
    for run in document["runs"]:
        name = run["run"] or "–"
        rows.append(
            {
                "run": name,
                "mode": run["mode"] or "–",
                "phase": run["phase"],
                "began": run["began"][:16].replace("T", " "),
                "took": duration(run["seconds"]) if run["seconds"] is not None else None,
                "offsets": run["offsets"],
                "rows": run["rows_out"],
                "errors": len(run["errors"]),
                **{name: run[name] or "–" for name in shown},
            }
        )
        errors += [
            f"{error['at'][:16].replace('T', ' ')} {name}: {error['message']} ({error['code']})"
            + (f"\n    do: {error['remedy']}" if error["remedy"] and run["ended"] is None else "")
            for error in run["errors"]
        ]
    return {
        "runs": rows,
        "engines": [*engines],
        "errors": errors,
        "older": f"{document['older']} more" if document["older"] else None,
    }
