"""Decides whether a data interval's boundary is closed in a partition, and at which offset. Pure functions.

A boundary is a time T. If it is closed, T may be pinned to an offset (docs/guides/intervals.md):

    rule        T is closed in a partition when                                       and is at
    ----------  --------------------------------------------------------------------  ------------------------------
    pinned      the ledger has it; or a later T; or the partition came after T was     as pinned; its first offset
                pinned for the others
    watermark   a record at or after T + allowed_lateness is decided                   the first record at or after T
    idle        no such record, the log's end is decided, another partition has        the same, or the log's end
                passed T, and T + idle_after is over
    max-wait    T + max_wait is over                                                   the same, or the last stable
                                                                                       offset

A record whose timestamp is further ahead of the clock than `max_ahead` closes no boundary and is no boundary:
otherwise one record of a wrong clock would end every interval until its timestamp.

If the log no longer begins at offset 0, retention may have deleted earlier records at or after T. A boundary above 0 is
proved if

    the log still has a record before the boundary that is older than T,
    or all offsets that the log no longer has, from the nearest earlier boundary on, have landed.

At any other boundary records are possibly lost: it is closed, but must not be pinned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.interval import IntervalRules
from kseg.etl.config.times import format_duration, format_millis
from kseg.etl.ledger.ranges import EMPTY, OffsetSet

Rule = Literal["pinned", "watermark", "idle", "max-wait"]

OBSERVATION_MS = 60_000
"""The longest time after which an open interval is checked again: records may have come that close it."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of one partition for one boundary.

    pinned: the offset in the ledger. floor, ceiling: pinned offsets of the nearest earlier and later times.
    newcomer: the partition's first offset, if the boundary was pinned for other partitions before it was added.
    first: the first record at or after T, below the last stable offset. passed: whether there is such a record at or
    after T + allowed_lateness. Both are data records: no markers, and under read_committed no aborted records.
    ahead: offset and timestamp (ms) of a record that was ignored because it is too far ahead.
    gone: offsets below the log's start that have not landed, between the floor and the ceiling.
    older: whether the log has a record before `first` that is older than T.
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
    gone: OffsetSet = EMPTY
    older: bool = False

    @property
    def settled(self) -> bool:
        """Whether the ledger alone shows that the boundary is closed."""
        return self.pinned is not None or self.newcomer is not None or self.ceiling is not None


@dataclass(frozen=True, slots=True)
class Decision:
    """The result for one partition. offset, rule: None while it is open. retry_at: when time alone may close it (ms).

    possible_loss: offsets that the log no longer has and that may belong after T; if there are any, the boundary is not
    proved and must not be pinned.
    """

    offset: int | None
    rule: Rule | None
    reason: str
    retry_at: int | None = None
    possible_loss: OffsetSet = EMPTY

    @property
    def closed(self) -> bool:
        return self.offset is not None


def evaluate(
    time_ms: int, observations: Mapping[TopicPartition, Observation], rules: IntervalRules, now_ms: int
) -> dict[TopicPartition, Decision]:
    """A decision for each partition of a boundary. All times are milliseconds since 1970."""
    passed = {tp for tp, seen in observations.items() if seen.passed or seen.settled}
    decisions = {}
    for tp, seen in observations.items():
        others_passed = len(passed) > (tp in passed)
        decision = _evaluate_one(time_ms, seen, rules, now_ms, others_passed)
        proved = seen.pinned is not None or seen.older or not seen.gone
        decisions[tp] = decision if proved or not decision.closed else replace(decision, possible_loss=seen.gone)
    return decisions


def _evaluate_one(time_ms: int, seen: Observation, rules: IntervalRules, now_ms: int, others_passed: bool) -> Decision:
    if seen.pinned is not None:
        return Decision(seen.pinned, "pinned", "pinned before")
    if seen.newcomer is not None:
        reason = "the partition was added after this boundary was pinned: it begins at its first offset"
        return Decision(_within(seen, seen.newcomer), "pinned", reason)
    if seen.ceiling is not None:
        first = seen.ceiling if seen.first is None else seen.first
        return Decision(_within(seen, first), "pinned", "a later boundary is pinned")
    if now_ms < time_ms:
        return Decision(None, None, f"{format_millis(time_ms)} is in the future", time_ms)
    if seen.first is not None and seen.first > seen.last_stable:
        return Decision(None, None, "records arrived during the check", now_ms + 1000)
    if seen.passed and seen.first is not None:
        late = f" + {format_duration(rules.allowed_lateness)}" if rules.allowed_lateness else ""
        return Decision(_within(seen, seen.first), "watermark", f"there is a record at or after the boundary{late}")
    end = seen.last_stable if seen.first is None else seen.first
    decided = seen.last_stable >= seen.high_watermark
    idle_at, wait_until = time_ms + rules.idle_ms, time_ms + rules.max_wait_ms
    if others_passed and decided and now_ms >= idle_at:
        return Decision(_within(seen, end), "idle", "no record closes it, and other partitions have passed it")
    if now_ms >= wait_until:
        return Decision(
            _within(seen, end), "max-wait", f"the longest wait, {format_duration(rules.longest_wait)}, is over"
        )
    deadlines = [wait_until, *([idle_at] if others_passed and decided else [])]
    return Decision(None, None, _what_is_missing(seen, rules, decided), min(deadlines))


def _within(seen: Observation, offset: int) -> int:
    """Limit an offset so that boundaries ascend with their times, in whatever order they are pinned."""
    offset = max(offset, seen.floor)
    return offset if seen.ceiling is None else min(offset, seen.ceiling)


def _what_is_missing(seen: Observation, rules: IntervalRules, decided: bool) -> str:
    late = f" + {format_duration(rules.allowed_lateness)}" if rules.allowed_lateness else ""
    reason = f"there is no record at or after the boundary{late} yet"
    if not decided:
        reason += (
            f", or an open transaction lies before it: the last stable offset is {seen.last_stable}, "
            f"the high watermark {seen.high_watermark}"
        )
    if seen.ahead is not None:
        offset, millis = seen.ahead
        reason += f"; the record at offset {offset} has the time {format_millis(millis)} and is ignored"
    return reason
