"""The index of a folder of pages: `index.html` lists the runs of each job, with a sparkline of how long they took.

A page says what the index needs in its head, so that the index is made of the pages alone, and one that was deleted
is gone from it:

    <meta name="kseg-run" content='{"job": "orders", "run": …, "began": 1767225600.0, "seconds": 12.5, …}'>

The index has `<meta name="kseg-index" …>`: an `index.html` without it is of somebody else, and stays.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from kseg.jobs.output.durations import duration
from kseg.jobs.output.files import replace_file
from kseg.jobs.output.redaction import REDACTOR
from kseg.jobs.report import charts
from kseg.jobs.report.outcome import CommandOutcome
from kseg.jobs.report.templating import templates

NAME: Final = "index.html"
SHOWN: Final = 200
"""Runs of a job in the table; the sparkline has the newest `BARS` of them."""

BARS: Final = 60
_HEAD_BYTES: Final = 8_000
"""Bytes of a file that have its own meta element: a run's takes at most some 3 KB, with an error all of escapes."""

_OWN_MARKS: Final = (b'<meta name="kseg-index" ', b'<title>Runs</title>\n<link rel="icon" href="data:,">\n<style>')
"""In the head of an index: that of now, and what those have that were written before there was such an element."""

_META: Final = re.compile(r'<meta name="kseg-run" content="([^"]*)">')
_HEIGHT: Final = 44.0
_STEP: Final = 12.0


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One page in a line. began: seconds since the epoch. rows, lag: None where they are not known; lag in offsets."""

    job: str
    command: str
    run: str | None
    exit_code: int
    began: float
    seconds: float
    rows: int | None
    lag: int | None
    error: str | None = None

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def ended(self) -> float:
        return self.began + self.seconds


def summary_of(outcome: CommandOutcome) -> str:
    """The run as the JSON of its page's head."""
    telemetry, error = outcome.telemetry, REDACTOR.clean(outcome.error)
    summary = RunSummary(
        job=outcome.job or "unknown job",
        command=outcome.command,
        run=outcome.run_id,
        exit_code=outcome.exit_code,
        began=telemetry.began,
        seconds=telemetry.seconds,
        rows=outcome.rows,
        lag=telemetry.lag(telemetry.last),
        error=f"{error.get('kind')}: {str(error.get('message')).splitlines()[0][:200]}" if error else None,
    )
    return json.dumps(asdict(summary))


def write_index(folder: Path) -> Path:
    """Write the index of the pages that are in a folder now, if it `may_be_written`. Raises OSError."""
    target = folder / NAME
    replace_file(target, render_index(folder))
    return target


def may_be_written(folder: Path) -> bool:
    """Whether the folder has no `index.html` yet, or an earlier index of pages: not what somebody else wrote."""
    try:
        return any(mark in _head(folder / NAME) for mark in _OWN_MARKS)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def render_index(folder: Path) -> bytes:
    """The index of the pages that are in a folder now, as HTML."""
    pages = {path.name: found for path in folder.glob("*.html") if (found := _summary_in(path)) is not None}
    jobs: dict[str, list[tuple[str, RunSummary]]] = {}
    for name, run in sorted(pages.items(), key=lambda item: item[1].began, reverse=True):
        jobs.setdefault(run.job, []).append((name, run))
    view = {
        "jobs": [_job(number, job, runs) for number, (job, runs) in enumerate(sorted(jobs.items()))],
        "runs": len(pages),
        "written": _time(datetime.now(UTC).timestamp()),
    }
    return templates().get_template("index.html.jinja").render(view).encode()


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def _summary_in(path: Path) -> RunSummary | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        if found := _META.search(_head(path).decode("utf-8", "replace")):
            values: Mapping[str, Any] = json.loads(html.unescape(found[1]))
            return RunSummary(**{field.name: values[field.name] for field in fields(RunSummary)})
    return None


def _job(number: int, job: str, runs: Sequence[tuple[str, RunSummary]]) -> dict[str, Any]:
    newest = runs[0][1]
    succeeded = next((run for _, run in runs if run.ok), None)
    return {
        "id": f"job-{number}",
        "name": job,
        "ok": newest.ok,
        "last_success": _time(succeeded.ended) if succeeded else None,
        "lag": newest.lag,
        "failed": sum(not run.ok for _, run in runs),
        "count": len(runs),
        "sparkline": _sparkline(number, job, [run for _, run in runs[:BARS]]),
        "runs": [
            {
                "page": name,
                "run": run.run or run.command,
                "command": run.command,
                "ok": run.ok,
                "exit_code": run.exit_code,
                "began": _time(run.began),
                "took": duration(run.seconds),
                "rows": run.rows,
                "lag": run.lag,
                "error": run.error,
            }
            for name, run in runs[:SHOWN]
        ],
        "left_out": max(0, len(runs) - SHOWN),
    }


def _sparkline(number: int, job: str, newest_first: Iterable[RunSummary]) -> Markup:
    """A bar a run, the oldest on the left; its height is how long it took, and a failed one hangs from the line."""
    runs = list(newest_first)[::-1]
    longest = max((run.seconds for run in runs), default=0.0) or 1.0
    bars = []
    for place, run in enumerate(runs):
        height = max(3.0, run.seconds / longest * (_HEIGHT - 12))
        tip = f"{_time(run.began)}: {duration(run.seconds)}" + ("" if run.ok else f", failed ({run.exit_code})")
        kind, top = ("c1", _HEIGHT - 10 - height) if run.ok else ("c5", _HEIGHT - 8)
        bars.append(charts.rect(place * _STEP, top, _STEP - 3, height if run.ok else 8.0, kind, tip))
    failed = sum(not run.ok for run in runs)
    words = f"The last {len(runs)} runs, {failed} of which failed; the longest took {duration(longest)}."
    width = BARS * _STEP
    return charts.figure(f"spark-{number}", f"How long runs of {job} took", words, _HEIGHT, charts.joined(bars), width)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
