"""Spark's own exceptions as one typed error: what failed, in a line, and where in the user's code.

Spark's exceptions are text of many lines: of Python's traceback in the worker, of the JVM's stack, of the query's plan.
Three forms are known here:

    Traceback (most recent call last):      Python code that Spark ran: its last line, and the last frame's place
    [ERROR_CONDITION] words … SQLSTATE: …    Spark's own error conditions: the first paragraph
    : java.lang.Some: words                  anything else of the JVM: py4j's second line

A job that Spark's scheduler has aborted because executors or workers were lost is a failure that may pass: a spot
instance was taken away, or a kernel or a resource manager has killed what needed too much memory. So is one whose
application was ended from outside. What a task itself raised is none of these.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kseg.etl.errors import KsegError, RetriableFailure, summary
from kseg.etl.source.errors import OutOfMemoryError
from kseg.etl.transform.user_frames import Frame, step_of, user_frame

_LOST_REMEDY: Final = "run it again; if it happens again, look for killed executors (memory) in the cluster's log"

_TRACEBACK: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_END_OF_TRACEBACK: Final = re.compile(r"^(?P<error>[A-Za-z_][\w.]*(?:: .*)?)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_.]+\].*")
# Source: messages of Spark 4.2's DAGScheduler, TaskSetManager, PythonRunner and StandaloneSchedulerBackend.
_LOST: Final = re.compile(
    r"org\.apache\.spark\.SparkException[:)] Job aborted due to stage failure: (?:"
    r"Task [\d.]+ in stage [\d.]+ failed \d+ times?, most recent failure: Lost task [^\n(]*\(TID \d+\) \([^)]*\): "
    r"(?P<task>(?:ExecutorLostFailure|FetchFailed|TaskKilled|"
    r"org\.apache\.spark\.SparkException: Python worker exited unexpectedly)[^\n]*)"
    r"|(?P<stage>(?:\w+Stage \d+ \(.*\) has failed the maximum allowable number of times|Aborting TaskSet"
    r"|Could not recover from a failed barrier|Master removed our application"
    r"|All masters are unresponsive|Max number of executor failures)[^\n]*))"
    r"|org\.apache\.spark\.SparkException[:)] (?P<job>Job \d+ cancelled because SparkContext was shut down[^\n]*)"
    r"|java\.lang\.IllegalStateException[:)] (?P<context>Cannot call methods on a stopped SparkContext[^\n]*)"
)
#: What Python, numpy and Arrow raise where memory cannot be allocated.
_OUT_OF_MEMORY: Final = frozenset({"MemoryError", "_ArrayMemoryError", "ArrowMemoryError"})
#: Of an ImportError or OSError: the loader or the system had no memory for it.
_NO_MEMORY_FOR: Final = re.compile("failed to map segment from shared object|cannot allocate memory", re.IGNORECASE)
_REMEDY: Final = "the errors of Spark and Python are in the log, or printed with --debug"
NO_STEPS: Final[Mapping[str, str]] = MappingProxyType({})


class SparkFailure(KsegError):
    """Spark failed, or Python code that Spark ran, such as a step's function. Spark's exception is its context."""


class ExecutorsLost(RetriableFailure):
    """Spark lost the executors or Python workers of a job, or its application was ended. What failed was no task."""


def spark_failure(
    error: BaseException, steps: Mapping[str, str] = NO_STEPS
) -> SparkFailure | ExecutorsLost | OutOfMemoryError | None:
    """The typed error in place of one of Spark's or py4j's; None for any other.

    steps: the job's functions, `module:function` by place in the job file.
    """
    if not _is_sparks(error):
        return None
    text = str(error)
    in_python = _in_python(text, steps)
    if in_python is not None:
        return in_python
    lost = _LOST.search(text)
    if lost is not None:
        words = next(part for part in lost.groups() if part)
        return ExecutorsLost(f"Spark lost what ran the job: {_cut(words)}", remedy=_LOST_REMEDY)
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


def _in_python(text: str, steps: Mapping[str, str]) -> SparkFailure | OutOfMemoryError | None:
    _, found, traceback = text.rpartition(_TRACEBACK)
    ended = _END_OF_TRACEBACK.search(traceback)
    if not found or ended is None:
        return None
    frames = [
        Frame(frame["file"], int(frame["line"]), frame["function"])
        for frame in _FRAME.finditer(traceback, 0, ended.start())
    ]
    place = user_frame(frames, steps.values())
    address = {
        "step": step_of(frames, steps),
        "file": place.file if place is not None else None,
        "line": place.line if place is not None else None,
        "function": place.function if place is not None else None,
    }
    kind, _, words = ended["error"].partition(": ")
    if kind.rpartition(".")[2] in _OUT_OF_MEMORY or _NO_MEMORY_FOR.search(words):
        return OutOfMemoryError("in Python code that Spark ran", MemoryError(_cut(words)), **address)
    return SparkFailure(f"Python code failed in Spark: {_cut(ended['error'])}", remedy=_REMEDY, **address)


def _cut(words: str) -> str:
    return words if len(words) <= 300 else f"{words[:300]}…"
