"""Which tasks one Spark task reads: a large one alone, small ones together, up to a size that is worth a start.

A Spark task costs a start, connections and a file of its own. Ten thousand partitions with a few records each are read
by a dozen of them; where there is much to read, packs grow, but never so far that cores have nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kseg.etl.source.tasks import RangeTask

#: Offsets below which a Spark task is not worth its start, were there ever so many cores.
SMALL: Final = 4096
#: Offsets from which on a range is read alone, and that no pack of smaller ones goes beyond.
LARGE: Final = 50_000
#: What a table's file costs, in offsets: a hundred files are worth a Spark task of their own.
FILE: Final = 40
#: So many packs for each core: one that takes long leaves others to do meanwhile.
PACKS_PER_CORE: Final = 4

Routes = Mapping[str, int]
"""The number of the table that a topic's rows go to; empty where all go to one."""

NO_ROUTES: Final[Routes] = {}


def packed(
    tasks: Sequence[RangeTask], *, cores: int, routes: Routes = NO_ROUTES, mixed: bool = False
) -> tuple[tuple[RangeTask, ...], ...]:
    """All tasks, each in one pack, in their order; the same tasks and cores give the same packs.

    mixed: a pack may have tasks of several tables, each of which costs a file; else it has those of one table alone.
    """
    tables = [routes.get(task.topic) for task in tasks]
    file = FILE if mixed and routes else 0
    total = sum(task.length for task in tasks) + file * len(set(tables))
    packs = max(1, min(total // SMALL, PACKS_PER_CORE * cores))
    most = min(LARGE, max(SMALL, -(-total // packs)))
    made: list[list[RangeTask]] = []
    remaining, in_pack = 0, set[int | None]()
    for task, table in zip(tasks, tables, strict=True):
        more = task.length + (0 if table in in_pack else file)
        if task.length > most:
            made.append([task])
            remaining, in_pack = 0, set()
        elif more > remaining or not (mixed or table in in_pack):
            made.append([task])
            remaining, in_pack = most - task.length - file, {table}
        else:
            made[-1].append(task)
            remaining -= more
            in_pack.add(table)
    return tuple(map(tuple, made))
