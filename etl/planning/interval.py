"""A data interval's boundaries: whether they are closed, and which offsets they mean."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.interval import IntervalRules
from kseg.etl.config.job import Job
from kseg.etl.config.times import epoch_millis, format_instant, format_millis
from kseg.etl.errors import Refused, RetriableFailure, listed
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.backfill_request import Interval
from kseg.etl.planning.watermark import OBSERVATION_MS, Decision, Observation, evaluate
from kseg.etl.source.logs import Logs
from kseg.etl.source.resolve import LogBounds

_SHOWN = 10


class IntervalOpen(RetriableFailure):
    """A boundary that cannot be pinned yet. retry_after: seconds, after which to ask again.

    open: what each partition waits for.
    """

    def __init__(self, time_ms: int, decisions: Mapping[TopicPartition, Decision], now_ms: int) -> None:
        self.retry_after = retry_after(decisions.values(), time_ms, now_ms)
        self.open = {f"{tp.topic}:{tp.partition}": v.reason for tp, v in sorted(decisions.items()) if not v.closed}
        reasons = "; ".join(f"{partition}: {reason}" for partition, reason in list(self.open.items())[:_SHOWN])
        more = f"; and {len(self.open) - _SHOWN} more partitions" if len(self.open) > _SHOWN else ""
        super().__init__(
            f"the boundary {format_millis(time_ms)} is not closed yet. {reasons}{more}",
            remedy="run it again later; `interval:` in the job file sets how long to wait (docs/guides/intervals.md)",
            boundary=format_millis(time_ms),
        )

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "retry_after": self.retry_after, "open": self.open}


class BoundaryUnproved(Refused):
    """A boundary that may lie before a log's start, and records of the interval with it.

    partitions: the offsets that are a possible loss.
    """

    def __init__(self, time_ms: int, partitions: Mapping[TopicPartition, OffsetSet]) -> None:
        self.partitions = dict(partitions)
        ranges = [str(r) for tp, offsets in partitions.items() for r in offsets.ranges(tp)]
        self._say(
            "boundary-unproved",
            {"ranges": listed(ranges)},
            topic=next(iter(partitions)).topic,
            partition=next(iter(partitions)).partition,
            boundary=format_millis(time_ms),
        )


@dataclass(frozen=True, slots=True)
class IntervalStatus:
    """Whether an interval may run. starts, ends: both boundaries, by partition. now_ms: when it was asked."""

    job: str
    interval: Interval
    starts: Mapping[TopicPartition, Decision]
    ends: Mapping[TopicPartition, Decision]
    now_ms: int

    @property
    def closed(self) -> bool:
        return all(decision.closed for of_side in (self.starts, self.ends) for decision in of_side.values())

    @property
    def retry_after(self) -> int:
        """Seconds; 0 where it is closed."""
        if self.closed:
            return 0
        decisions = [*self.starts.values(), *self.ends.values()]
        return retry_after(decisions, epoch_millis(self.interval.end), self.now_ms)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys; `boundary`, `rule` and `reason` are of the interval's end."""
        return {
            "job": self.job,
            "interval": [format_instant(instant) for instant in self.interval],
            "closed": self.closed,
            "retry_after": self.retry_after,
            "partitions": [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "start": self.starts[tp].offset,
                    "boundary": end.offset,
                    "closed": end.closed and self.starts[tp].closed,
                    "rule": end.rule,
                    "reason": end.reason if self.starts[tp].closed else self.starts[tp].reason,
                    "possible_loss": (self.starts[tp].possible_loss.union(end.possible_loss)).to_json(),
                }
                for tp, end in sorted(self.ends.items())
            ],
        }


