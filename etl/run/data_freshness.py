"""Data freshness: for each partition the offset and the time up to which its table is complete.

    complete_to     the frontier: all readable records before it have landed, or were given up
    oldest          the largest timestamp of the first batch from there on: older records have landed
    seconds         the age of that batch now; 0 if everything readable has landed

Where the batch cannot be read (the account lacks READ) or has no timestamp, the age is unknown, and counts neither as
fresh nor as late.

A partition without lag needs no request. A partition with lag needs one Fetch of a batch's header. If many partitions
have lag, only those with the most lag are fetched: a job that is far behind everywhere is late in any case.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from kseg.client.errors import KafkaError
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import KsegError, listed
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.run.context import JobContext
from kseg.etl.source.logs import UNREADABLE, Logs
from kseg.segment_reader.log.errors import LogFileError

MOST_ASKED: Final = 200


@dataclass(frozen=True, slots=True)
class PartitionFreshness:
    """One partition. lag: readable offsets from `complete_to` on. oldest: ISO 8601, UTC; None without lag, or if the
    batch has no timestamp. seconds: its age; None if it is unknown."""

    topic: str
    partition: int
    complete_to: int
    lag: int
    oldest: str | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Freshness:
    """at: when it was observed, ISO 8601, UTC. limit: `reporting.freshness` in seconds; None if it is not set.
    seconds: the age in the partition that is furthest behind. late: partitions further behind than the limit.
    unknown: partitions with lag whose batch was fetched and gave no time; why: the cause for the first of them.
    not_asked: number of partitions with lag whose batches were not fetched."""

    at: str
    limit: float | None
    seconds: float | None
    late: list[str]
    not_asked: int
    partitions: list[PartitionFreshness]
    unknown: list[str] = field(default_factory=list)
    why: str | None = None


def observed_freshness(context: JobContext, state: JobState) -> Freshness | None:
    """The job's freshness now, for the report of a run that has ended; None if `reporting.freshness` is not set.

    This never fails a run: if brokers cannot be reached, it returns None and reports a message.
    """
    limit = context.job.reporting.freshness
    if limit is None:
        return None
    inputs = context.inputs if context.clients.cluster_or_none is None else context.inputs.at_brokers()
    try:
        found = freshness_of(inputs.logs, inputs.snapshot(), state, limit)
    except (KsegError, KafkaError, LogFileError) as error:
        context.progress.message(f"freshness is not known: {error}")
        return None
    if found.unknown:
        context.progress.message(f"freshness is not known of {listed(found.unknown, most=5)}: {found.why}")
    return found


def freshness_of(logs: Logs, snapshot: SourceSnapshot, state: JobState, limit: timedelta | None) -> Freshness:
    """The freshness of all partitions of a snapshot, those furthest behind first."""
    now = time.time()
    frontiers: dict[TopicPartition, int] = {}
    lags: dict[TopicPartition, int] = {}
    for tp, bounds in snapshot.bounds.items():
        frontier = state.frontier(tp)
        frontiers[tp] = bounds.start if frontier is None else frontier
        lags[tp] = max(0, snapshot.ends[tp] - frontiers[tp])
    behind = sorted((tp for tp, lag in lags.items() if lag), key=lambda tp: lags[tp], reverse=True)
    times: dict[TopicPartition, int] = {}
    unknown: dict[TopicPartition, str] = {}
    for tp in behind[:MOST_ASKED]:
        try:
            written = logs.batch_time(tp, frontiers[tp])
        except UNREADABLE as error:
            unknown[tp] = str(error)
            continue
        if written is None:
            unknown[tp] = f"no batch with a timestamp at offset {frontiers[tp]}"
        else:
            times[tp] = written
    partitions = [_of(tp, frontiers[tp], lag, times, now) for tp, lag in sorted(lags.items())]
    partitions.sort(key=lambda one: (one.seconds if one.seconds is not None else 0.0, one.lag), reverse=True)
    known = [one.seconds for one in partitions if one.seconds is not None]
    longest = limit.total_seconds() if limit is not None else None
    late = [f"{p.topic}-{p.partition}" for p in partitions if longest is not None and (p.seconds or 0.0) > longest]
    return Freshness(
        at=_text(now),
        limit=longest,
        seconds=max(known, default=None),
        late=late,
        not_asked=max(0, len(behind) - MOST_ASKED),
        partitions=partitions,
        unknown=[f"{tp.topic}-{tp.partition}" for tp in unknown],
        why=next(iter(unknown.values()), None),
    )


def _of(
    tp: TopicPartition, frontier: int, lag: int, times: Mapping[TopicPartition, int], now: float
) -> PartitionFreshness:
    written = times.get(tp)
    if not lag:
        seconds: float | None = 0.0
    else:
        seconds = None if written is None else round(max(0.0, now - written / 1000), 3)
    oldest = None if written is None else _text(written / 1000)
    return PartitionFreshness(tp.topic, tp.partition, frontier, lag, oldest, seconds)


def _text(seconds: float) -> str:
    """ISO 8601, UTC. A timestamp outside of the calendar, which a producer may write, is returned as a number."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(seconds)
