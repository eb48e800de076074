"""How a transaction that wrote rows is known again: offsets of a group of its own, committed inside the transaction.

    group      kseg-write-<transactional id>
    partition  each that got rows; partition 0 of the topic in any case
    offset     the one after the last row written there (0 where there is none)
    metadata   kseg-write:<run id>:<rows there>:<first offset there>:<rows of the whole run>

The group's offsets count if, and only if, the rows do: both are decided by one EndTxn. Whoever comes again with the run
id reads them, after it has fenced the run before, and knows. They last as long as the broker keeps offsets of a group
without members (`offsets.retention.minutes`, a week), and until another run with the same transactional id commits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition

PREFIX: Final = "kseg-write"
_RUN_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_METADATA: Final = re.compile(rf"{PREFIX}:(?P<run>[^:]+):(?P<rows>\d+):(?P<first>-?\d+):(?P<total>\d+)")


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """What one partition got: so many rows, in offsets first to last, among which others' records may stand."""

    rows: int
    first: int
    last: int


def marker_group(transactional_id: str) -> str:
    """The group whose committed offsets record the runs of this transactional id."""
    return f"{PREFIX}-{transactional_id}"


def valid_run_id(run_id: str) -> bool:
    return _RUN_ID.fullmatch(run_id) is not None


def marker_offsets(
    topic: str, run_id: str, written: Mapping[TopicPartition, WrittenRange]
) -> dict[TopicPartition, CommittedOffset]:
    """What to commit with the transaction."""
    total = sum(part.rows for part in written.values())
    ranges = {TopicPartition(topic, 0): WrittenRange(0, -1, -1)} | dict(written)
    return {
        tp: CommittedOffset(part.last + 1, -1, f"{PREFIX}:{run_id}:{part.rows}:{part.first}:{total}")
        for tp, part in ranges.items()
    }


def found_run(
    run_id: str, committed: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, WrittenRange] | None:
    """What the run wrote, if its transaction has been committed; else None. Other runs' marks mean nothing."""
    written: dict[TopicPartition, WrittenRange] = {}
    total = None
    for tp, offset in committed.items():
        mark = _METADATA.fullmatch(offset.metadata or "")
        if offset.offset < 0 or mark is None or mark["run"] != run_id:
            continue
        total = int(mark["total"])
        if int(mark["rows"]):
            written[tp] = WrittenRange(int(mark["rows"]), int(mark["first"]), offset.offset - 1)
    return None if total is None else written
