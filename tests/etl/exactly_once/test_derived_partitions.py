"""Partition columns that are made of others: in the tasks, behind SQL, by Spark's writer; and held against a table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.etl.errors import ConfigurationError
from kseg.etl.operations.verify import verify
from kseg.etl.tables.errors import IncompatibleSchema
from skips import full_scale_only

BY = [{"day": "timestamp"}, {"bucket": [4, "value"], "as": "part"}]


def added(job: Any, name: str = "first") -> list[dict[str, Any]]:
    """The add actions of a table's log."""
    log = sorted((job.folder / "lake" / name / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for entry in log for line in entry.read_text().splitlines()]
    return [action["add"] for action in actions if "add" in action]


def assert_partitioned(job: Any, spark: Any) -> None:
    table = job.table("first")
    assert table.metadata().partition_columns == ["timestamp_day", "part"]
    rows = spark.read.format("delta").load(str(job.folder / "lake" / "first"))
    wrong = rows.where("timestamp_day <> to_date(timestamp) OR part <> pmod(hash(value), 4) OR timestamp_day IS NULL")
    assert wrong.count() == 0
    assert rows.select("part").distinct().count() > 1
    for add in added(job):
        assert set(add["partitionValues"]) == {"timestamp_day", "part"}
        stats = json.loads(add["stats"])
        assert stats["numRecords"] > 0
        assert not {"timestamp_day", "part"} & {*stats["minValues"], *stats["nullCount"]}
        assert {"offset", "timestamp"} <= set(stats["minValues"])


@pytest.mark.parametrize(
    "transform",
    [
        pytest.param([], id="tasks"),
        pytest.param([{"sql": "SELECT * FROM __rows__ WHERE offset >= 0"}], id="sql", marks=full_scale_only),
    ],
)
def test_rows_lie_in_partitions_made_of_their_columns(topic: str, home: Any, spark: Any, transform: list[Any]) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    job = home(topic, sink={"partition_by": BY}, transform=transform)
    job.ingest()
    job.assert_complete(runs=1, swept=not transform)
    assert_partitioned(job, spark)
    assert verify(job.job).ok
    assert job.ingest().status == "nothing-to-do"


def test_what_the_table_was_made_by_is_kept_with_it(topic: str, home: Any) -> None:
    """Two numbers of buckets in one column would hide rows from everybody who asks for a bucket."""
    job = home(topic, sink={"partition_by": BY})
    job.ingest()
    job.change(sink={"partition_by": [BY[0], {"bucket": [8, "value"], "as": "part"}]})
    job.records.write_mixed(topic, 2, rounds=1)
    with pytest.raises(IncompatibleSchema) as caught:
        job.ingest()
    assert "made by bucket(4, value), the job makes it by bucket(8, value)" in str(caught.value)
    job.change(sink={"partition_by": BY})
    job.ingest()
    job.assert_complete(runs=2)


def test_a_table_that_spark_writes(topic: str, home: Any, spark: Any) -> None:
    job = home(topic, sink={"partition_by": BY, "single_driver": True})
    job.ingest()
    path = job.folder / "lake" / "first"
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    job.records.write_mixed(topic, 2, rounds=1)
    job.ingest()
    assert_partitioned(job, spark)
    assert verify(job.job).ok
    job.change(sink={"partition_by": [{"day": "timestamp"}]})
    job.records.write_mixed(topic, 2, rounds=1)
    with pytest.raises(IncompatibleSchema, match="partitioned by timestamp_day, part"):
        job.ingest()


def test_decoded_columns(records: Any, home: Any) -> None:
    name = records.topic(1)
    producer = Producer(records.settings)
    for n in range(9):
        producer.produce(name, b'{"id": %d, "at": "2026-11-%02dT10:00:00Z"}' % (n, 1 + n % 3))
    assert producer.flush(60) == 0
    columns = {"id": "bigint", "at": "timestamp"}
    decode = {"value": {"format": "json", "schema": {"columns": columns}}}
    job = home(name, decode=decode, sink={"partition_by": [{"month": "at"}, {"day": "at"}]})
    job.ingest()
    values = {(add["partitionValues"]["at_month"], add["partitionValues"]["at_day"]) for add in added(job)}
    assert values == {("2026-11", f"2026-11-{day:02}") for day in (1, 2, 3)}
    assert verify(job.job).ok
    producer.produce(name, b'{"id": 9}')
    assert producer.flush(60) == 0
    job.change(sink={"partition_by": [{"hour": "id"}]})
    with pytest.raises(ConfigurationError, match="hour is made of a timestamp, and id is bigint"):
        job.ingest()
