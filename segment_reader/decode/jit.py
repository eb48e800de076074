"""Decorators of compiled functions: compiled once and cached for all processes.

The cache lies beside the source, or in the user's cache directory where that is read-only or a zip file
(NUMBA_CACHE_DIR moves it). numba ties an entry to the CPU and to the file of the function alone: after an edit of a
constant in another module it would go on running the old code, over buffers of the new layout. So the entry's name also
contains a hash of the module and of all modules of this package that it imports, directly or not (`code_cache` has the
files).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba as nb

from kseg.segment_reader.decode.code_cache import SUFFIX, CodeCache
from kseg.segment_reader.decode.sources import PACKAGE, fingerprint, source_file

_LOG = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

# Without numba's reference counting (_nrt), which took 250 of 310 ns a row: atomic counts on every array that a record
# touches. Compiled code here allocates nothing and keeps nothing, its callers hold the arrays.
_FLAGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}

_ROOT = Path(__file__).parents[1]
_looked_at: set[Callable[..., Any]] = set()


def compiled(function: F) -> F:
    """njit with a cache, or without one where no directory is writable (a container without a home)."""
    module = function.__module__
    if module.startswith(PACKAGE):
        function.__qualname__ += f"-{fingerprint(module)}"  # part of the cache entry's file name
        if not Path(__file__).exists() and (file := source_file(module)) is not None:
            function.__code__ = function.__code__.replace(co_filename=str(file))
    made = nb.njit(**_FLAGS)(function)
    if made is not function:  # NUMBA_DISABLE_JIT leaves the function as it is
        with suppress(RuntimeError):  # "cannot cache function: no locator available"
            made._cache = CodeCache(function)
    return cast(F, made)


def inlined(function: F) -> F:
    """njit for a part of compiled functions: it becomes part of its callers, so that no array is passed at run time."""
    return cast(F, nb.njit(forceinline=True, **_FLAGS)(function))


def is_cached(function: Callable[..., Any]) -> bool:
    """Whether compiled code of this function is in its cache, so that its first call takes no seconds.

    function: one that `compiled` returned. A cache entry of another processor or release of numba counts too: they are
    told apart when one is loaded.
    """
    if getattr(function, "signatures", ()):  # compiled in this process
        return True
    cache = getattr(function, "_cache", None)
    return isinstance(cache, CodeCache) and any(cache.files())


def warn_if_compiling(function: Callable[..., Any]) -> None:
    """Before a call of a compiled function: log that this takes long, where it does. Once for each process.

    A worker's log is its standard error, which Spark shows in the driver's terminal or in the executor's log.
    """
    if function in _looked_at:
        return
    _looked_at.add(function)
    if not is_cached(function):
        _LOG.warning("kseg: compiling a decoder; later runs on this machine do not wait for it …")


def cache_entries() -> Iterator[Path]:
    """Files of the cache beside this package's sources that belong to the sources as they are."""
    for path in _ROOT.rglob(f"__pycache__/*{SUFFIX}"):
        source = path.parents[1] / f"{path.name.partition('.')[0]}.py"
        module = ".".join([PACKAGE, *source.relative_to(_ROOT).with_suffix("").parts])
        if source.exists() and f"-{fingerprint(module)}-" in path.name:
            yield path
