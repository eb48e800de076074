"""The chunks of records in which a range is read, from a broker or from files, and how it is fetched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kseg.client.offsets import IsolationLevel
from kseg.etl.source.range_result import LostRange
from kseg.segment_reader.log.damage.damage import Damage

OnCorruption = Literal["fail", "quarantine"]


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Options for fetching a range.

    on_data_loss: with `record`, reading continues after lost offsets, which are listed in `FetchStats.lost`.
    on_corruption: with `quarantine`, reading continues after damage in files, which is returned as a chunk.
    """

    isolation_level: IsolationLevel = "read_committed"
    on_data_loss: Literal["fail", "record"] = "fail"
    on_corruption: OnCorruption = "fail"


@dataclass(slots=True)
class FetchStats:
    """Observations while a range is fetched; complete when the iteration has ended.

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
    """Records of one response, the aborted transactions that overlap them, and the offset after the last whole batch.

    If there are no records, the log has none below `next_offset`. file, position: for a chunk of a file, its path and
    where in it the records begin. damage: damage in a file, which ends before `next_offset`.
    """

    records: memoryview
    aborted: list[tuple[int, int]]
    next_offset: int
    file: str | None = None
    position: int = 0
    damage: Damage | None = None

    @classmethod
    def empty(cls, next_offset: int) -> RecordChunk:
        """A chunk without records."""
        return cls(memoryview(b""), [], next_offset)
