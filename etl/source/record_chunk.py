"""What a range is read as: answers one after the other, from a broker or from files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kseg.client.offsets import IsolationLevel
from kseg.etl.source.range_result import LostRange
from kseg.segment_reader.log.damage.damage import Damage

OnCorruption = Literal["fail", "quarantine"]


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How a range is fetched.

    on_data_loss: `record` goes on behind offsets that are gone, and lists them.
    on_corruption: `quarantine` goes on behind damage of files, and gives it as an answer.
    """

    isolation_level: IsolationLevel = "read_committed"
    on_data_loss: Literal["fail", "record"] = "fail"
    on_corruption: OnCorruption = "fail"


@dataclass(slots=True)
class FetchStats:
    """What fetching a range returned besides the records; complete when the iteration has ended.

    throttled: seconds by broker.
    """

    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start: int = -1
    fetches: int = 0
    bytes: int = 0
    throttled: dict[int, float] = field(default_factory=dict)
    lost: list[LostRange] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """One answer's records, the aborted transactions that overlap them, and the offset after its last whole batch.

    Without records: nothing is to be had below `next_offset`. From a file: which, and where in it the records begin;
    or damage, where `next_offset` is the offset behind it.
    """

    records: memoryview
    aborted: list[tuple[int, int]]
    next_offset: int
    file: str | None = None
    position: int = 0
    damage: Damage | None = None

    @classmethod
    def empty(cls, next_offset: int) -> RecordChunk:
        """An answer without records."""
        return cls(memoryview(b""), [], next_offset)