def retry_after(decisions: Collection[Decision], time_ms: int, now_ms: int) -> int:
    """Whole seconds until it is worth asking again about a boundary, at least 1.

    A boundary in the future is not closed before its time; one in the past may be closed by any record.
    """
    waits = [v.retry_at - now_ms for v in decisions if v.retry_at is not None]
    millis = time_ms - now_ms if now_ms < time_ms else min([*waits, OBSERVATION_MS])
    return max(1, -(-millis // 1000))


def from_ledger(
    state: JobState, time_ms: int, bounds: Mapping[TopicPartition, LogBounds]
) -> dict[TopicPartition, Observation]:
    """The facts about a boundary that are known before the logs are asked about it."""
    around = state.neighbours(time_ms)
    pinned = {tp: offset for (tp, at), offset in state.boundaries.items() if at == time_ms}
    observations = {}
    for tp, of_one in bounds.items():
        floor, ceiling = around.get(tp, (0, None))
        gone_to = of_one.start if ceiling is None else min(of_one.start, ceiling)
        # All partitions that there are get a boundary at once, or a note that it is unproved: one that has neither was
        # not there then. Its first offset is the log's, not the job's base: a group's offset may be its base, and
        # records before that belong to this interval all the same. A partition whose offsets were reopened was there,
        # and has lost its boundary.
        was_there = (tp, time_ms) in state.unproved or state.generation(tp) > 0
        came_later = bool(pinned) and tp not in pinned and not was_there
        observations[tp] = Observation(
            of_one.last_stable,
            of_one.high_watermark,
            pinned.get(tp),
            floor,
            ceiling,
            newcomer=of_one.start if came_later else None,
            gone=OffsetSet.single(floor, gone_to).subtract(state.landed(tp)),
        )
    return observations


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The facts about a boundary in one partition's log; the attributes are those of `Observation`."""

    first: int | None
    passed: bool
    ahead: tuple[int, int] | None
    older: bool


@dataclass(slots=True)
class BoundaryReader:
    """Decides boundaries. What the logs say of one is read once for each snapshot: a plan that is decided again, since
    another run has written to the ledger meanwhile, asks no logs again."""

    logs: Logs
    job: Job
    _bounds: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    _read: dict[tuple[int, bool], dict[TopicPartition, LogFacts]] = field(default_factory=dict)

    @property
    def rules(self) -> IntervalRules:
        return self.job.interval or IntervalRules()

    def decisions(
        self,
        state: JobState,
        bounds: Mapping[TopicPartition, LogBounds],
        time_ms: int,
        now_ms: int,
        *,
        ends: bool,
    ) -> dict[TopicPartition, Decision]:
        """Observe every partition, and decide. bounds: of all partitions in question. ends: see `AtTime`."""
        known = from_ledger(state, time_ms, bounds)
        unknown = {tp: seen for tp, seen in known.items() if seen.pinned is None and seen.newcomer is None}
        if unknown and now_ms >= time_ms:
            facts = self._facts(unknown, bounds, time_ms, now_ms, ends=ends)
            for tp, seen in unknown.items():
                of_log = facts[tp]
                known[tp] = replace(
                    seen, first=of_log.first, passed=of_log.passed, ahead=of_log.ahead, older=of_log.older
                )
        return evaluate(time_ms, known, self.rules, now_ms)

    def offsets(
        self, state: JobState, bounds: Mapping[TopicPartition, LogBounds], time_ms: int, *, ends: bool
    ) -> dict[TopicPartition, Decision]:
        """The `decisions` at this moment, when every partition's boundary is closed.

        Raises:
            IntervalOpen: it is open in one of them.
            BoundaryUnproved: retention may have deleted earlier records, and `on_data_loss` is `fail`.
        """
        now_ms = now_millis()
        decisions = self.decisions(state, bounds, time_ms, now_ms, ends=ends)
        if not all(decision.closed for decision in decisions.values()):
            raise IntervalOpen(time_ms, decisions, now_ms)
        if self.job.source.on_data_loss == "fail":
            refuse_unproved(state, time_ms, decisions)
        return decisions

    def _facts(
        self,
        observations: Mapping[TopicPartition, Observation],
        bounds: Mapping[TopicPartition, LogBounds],
        time_ms: int,
        now_ms: int,
        *,
        ends: bool,
    ) -> dict[TopicPartition, LogFacts]:
        if bounds is not self._bounds:
            self._bounds, self._read = bounds, {}
        read = self._read.setdefault((time_ms, ends), {})
        missing = {tp: seen for tp, seen in observations.items() if tp not in read}
        if missing:
            read |= self._read_logs(missing, bounds, time_ms, now_ms, ends=ends)
        return read

    def _read_logs(
        self,
        observations: Mapping[TopicPartition, Observation],
        bounds: Mapping[TopicPartition, LogBounds],
        time_ms: int,
        now_ms: int,
        *,
        ends: bool,
    ) -> dict[TopicPartition, LogFacts]:
        """From the logs' data records at or after the boundary, and where they begin late those before it."""
        # It needs pyarrow, which takes longer to load than all else here.
        from kseg.etl.source.record_times import DataRecords, RecordAddress

        source, rules = self.job.source, self.rules
        records = DataRecords(self.logs, source.isolation_level, source.on_corruption)
        limit = now_ms + rules.max_ahead_ms
        partitions = list(observations)
        first = self.logs.first_at(time_ms, partitions, ends=ends)
        passing = self.logs.first_at(time_ms + rules.lateness_ms, partitions, ends=ends) if rules.lateness_ms else first
        found = {RecordAddress(tp, one.offset) for of in (first, passing) for tp, one in of.items() if one is not None}
        data = records.at(found)
        facts = {}
        for tp, seen in observations.items():
            asked = [
                (one, one is not None and data.get(RecordAddress(tp, one.offset), limit + 1) <= limit)
                for one in (first[tp], passing[tp])
            ]
            (at, at_counts), (_, passed) = asked
            offset = at.offset if at is not None and at_counts else None
            ahead = None
            # A lookup finds one record. Where that does not count, the records behind it are read.
            skipped = next((one.offset for one, counts in asked if one is not None and not counts), None)
            if skipped is not None:
                later, passes, ahead = records.first_passing(
                    tp,
                    max(seen.floor, skipped),
                    seen.last_stable,
                    at=max(0, time_ms) if ends else time_ms,  # an end before 1970 is the first record that has a time
                    passing=time_ms if passed else time_ms + rules.lateness_ms,
                    limit=limit,
                )
                offset, passed = later if offset is None else offset, passed or passes
            facts[tp] = LogFacts(offset, passed, ahead, older=False)
        cut = {
            tp: (bounds[tp].start, seen.last_stable if (at_or_after := facts[tp].first) is None else at_or_after)
            for tp, seen in observations.items()
            if seen.gone
        }
        older = records.older_than(time_ms, cut) if cut else set()
        return {tp: replace(of_one, older=tp in older) for tp, of_one in facts.items()}


def refuse_unproved(state: JobState, time_ms: int, decisions: Mapping[TopicPartition, Decision]) -> None:
    """Raises BoundaryUnproved where a boundary is not proved and this is not on record."""
    unproved = {
        tp: decision.possible_loss
        for tp, decision in sorted(decisions.items())
        if decision.possible_loss and (tp, time_ms) not in state.unproved
    }
    if unproved:
        raise BoundaryUnproved(time_ms, unproved)


def interval_status(
    logs: Logs,
    job: Job,
    state: JobState,
    bounds: Mapping[TopicPartition, LogBounds],
    interval: Interval,
) -> IntervalStatus:
    """Whether an interval is closed. bounds: of all of the job's partitions.

    Raises:
        BoundaryUnproved: it is closed, records of it may be lost, and `on_data_loss` is `fail`.
        whatever `Logs` raises.
    """
    now_ms = now_millis()
    reader = BoundaryReader(logs, job)
    starts, ends = (
        reader.decisions(state, bounds, epoch_millis(instant), now_ms, ends=of_end)
        for instant, of_end in zip(interval, (False, True), strict=True)
    )
    status = IntervalStatus(job.name, interval, starts, ends, now_ms)
    if status.closed and job.source.on_data_loss == "fail":
        for instant, decisions in zip(interval, (starts, ends), strict=True):
            refuse_unproved(state, epoch_millis(instant), decisions)
    return status


def now_millis() -> int:
    """The clock that boundaries are compared with."""
    return time.time_ns() // 1_000_000
