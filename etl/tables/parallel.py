"""Looks at many tables. One is a round trip to a store or several, and none needs another's answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kseg.etl.tables.names import is_name

T = TypeVar("T")

AT_ONCE = 16
"""Tables looked at side by side: what one answer holds in memory is small beside a snapshot's list of files."""


def parallel_map(tables: Iterable[str], look: Callable[[str], T]) -> dict[str, T]:
    """What `look` tells of each table, in the order of the tables.

    Tables at paths are looked at side by side; those in a catalog one after the other in this thread, which Spark's
    session belongs to. Raises what the first table's look raises that raises anything.
    """
    tables = tuple(tables)
    paths = [table for table in tables if not is_name(table)]
    if len(paths) < 2:
        return {table: look(table) for table in tables}
    with ThreadPoolExecutor(min(AT_ONCE, len(paths)), thread_name_prefix="kseg-look") as pool:
        found = dict(zip(paths, pool.map(look, paths), strict=True))
    return {table: found[table] if table in found else look(table) for table in tables}
