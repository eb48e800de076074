"""Late records: each lands once, in the interval that its offset lies in, marked there and counted; none is lost
between two intervals, and what a consumer sees of the topic is what the intervals hold together."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from verified import verify, verify_both_ways

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3_600_000


def millis(hours: float) -> int:
    return int(BEGIN.timestamp() * 1000 + hours * HOUR)


def hours(first: int, end: int) -> dict[str, str]:
    return {"interval": "/".join((BEGIN + timedelta(hours=at)).strftime("%Y-%m-%dT%H:%M:%SZ") for at in (first, end))}


def consumed(topic: str, partitions: int, servers: str) -> dict[tuple[int, int], int]:
    """Every record's time by partition and offset, as librdkafka reads them."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "an-independent-reader"})
    try:
        ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=60)[1] for p in range(partitions)}
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        found: dict[tuple[int, int], int] = {}
        while len(found) < sum(ends.values()):
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None
            found[message.partition(), message.offset()] = message.timestamp()[1]
        return found
    finally:
        consumer.close()


def marks(job: Any) -> dict[tuple[int, int], tuple[str, bool | None]]:
    table = job.table("first").to_pyarrow_table(columns=["partition", "offset", "_kseg_run", "_kseg_late"])
    rows = table.to_pylist()
    assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows), "landed twice"
    return {(row["partition"], row["offset"]): (row["_kseg_run"], row["_kseg_late"]) for row in rows}


@pytest.fixture(scope="module")
def disordered(records: Any) -> str:
    """Two partitions over five hours; every third record comes with a time of up to three hours before."""
    topic: str = records.topic(2, {"retention.ms": "-1"})
    dice = random.Random(7)
    for step in range(60):
        at = step / 12 + dice.random() / 20
        late = dice.random() * 3 if step % 3 == 2 else 0
        records.write(topic, step % 2, 1, timestamp=millis(max(at - late, 0)))
    return topic


@pytest.mark.parametrize(
    "transform",
    [None, [{"sql": "SELECT offset, partition, topic, _kseg_late, value, timestamp FROM __rows__"}]],
    ids=["plain", "sql"],
)
def test_every_offset_once_and_the_late_ones_marked(disordered, home, records, transform):
    job = home(disordered, interval={"max_wait": "0s"}, transform=transform)
    reports = [(first, job.backfill(**hours(first, first + 1))) for first in (3, 0, 4, 1, 2)]
    seen, landed = consumed(disordered, 2, records.kafka.bootstrap_servers), marks(job)
    assert landed.keys() == seen.keys()
    for first, report in reports:
        mine = {address: late for address, (run, late) in landed.items() if run == report.run_id}
        assert mine == {address: seen[address] < millis(first) for address in mine}
        assert report.counts["late"] == sum(mine.values())
        assert report.counts["records"] == len(mine)
        accounted = job.state.runs[report.run_id].accounted
        assert accounted is not None
        assert accounted.counts.late == sum(mine.values())
        assert accounted.counts.total == len(mine), "the late ones are among the data"
    assert sum(report.counts["late"] for _, report in reports) > 5


def test_verify_tells_a_mark_that_is_wrong(disordered, home):
    job = home(disordered, interval={"max_wait": "0s"})
    job.backfill(**hours(0, 2))
    job.backfill(**hours(2, 4))
    assert job.ingest().counts.get("late") is None, "no interval says when these were due"
    assert verify_both_ways(job.job).ok
    assert {late for _, late in marks(job).values()} == {True, False, None}
    wrong = next(address for address, (_, late) in sorted(marks(job).items()) if late)
    table = DeltaTable(job.folder / "lake" / "first")
    table.update(predicate=f"partition = {wrong[0]} AND offset = {wrong[1]}", updates={"_kseg_late": "false"})
    found = verify_both_ways(job.job)
    assert [(f.kind, f.partition, f.offset) for f in found.findings] == [("mismatch", *wrong)]


