"""Runs over intervals of time beside the incremental chain: in whatever order and however many at once, each record
lands once, and the group's offsets move by the contiguous frontier alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.etl.errors import Refused
from kseg.etl.operations.verify import verify
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


def test_an_interval_that_is_first_asked_for_after_retention_cut_it(hourly, home, records):
    """Its first record at or after the beginning is the log's first one, which proves nothing."""
    records.delete_records(hourly, 0, 10)
    job = home(hourly)
    with pytest.raises(Refused) as refused:
        job.backfill(**hours(0, 2))
    assert (refused.value.code, refused.value.exit_code) == ("boundary-unproved", 3)
    assert job.state.boundaries == {}
    assert job.state.runs == {}
    assert job.backfill(**hours(2, 3)).status == "done", "a record of the hour before shows where it begins"
    job.change(source={"on_data_loss": "record"})
    report = job.backfill(**hours(0, 2))
    assert any("possibly lost" in note for note in report.notes)
    assert job.rows() == [row for row in of_hours(records.rows(hourly), 0, 3) if row[1] == 1 or row[2] >= 10]
    begin = int(BEGIN.timestamp() * 1000)
    assert {tp.partition: start for (tp, at), start in job.state.unproved.items() if at == begin} == {0: 10}
    assert {tp.partition for (tp, at) in job.state.boundaries if at == begin} == {1}
    told = verify(job.job)
    assert told.ok
    assert any("possibly lost" in note and f"{hourly}-0 [0, 10)" in note for note in told.notes)


def test_a_loss_before_the_frontier_belongs_to_the_interval_that_it_lies_in(hourly, home, records):
    """Hour 0 has landed, and all of hour 1 and a part of hour 2 are gone before anybody asked for them."""
    job = home(hourly)
    job.backfill(**hours(0, 1), commit_offsets=True)
    records.delete_records(hourly, 0, 17)
    for first in (2, 1):
        with pytest.raises(Refused, match=rf"{hourly}-0 \[7, 17\)"):
            job.backfill(**hours(first, first + 1))
    job.change(source={"on_data_loss": "record"})
    later = job.backfill(**hours(2, 3), commit_offsets=True)
    assert [(r.partition, r.start, r.end) for r in later.ranges] == [(0, 17, 21), (1, 12, 18)]
    assert job.frontiers()[hourly, 0] == 7
    earlier = job.backfill(**hours(1, 2), commit_offsets=True)
    assert any(note.startswith("lost") and "[7, 17)" in note for note in earlier.notes)
    assert [(r.partition, r.start, r.end) for r in earlier.ranges] == [(1, 6, 12)]
    assert job.frontiers()[hourly, 0] == 21
    assert job.backfill(**hours(1, 2)).status == "nothing-to-do"
    assert any("[7, 17)" in note for note in verify(job.job).notes)


def test_a_pipeline_that_lags_lands_each_of_its_hours(any_home, records):
    """Each hour is a transaction of its own: its marker has the clock's time, later than all of these hours."""
    topic = records.topic(1, {"retention.ms": "-1"})
    for number in range(4):
        at = int((BEGIN + timedelta(hours=number, minutes=30)).timestamp() * 1000)
        records.write(topic, 0, A_HOUR, timestamp=at, transaction="commit")
        records.write(topic, 0, 2, transaction="abort")
    records.settle(topic)
    job = any_home(topic)
    for number in (1, 0, 2, 3):
        assert job.backfill(**hours(number, number + 1)).counts["records"] == A_HOUR
    assert job.rows() == records.rows(topic)


def test_records_before_the_groups_offset_of_a_later_partition_belong_to_an_interval(hourly, home, records):
    job = home(hourly)
    job.backfill(**hours(0, 1))
    records.kafka.add_partitions(hourly, 3)
    records.forget_metadata()
    records.write(hourly, 2, 5, timestamp=int((BEGIN + timedelta(hours=1, minutes=30)).timestamp() * 1000))
    records.set_group_offsets(job.group, {(hourly, 2): 3})
    job.backfill(**hours(1, 2))
    assert job.rows() == of_hours(records.rows(hourly), 0, 2)
    # The group's offset there is another client's.
    assert {tp.partition: base for tp, base in job.state.bases.items()}[2] == 0
