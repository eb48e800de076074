"""The result of one task: counts, gaps, lost ranges and timings. It is sent to the driver as JSON.

A complete range obeys `data + control + aborted + unreadable + absent == end - start`; unreadable offsets are those of
damage (`on_corruption: quarantine`). The sum can fail: absent offsets are counted apart from decoding, by batch headers
(compaction) and by what the source says is gone (`on_data_loss: record`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.source.errors import LossReason
from kseg.etl.telemetry.cost import TaskCost
from kseg.segment_reader.log.damage.damage import Damage

# A compacted topic may have a gap for every other record; the count has all of them, the list the first ones.
MAX_GAPS = 1000
MAX_DAMAGES = 1000
ALL_GAPS = 500_000
"""What a task of a replacement may list, which has to know all: some 10 MB of JSON."""


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets `[first, last)` that could not be read any more, and why."""

    first: int
    last: int
    reason: LossReason


@dataclass(frozen=True, slots=True)
class RangeResult:
    """One range, read to its end.

    data, control, aborted, absent, unreadable: offsets by kind. rows: that were handed on, before any step.
    damages: damaged parts that this range reports (of two ranges that share one, one reports it); the first
        `MAX_DAMAGES` of `damage_count`. kept: files that their bytes, and dead letters, were written to, as their
        writers returned them.
    batches, bytes: record batches seen, and bytes of the answers that were fetched (also those beyond the range).
    gaps: absent offsets as `(first, last exclusive)`, without the lost ones; the first `MAX_GAPS` of them.
    gap_count: how many gaps there are.
    high_watermark, last_stable_offset, log_start: of the last Fetch response; -1 where none was needed.
    fetches, waiting, decoding: answers, seconds waited for them, seconds spent decoding.
    throttled: for each broker whose quota throttled the client, its id and the seconds.
    rows_out: rows after the Arrow steps; None where there was no such step.
    late: of `data`, records whose time lies before what the range was due for; 0 where none are marked.
    decoded: of `rows`, what became of them in decoding, counted there; None where nothing is set aside in it.
    routed: decoded rows by route, counted there; None where topics decide on tables.
    bad_records: the first of those that have no row, a line each.
    cost: what the attempt cost, and where; None where it was not measured.
    """

    index: int
    topic: str
    partition: int
    start: int
    end: int
    data: int = 0
    control: int = 0
    aborted: int = 0
    absent: int = 0
    rows: int = 0
    batches: int = 0
    bytes: int = 0
    gaps: tuple[tuple[int, int], ...] = ()
    gap_count: int = 0
    lost: tuple[LostRange, ...] = ()
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start: int = -1
    fetches: int = 0
    waiting: float = 0.0
    decoding: float = 0.0
    throttled: tuple[tuple[int, float], ...] = ()
    rows_out: int | None = None
    unreadable: int = 0
    damages: tuple[Damage, ...] = ()
    damage_count: int = 0
    kept: tuple[str, ...] = ()
    late: int = 0
    decoded: DecodingCounts | None = None
    routed: dict[str, int] | None = None
    bad_records: tuple[str, ...] = ()
    cost: TaskCost | None = None

    @property
    def accounted(self) -> bool:
        """Whether every offset of the range is accounted for."""
        return not self.mismatch

    @property
    def mismatch(self) -> str | None:
        """Which counts of the range do not agree; None where all do."""
        counted = self.data + self.control + self.aborted + self.unreadable + self.absent
        length = self.end - self.start
        if counted != length:
            what = "were not decoded, and are not absent" if counted < length else "are counted twice"
            return (
                f"{abs(length - counted)} offsets {what}: records {self.data}, control {self.control}, aborted "
                f"{self.aborted}, unreadable {self.unreadable}, absent by the headers of batches {self.absent}"
            )
        if self.rows != self.data:
            return f"the decoder counted {self.data} records, and gave {self.rows} rows"
        if self.decoded is not None and self.decoded.total != self.rows:
            return f"{self.rows} records came to `decode`, and {self.decoded.total} left it: {self.decoded}"
        if self.decoded is not None and self.routed is not None and sum(self.routed.values()) != self.decoded.decoded:
            return (
                f"{self.decoded.decoded} rows were decoded, and {sum(self.routed.values())} have a route: {self.routed}"
            )
        return None

    @property
    def what_was_read(self) -> tuple[Any, ...]:
        """All that two attempts of one task must agree on."""
        return (
            *(self.index, self.topic, self.partition, self.start, self.end),
            *(self.data, self.control, self.aborted, self.absent, self.rows, self.rows_out, self.late),
            *(self.gaps, self.gap_count, self.lost),
            *(self.unreadable, self.damages, self.damage_count),
            *(self.decoded, self.routed, self.bad_records),
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RangeResult:
        """The inverse of `to_json`."""
        gaps = tuple((int(first), int(last)) for first, last in data["gaps"])
        lost = tuple(LostRange(**entry) for entry in data["lost"])
        throttled = tuple((int(broker), float(seconds)) for broker, seconds in data["throttled"])
        damages = tuple(Damage(**entry) for entry in data["damages"])
        kept = tuple(data["kept"])
        cost = TaskCost.from_json(data["cost"]) if data["cost"] is not None else None
        decoded = DecodingCounts(**data["decoded"]) if data["decoded"] is not None else None
        bad = {"decoded": decoded, "bad_records": tuple(data["bad_records"])}
        parsed = {"gaps": gaps, "lost": lost, "throttled": throttled, "damages": damages, "kept": kept, "cost": cost}
        return cls(**{**data, **parsed, **bad})
