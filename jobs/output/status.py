"""`kseg status` as text: first the problems that a person must solve, then lag, runs and tables, in 100 columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kseg.jobs.output.durations import age, duration


def status_headline(document: Mapping[str, Any]) -> str:
    """Lag, number of dead letters and number of problems, in one line."""
    lag, problems = document["lag"], document.get("problems") or []
    line = f"{document['job']}: {lag} {'offset' if lag == 1 else 'offsets'} behind"
    letters = document.get("dead_letters") or {}
    for state in ("open", "unknown"):  # of these a person decides
        if number := letters.get(state):
            line += f", {number} {state} dead letters"
    if problems:
        line += f", {len(problems)} {'problem needs' if len(problems) == 1 else 'problems need'} a person"
    return line


def status_view(document: Mapping[str, Any], now: datetime | None = None) -> dict[str, Any]:
    """The readable form of the document; `--json` prints more columns."""
    now = now or datetime.now(UTC)
    return {
        "ledger": document.get("ledger"),
        "group": document.get("group"),
        "dead_letters": document.get("dead_letters") or {},
        "problems": [
            "\n".join(
                [
                    f"{problem['message']} ({problem['code']}{_when(problem['at'], now)})",
                    *([f"    do: {problem['remedy']}"] if problem["remedy"] else []),
                ]
            )
            for problem in document.get("problems") or []
        ],
        "leases": [
            {"chain": lease["chain"], "held by": lease["owner"], "until": _clock(lease["until"])}
            for lease in document.get("leases") or []
        ],
        "runs": runs_view(document.get("runs") or []),
        "partitions": [_partition(line) for line in document.get("partitions") or []],
        "tables": [
            {
                "table": line["path"],
                "version": line["version"],
                "in ledger": line["ledger_version"],
                "rows": line["rows"],
                "state": "rejected" if line["problem"] and line["version"] is not None else line["problem"] or "ok",
            }
            for line in document.get("tables") or []
        ],
    }


def runs_view(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each run."""
    return [
        {
            "run": run["run_id"],
            "mode": run["mode"],
            "phase": f"{run['phase']}, failed" if run["refused"] else run["phase"],
            "planned": _clock(run["planned_at"]),
            "took": _took(run),
            "offsets": run["offsets"],
            "rows": run["rows_out"],
            **({"nulls for": ", ".join(f"{column} {count}" for column, count in nulled.items())} if nulled else {}),
        }
        for run in runs
        for nulled in [run.get("nulled") or {}]
    ]


def _partition(line: Mapping[str, Any]) -> dict[str, Any]:
    """The main columns; others only if they are not 0."""
    shown = {
        "partition": f"{line['topic']}-{line['partition']}",
        "log start": line["log_start"],
        "next": line["frontier"],
        "readable": line["last_stable_offset"],
        "lag": line["lag"],
        "behind": duration(line.get("seconds_behind")),
        "group": "differs" if not line["agrees"] else line["group_offset"],
    }
    behind = {
        "undecided": line["high_watermark"] - line["last_stable_offset"],
        "given up": line["given_up"],
        "landed later": line["beyond_frontier"],
    }
    return shown | {name: value for name, value in behind.items() if value}


def _took(run: Mapping[str, Any]) -> str | None:
    if run["ended_at"] is None:
        return None
    return duration(
        (datetime.fromisoformat(run["ended_at"]) - datetime.fromisoformat(run["planned_at"])).total_seconds()
    )


def _clock(at: str) -> str:
    """A time of the ledger in UTC, to the minute."""
    return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%d %H:%M}"


def _when(at: str | None, now: datetime) -> str:
    return "" if at is None else f", {age((now - datetime.fromisoformat(at)).total_seconds())}"
