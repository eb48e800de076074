"""The demo's tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kseg.jobs.demo.group import DemoPartition
from kseg.jobs.demo.hard_topic import ProducedCount
from kseg.jobs.demo.typed_orders import WrittenOrders as Orders

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 8
_FIXED = {"partition": 9, "offset": 6, "timestamp": 12, "key": 12}


def written(number: int, total: ProducedCount) -> str:
    """One line on the topic's content after a round."""
    return (
        f"Round {number}: {total.records:,} records are in the topic: {total.committed:,} committed, "
        f"{total.aborted:,} aborted, {total.open:,} in a transaction left open, {total.behind_open:,} behind it"
    )


def run(console: Console, number: int, report: Mapping[str, Any]) -> None:
    """Ranges and counts of one run."""
    seconds = report["seconds"].get("total", 0.0)
    table = Table(title=f"Run {number}: {report['status']} in {seconds:.1f} s", title_justify="left")
    for column in ("partition", "start", "end", "records", "control", "aborted", "absent"):
        table.add_column(column, justify="right")
    for found in sorted(report["ranges"], key=lambda found: (found["partition"], found["start"])):
        table.add_row(*(_number(found[column.header]) for column in table.columns))
    counts = report["counts"]
    table.add_section()
    table.add_row("all", "", "", *(_number(counts[kind]) for kind in ("records", "control", "aborted", "absent")))
    console.print(table)
    for landed in report["tables"]:
        console.print(f"  {landed['rows']:,} rows in {landed['path']}, Delta version {landed['version']}", markup=False)


def orders(console: Console, number: int, written: Orders, report: Mapping[str, Any]) -> None:
    """One line on a run of typed orders."""
    rows = sum(landed["rows"] for landed in report["tables"])
    counts, seconds = report["counts"], report["seconds"].get("total", 0.0)
    console.print(
        f"Orders {number}: {written.good:,} good, {written.negative:,} negative and {written.unreadable:,} unreadable "
        f"ones are in the topic; the run landed {rows:,} rows and {counts.get('dead', 0):,} dead letters "
        f"in {seconds:.1f} s"
    )


def redriven(console: Console, report: Mapping[str, Any]) -> None:
    """One line on the redrive."""
    rows = sum(landed["rows"] for landed in report["tables"])
    console.print(f"Redrive, without the expectation: {rows:,} dead letters have become rows")


def first_rows(console: Console, table: pa.Table) -> None:
    """The Delta table's first rows."""
    free = max(20, console.width - sum(_FIXED.values()) - 3 * (len(_FIXED) + 2) - 1)
    widths = _FIXED | {"value": free * 3 // 5, "headers": free * 2 // 5}
    title = f"First of {table.num_rows:,} rows of the Delta table"
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column, width in widths.items():
        shown.add_column(column, no_wrap=True, width=width, justify="right" if column == "offset" else "left")
    order = [("offset", "ascending"), ("partition", "ascending")]
    for row in table.select(list(widths)).sort_by(order).slice(0, _ROWS).to_pylist():
        shown.add_row(*(Text(_short(_cell(row[column]), width)) for column, width in widths.items()))
    console.print(shown)


def group(console: Console, name: str, states: Sequence[DemoPartition]) -> None:
    """The group's offsets beside the topic's, as the broker reports them."""
    table = Table(title=f"Group {name}, as the broker reports it", title_justify="left")
    for column in ("partition", "committed", "last stable offset", "high watermark"):
        table.add_column(column, justify="right")
    table.add_column("with the commit")
    for state in states:
        numbers = (state.partition, state.committed, state.last_stable_offset, state.high_watermark)
        table.add_row(*map(_number, numbers), Text(_short(state.metadata, 18)))
    console.print(table)


def held_back(console: Console, report: Mapping[str, Any]) -> None:
    """The distance of the high watermark from the last stable offset, and its age."""
    for held in report["held_back"]:
        seconds = held["seconds"]
        since = "for an unknown time" if seconds is None else f"for {seconds:.0f} s"
        console.print(
            f"Held back in {held['topic']}-{held['partition']}: the high watermark {held['high_watermark']:,} is "
            f"{held['records']:,} ahead of the last stable offset {held['last_stable_offset']:,}, {since}: "
            "a transaction is open there",
            markup=False,
        )


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return repr(value.decode("utf-8", "replace"))
    if isinstance(value, list):
        return ", ".join(f"{header['key']}={_cell(header['value'])}" for header in value) or "[]"
    if isinstance(value, datetime):
        return value.strftime("%H:%M:%S.") + f"{value.microsecond // 1000:03}"
    return str(value)


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
