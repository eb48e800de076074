"""The values of the page's template: texts, tables and charts, made from what is known of a run.

Tables have a maximum length, so that the page of a job with ten thousand partitions stays small; the most important
rows come first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from heapq import nlargest
from statistics import median
from typing import Any, Final

import yaml

import kseg
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.secrets import sounds_secret
from kseg.etl.ledger.events import TableCommit
from kseg.etl.refusals.exit_codes import ExitCode
from kseg.etl.telemetry.recorder import Sums, TaskLine, lag_of
from kseg.jobs.explanations.explanation import Explanation
from kseg.jobs.explanations.index import explanation_of
from kseg.jobs.output.durations import duration
from kseg.jobs.output.redaction import REDACTOR
from kseg.jobs.output.si_prefixes import scaled
from kseg.jobs.report import charts
from kseg.jobs.report.outcome import CommandOutcome

ROWS_SHOWN: Final = 100
BARS_SHOWN: Final = 16
SLOWEST_SHOWN: Final = 15

STATUSES: Final[Mapping[str, tuple[str, str]]] = {
    "done": ("Done", "good"),
    "nothing-to-do": ("Nothing to do", "calm"),
    "dry-run": ("Dry run", "calm"),
    "abandoned": ("Abandoned", "bad"),
}
KINDS: Final = (
    ("records", "records", "c1"),
    ("control", "transaction markers", "c4"),
    ("aborted", "aborted", "c3"),
    ("quarantined", "unreadable", "c5"),
    ("absent", "absent", "c6"),
)
DECODED: Final = (
    ("decoded", "decoded"),
    ("dead", "dead letters"),
    ("dropped", "tombstones dropped"),
    ("nulled", "rows with nulls in place of what could not be decoded"),
    ("warned", "rows that broke an expectation"),
)
_PHASE_COLOURS: Final = ("c1", "c2", "c3", "c4", "c5", "c6", "c7")


def view_of(outcome: CommandOutcome) -> dict[str, Any]:
    """Values for the template."""
    telemetry = outcome.telemetry
    document = REDACTOR.clean(outcome.document)
    seconds = telemetry.seconds
    status, kind = _status(outcome)
    tasks = sorted(telemetry.tasks, key=lambda task: task.seconds, reverse=True)
    return {
        "job": outcome.job or "unknown job",
        "command": outcome.command,
        "run_id": outcome.run_id,
        "mode": document.get("mode") or (telemetry.plan.mode if telemetry.plan else None),
        "status": status,
        "status_kind": kind,
        "exit_code": outcome.exit_code,
        "began": _time(telemetry.began),
        "ended": _time(telemetry.began + seconds),
        "kseg": kseg.__version__,
        "taken_up": telemetry.taken_up,
        "from_ledger": outcome.from_ledger,
        "engine": telemetry.engine,
        "spark": telemetry.spark,
        "spark_ui": _web_address(telemetry.spark.ui if telemetry.spark else None),
        "figures": _figures(outcome),
        "error": document.get("error"),
        "explained": _explained(document.get("error")),
        "log": document.get("log"),
        "phases": _phases(outcome),
        "account": _account(outcome, document),
        "over_time": _over_time(telemetry.tasks),
        "tables": _tables(outcome),
        "partitions": _partitions(outcome),
        "freshness": _freshness(document.get("freshness")),
        "skew": _skew(telemetry.partitions),
        "slowest": tasks[:SLOWEST_SHOWN],
        "tasks": telemetry.sums,
        "planned_tasks": telemetry.planned_tasks,
        "tasks_left_out": telemetry.tasks_left_out,
        "throttled": sorted(telemetry.throttled.items(), key=lambda item: item[1], reverse=True),
        "traffic": nlargest(ROWS_SHOWN, telemetry.traffic, key=lambda line: line.bytes_in + line.bytes_out),
        "traffic_lines": len(telemetry.traffic),
        "ranges": _biggest(document.get("ranges") or _pinned_ranges(outcome)),
        "group": document.get("group"),
        "held_back": document.get("held_back") or [],
        "unconfirmed": document.get("unconfirmed") or [],
        "given_up": document.get("given_up") or [],
        "notes": [*REDACTOR.clean(telemetry.messages), *document.get("notes", [])],
        "schemas": _schemas(telemetry.schemas)[:ROWS_SHOWN],
        "configuration": _configuration(outcome),
        "count": count,
        "size": size,
        "duration": duration,
    }


# --- words


def count(number: float | None) -> str:
    """12 345 678, with thin spaces between groups of digits; a dash for what is not there (None, -1)."""
    return "–" if number is None or number < 0 else f"{number:,.0f}".replace(",", "\u202f")


def size(number: float | None) -> str:
    """Bytes for people, in powers of 1000."""
    if number is None:
        return "–"
    left, prefix = scaled(number)
    return f"{left:.3g} {prefix}B" if prefix else f"{left:.0f} B"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _status(outcome: CommandOutcome) -> tuple[str, str]:
    if outcome.error is not None:
        kind = str(outcome.error.get("kind") or "")
        if kind in ("Interrupted", "Terminated"):
            return kind, "bad"
        code = next((code for code in ExitCode if code == outcome.exit_code), ExitCode.FAILED)
        return code.meaning.label, "bad"
    status = str(outcome.document.get("status"))
    return STATUSES.get(status, (status.replace("-", " ").capitalize(), "calm"))


def _figures(outcome: CommandOutcome) -> list[tuple[str, str, str]]:
    """Label, number, and what explains it."""
    telemetry, sums = outcome.telemetry, outcome.telemetry.sums
    reading = outcome.reading_seconds
    lag = telemetry.lag(telemetry.last)
    before = telemetry.lag(telemetry.first)
    tables = f"in {len(telemetry.commits)} table{'s' * (len(telemetry.commits) != 1)}"
    found = [("Rows landed", count(outcome.rows), tables)]
    if sums.rows:
        rate = f"{charts.short(sums.rows / reading)} rows/s while reading" if reading else ""
        found.append(("Records read", count(sums.rows), rate))
        found.append(("Fetched", size(sums.bytes), f"{size(sums.bytes / reading)}/s while reading" if reading else ""))
    found.append(("Took", duration(telemetry.seconds), f"{count(sums.tasks)} tasks" if sums.tasks else ""))
    if lag is not None:
        found.append(("Lag left", count(lag), f"{count(before)} offsets before" if before is not None else "offsets"))
    if telemetry.throttled:
        found.append(
            ("Throttled", duration(sum(telemetry.throttled.values())), f"by {len(telemetry.throttled)} broker(s)")
        )
    return found


def _explained(error: Mapping[str, Any] | None) -> Explanation | None:
    """The explanation of errors of this kind."""
    return None if error is None else explanation_of(str(error.get("code") or error.get("kind")))


def _web_address(url: str | None) -> str | None:
    """An address that a page may link to: of the web, and no script's."""
    return url if url is not None and url.startswith(("http://", "https://")) else None


