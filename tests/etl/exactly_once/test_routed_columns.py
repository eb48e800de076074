"""Tables of routes with columns of their own (`sink.routes.X.columns`): they get those alone, through a death, a
redrive and a change of the job file, and `kseg verify` compares each run's rows with the columns that it landed."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake

from kseg.etl.errors import ConfigurationError
from kseg.etl.operations.verify import verify
from kseg.etl.telemetry.recorder import Recorder

COUNT = 40
TABLES = ("orders", "payments", "refunds")
FIELDS: dict[str, dict[str, Any]] = {"order": {"size": 3}, "payment": {"paid": 9.5}, "odd": {"paid": 1.25}}
COLUMNS = {"kind": "string", "id": "bigint", "size": "int", "paid": "decimal(9,2)"}


def kind_of(number: int) -> str:
    """No record is a refund, and every tenth has no route."""
    return "odd" if number % 10 == 3 else ("order", "payment", "order")[number % 3]


NUMBERS = {kind: [n for n in range(COUNT) if kind_of(n) == kind] for kind in ("order", "payment", "odd")}
OWN = {"order": ["id", "size"], "payment": ["paid"], "refund": ["id"]}


@pytest.fixture(scope="module")
def topic(records: Any) -> str:
    """Record n is in partition n % 2, at offset n // 2. The last two cannot be decoded."""
    name = str(records.topic(2))
    producer = Producer(records.settings)
    for number in range(COUNT + 2):
        value = {"kind": kind_of(number), "id": number} | FIELDS[kind_of(number)]
        data = json.dumps(value).encode() if number < COUNT else b"no json"
        headers = [("kind", kind_of(number).encode())]
        producer.produce(name, value=data, partition=number % 2, headers=headers)
    assert producer.flush(60) == 0
    return name


@pytest.fixture
def job(topic: str, home: Any) -> Any:
    """Records of kinds with different fields, all in one topic."""
    decode = {"value": {"format": "json", "schema": {"columns": dict(COLUMNS)}}, "on_error": "dead_letter"}
    routes = {kind: {"path": f"./lake/{kind}s", "columns": list(names)} for kind, names in OWN.items()}
    letters = {"path": "./lake/dead", "max": "50%"}
    return home(
        topic, decode=decode, sink={"path": None, "route_by": "value.kind", "routes": routes, "dead_letters": letters}
    )


def numbers(job: Any, table: str, prefix: str = "_kseg_") -> list[int]:
    rows = job.table(table).to_pyarrow_table().to_pylist()
    return sorted(row[f"{prefix}offset"] * 2 + row[f"{prefix}partition"] for row in rows)


def columns_of(job: Any, table: str) -> list[str]:
    return [name for name in job.table(table).schema().to_arrow().names if not name.startswith("_kseg_")]


def test_a_run_tells_the_columns_of_each_table(job: Any) -> None:
    """Pages and lineage had the columns of all kinds for each of them."""
    recorder = Recorder()
    job.ingest(progress=recorder)
    told = {table.rpartition("/")[2]: columns for table, columns in recorder.close().schemas.items()}
    assert {table: [name for name in told[table] if not name.startswith("_kseg_")] for table in TABLES} == {
        "orders": ["id", "size"],
        "payments": ["paid"],
        "refunds": ["id"],
    }
    assert told["payments"]["paid"] == "decimal128(9, 2)"


def test_each_table_has_the_columns_of_its_route(job: Any) -> None:
    """Through a death between two tables, a redrive and other columns: each run's rows are compared with its own."""
    job.die("land:orders:committed")
    job.ingest(take_over=True)
    assert {name: columns_of(job, name) for name in TABLES} == {
        "orders": ["id", "size"],
        "payments": ["paid"],
        "refunds": ["id"],
    }
    assert numbers(job, "orders") == NUMBERS["order"]
    assert numbers(job, "payments") == NUMBERS["payment"]
    assert numbers(job, "dead", "") == sorted([*NUMBERS["odd"], COUNT, COUNT + 1])
    assert set(job.table("orders").to_pyarrow_table()["size"].to_pylist()) == {3}
    job.change(sink={"merge_schema": True, "routes": {"payment": {"columns": ["paid", "id"]}}})
    job.change(sink={"routes": {"odd": {"path": "./lake/payments", "columns": ["id", "paid"]}}})
    assert job.redrive().status == "done"
    rows = {row["_kseg_offset"] * 2 + row["_kseg_partition"]: row for row in payments(job)}
    assert {n: row["id"] for n, row in rows.items()} == {
        n: n if n in NUMBERS["odd"] else None for n in (*NUMBERS["payment"], *NUMBERS["odd"])
    }
    found = verify(job.job)
    assert found.ok, found.findings
    assert "all rows agree" in found.headline


def payments(job: Any) -> list[dict[str, Any]]:
    return list(job.table("payments").to_pyarrow_table().to_pylist())


def test_verify_finds_a_value_in_a_column_that_the_run_did_not_land(job: Any) -> None:
    job.ingest()
    table = job.table("payments")
    rows = table.to_pyarrow_table()
    first = rows.slice(0, 1).append_column("id", pa.array([rows["_kseg_offset"][0].as_py()]))
    address = {name: first[f"_kseg_{name}"][0].as_py() for name in ("partition", "offset")}
    table.delete(" AND ".join(f"_kseg_{name} = {value}" for name, value in address.items()))
    write_deltalake(table, first, mode="append", schema_mode="merge")
    (finding,) = verify(job.job).findings
    assert (finding.kind, finding.partition, finding.offset) == ("mismatch", *address.values())


def test_columns_of_records_that_are_not_decoded(job: Any) -> None:
    routes = {kind: {"columns": ["value"]} for kind in OWN} | {"*": {"path": "./lake/rest"}}
    job.change(decode=None, sink={"route_by": "header.kind", "dead_letters": None, "routes": routes})
    job.ingest()
    assert columns_of(job, "orders") == ["value", "topic", "partition", "offset"]
    assert "key" in columns_of(job, "rest")
    assert numbers(job, "orders", "") == sorted(
        [*NUMBERS["order"], *(n for n in (COUNT, COUNT + 1) if kind_of(n) == "order")]
    )
    found = verify(job.job)
    assert found.ok, found.findings


def test_a_column_that_no_row_has_is_refused_before_anything_is_read(job: Any) -> None:
    job.change(sink={"routes": {"refund": {"columns": ["id", "ids"]}}})
    with pytest.raises(ConfigurationError, match="names the column ids, which the rows do not have") as refused:
        job.ingest()
    assert "sink.routes.refund.columns" in str(refused.value)
    (run,) = job.state.runs.values()
    assert (run.landed, run.refused.code) == ({}, "ConfigurationError")
    job.change(sink={"routes": {"refund": {"columns": ["id"]}}})
    job.ingest()
    assert numbers(job, "orders") == NUMBERS["order"]


def test_columns_behind_a_query_and_beside_a_partition(job: Any) -> None:
    query = "SELECT *, id + 1 AS next FROM __rows__"
    job.change(transform=[{"sql": query}], sink={"partition_by": ["kind"], "routes": {"order": {"columns": ["next"]}}})
    job.ingest()
    assert sorted(columns_of(job, "orders")) == ["kind", "next"]
    assert job.table("orders").metadata().partition_columns == ["kind"]
    assert sorted(job.table("orders").to_pyarrow_table()["next"].to_pylist()) == [n + 1 for n in NUMBERS["order"]]
    assert verify(job.job).ok
