"""Whether a transform is deterministic, by its plan, before rows are read: would a task that runs again give the same?

Rows that differ between attempts still land once, since only one attempt's files are committed. But a run that is
continued or verified finds other rows than those that landed. It is a warning, as a sample may be what the user wants.

    text of SQL steps       without Spark (`kseg plan`)                functions, TABLESAMPLE, LIMIT, rows used twice
    Spark's analysed plan   with it (`kseg ingest`, `check --connect`) the same, and steps in Python
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from kseg.etl.rows.names import ROWS_VIEW
from kseg.etl.transform.sql import SqlStep
from kseg.etl.transform.step import Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SOURCE: Final = "kseg_read_ranges"
"""The name in a plan of the node that reads the ranges."""

RANDOM: Final = "it uses a function that is not deterministic (rand, uuid, …)"
SAMPLE: Final = "it takes a sample (TABLESAMPLE)"
LIMIT: Final = "it takes only some of the rows (LIMIT), those that come first"
TWICE: Final = "it uses its rows {count} times (a union or a join with itself), and each use reads the records again"

_FUNCTIONS: Final = re.compile(
    r"\b(rand|randn|random|uniform|randstr|uuid|shuffle|monotonically_increasing_id)\s*\(", re.I
)
_NODE: Final = re.compile(r"^[\s:|+\-]*(\w+)(?:\s+(\w+))?")
_NOT_SQL: Final = re.compile(r"'(?:[^'\\]|\\.)*'|--[^\n]*|/\*.*?\*/", re.S)


def sql_warnings(steps: Iterable[Step]) -> tuple[str, ...]:
    """Warnings about the SQL steps, by their text: those of the analysed plan, as far as the text shows them."""
    found = []
    for step in steps:
        if isinstance(step, SqlStep):
            text = _NOT_SQL.sub("''", step.query)
            count = len(re.findall(rf"\b(?:FROM|JOIN)\s+{ROWS_VIEW}\b|,\s*{ROWS_VIEW}\b(?!\.)", text, re.I))
            reasons = _reasons(
                random=bool(_FUNCTIONS.search(text)),
                sample=bool(re.search(r"\bTABLESAMPLE\b", text, re.I)),
                limit=bool(re.search(r"\b(LIMIT|OFFSET|FETCH)\s+\d", text, re.I)),
                sources=count,
            )
            found += [f"{step.place}: {reason}" for reason in reasons]
    return tuple(found)


def plan_warnings(rows: DataFrame) -> tuple[str, ...]:
    """Warnings about the rows after all steps, by Spark's analysed plan; nothing is executed."""
    text, deterministic = _analysed(rows)
    nodes = [match.groups() for line in text.splitlines() if (match := _NODE.match(line))]
    names = {name for name, _ in nodes}
    reasons = _reasons(
        random=not deterministic,
        sample="Sample" in names,
        limit=not names.isdisjoint({"GlobalLimit", "LocalLimit", "Limit", "Tail", "Offset"}),
        sources=sum(detail == SOURCE for _, detail in nodes),
    )
    return tuple(f"transform: {reason}" for reason in reasons)


def _reasons(*, random: bool, sample: bool, limit: bool, sources: int) -> list[str]:
    told = [text for text, wanted in ((RANDOM, random), (SAMPLE, sample), (LIMIT, limit)) if wanted]
    return [*told, TWICE.format(count=sources)] if sources > 1 else told


def _analysed(rows: DataFrame) -> tuple[str, bool]:
    """The analysed plan's text, and whether its expressions are deterministic; over Connect, where a client has the
    text alone, as far as that shows it."""
    execution: Any = getattr(rows, "_jdf", None)
    if execution is not None:
        plan = execution.queryExecution().analyzed()
        return str(plan.toString()), bool(plan.deterministic())
    remote: Any = rows
    text = str(remote._explain_string(extended=True))
    _, _, after = text.partition("== Analyzed Logical Plan ==")
    analysed = after.partition("\n== ")[0]
    return analysed, not _FUNCTIONS.search(analysed)
