"""A data interval's boundaries: whether they are closed, and which offsets they mean."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.interval import IntervalRules
from kseg.etl.config.job import Job
from kseg.etl.config.times import epoch_millis, format_instant, format_millis
from kseg.etl.errors import RetriableFailure
from kseg.etl.ledger.ranges import OffsetRange
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
            remedy="run it again later; `interval:` in the job file says how long is waited (docs/intervals.md)",
            boundary=format_millis(time_ms),
        )

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "retry_after": self.retry_after, "open": self.open}


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
                }
                for tp, end in sorted(self.ends.items())
            ],
        }


def retry_after(decisions: Collection[Decision], time_ms: int, now_ms: int) -> int:
    """Whole seconds until it is worth asking again about a boundary, at least 1.

    One that lies in the future is worth no question before; one of the past may be closed by any record.
    """
    waits = [v.retry_at - now_ms for v in decisions if v.retry_at is not None]
    millis = time_ms - now_ms if now_ms < time_ms else min([*waits, OBSERVATION_MS])
    return max(1, -(-millis // 1000))


def interval_status(
    logs: Logs,
    job: Job,
    state: JobState,
    bounds: Mapping[TopicPartition, LogBounds],
    interval: Interval,
) -> IntervalStatus:
    """Whether an interval is closed. bounds: of all of the job's partitions. Raises as `Logs` does."""
    now_ms = _now_ms()
    starts, ends = (
        boundary_decisions(logs, job, state, bounds, epoch_millis(instant), now_ms, ends=ends)
        for instant, ends in zip(interval, (False, True), strict=True)
    )
    return IntervalStatus(job.name, interval, starts, ends, now_ms)


def boundary_offsets(
    logs: Logs,
    job: Job,
    state: JobState,
    bounds: Mapping[TopicPartition, LogBounds],
    time_ms: int,
    *,
    ends: bool,
) -> dict[TopicPartition, int]:
    """The offset that a boundary means in each partition. Raises IntervalOpen where it is open in one of them."""
    now_ms = _now_ms()
    decisions = boundary_decisions(logs, job, state, bounds, time_ms, now_ms, ends=ends)
    if not all(decision.closed for decision in decisions.values()):
        raise IntervalOpen(time_ms, decisions, now_ms)
    return {tp: decision.offset for tp, decision in decisions.items() if decision.offset is not None}


def boundary_decisions(
    logs: Logs,
    job: Job,
    state: JobState,
    bounds: Mapping[TopicPartition, LogBounds],
    time_ms: int,
    now_ms: int,
    *,
    ends: bool,
) -> dict[TopicPartition, Decision]:
    """Observe every partition, and decide. bounds: of all partitions in question. ends: see `AtTime`."""
    rules = job.interval or IntervalRules()
    known = from_ledger(state, time_ms, bounds)
    unknown = [tp for tp, observation in known.items() if observation.pinned is None and observation.newcomer is None]
    if unknown and now_ms >= time_ms:
        known |= _observe(logs, {tp: known[tp] for tp in unknown}, time_ms, rules, now_ms, ends=ends)
    return evaluate(time_ms, known, rules, now_ms)


def from_ledger(
    state: JobState, time_ms: int, bounds: Mapping[TopicPartition, LogBounds]
) -> dict[TopicPartition, Observation]:
    """What is known of a boundary before the logs are asked about it."""
    around = state.neighbours(time_ms)
    pinned = {tp: offset for (tp, at), offset in state.boundaries.items() if at == time_ms}
    observations = {}
    for tp, of_one in bounds.items():
        floor, ceiling = around.get(tp, (0, None))
        # All partitions that there are get a boundary at once: one without it was not there then.
        newcomer = state.bases.get(tp, of_one.start) if pinned and tp not in pinned else None
        stable, high_watermark = of_one.last_stable, of_one.high_watermark
        observations[tp] = Observation(stable, high_watermark, pinned.get(tp), floor, ceiling, newcomer)
    return observations


def _observe(
    logs: Logs,
    observations: Mapping[TopicPartition, Observation],
    time_ms: int,
    rules: IntervalRules,
    now_ms: int,
    *,
    ends: bool,
) -> dict[TopicPartition, Observation]:
    """The observations, completed from the logs' records at or after the boundary."""
    limit = now_ms + rules.max_ahead_ms
    partitions = list(observations)
    first = logs.first_at(time_ms, partitions, ends=ends)
    passing = logs.first_at(time_ms + rules.lateness_ms, partitions, ends=ends) if rules.lateness_ms else first
    completed = {}
    for tp, observation in observations.items():
        ahead = next((f for f in (first[tp], passing[tp]) if f is not None and f.timestamp > limit), None)
        offset = found.offset if (found := first[tp]) is not None and found is not ahead else None
        passed = passing[tp] is not None
        if ahead is not None:
            begin, end = max(observation.floor, ahead.offset), observation.last_stable
            offset, passed = _search(logs, tp, begin, end, time_ms, rules.lateness_ms, limit, offset)
        record = (ahead.offset, ahead.timestamp) if ahead is not None else None
        completed[tp] = replace(observation, first=offset, passed=passed, ahead=record)
    return completed


def _search(
    logs: Logs,
    tp: TopicPartition,
    start: int,
    end: int,
    time_ms: int,
    lateness_ms: int,
    limit: int,
    first: int | None,
) -> tuple[int | None, bool]:
    """The first record at or after a time, and whether one is there that passes it, leaving out those far ahead.

    A lookup by time finds only the first record, which is one far ahead: the records after it are read, up to the first
    that counts. first: where it is known already.
    """
    import pyarrow.compute as pc

    from kseg.etl.source.reader import (  # its compiled code takes longer to load than all else here
        DecodeOptions,
        read_range,
    )

    planned = [OffsetRange(tp.topic, tp.partition, start, end)] if start < end else []
    for task in logs.tasks(planned, topics={tp.topic: None}):
        for batch in read_range(task, logs.origin, DecodeOptions(on_data_loss="record")):
            times = pc.divide(batch.column("timestamp").cast("int64"), 1000)
            counts = pc.and_(pc.greater_equal(times, time_ms), pc.less_equal(times, limit))
            hits = pc.indices_nonzero(counts)
            if first is None and len(hits):
                first = batch.column("offset")[hits[0].as_py()].as_py()
            if pc.any(pc.and_(counts, pc.greater_equal(times, time_ms + lateness_ms))).as_py():
                return first, True
    return first, False


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
