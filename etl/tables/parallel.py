"""Works on many tables at once. One call is a round trip to a store or several, and none needs another's answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kseg.etl.catalogs.registry import resolve

T = TypeVar("T")

AT_ONCE = 16
"""Tables asked at the same time: what one answer holds in memory is small beside a snapshot's list of files."""


def parallel_map(tables: Iterable[str], function: Callable[[str], T], *, at_once: int = AT_ONCE) -> dict[str, T]:
    """What `function` returns for each table, in the order of the tables.

    Tables at paths are asked in parallel; those in a catalog one after the other in this thread, which Spark's session
    belongs to. Raises what the call for the first failing table raises, when all calls that have begun have ended.
    """
    tables = tuple(tables)
    paths = [table for table in tables if resolve(table).location is not None]
    if len(paths) < 2:
        return {table: function(table) for table in tables}
    with ThreadPoolExecutor(min(at_once, len(paths)), thread_name_prefix="kseg-tables") as pool:
        found = dict(zip(paths, pool.map(function, paths), strict=True))
    return {table: found[table] if table in found else function(table) for table in tables}


def parts(tables: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    """The tables in their order, in at most so many parts of equal size: each by itself if there are no more."""
    size = max(1, -(-len(tables) // most))
    return (tables[first : first + size] for first in range(0, len(tables), size))
