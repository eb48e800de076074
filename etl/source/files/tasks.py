"""Ranges of files -> tasks: byte ranges aligned to batches, since a file's bytes are known and its records are not.

range ──cut at about TASK_BYTES (segment_reader.log.scan.splits)──► parts with a place each ──► RangeTask
tasks ──pack──► what one Spark partition reads: one task, or many small ones
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.source.tasks import RangeTask, SupportsRange, divided, filled_ranges, ordered, whole_task
from kseg.segment_reader.log.files.segments import PartitionLog
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.splits import cut, segment_ranges

#: What a task reads of the files: some seconds of work, of which a failed one loses as much.
TASK_BYTES: Final = 128 * 1024 * 1024
#: Tasks are packed up to here: less is read in the time that a task of its own takes to start.
PACK_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FilesOf:
    """One partition's files: `folder` (a path or URI) is where a worker finds them."""

    storage: Storage
    log: PartitionLog
    folder: str


def split_files(
    ranges: Iterable[SupportsRange],
    files: Mapping[TopicPartition, FilesOf],
    *,
    max_records: int | None = None,
    min_tasks: int = 1,
    topic_ids: Mapping[str, UUID | None] | None = None,
    task_bytes: int = TASK_BYTES,
) -> tuple[RangeTask, ...]:
    """Cut ranges into tasks of about `task_bytes`, none longer than `max_records` offsets; empty ranges are dropped.

    min_tasks: at least so many, where there are that many offsets. The same files give the same tasks.

    Raises:
        ValueError: a limit is not positive, or a range ends before it starts.
        SegmentGone: a file vanished between being listed and being read.
    """
    filled = filled_ranges(ranges, max_records=max_records, min_tasks=min_tasks, task_bytes=task_bytes)
    found = []
    for range_ in filled:
        at = files[TopicPartition(range_.topic, range_.partition)]
        found.append((range_, at, segment_ranges(at.storage, at.log, range_.start, range_.end)))
    total = sum(one.size for _, _, inside in found for one in inside)
    task_bytes = max(1, min(task_bytes, total // min_tasks))
    pieces = []
    for range_, at, inside in found:
        whole = whole_task(range_, topic_ids or {}, folder=at.folder)
        parts = cut(at.storage, inside, range_.start, range_.end, part_bytes=task_bytes)
        tasks = [
            replace(
                whole,
                start=part.start,
                end=part.end,
                leads=part.start == range_.start,
                size=part.size,
                start_hint=part.start_hint,
                end_hint=part.end_hint,
            )
            for part in parts
        ]
        pieces.append([piece for task in tasks for piece in _within(task, max_records)])
    return ordered(_at_least(pieces, min_tasks))


def pack(tasks: Sequence[RangeTask], *, at_least: int = 1, pack_bytes: int = PACK_BYTES) -> list[tuple[RangeTask, ...]]:
    """Tasks that are read one after the other by one Spark task: many small ones together, up to `pack_bytes`.

    at_least: so many packs, where there are that many tasks. A task of unknown size is a pack of its own.
    """
    pack_bytes = min(pack_bytes, sum(task.size for task in tasks) // at_least)
    packs: list[list[RangeTask]] = []
    room, free = 0, len(tasks) - at_least  # how many tasks may still join another's pack
    for task in tasks:
        if packs and free > 0 and 0 < task.size <= room:
            packs[-1].append(task)
            room, free = room - task.size, free - 1
        else:
            packs.append([task])
            room = pack_bytes - task.size if task.size else 0
    return [tuple(one) for one in packs]


def _within(task: RangeTask, max_records: int | None) -> list[RangeTask]:
    return [task] if max_records is None else divided(task, -(-task.length // max_records))


def _at_least(pieces: list[list[RangeTask]], min_tasks: int) -> list[list[RangeTask]]:
    """Halves the longest tasks until there are enough, or each has one offset: for files too small to cut by bytes."""
    missing = min(min_tasks, sum(task.length for tasks in pieces for task in tasks)) - sum(map(len, pieces))
    if missing <= 0:
        return pieces
    longest = [(-task.length, place, task.start, task) for place, tasks in enumerate(pieces) for task in tasks]
    heapq.heapify(longest)
    for _ in range(missing):
        _, place, _, task = heapq.heappop(longest)
        for half in divided(task, 2):
            heapq.heappush(longest, (-half.length, place, half.start, half))
    return [
        sorted((task for _, of, _, task in longest if of == place), key=lambda task: task.start)
        for place in range(len(pieces))
    ]