def test_a_table_from_before_gets_the_column_and_keeps_it_when_the_section_goes(disordered, any_home):
    """Without `sink.merge_schema`: the section is the word for this one column."""
    job = any_home(disordered)
    job.backfill(**hours(0, 1))
    assert "_kseg_late" not in job.table("first").schema().to_arrow().names
    job.change(interval={"max_wait": "0s"})
    report = job.backfill(**hours(1, 2))
    assert report.counts["late"] > 0
    of_run = {late for run, late in marks(job).values() if run == report.run_id}
    assert of_run == {True, False}
    assert {late for run, late in marks(job).values() if run != report.run_id} == {None}
    job.change(interval=None)
    without = job.backfill(**hours(2, 3))
    assert {late for run, late in marks(job).values() if run == without.run_id} == {None}
    assert verify(job.job).ok


def test_a_run_that_is_taken_up_lands_the_columns_that_it_was_planned_with(disordered, any_home):
    job = any_home(disordered, interval={"max_wait": "0s"})
    job.die("plan:after", **hours(1, 2))
    job.change(interval=None)
    report = job.backfill(**hours(1, 2))
    assert report.counts["late"] > 0
    assert {late for _, late in marks(job).values()} == {True, False}


def test_a_replacement_marks_as_its_interval_did(disordered, any_home, records):
    """The same offsets, also when the topic has grown with records of that hour since."""
    topic = records.topic(1, {"retention.ms": "-1"})
    for at in (0.5, 1.5, 0.6, 1.6, 2.5):
        records.write(topic, 0, 1, timestamp=millis(at))
    job = any_home(topic, interval={"max_wait": "0s"})
    first = job.backfill(**hours(1, 2))
    before = marks(job)
    assert [late for _, late in before.values()] == [False, True, False]
    records.write(topic, 0, 2, timestamp=millis(1.7))
    again = job.backfill(**hours(1, 2), mode="replace")
    assert (again.mode, again.run_id == first.run_id) == ("backfill-replace", False)
    after = marks(job)
    assert {address: late for address, (_, late) in after.items()} == {a: late for a, (_, late) in before.items()}
    assert {run for run, _ in after.values()} == {again.run_id}
    assert job.backfill(**hours(1, 2), mode="replace").status == "nothing-to-do"
    assert again.counts["late"] == first.counts["late"] == 1


def test_what_retention_took_stays_in_the_table_when_its_interval_is_replaced(any_home, records):
    topic = records.topic(1, {"retention.ms": "-1"})
    for at in (1.1, 1.2, 1.3, 2.5):
        records.write(topic, 0, 1, timestamp=millis(at))
    job = any_home(topic, interval={"max_wait": "0s"}, source={"on_data_loss": "record"})
    first = job.backfill(**hours(1, 2))
    records.delete_records(topic, 0, 1)
    again = job.backfill(**hours(1, 2), mode="replace")
    assert [(r.start, r.end) for r in again.ranges] == [(1, 3)]
    assert {address: run for address, (run, _) in marks(job).items()} == {
        (0, 0): first.run_id,
        (0, 1): again.run_id,
        (0, 2): again.run_id,
    }


def test_a_column_of_that_name_is_nobody_elses(home, records):
    from kseg.etl.errors import ConfigurationError

    topic = records.topic(1)
    records.write(topic, 0, 1, timestamp=millis(0))
    job = home(topic, transform=[{"sql": "SELECT *, true AS _kseg_late FROM __rows__"}])
    with pytest.raises(ConfigurationError, match="reserved"):
        job.ingest()


def test_clustered_tables_get_the_column_too(disordered, home):
    job = home(disordered, sink={"cluster_by": ["partition"], "single_driver": True})
    job.backfill(**hours(0, 1))
    job.change(interval={"max_wait": "0s"})
    report = job.backfill(**hours(1, 2))
    spark_table = job.table("first").schema().to_arrow().names
    assert "_kseg_late" in spark_table
    assert report.counts["late"] > 0
