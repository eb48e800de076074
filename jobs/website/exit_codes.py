"""Views of the exit codes that are files of the repository; `python -m kseg.jobs.website.exit_codes` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from kseg.etl.refusals.exit_codes import ExitCode

ROOT: Final = Path(__file__).resolve().parents[2]

_MEANS: Final = ("exit", "means", "what to do")
_ACTS: Final = ("exit", "who acts")

_AIRFLOW: Final = '''\
"""Exit codes of `kseg`, and which of them Airflow retries. Made by `python -m kseg.jobs.website.exit_codes`."""

from __future__ import annotations

from typing import Final

{codes}

#: The same command may succeed later: the task is retried as its DAG says.
RETRIED: Final = frozenset({{{retried}}})
'''


def meanings() -> str:
    """The table of what each code means, and what to do."""
    return _table(_MEANS, ((str(code.value), code.meaning.found, code.meaning.remedy) for code in ExitCode))


def who_acts() -> str:
    """The table of who has to act: codes for which it is the same share a row."""
    order = sorted(ExitCode, key=lambda code: (code.value != 0, not code.meaning.retriable))
    rows = ((", ".join(str(code.value) for code in codes), who) for who, codes in _grouped(order))
    return _table(_ACTS, rows)


def for_airflow() -> str:
    """The module of the Airflow provider, which does not import kseg."""
    codes = "\n".join(f"{code.name}: Final = {code.value}" for code in sorted(ExitCode))
    retried = ", ".join(code.name for code in sorted(ExitCode) if code.meaning.retriable)
    return _AIRFLOW.format(codes=codes, retried=retried)


def views() -> Iterator[tuple[Path, str]]:
    """Each file with the text that it has to have."""
    yield ROOT / "airflow" / "kseg_airflow" / "exit_codes.py", for_airflow()
    for name, columns, table in (
        ("README.md", _MEANS, meanings()),
        ("docs/guides/monitoring.md", _ACTS, who_acts()),
    ):
        yield ROOT / name, _with_table((ROOT / name).read_text(encoding="utf-8"), columns, table)


def _grouped(codes: Sequence[ExitCode]) -> Iterator[tuple[str, list[ExitCode]]]:
    for who, found in groupby(codes, key=lambda code: code.meaning.acts):
        yield who, list(found)


def _table(columns: Sequence[str], rows: Iterator[tuple[str, ...]]) -> str:
    return "".join(map(_row, [columns, ["---"] * len(columns), *rows]))


def _row(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells) + "\n"


def _with_table(page: str, columns: Sequence[str], table: str) -> str:
    """The page with this table in the place of the one that has these columns."""
    found = re.compile(re.escape(_row(columns)) + r"(?:\|.*\n)*")
    replaced, times = found.subn(lambda _: table, page)
    if times != 1:
        raise ValueError(f"{times} tables have the columns {', '.join(columns)}")
    return replaced


if __name__ == "__main__":
    for path, text in views():
        path.write_text(text, encoding="utf-8")