# --- pictures


def _phases(outcome: CommandOutcome) -> dict[str, Any]:
    parts = [
        charts.ChartShare(name, seconds, _PHASE_COLOURS[number % len(_PHASE_COLOURS)], duration(seconds))
        for number, (name, seconds) in enumerate(outcome.phases.items())
    ]
    return {"parts": parts, "chart": charts.stacked("phases", "Time by phase", parts)}


def _account(outcome: CommandOutcome, document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Both equations, as far as they are known."""
    counts, telemetry = document.get("counts"), outcome.telemetry
    if not counts or not counts.get("offsets"):
        if telemetry.account_failed is None:
            return None
        counts = {}
    parts = [
        charts.ChartShare(label, counts.get(key, 0), colour, count(counts.get(key, 0))) for key, label, colour in KINDS
    ]
    known = document.get("status") == "done"
    return {
        "parts": parts,
        "chart": charts.stacked("account", "What the offsets held", parts),
        "offsets": counts.get("offsets"),
        "found": sum(part.value for part in parts),
        "decoding": [(label, count(counts[key])) for key, label in DECODED if counts.get(key)],
        "rows_in": counts.get("rows_in"),
        "rows_out": counts.get("rows_out"),
        "landed": outcome.rows,
        "holds": known,
        "failed": telemetry.account_failed,
    }


def _over_time(lines: Sequence[TaskLine]) -> dict[str, Any] | None:
    """From the first task's beginning to the last one's end."""
    if not lines:
        return None
    begin = min(line.began for line in lines)
    until = max(max(line.began + line.seconds for line in lines) - begin, 0.001)
    executors = {name: number for number, name in enumerate(sorted({line.executor for line in lines}), 1)}
    tasks = [
        charts.Task(
            lane=f"{line.host} #{executors[line.executor]}",
            begin=line.began - begin,
            end=line.began - begin + line.seconds,
            rows=line.rows,
            bytes=line.bytes,
            label=f"{line.topic}-{line.partition} [{line.start}, {line.end}): {count(line.rows)} rows, "
            f"{size(line.bytes)}, {duration(line.seconds)}" + (", run again" if line.repeated else ""),
            kind="c5" if line.repeated else "c2" if line.attempt else "c1",
        )
        for line in lines
    ]
    rows, fetched = charts.spread(tasks, until)
    return {
        "rows": charts.area("rows", "Rows a second", "rows/s", rows, until, "c1"),
        "bytes": charts.area("bytes", "Bytes a second", "bytes/s", fetched, until, "c2"),
        "tasks": charts.timeline("tasks", tasks, until),
        "retried": any(line.attempt or line.repeated for line in lines),
    }


def _partitions(outcome: CommandOutcome) -> dict[str, Any] | None:
    first, last = outcome.telemetry.first, outcome.telemetry.last
    rows: list[dict[str, Any]] = [
        {
            "partition": str(tp),
            "log_start": view.log_start,
            "frontier_before": first[tp].frontier if tp in first else None,
            "frontier": view.frontier,
            "committed": view.committed,
            "last_stable_offset": view.last_stable_offset,
            "high_watermark": view.high_watermark,
            "lag_before": lag_of(first[tp]) if tp in first else None,
            "lag": lag_of(view),
        }
        for tp, view in sorted(last.items())
    ]
    if not rows:
        return None
    ordered = sorted(rows, key=lambda row: (row["lag"] or 0, row["lag_before"] or 0), reverse=True)
    shown = [row for row in ordered if row["lag"] is not None][:BARS_SHOWN]
    bars = [
        charts.Bar(
            str(row["partition"]),
            float(row["lag"] or 0),
            f"{charts.short(row['lag_before'] or 0)} → {charts.short(row['lag'] or 0)}",
            float(row["lag_before"] or 0),
        )
        for row in shown
    ]
    description = f"Lag in offsets before and after the run, of {len(bars)} of {len(rows)} partitions."
    return {
        "rows": ordered[:ROWS_SHOWN],
        "all": len(rows),
        "chart": charts.bars("lag", "Lag by partition", description, bars, "c5") if bars else None,
        "shown": len(bars),
    }


def _freshness(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Up to which offset and time each partition is complete; None where the run did not observe it."""
    if found is None:
        return None
    partitions = found["partitions"]
    return {
        "at": _iso(found["at"]),
        "limit": duration(found["limit"]) if found["limit"] is not None else None,
        "seconds": duration(found["seconds"]) if found["seconds"] else None,
        "late": set(found["late"]),
        "unknown": len(found.get("unknown", ())),
        "not_asked": found["not_asked"],
        "rows": [
            {
                "partition": f"{one['topic']}-{one['partition']}",
                "complete_to": one["complete_to"],
                "until": _iso(one["oldest"] if one["lag"] else found["at"]),
                "lag": one["lag"],
                "behind": duration(one["seconds"]) if one["seconds"] is not None else "not known",
            }
            for one in partitions[:ROWS_SHOWN]
        ],
        "all": len(partitions),
    }


def _iso(text: str | None) -> str:
    """A time of a document as the page writes times."""
    return "not known" if text is None else text[:19].replace("T", " ") + " UTC"


def _skew(partitions: Mapping[TopicPartition, Sums]) -> dict[str, Any] | None:
    """The distribution of records over the partitions that were read."""
    if len(partitions) < 2:
        return None
    ordered = sorted(partitions.items(), key=lambda item: item[1].rows, reverse=True)
    middle = median(sums.rows for sums in partitions.values())
    whole = sum(sums.rows for sums in partitions.values())
    bars = [
        charts.Bar(str(tp), sums.rows, f"{charts.short(sums.rows)} rows, {size(sums.bytes)}")
        for tp, sums in ordered[:BARS_SHOWN]
    ]
    biggest, sums = ordered[0]
    share = sums.rows / whole if whole else 0.0
    description = f"Records by partition, the median is {charts.short(middle)}. {biggest} holds {share:.0%} of all."
    return {
        "chart": charts.bars("skew", "Records by partition", description, bars, "c3", mark=middle),
        "shown": len(bars),
        "all": len(partitions),
        "biggest": str(biggest),
        "share": f"{share:.0%}",
        "times": f"{sums.rows / middle:.1f}" if middle else None,
    }


# --- tables


def _schemas(by_table: Mapping[str, Mapping[str, str]]) -> list[tuple[list[str], dict[str, str]]]:
    """Tables with the same columns together, and these columns: name and type."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for table, columns in sorted(by_table.items()):
        found.setdefault(tuple(columns.items()), []).append(table)
    return [(tables, dict(columns)) for columns, tables in found.items()]


def _tables(outcome: CommandOutcome) -> list[dict[str, Any]]:
    reported = {table["path"]: table for table in outcome.document.get("tables") or ()}
    return [
        {
            "path": table,
            "version": event.commit.version,
            "rows": event.commit.rows,
            "removed": event.commit.removed,
            "files": event.commit.files,
            "bytes": event.commit.bytes,
            "all": event.commit.after.rows,
            "quarantine": event.quarantine,
            "dead_letters": event.dead_letters,
            "found": event.commit.found,
            "nulls": _nulls(event.commit, reported.get(table, {}).get("before")),
        }
        for table, event in sorted(outcome.telemetry.commits.items())
    ]


def _nulls(commit: TableCommit, before: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Columns with nulls now or in the run before, by their share now; None where nulls were not counted."""
    if commit.nulls is None or not commit.rows:
        return None
    then = before["nulls"] if before else {}
    lines = [
        {
            "column": column,
            "nulls": commit.nulls.get(column, 0),
            "share": commit.nulls.get(column, 0) / commit.rows,
            "before": then[column] / before["rows"] if before and column in then else None,
        }
        for column in dict.fromkeys([*commit.nulls, *then])
        if commit.nulls.get(column) or then.get(column)
    ]
    lines.sort(key=lambda line: line["share"], reverse=True)
    return {"lines": lines, "counted": len(commit.nulls), "run": before["run"] if before else None}


def _pinned_ranges(outcome: CommandOutcome) -> list[dict[str, Any]]:
    plan = outcome.telemetry.plan
    ranges = plan.ranges if plan is not None else ()
    return [{"topic": r.topic, "partition": r.partition, "start": r.start, "end": r.end} for r in ranges]


def _biggest(ranges: list[dict[str, Any]]) -> dict[str, Any]:
    ordered = sorted(ranges, key=lambda r: r["start"] - r["end"])
    return {
        "rows": sorted(ordered[:ROWS_SHOWN], key=lambda r: (r["topic"], r["partition"], r["start"])),
        "all": len(ranges),
    }


def _configuration(outcome: CommandOutcome) -> str | None:
    """The job as the ledger pins it: references in place of secrets, and whatever sounds like one masked."""
    job = outcome.telemetry.job
    if job is None:
        return None
    text = yaml.safe_dump(REDACTOR.clean(_masked(job.pinned())), sort_keys=False, allow_unicode=True, width=100)
    return str(text)


def _masked(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        return {key: _masked(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(inner, name) for inner in value]
    if isinstance(value, str) and "${" not in value and (sounds_secret(name) or "jaas" in name):
        return "***"
    return value
