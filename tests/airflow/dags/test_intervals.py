"""Data intervals on a running Airflow: its own backfill in both orders, runs once more, late records, and open ends.

What ought to stand in a table is worked out from what an independent consumer reads: a boundary at time T is the first
offset whose record has that time or a later one, and an interval is what lies between its two boundaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("airflow.sdk")

from landed import Address, consume, once, read_table

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

FIRST = datetime(2026, 2, 2, tzinfo=UTC)
DAY = timedelta(days=1)
DAYS = [FIRST + n * DAY for n in range(3)]
PARTITIONS = 2

#: A day after the other, two at a time. `end_date` keeps Airflow from making a run of its own for yesterday.
DAILY = {
    "mode": "interval",
    "schedule": "@daily",
    "start_date": FIRST.isoformat(),
    "end_date": DAYS[-1].isoformat(),
    "max_active_runs": 2,
    "retries": 2,
    "retry_delay": "1s",
}


def millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def records_of_three_days() -> Iterator[dict[str, Any]]:
    """One before, four on each day, two of the first when the second has begun; and one after all, which closes."""
    times = [FIRST - DAY / 4]
    for day in DAYS:
        times += [day + DAY * n / 4 for n in range(4)]
        if day == DAYS[1]:
            times += [DAYS[0] + DAY / 2, DAYS[1] - timedelta(milliseconds=1)]
    times.append(DAYS[-1] + DAY)
    for partition in range(PARTITIONS):
        for time in times:
            yield {"value": time.isoformat(), "partition": partition, "timestamp": millis(time)}


@dataclass(frozen=True)
class Expected:
    """What an independent consumer says. landed: by day; late: those of them that are older than their day."""

    boundaries: dict[datetime, dict[int, int]]
    landed: dict[datetime, set[Address]]
    late: set[Address]

    @property
    def all(self) -> set[Address]:
        return set().union(*self.landed.values())

    def ranges(self, day: datetime) -> list[tuple[int, int, int]]:
        """A day's offsets: partition, start, end."""
        starts, ends = self.boundaries[day], self.boundaries[day + DAY]
        return [(partition, starts[partition], ends[partition]) for partition in sorted(starts)]


def expect(records: dict[Address, int]) -> Expected:
    boundaries = {
        time: {
            partition: min(offset for (_, p, offset), at in records.items() if p == partition and at >= millis(time))
            for partition in range(PARTITIONS)
        }
        for time in [*DAYS, DAYS[-1] + DAY]
    }
    landed = {day: {a for a in records if boundaries[day][a[1]] <= a[2] < boundaries[day + DAY][a[1]]} for day in DAYS}
    late = {address for day, found in landed.items() for address in found if records[address] < millis(day)}
    return Expected(boundaries, landed, late)


def runs_by_day(airflow: RunningAirflow, dag: str) -> dict[str, str]:
    return {run["logical_date"][:10]: run["dag_run_id"] for run in airflow.runs(dag)}


def extra_of(airflow: RunningAirflow, dag: str, run: str) -> dict[str, Any]:
    return dict(airflow.asset_events(dag=dag, run=run)[-1]["extra"]["kseg"])


