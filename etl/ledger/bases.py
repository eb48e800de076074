"""The offsets at which a job begins, by partition, and which of them only plans of log files have pinned.

plan            pins                                                              known only from files
--------------  ----------------------------------------------------------------  ---------------------
reads files     partitions without a base                                         these
at the brokers  partitions without a base; again those known only from files      none of its partitions
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.events import Event
from kseg.etl.ledger.json_form import left_out
from kseg.etl.ledger.values import ByPartition

Bases = dict[TopicPartition, int]
BaseReason = Literal["group", "configured", "earliest", "accepted", "files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePinned(Event):
    """The job's first offset in each partition. Pinned once; only `accepted` (group offsets) may lower a base.

    of_files: a plan that read log files pinned them. Such a plan does not show that the job has begun at its brokers,
    or which partitions a topic has there. A later plan at the brokers pins the same bases again (`reason: files`). JSON
    omits `of_files` if it is false.
    """

    KIND = "base_pinned"

    bases: ByPartition[int]
    reason: BaseReason
    of_files: bool = False

    _to_json = left_out("of_files")


def with_pinned(bases: Mapping[TopicPartition, int], of_files: Bases, event: BasePinned) -> tuple[Bases, Bases]:
    """All bases, and those known only from files, after this event.

    Raises:
        ValueError: it raises a base, or lowers one for another reason than accepted group offsets.
    """
    for tp, base in event.bases.items():
        before = bases.get(tp, base)
        if base > before or (base < before and event.reason != "accepted"):
            raise ValueError(f"the base of {tp} is pinned at {before}")
    if event.of_files:
        of_files = of_files | {tp: base for tp, base in event.bases.items() if tp not in bases or tp in of_files}
    else:
        of_files = {tp: base for tp, base in of_files.items() if tp not in event.bases}
    return {**bases, **event.bases}, of_files
