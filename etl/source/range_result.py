"""The result of one task: counts, gaps, lost ranges and timings. It is sent to the driver as JSON.

For a complete range, `data + control + aborted + unreadable + absent == end - start`; unreadable offsets are those of
damage (`on_corruption: quarantine`). This is a real check, because absent offsets are counted independently of
decoding: from batch headers (compaction), and from offsets that the source reports as lost (`on_data_loss: record`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.source.cost import TaskCost
from kseg.etl.source.errors import LossReason
from kseg.segment_reader.log.damage.damage import Damage

# A compacted topic may have a gap for every other record; the count has all of them, the list the first ones.
MAX_GAPS = 1000
MAX_DAMAGES = 1000
ALL_GAPS = 500_000
"""What a task of a replacement may list, which has to know all: some 10 MB of JSON."""


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets `[first, last)` that could no longer be read, and the reason."""

    first: int
    last: int
    reason: LossReason


@dataclass(frozen=True, slots=True)
class RangeResult:
    """One range, read to its end.

    data, control, aborted, absent, unreadable: offsets by kind. rows: rows before any transform step.
    damages: damaged parts that this range reports (only one of two ranges that share a part reports it); the first
        `MAX_DAMAGES` of `damage_count`. kept: files with damaged bytes and dead letters, as returned by their writers.
    batches, bytes: record batches, and bytes of the fetched responses (including records outside of the range).
    gaps: absent offsets as `(first, last exclusive)`, without lost ones; the first `MAX_GAPS`.
    gap_count: the number of gaps.
    high_watermark, last_stable_offset, log_start: from the last Fetch response; -1 if none was needed.
    fetches, waiting, decoding: responses, seconds waited for them, seconds of decoding.
    throttled: seconds for which each broker throttled the client, by broker id.
    rows_out: rows after the Arrow steps; None without such steps.
    late: those of `data` with a timestamp before the range's interval; 0 if late records are not marked.
    decoded: numbers of `rows` by result of decoding; None if decoding cannot set records aside.
    routed: decoded rows by route; None if routes are selected by topic.
    dead_examples, nulled_examples: the first dead letters, and the first rows with nulls in place of what cannot be
        decoded, one line each.
    cost: the attempt's cost and host; None if it was not measured.
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
    dead_examples: tuple[str, ...] = ()
    nulled_examples: tuple[str, ...] = ()
    cost: TaskCost | None = None

    @property
    def accounted(self) -> bool:
        """Whether every offset of the range is accounted for."""
        return not self.mismatch

    @property
    def mismatch(self) -> str | None:
        """The counts of the range that do not agree; None if all agree."""
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
        """All values that must be the same in two attempts of one task."""
        return (
            *(self.index, self.topic, self.partition, self.start, self.end),
            *(self.data, self.control, self.aborted, self.absent, self.rows, self.rows_out, self.late),
            *(self.gaps, self.gap_count, self.lost),
            *(self.unreadable, self.damages, self.damage_count),
            *(self.decoded, self.routed, self.dead_examples, self.nulled_examples),
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
        bad = {name: tuple(data[name]) for name in ("dead_examples", "nulled_examples")}
        parsed = {"gaps": gaps, "lost": lost, "throttled": throttled, "damages": damages, "kept": kept, "cost": cost}
        return cls(**{**data, **parsed, **bad, "decoded": decoded})
