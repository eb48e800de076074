"""Pack range tasks into Spark tasks: a large one alone, small ones together.

Each Spark task costs startup time, connections and a file. So a dozen Spark tasks read ten thousand partitions with a
few records each. If there is much to read, packs become larger, but never so large that cores are idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kseg.etl.source.tasks import RangeTask

#: A Spark task with fewer offsets is not worth its startup time, however many cores are idle.
SMALL: Final = 4096
#: A range with at least so many offsets is read alone, and a pack of smaller ranges has at most so many.
LARGE: Final = 50_000
#: The cost of a table's file, in offsets: a hundred files are worth another Spark task.
FILE: Final = 40
#: Packs per core: while one pack takes long, other cores can process the other packs.
PACKS_PER_CORE: Final = 4

Routes = Mapping[str, int]
"""The number of the table that a topic's rows go to; empty where all go to one."""

NO_ROUTES: Final[Routes] = {}


def packed(
    tasks: Sequence[RangeTask], *, cores: int, routes: Routes = NO_ROUTES, mixed: bool = False
) -> tuple[tuple[RangeTask, ...], ...]:
    """All tasks, each in one pack, in their order; the same tasks and cores give the same packs.

    mixed: a pack may have tasks of several tables, each of which costs a file; otherwise a pack has one table's tasks.
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
