"""What `kseg` shows people: results as tables on stdout, progress on stderr.

A result is the same document that `--json` prints, laid out: plain values as lines, lists of records as tables (numbers
to the right, nothing cut off in a narrow terminal: cells wrap), so that a new field of a report shows up by itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self

from etl.progress import Progress, Unit

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

ROWS_SHOWN = 50
_SECONDS_BETWEEN_LINES = 10.0
_PIPED_WIDTH = 160
_NARROWEST_TEXT = 8


def console_for(stream: IO[str]) -> Console:
    """A console on this stream: as wide as the terminal, or wide enough for a log where there is none."""
    from rich.console import Console

    terminal = stream.isatty()
    return Console(file=stream, width=None if terminal else _PIPED_WIDTH, highlight=False, soft_wrap=False)


def show(document: Mapping[str, Any], headline: str, *, stream: IO[str], rows: int = ROWS_SHOWN) -> None:
    """Lay a report's document out for people. headline: the one line to read if no other is read."""
    from rich.text import Text

    console = console_for(stream)
    console.print(Text(headline, style="bold"))
    plain = {key: value for key, value in document.items() if not isinstance(value, dict | list | tuple)}
    _show_lines(console, {key: value for key, value in plain.items() if value is not None})
    for key, value in document.items():
        if isinstance(value, Mapping):
            _show_mapping(console, key, value, rows)
        elif isinstance(value, list | tuple) and value:
            _show_list(console, key, value, rows)


def _show_lines(console: Console, values: Mapping[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    if values:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(overflow="fold")
        for key, value in values.items():
            grid.add_row(Text(_words(key)), Text(_cell(value)))
        console.print(grid)


def _show_mapping(console: Console, name: str, values: Mapping[str, Any], rows: int) -> None:
    if values and all(isinstance(value, Mapping) for value in values.values()):
        _show_list(console, name, [{name: key, **value} for key, value in values.items()], rows)
        return
    tables = {str(key): value for key, value in values.items() if _is_table(value)}
    flat = {str(key): value for key, value in values.items() if str(key) not in tables}
    if any(isinstance(value, dict | list | tuple) for value in flat.values()):
        _show_lines(console, {name: ""} | flat)
    elif flat:
        _show_lines(console, {name: "  ".join(f"{_words(key)} {_cell(value)}" for key, value in flat.items())})
    for key, value in tables.items():
        _show_list(console, f"{name}: {key}", value, rows)


def _show_list(console: Console, name: str, items: Sequence[Any], rows: int) -> None:
    from rich.table import Table
    from rich.text import Text

    if not all(isinstance(item, Mapping) for item in items):
        for item in items:
            console.print(Text(f"{_words(name)}: {_cell(item)}"))
        return
    columns = list(dict.fromkeys(key for item in items for key in item))
    table = Table(title=_words(name), title_justify="left", title_style="bold", pad_edge=False, box=_box())
    numeric = {c for c in columns if all(_is_number(item.get(c)) or item.get(c) is None for item in items)}
    digits = {c: max(len(_cell(item.get(c))) for item in items[:rows]) for c in numeric}
    # Numbers keep their line as long as text beside them can wrap to something readable.
    roomy = sum(digits.values()) + (len(columns) - len(numeric)) * _NARROWEST_TEXT + len(columns) * 3 <= console.width
    for column in columns:
        number = column in numeric
        justify: Literal["left", "right"] = "right" if number else "left"
        table.add_column(_words(column), justify=justify, overflow="fold", no_wrap=number and roomy)
    for item in items[:rows]:
        table.add_row(*(Text(_cell(item.get(column))) for column in columns))
    console.print(table)
    if len(items) > rows:
        console.print(Text(f"… and {len(items) - rows} more: --json tells all", style="dim"))


def _is_table(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _box() -> Any:
    from rich.box import SIMPLE_HEAD

    return SIMPLE_HEAD


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _words(key: str) -> str:
    return str(key).replace("_", " ")


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_cell(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_cell(inner) for inner in value)
    return str(value)


class LineProgress:
    """Progress as plain lines, for logs: each phase, each message, and now and then how far it is."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._name = ""
        self._unit: Unit = "rows"
        self._total = self._done = 0
        self._said = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def phase(self, name: str) -> None:
        self._name, self._total, self._done = name, 0, 0
        self._said = time.monotonic()
        self.message(f"{name} …")

    def total(self, amount: int, unit: Unit = "rows") -> None:
        self._total, self._unit = amount, unit

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        if time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            share = f" of {self._total} ({self._done / self._total:.0%})" if self._total else ""
            self.message(f"{self._name}: {self._done}{share} {self._unit}")

    def message(self, text: str) -> None:
        print(f"kseg: {text}", file=self._stream, flush=True)


class BarProgress:
    """Progress as a bar for each phase, on a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeElapsedColumn(),
            console=console_for(stream),
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def phase(self, name: str) -> None:
        self._finish()
        self._task = self._bars.add_task(name, total=None, unit="")

    def total(self, amount: int, unit: Unit = "rows") -> None:
        if self._task is not None:
            self._bars.update(self._task, total=amount, unit=unit)

    def advance(self, amount: int = 1) -> None:
        if self._task is not None:
            self._bars.advance(self._task, amount)

    def message(self, text: str) -> None:
        from rich.text import Text

        self._bars.console.print(Text(text))

    def _finish(self) -> None:
        if self._task is None:
            return
        done = self._bars.tasks[self._bars.task_ids.index(self._task)]
        self._bars.update(self._task, total=done.total or max(int(done.completed), 1), completed=done.total or 1)
        self._bars.stop_task(self._task)


def progress_for(stream: IO[str] | None = None) -> LineProgress | BarProgress:
    """A bar on a terminal, plain lines elsewhere; on stderr, so that stdout is the result's alone."""
    stream = stream if stream is not None else sys.stderr
    return BarProgress(stream) if stream.isatty() else LineProgress(stream)


if TYPE_CHECKING:
    _checks: tuple[type[Progress], ...] = (LineProgress, BarProgress)
