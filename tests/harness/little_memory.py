"""Work in a process that may allocate little more than it has."""

from __future__ import annotations

import multiprocessing
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

from pyspark import cloudpickle

from kseg.etl.tasks.error_json import error_document, typed

FRESH: Final = multiprocessing.get_context("forkserver")


def with_little_memory(
    work: Callable[[], object], spare: int, before: Callable[[], object] = lambda: None
) -> dict[str, Any] | None:
    """The document of what `work` raises where `spare` bytes more can be allocated than there are; None if it ends.

    In a new process: what a test's own process has freed may hold all that `work` needs. The functions travel by
    value, since a test's module cannot be imported there. before: loads what is to be loaded by then.
    """
    modules = {sys.modules[each.__module__] for each in (work, before)}
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        functions = cloudpickle.dumps((work, before))
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    with ProcessPoolExecutor(1, mp_context=FRESH) as process:
        return process.submit(_limited, functions, spare).result(timeout=300)


def _limited(functions: bytes, spare: int) -> dict[str, Any] | None:
    work, before = cloudpickle.loads(functions)
    before()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + spare, limits[1]))
    try:
        work()
    except Exception as error:  # what it is, is what is tested
        return error_document(typed(error))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    return None
