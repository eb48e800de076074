"""`kseg verify` of jobs that decode: records are decoded again as the run that landed them did, and rows compared."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake

from kseg.etl.ledger import maintenance
from kseg.etl.operations.verify import VerifyReport
from verified import verify, verify_both_ways

COLUMNS = {
    "id": "bigint",
    "at": "timestamp",
    "tags": "map<string,int>",
    "place": "struct<x:int,y:int>",
    "items": "array<struct<sku:string,n:int>>",
    "kind": "string",
}
DECODE = {
    "key": {"format": "string", "as": "customer"},
    "value": {"format": "json", "schema": {"columns": COLUMNS}, "time_zone": "UTC"},
    "keep": ["timestamp", "headers"],
    "on_error": "dead_letter",
}
COUNT = 12


def order(number: int) -> dict[str, Any]:
    place = {"x": number} if number % 2 else {"y": number}
    at = f"2026-01-02 03:04:{number:02}"
    items = [{"sku": None, "n": number}, None][: number % 3]
    return {"id": number, "at": at, "tags": {"b": 1, "a": None}, "place": place, "items": items, "kind": ""}


def write(records: Any, topic: str, *values: bytes | None) -> None:
    producer = Producer(records.settings)
    for number, value in enumerate(values):
        producer.produce(topic, key=f"c{number}", value=value, partition=0, headers=[("h", None)])
    assert producer.flush(60) == 0


@pytest.fixture
def topic(records: Any) -> str:
    """Offset 5 cannot be decoded, the last one is a tombstone."""
    name = str(records.topic(1))
    documents = [json.dumps(order(number)).encode() for number in range(COUNT)]
    documents[5] = b'{"id": 5, "at": "x", "kind": ""}'
    write(records, name, *documents, None)
    return name


SINK = {"partition_by": ["kind"], "dead_letters": {"path": "./lake/dead", "max": "50%"}}


@pytest.fixture
def job(topic: str, any_home: Any) -> Any:
    return any_home(topic, decode=deepcopy(DECODE), sink=deepcopy(SINK))


@pytest.fixture
def spark_job(topic: str, home: Any) -> Any:
    """Its records are decoded again by Spark, too."""
    return home(topic, decode=deepcopy(DECODE), sink=deepcopy(SINK))


def rewrite(job: Any, offset: int, column: str, value: Any) -> None:
    """Another value in one row, as somebody else's UPDATE would leave it."""
    table = job.table("first")
    row = pa.table(table.scan(None, f"_kseg_offset = {offset}"))
    table.delete(f"_kseg_offset = {offset}")
    at = row.schema.get_field_index(column)
    changed = row.set_column(at, row.schema.field(at), pa.array([value] * row.num_rows, row.schema.field(at).type))
    write_deltalake(job.table("first"), changed, mode="append")


def found(report: VerifyReport) -> list[tuple[str, int | None]]:
    return [(finding.kind, finding.offset) for finding in report.findings]


def test_rows_that_are_as_their_records_agree_in_every_column(spark_job: Any) -> None:
    spark_job.ingest()
    report = verify_both_ways(spark_job.job)
    assert (report.ok, report.headline) == (True, f"all rows agree ({COUNT} rows), decoded again from their records")
    (table,) = report.tables
    assert (table.compared, table.rows, table.by_address) == ("decoded", COUNT, 0)
    report = verify_both_ways(spark_job.job, reference=True)
    assert report.headline == (
        f"all rows agree ({COUNT} rows), decoded again from their records, up to {COUNT} of them in plain Python"
    )


def test_typed_values_that_were_changed_are_found(spark_job: Any) -> None:
    changed = {
        1: ("id", None),
        4: ("place", {"x": 4, "y": None}),
        6: ("tags", [("b", 1)]),
        8: ("items", [None, {"n": 8}]),
        9: ("customer", ""),
    }
    spark_job.ingest()
    for offset, (column, value) in changed.items():
        rewrite(spark_job, offset, column, value)
    report = verify_both_ways(spark_job.job)
    assert (report.headline, found(report)) == ("rows do not agree", [("mismatch", offset) for offset in changed])
    assert found(verify_both_ways(spark_job.job, reference=True)) == [("mismatch", offset) for offset in changed]