@pytest.mark.timeout(1800)  # with the start of Airflow and Kafka, on a machine that has other things to do
def test_backfills_in_any_order_land_each_record_once_and_again_nothing(
    job_files: Any, airflow: RunningAirflow, kafka: KafkaProcess, kseg: Kseg
) -> None:
    topic = kafka.topic(PARTITIONS, {"retention.ms": "-1"})
    kafka.produce(topic, records_of_three_days())
    expected = expect(consume(kafka, topic))
    assert len(expected.late) == 2 * PARTITIONS

    # Forward, two days at a time; and backwards, the first day missing.
    source = {"topics": [topic], "starting_offsets": {"timestamp": FIRST.isoformat()}}
    forward, reverse = (job_files.add(topic, source=source, interval={}, airflow=DAILY) for _ in range(2))
    going = airflow.backfill(forward, DAYS[0], DAYS[-1], max_active_runs=2)
    behind = airflow.backfill(reverse, DAYS[1], DAYS[-1], max_active_runs=2, backwards=True)

    airflow.wait_for_backfill(behind)
    landed = read_table(kseg, job_files.table(reverse)).addresses
    assert landed == once(expected.landed[DAYS[1]] | expected.landed[DAYS[2]])
    # The day in front is missing, so the group has not moved from where the job begins.
    assert committed(kafka, reverse) in ({}, expected.boundaries[FIRST])
    behind = airflow.backfill(reverse, DAYS[0], DAYS[0])

    airflow.wait_for_backfill(going)
    airflow.wait_for_backfill(behind)
    for job in (forward, reverse):
        table = read_table(kseg, job_files.table(job))
        assert table.addresses == once(expected.all)
        assert table.late == expected.late
        runs = runs_by_day(airflow, job)
        for day in DAYS:
            told = extra_of(airflow, job, runs[f"{day:%Y-%m-%d}"])
            assert [(r["partition"], r["start"], r["end"]) for r in told["ranges"]] == expected.ranges(day)
            assert [datetime.fromisoformat(text) for text in told["interval"]] == [day, day + DAY]
            assert told["counts"]["late"] == len(expected.late & expected.landed[day])
        assert committed(kafka, job) == expected.boundaries[DAYS[-1] + DAY]

    again_changes_nothing(airflow, kafka, kseg, job_files, forward, topic, expected)


def committed(kafka: KafkaProcess, group: str) -> dict[int, int]:
    return {partition: offset for (_, partition), offset in kafka.group_offsets(group).items()}


def again_changes_nothing(
    airflow: RunningAirflow,
    kafka: KafkaProcess,
    kseg: Kseg,
    job_files: Any,
    job: str,
    topic: str,
    expected: Expected,
) -> None:
    """A day that is cleared, and then replaced, although more records of that day have come meanwhile."""
    before = read_table(kseg, job_files.table(job))
    run = runs_by_day(airflow, job)[f"{DAYS[1]:%Y-%m-%d}"]
    too_late = [
        {"value": "later", "partition": partition, "timestamp": millis(DAYS[1] + DAY / 2)}
        for partition in range(PARTITIONS)
    ]
    kafka.produce(topic, too_late)
    airflow.clear(job, run)
    airflow.wait_for_task(job, run, "land", attempt=2)
    airflow.wait_for_run(job, run)
    assert read_table(kseg, job_files.table(job)) == before

    number = airflow.backfill(job, DAYS[1], DAYS[1], reprocess="completed", conf={"mode": "replace"})
    airflow.wait_for_backfill(number)
    after = read_table(kseg, job_files.table(job))
    assert after.version > before.version
    assert (after.addresses, after.late) == (before.addresses, before.late)
    told = extra_of(airflow, job, run)
    assert [(r["partition"], r["start"], r["end"]) for r in told["ranges"]] == expected.ranges(DAYS[1])

    # A person clears the replacement: the same offsets are landed again, for a transform may have been mended.
    airflow.clear(job, run)
    airflow.wait_for_task(job, run, "land", attempt=4)
    airflow.wait_for_run(job, run)
    once_more = read_table(kseg, job_files.table(job))
    assert once_more.version > after.version
    assert (once_more.addresses, once_more.late) == (before.addresses, before.late)


def test_an_interval_that_is_open_waits_without_a_worker_until_it_is_closed(
    job_files: Any, airflow: RunningAirflow, kafka: KafkaProcess, kseg: Kseg
) -> None:
    topic = kafka.topic(1)
    # The first interval of its own has not ended yet: the only run is the one that is begun here.
    section = {"mode": "interval", "schedule": "@yearly", "start_date": datetime.now(UTC).isoformat()}
    job = job_files.add(topic, interval={}, airflow=section)
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    kafka.produce(topic, [{"value": "in it", "timestamp": millis(start)}])
    end = start + timedelta(seconds=5)
    run = airflow.trigger(job, logical_date=start, interval=(start, end))
    airflow.wait_for_task(job, run, "closed", "deferred")
    assert airflow.task(job, run, "land")["state"] is None
    kafka.produce(topic, [{"value": "after it", "timestamp": millis(end)}])
    airflow.wait_for_run(job, run)
    assert read_table(kseg, job_files.table(job)).addresses == once({(topic, 0, 0)})
    assert committed(kafka, job) == {0: 1}
