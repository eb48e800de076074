"""Boundaries at a real broker: what closes them, what passes for no sign, and partitions that come later."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from kseg.client.protocol.partition import TopicPartition as Partition
from kseg.etl.config.times import epoch_millis
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import acquire
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import Ledger
from kseg.etl.operations.interval import interval_status
from kseg.etl.planning.backfill_request import parse_interval
from kseg.etl.planning.interval import BoundaryReader, from_ledger
from kseg.etl.run.context import JobContext
from kseg.etl.source.resolve import LogBounds

DAY = datetime(2026, 1, 1, tzinfo=UTC)
NOON = int((DAY + timedelta(hours=12)).timestamp() * 1000)
A_DAY = "2026-01-01T00:00:00Z/2026-01-02T00:00:00Z"
HOUR = 3_600_000


def told(job: Any, interval: str = A_DAY) -> list[tuple[int | None, str | None]]:
    document = interval_status(job, parse_interval(interval)).to_json()
    assert document["closed"] == all(one["closed"] for one in document["partitions"])
    assert (document["retry_after"] == 0) == document["closed"]
    return [(one["boundary"], one["rule"]) for one in document["partitions"]]


def test_what_closes_a_day(kafka: Any, write: Any, job_of: Any) -> None:
    topic = kafka.topic(3, {"retention.ms": "-1"})
    for_ever = "36500d"
    write(topic, 0, NOON, NOON, NOON + 24 * HOUR)
    write(topic, 1, NOON)
    assert told(job_of(topic, max_wait=for_ever)) == [(2, "watermark"), (1, "idle"), (0, "idle")]
    assert told(job_of(topic, max_wait=for_ever, idle_after=for_ever)) == [(2, "watermark"), (None, None), (None, None)]
    assert told(job_of(topic)) == [(2, "watermark"), (1, "idle"), (0, "idle")]
    late = job_of(topic, allowed_lateness="13h", idle_after=for_ever, max_wait=for_ever)
    assert told(late) == [(None, None)] * 3, "a record at noon is not 13 hours after midnight"
    write(topic, 0, NOON + 26 * HOUR)
    assert told(late) == [(2, "watermark"), (None, None), (None, None)]
    assert not Path(late.ledger).exists(), "nothing was pinned"


def test_a_boundary_to_come_is_worth_no_question_before(kafka: Any, write: Any, job_of: Any) -> None:
    topic = kafka.topic(1)
    write(topic, 0, int(time.time() * 1000))
    soon = (datetime.now(UTC) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = interval_status(job_of(topic), parse_interval(f"2026-01-01T00:00:00Z/{soon}"))
    assert not status.closed
    assert 7000 < status.retry_after <= 7200
    assert "future" in status.to_json()["partitions"][0]["reason"]


def test_a_record_far_ahead_closes_nothing_and_is_no_boundary(kafka: Any, write: Any, job_of: Any) -> None:
    topic = kafka.topic(1, {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)})
    in_2099 = int(datetime(2099, 1, 1, tzinfo=UTC).timestamp() * 1000)
    write(topic, 0, NOON, in_2099, NOON + HOUR)
    waiting = job_of(topic, max_wait="36500d")
    assert told(waiting) == [(None, None)]
    assert "2099" in interval_status(waiting, parse_interval(A_DAY)).to_json()["partitions"][0]["reason"]
    assert told(job_of(topic)) == [(3, "max-wait")], "the day has all three"
    write(topic, 0, NOON + 24 * HOUR, NOON + 48 * HOUR)
    assert told(waiting) == [(3, "watermark")]
    assert told(waiting, "2026-01-02T00:00:00Z/2026-01-03T00:00:00Z") == [(4, "watermark")]


def test_a_partition_that_comes_later_begins_where_the_others_were_pinned(
    kafka: Any, write: Any, job_of: Any, tmp_path: Path
) -> None:
    topic = kafka.topic(1, {"retention.ms": "-1"})
    job = job_of(topic)
    write(topic, 0, NOON, NOON + 24 * HOUR)
    midnight = epoch_millis(DAY + timedelta(days=1))
    with JobContext.open(job) as context:
        state, bounds = context.clients.read_state(), context.inputs.snapshot().bounds
        decisions = BoundaryReader(context.clients.logs, job).offsets(state, bounds, midnight, ends=True)
        pinned = {tp: decision.offset for tp, decision in decisions.items() if decision.offset is not None}
    ledger = Ledger.open(job.ledger)
    with acquire(ledger, job.name) as lease:
        lease.transition(lambda _: [ev.BoundaryPinned(time_ms=midnight, offsets=pinned)])
    kafka.add_partitions(topic, 2)
    late = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for at in (NOON, NOON + 25 * HOUR):
        late.produce(topic, b"v", partition=1, timestamp=at)
    assert late.flush(60) == 0
    second = interval_status(job, parse_interval("2026-01-02T00:00:00Z/2026-01-03T00:00:00Z"))
    starts = {tp.partition: (verdict.offset, verdict.rule) for tp, verdict in second.starts.items()}
    assert starts == {0: (1, "pinned"), 1: (0, "pinned")}, "its record of the first day is nobody else's"


def test_a_partition_whose_offsets_were_reopened_is_no_newcomer() -> None:
    cut, other = Partition("orders", 0), Partition("orders", 1)
    state = JobState(job="j", ledger_id="l", boundaries={(other, NOON): 7, (cut, NOON - HOUR): 30})
    bounds = {cut: LogBounds(0, 60, 60), other: LogBounds(0, 60, 60)}
    assert from_ledger(state, NOON, bounds)[cut].newcomer == 0
    seen = from_ledger(replace(state, reopened={cut: (35,)}), NOON, bounds)[cut]
    assert (seen.pinned, seen.newcomer, seen.floor) == (None, None, 30), "its log is asked"
