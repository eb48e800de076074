"""When a data interval's boundary is closed in a partition, and at which offset. Pure: what was seen goes in.

A boundary is a time T; closed means that T may be pinned to an offset for good (docs/intervals.md):

    rule        T is closed in a partition when                                       and lies at
    ----------  --------------------------------------------------------------------  ------------------------------
    pinned      the ledger has it; or a later T; or the partition came after T was     as pinned; its first offset
                pinned for the others
    watermark   a record at or after T + allowed_lateness is decided                   the first record at or after T
    idle        no such record, the log's end is decided, another partition has        the same, or the log's end
                passed T, and T + idle_after is over
    max-wait    T + max_wait is over                                                   the same, or the last stable
                                                                                       offset

A record whose time lies further ahead of the clock than `max_ahead` closes nothing and is no boundary: one record with
a broken clock would end every interval until its time has come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.interval import IntervalRules
from kseg.etl.config.times import format_duration, format_millis

Rule = Literal["pinned", "watermark", "idle", "max-wait"]

OBSERVATION_MS = 60_000
"""How long after an answer records may have come that change it, at most: whoever waits asks again by then."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of one partition with regard to one boundary.

    pinned: as the ledger has it. floor, ceiling: pinned boundaries of the nearest earlier and later times; offsets.
    newcomer: where the partition begins, if the boundary is pinned for others and it was not there then.
    first: the first decided record at or after T. passed: whether one at or after T + allowed_lateness is decided.
    ahead: offset and time (ms) of a record that was passed over because its time lies too far ahead.
    """

    last_stable: int
    high_watermark: int
    pinned: int | None = None
    floor: int = 0
    ceiling: int | None = None
    newcomer: int | None = None
    first: int | None = None
    passed: bool = False
    ahead: tuple[int, int] | None = None

    @property
    def settled(self) -> bool:
        """The ledger alone tells that the boundary is closed."""
        return self.pinned is not None or self.newcomer is not None or self.ceiling is not None


@dataclass(frozen=True, slots=True)
class Decision:
    """One partition's answer. offset, rule: None while it is open. retry_at: when the clock alone may close it (ms)."""

    offset: int | None
    rule: Rule | None
    reason: str
    retry_at: int | None = None

    @property
    def closed(self) -> bool:
        return self.offset is not None


def evaluate(
    time_ms: int, sights: Mapping[TopicPartition, Observation], rules: IntervalRules, now_ms: int
) -> dict[TopicPartition, Decision]:
    """A verdict for every partition of a boundary. All times are milliseconds since 1970."""
    passed = {tp for tp, sight in sights.items() if sight.passed or sight.settled}
    return {tp: _judge(time_ms, sight, rules, now_ms, bool(passed - {tp})) for tp, sight in sights.items()}


def _judge(time_ms: int, sight: Observation, rules: IntervalRules, now_ms: int, others_passed: bool) -> Decision:
    if sight.pinned is not None:
        return Decision(sight.pinned, "pinned", "pinned before")
    if sight.newcomer is not None:
        told = "the partition came after this boundary was pinned: it begins at its first offset"
        return Decision(_within(sight, sight.newcomer), "pinned", told)
    if sight.ceiling is not None:
        first = sight.ceiling if sight.first is None else sight.first
        return Decision(_within(sight, first), "pinned", "a later boundary is pinned")
    if now_ms < time_ms:
        return Decision(None, None, f"{format_millis(time_ms)} lies in the future", time_ms)
    if sight.first is not None and sight.first > sight.last_stable:
        return Decision(None, None, "records came while it was looked at", now_ms + 1000)
    if sight.passed and sight.first is not None:
        late = f" and {format_duration(rules.allowed_lateness)}" if rules.allowed_lateness else ""
        return Decision(_within(sight, sight.first), "watermark", f"a record at or after the boundary{late} is there")
    end = sight.last_stable if sight.first is None else sight.first
    decided = sight.last_stable >= sight.high_watermark
    idle_at, wait_until = time_ms + rules.idle_ms, time_ms + rules.max_wait_ms
    if others_passed and decided and now_ms >= idle_at:
        return Decision(_within(sight, end), "idle", "no record closes it, and other partitions have passed it")
    if now_ms >= wait_until:
        return Decision(_within(sight, end), "max-wait", f"{format_duration(rules.longest_wait)} are over")
    deadlines = [wait_until, *([idle_at] if others_passed and decided else [])]
    return Decision(None, None, _what_is_missing(sight, rules, decided), min(deadlines))


def _within(sight: Observation, offset: int) -> int:
    """Boundaries ascend with their times, whichever was pinned first."""
    offset = max(offset, sight.floor)
    return offset if sight.ceiling is None else min(offset, sight.ceiling)


def _what_is_missing(sight: Observation, rules: IntervalRules, decided: bool) -> str:
    late = f" + {format_duration(rules.allowed_lateness)}" if rules.allowed_lateness else ""
    told = f"no record at or after the boundary{late} has come"
    if not decided:
        told += (
            f", or an open transaction lies before it: the last stable offset is {sight.last_stable}, "
            f"the high watermark {sight.high_watermark}"
        )
    if sight.ahead is not None:
        told += f"; the record at offset {sight.ahead[0]} has the time {format_millis(sight.ahead[1])} and is left out"
    return told