def test_rows_are_decoded_as_their_own_run_did_whatever_the_job_file_says_now(
    job: Any, topic: str, records: Any
) -> None:
    """The columns of the job file change between runs; the redrive is decoded as it was, too."""
    job.ingest()
    write(records, topic, json.dumps(order(20)).encode())
    columns = {"id": "bigint", "kind": "string"}
    job.change(decode={"value": {"schema": None, "rename": {"id": "number"}}}, sink={"merge_schema": True})
    job.change(decode={"value": {"schema": {"columns": columns}}})
    job.ingest()
    job.redrive()
    job.backfill(from_=[f"{topic}:0:1"], to=[f"{topic}:0:3"], mode="append", label="again")
    report = verify(job.job)
    assert (report.headline, found(report)) == (
        f"all rows agree ({COUNT + 2} rows), decoded again from their records",
        [],
    )
    assert report.tables[0].rows == COUNT + 2
    rewrite(job, 5, "number", 7)
    rewrite(job, 13, "number", None)
    report = verify(job.job)
    assert found(report) == [("mismatch", 5), ("mismatch", 13)]


def test_of_two_rows_of_one_record_each_is_compared_as_its_run_decoded_it(job: Any, topic: str) -> None:
    job.ingest()
    job.change(decode={"value": {"time_zone": "Asia/Tokyo"}})
    job.backfill(from_=[f"{topic}:0:1"], to=[f"{topic}:0:3"], mode="append", label="again")
    assert verify(job.job).ok
    table = job.table("first")
    both = pa.table(table.scan(None, "_kseg_offset = 2"))
    table.delete("_kseg_offset = 2")
    swapped = both.set_column(both.schema.get_field_index("at"), "at", both["at"].take([1, 0]))
    write_deltalake(job.table("first"), swapped, mode="append")
    assert found(verify(job.job)) == [("mismatch", 2)]


def test_rows_of_runs_that_the_ledger_has_summed_up_are_compared_by_address_and_that_is_said(
    job: Any, topic: str, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.ingest()
    monkeypatch.setattr(maintenance, "RUNS_KEPT", 0)
    assert maintenance.summarise(job.ledger, job.document["name"], after=0)
    write(records, topic, json.dumps(order(1)).encode())
    job.ingest()
    report = verify(job.job)
    assert report.headline == f"all rows agree ({COUNT + 1} rows), {COUNT} of them by their addresses alone"
    rewrite(job, 4, "id", None)
    assert verify(job.job).ok, "not compared"
    rewrite(job, 13, "id", None)
    assert found(verify(job.job)) == [("mismatch", 13)]


def test_behind_a_transform_addresses_alone_are_compared(spark_job: Any) -> None:
    spark_job.change(transform=[{"sql": "SELECT *, id + 1 AS next FROM __rows__"}])
    spark_job.ingest()
    rewrite(spark_job, 4, "id", None)
    report = verify_both_ways(spark_job.job)
    assert (
        report.headline
        == f"the addresses of all rows agree ({report.tables[0].rows} rows); other columns were not compared"
    )


def test_records_that_retention_has_removed_are_not_compared_and_are_no_finding(
    job: Any, topic: str, records: Any
) -> None:
    job.ingest()
    records.delete_records(topic, 0, COUNT)
    report = verify(job.job)
    assert (report.ok, report.tables[0].rows, report.tables[0].unreadable) == (True, 1, COUNT)
    records.delete_records(topic, 0, COUNT + 1)
    report = verify(job.job)
    assert (report.ok, report.tables[0].rows, report.tables[0].unreadable) == (True, 0, COUNT + 1)
