"""Runs over intervals of time beside the incremental chain: in whatever order and however many at once, each record
lands once, and the group's offsets move by the contiguous frontier alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.etl.planning.interval import IntervalOpen

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOURS, A_HOUR = 4, 6


def hour(number: int) -> str:
    return (BEGIN + timedelta(hours=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


def hours(first: int, end: int) -> dict[str, str]:
    return {"interval": f"{hour(first)}/{hour(end)}"}


@pytest.fixture
def hourly(records: Any) -> str:
    """Two partitions with some records each hour; partition 0 has one more each hour, and all have a later one."""
    topic: str = records.topic(2, {"retention.ms": "-1"})
    for number in range(HOURS):
        for partition in range(2):
            at = int((BEGIN + timedelta(hours=number, minutes=30)).timestamp() * 1000)
            records.write(topic, partition, A_HOUR + 1 - partition, timestamp=at)
    for partition in range(2):
        records.write(topic, partition, 3)
    return topic


def of_hours(rows: list[Any], first: int, end: int) -> list[Any]:
    bounds = [int((BEGIN + timedelta(hours=number)).timestamp() * 1000) for number in (first, end)]
    return [row for row in rows if bounds[0] <= row[5] < bounds[1]]


def ends_of_hours(topic: str, end: int) -> dict[tuple[str, int], int]:
    return {(topic, 0): end * (A_HOUR + 1), (topic, 1): end * A_HOUR}


def test_intervals_in_any_order_move_the_group_by_the_contiguous_frontier(hourly, home, records):
    job, rows = home(hourly), records.rows(hourly)
    for (first, end), frontier in [((1, 2), 0), ((3, 4), 0), ((0, 1), 2), ((2, 3), 4)]:
        assert job.backfill(**hours(first, end), commit_offsets=True).status == "done"
        assert of_hours(job.rows(), first, end) == of_hours(rows, first, end)
        assert job.group_offsets() == ends_of_hours(hourly, frontier) == job.frontiers()
    assert job.rows() == of_hours(rows, 0, 4)
    version = job.table("first").version()
    assert job.backfill(**hours(1, 2)).status == "nothing-to-do"
    assert job.table("first").version() == version
    report = job.ingest()
    assert report.counts["records"] == 6
    job.assert_complete(runs=5)


def test_the_incremental_chain_leaves_out_what_intervals_have_landed(hourly, home):
    job = home(hourly)
    job.backfill(**hours(1, 3))
    assert job.group_offsets() == {}, "it was not asked to commit"
    report = job.ingest()
    assert [(r.partition, r.start, r.end) for r in report.ranges] == [
        (0, 0, 7),
        (0, 21, 31),
        (1, 0, 6),
        (1, 18, 27),
    ]
    job.assert_complete(runs=2)
    assert job.backfill(**hours(0, 2)).status == "nothing-to-do"
    job.assert_complete(runs=2)


def test_two_intervals_in_parallel(hourly, home, children, records, scale):
    """Two processes; both commit offsets, and may fence each other's transaction."""
    pair = children.start(), children.start()
    for turn in range(scale(2, 20)):
        job = home(hourly)
        go = job.folder / "go"
        for number, child in enumerate(pair):
            request = hours(2 * number, 2 * number + 2) | {"commit_offsets": True}
            command = {"job": str(job.file), "do": "backfill", "request": request, "go": str(go)}
            child.send(command, last=turn == scale(2, 20) - 1)
        for child in pair:
            child.ready()
        go.touch()
        answers = [child.answer() for child in pair]
        assert [answer["exit"] for answer in answers] == [0, 0], answers
        assert job.rows() == of_hours(records.rows(hourly), 0, 4)
        assert job.group_offsets() == ends_of_hours(hourly, 4) == job.frontiers()
        job.ingest()
        job.assert_complete(runs=3)


def test_an_unfinished_interval_keeps_its_boundaries(hourly, home, records):
    """A record that comes late, with a time of long ago, belongs to whoever reads that offset: nobody reads it twice,
    and nobody passes it over."""
    job = home(hourly)
    job.die("plan:after", **hours(3, 4))
    late = records.write(hourly, 0, 1, timestamp=int((BEGIN + timedelta(hours=3, minutes=45)).timestamp() * 1000))
    before = [row for row in records.rows(hourly) if row not in late]
    job.backfill(**hours(3, 4))
    assert job.rows() == of_hours(before, 3, 4)
    job.backfill(**hours(2, 3))
    assert job.rows() == of_hours(before, 2, 4)
    job.ingest()
    job.assert_complete(runs=3)


def test_an_interval_of_records_that_are_gone_in_between_records_the_loss(hourly, home, records):
    job = home(hourly, source={"on_data_loss": "record"})
    job.die("plan:after", **hours(0, 2))
    records.delete_records(hourly, 0, 4)
    job.backfill(**hours(0, 2))
    assert job.rows() == [row for row in of_hours(records.rows(hourly), 0, 2) if row[1] == 1 or row[2] >= 4]
    run = next(iter(job.state.runs.values()))
    assert [(gap.partition, gap.start, gap.end) for gap in run.accounted.gaps] == [(0, 0, 4)]
    assert job.backfill(**hours(0, 2)).status == "nothing-to-do"


def test_an_interval_waits_for_transactions_that_are_open_at_its_end(hourly, home, records):
    writer = Producer(records.settings | {"transactional.id": "open-at-a-boundary", "transaction.timeout.ms": 900_000})
    writer.init_transactions(60)
    writer.begin_transaction()
    writer.produce(hourly, b"undecided", partition=0)
    assert writer.flush(60) == 0
    job = home(hourly, interval={"idle_after": "0s"})
    now = datetime.now(UTC)
    soon = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    records.write(hourly, 1, 1, timestamp=int(now.timestamp() * 1000) + 1)
    with pytest.raises(IntervalOpen, match="open transaction") as caught:
        job.backfill(interval=f"{hour(0)}/{soon}")
    assert list(caught.value.open) == [f"{hourly}:0"], "partition 1 is passed"
    assert caught.value.exit_code == 4
    assert job.backfill(**hours(0, 4)).status == "done"
    writer.commit_transaction(60)
    records.settle(hourly)
    assert job.backfill(interval=f"{hour(0)}/{soon}").status == "done"
    assert of_hours(job.rows(), 0, 4) == of_hours(records.rows(hourly), 0, 4)
