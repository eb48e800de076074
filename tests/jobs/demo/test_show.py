"""The demo's tables show values as they are."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pyarrow as pa
from rich.console import Console

from kseg.jobs.demo import show


def test_brackets_in_rows_are_text() -> None:
    """They were rich's markup, which swallows `[red]`."""
    row = {
        "partition": 0,
        "offset": 1,
        "timestamp": datetime(2026, 1, 1, tzinfo=UTC),
        "key": b"[b]",
        "value": b"[red]5",
        "headers": [{"key": "h", "value": b"[/]"}],
    }
    show.first_rows(Console(file=(shown := io.StringIO()), width=200), pa.Table.from_pylist([row]))
    for part in ("[b]", "[red]5", "h='[/]'"):
        assert part in shown.getvalue()
