"""Results of `kseg` as tables on stdout. Progress, on stderr, is in `jobs.progress`.

A result is the same document that `--json` prints, as text: plain values as lines, lists of records as tables (numbers
right-aligned; in a narrow terminal, cells wrap and are not cut off; in a pipe or a file only sentences wrap, so that
`grep` finds names). So new fields of a report are shown by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal

from kseg.client.protocol.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

ROWS_SHOWN = 50
_PIPED_WIDTH = 100
_SENTENCE = 40
"""A cell with blanks that is longer than this may be wrapped in a pipe, too, down to this width."""
_NARROWEST_TEXT = 8
_NAMES = ("run", "run_id")  # not wrapped, because users copy them
_ADDRESSES = ("partition", "start", "end", "version")  # 0 is an ordinary value of these
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


def console_for(stream: IO[str], *, piped_width: int = _PIPED_WIDTH) -> Console:
    """A console on this stream: as wide as the terminal, or with a fixed width for a log."""
    from kseg.jobs.output.console import PlainConsole

    terminal = stream.isatty()
    return PlainConsole(file=stream, width=None if terminal else piped_width, highlight=False, soft_wrap=False)


def show(document: Mapping[str, Any], headline: str, *, stream: IO[str], rows: int = ROWS_SHOWN) -> None:
    """Print a report's document as text. headline: its first line, which summarises it."""
    from rich.text import Text

    console = console_for(stream)
    console.print(Text(headline, style="bold"), soft_wrap=True)
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
    columns, zero = _columns(items, rows, console.width)
    table = Table(title=Text(_words(name), style="bold"), title_justify="left", pad_edge=False, box=_box())
    numeric = {c for c in columns if all(_is_number(item.get(c)) or item.get(c) is None for item in items)}
    longest = {c: max(len(_table_cell(item.get(c))) for item in items[:rows]) for c in columns}
    digits = {c: longest[c] for c in columns if c in numeric or c in _NAMES or _is_time(items, c)}
    sentences = {c for c in columns if any(_is_sentence(_table_cell(item.get(c))) for item in items[:rows])}
    terminal = console.file.isatty()
    if not terminal:
        digits = {c: max(longest[c], len(_words(c))) for c in columns if c not in sentences}
        width = sum(digits.values()) + len(sentences) * _SENTENCE + len(columns) * 3
        console = console_for(console.file, piped_width=max(console.width, width))
    # Numbers, times and ids are not wrapped as long as the columns of text stay wide enough.
    roomy = sum(digits.values()) + (len(columns) - len(digits)) * _NARROWEST_TEXT + len(columns) * 3 <= console.width
    for column in columns:
        number = column in numeric
        justify: Literal["left", "right"] = "right" if number else "left"
        whole = column in digits and roomy
        # no_wrap is for headings, too
        heading = _words(column).replace(" ", "\n") if whole and terminal else _words(column)
        narrowest = None if column in digits else min(longest[column], _NARROWEST_TEXT)
        table.add_column(Text(heading), justify=justify, overflow="fold", no_wrap=whole, min_width=narrowest)
    for item in items[:rows]:
        table.add_row(*(Text(_table_cell(item.get(column))) for column in columns))
    console.print(table)
    if zero:
        console.print(Text(f"0 in all rows: {', '.join(map(_words, zero))}", style="dim"))
    if len(items) > rows:
        console.print(Text(f"… and {len(items) - rows} more: --json shows all", style="dim"))


def _columns(items: Sequence[Mapping[str, Any]], rows: int, width: int) -> tuple[list[str], list[str]]:
    """The columns to show, and those left out because all of their numbers are 0 and the table is too wide.

    Columns without any value are in neither list.
    """
    columns = list(dict.fromkeys(key for item in items for key, value in item.items() if value is not None))
    shown = {c: max(len(_words(c)), *(len(_table_cell(item.get(c))) for item in items[:rows])) for c in columns}
    if sum(shown.values()) + len(columns) * 3 <= width:
        return columns, []
    zero = [c for c in columns if not _is_address(c) and all(_is_zero(item.get(c)) for item in items)]
    return [c for c in columns if c not in zero], zero


def _is_address(column: str) -> bool:
    return column in _ADDRESSES or column.endswith("offset")


def _is_time(items: Sequence[Mapping[str, Any]], column: str) -> bool:
    values = [item[column] for item in items if item.get(column) is not None]
    return all(isinstance(value, str) and _TIME.fullmatch(value) for value in values)


def _is_sentence(cell: str) -> bool:
    return len(cell) > _SENTENCE and " " in cell


def _is_zero(value: Any) -> bool:
    return value is None or (_is_number(value) and value == 0)


def _table_cell(value: Any) -> str:
    """Counts by name without zeros; other values as in `_cell`."""
    if isinstance(value, Mapping) and value and all(_is_number(inner) for inner in value.values()):
        return ", ".join(f"{_words(key)} {count}" for key, count in value.items() if count) or "–"
    return _cell(value)


def _is_table(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _box() -> Any:
    from rich.box import SIMPLE_HEAD

    return SIMPLE_HEAD


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _words(key: str) -> str:
    return printable(str(key).replace("_", " "))


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
    return printable(str(value), keep="\n")
