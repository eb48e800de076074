"""Spark's own exceptions as one typed error: what failed, in a line, and where in the user's code.

Spark's exceptions are text of many lines: of Python's traceback in the worker, of the JVM's stack, of the query's plan.
Three forms are known here:

    Traceback (most recent call last):      Python code that Spark ran: its last line, and the last frame's place
    [ERROR_CONDITION] words … SQLSTATE: …    Spark's own error conditions: the first paragraph
    : java.lang.Some: words                  anything else of the JVM: py4j's second line
"""

from __future__ import annotations

import logging
import re
import sys
from typing import Final

from kseg.etl.errors import ConfigurationError, KsegError, summary

_TRACEBACK: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_END_OF_TRACEBACK: Final = re.compile(r"^(?P<error>[A-Za-z_][\w.]*(?:: .*)?)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_.]+\].*")
_REMEDY: Final = "the errors of Spark and Python are in the log, or printed with --debug"


class SparkFailure(KsegError):
    """Spark failed, or Python code that Spark ran, such as a step's function. Spark's exception is its context."""


class NoFileSystem(ConfigurationError):
    """Spark has no file system for the scheme of a table's URI."""


def spark_failure(error: BaseException) -> SparkFailure | None:
    """The typed error in place of one of Spark's or py4j's; None for any other."""
    if not _is_sparks(error):
        return None
    text = str(error)
    in_python = _in_python(text)
    if in_python is not None:
        return in_python
    condition = _CONDITION.search(text)
    words = condition[0] if condition is not None else summary(error).partition(": ")[2]
    return SparkFailure(f"Spark failed: {_cut(words)}", remedy=_REMEDY)


def silence_query_contexts() -> None:
    """PySpark prints each error of a query once more, as a line of JSON with the whole stack. Call it when pyspark is
    loaded: its logger is of a class of its own."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def _is_sparks(error: BaseException) -> bool:
    """An exception of theirs is there only if its module has been imported."""
    for module, name in (("pyspark.errors", "PySparkException"), ("py4j.protocol", "Py4JError")):
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(error, kind):
            return True
    return False


def _in_python(text: str) -> SparkFailure | None:
    _, found, traceback = text.rpartition(_TRACEBACK)
    ended = _END_OF_TRACEBACK.search(traceback)
    if not found or ended is None:
        return None
    frames = list(_FRAME.finditer(traceback, 0, ended.start()))
    place = frames[-1].groupdict() if frames else {}
    return SparkFailure(
        f"Python code failed in Spark: {_cut(ended['error'])}",
        remedy=_REMEDY,
        file=place.get("file"),
        line=int(place["line"]) if place else None,
        function=place.get("function"),
    )


def _cut(words: str) -> str:
    return words if len(words) <= 300 else f"{words[:300]}…"
