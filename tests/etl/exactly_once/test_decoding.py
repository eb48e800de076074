"""Jobs that decode: typed rows land once, and a payload that does not fit stops the run before any commit."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kseg.etl.decoding.errors import UndecodablePayload
from kseg.etl.operations.verify import verify
from kseg.segment_reader.payload.protobuf.compiler import compile_text

COLUMNS = {"id": "bigint", "amount": "decimal(20,2)", "at": "timestamp", "items": "array<struct<sku:string,n:int>>"}
DECODE = {
    "key": {"format": "string", "as": "customer"},
    "value": {"format": "json", "schema": {"columns": COLUMNS}},
    "keep": ["timestamp"],
}


def order(number: int, **changes: Any) -> dict[str, Any]:
    items = [{"sku": f"s{number}", "n": number}] * (number % 3)
    return {"id": 2**53 + number, "amount": 0, "at": "2026-01-02T03:04:05.000006Z", "items": items, "x": 1} | changes


def write(records: Any, topic: str, *documents: dict[str, Any] | None, abort: bool = False) -> None:
    producer = Producer(records.settings | ({"transactional.id": f"typed-{topic}"} if abort else {}))
    if abort:
        producer.init_transactions(60)
        producer.begin_transaction()
    for number, document in enumerate(documents):
        value = None if document is None else json.dumps(document).replace('"amount": 0', f'"amount": 1e{number}')
        producer.produce(topic, key=f"customer-{number}", value=value, partition=number % 2)
    if abort:
        producer.abort_transaction(60)
    assert producer.flush(60) == 0


def typed_rows(job: Any) -> list[tuple[Any, ...]]:
    rows = job.table("first").to_pyarrow_table().to_pylist()
    return sorted(
        (row["_kseg_partition"], row["_kseg_offset"], row["customer"], row["id"], row["amount"], row["items"])
        for row in rows
    )


def test_typed_rows_land_exactly_once(records: Any, home: Any) -> None:
    topic = records.topic(2)
    write(records, topic, *map(order, range(6)), None)
    write(records, topic, *map(order, range(4)), abort=True)
    records.settle(topic)
    job = home(topic, decode=DECODE)
    job.ingest()
    first = typed_rows(job)
    assert first == [
        (number % 2, number // 2, f"customer-{number}", 2**53 + number, Decimal(10**number), order(number)["items"])
        for number in (0, 2, 4)
    ] + [(0, 3, "customer-6", None, None, None)] + [
        (1, number // 2, f"customer-{number}", 2**53 + number, Decimal(10**number), order(number)["items"])
        for number in (1, 3, 5)
    ]
    table = job.table("first")
    assert table.schema().to_arrow().names[:4] == ["customer", *list(COLUMNS)[:3]]
    assert set(table.to_pyarrow_table()["at"].to_pylist()) == {datetime(2026, 1, 2, 3, 4, 5, 6, UTC), None}

    job.ingest()
    assert typed_rows(job) == first, "nothing new, nothing twice"
    write(records, topic, order(1))
    job.ingest()
    assert len(typed_rows(job)) == len(first) + 1
    assert verify(job.job).ok


def test_a_payload_that_does_not_fit_stops_the_run_and_a_corrected_job_lands_it(records: Any, home: Any) -> None:
    topic = records.topic(1)
    producer = Producer(records.settings)
    for document in (order(0), order(1, at="2026-01-02 03:04:05")):
        producer.produce(topic, value=json.dumps(document), partition=0)
    assert producer.flush(60) == 0
    job = home(topic, decode=DECODE)
    with pytest.raises(UndecodablePayload) as caught:
        job.ingest()
    error = caught.value
    assert (error.status, error.path) == ("WRONG_TYPE", "at")
    assert error.address["offset"] == 1
    assert job.group_offsets() == {}
    (run,) = job.state.runs
    job.abandon(run)
    job.change(decode={"value": {"time_zone": "UTC"}})
    job.ingest()
    assert [row[1] for row in typed_rows(job)] == [0, 1]


def test_each_topic_lands_in_its_own_way(records: Any, home: Any) -> None:
    orders, refunds, clicks = records.topic(1), records.topic(1), records.topic(1)
    producer = Producer(records.settings)
    producer.produce(orders, key="k", value=b'{"id": 5}')
    producer.produce(refunds, value=b'{"id": "r-1"}')
    producer.produce(clicks, key=b"\0\0\0\x07", value=b"x")
    assert producer.flush(60) == 0
    decode = {
        orders: {"value": {"format": "json", "schema": {"columns": {"id": "bigint"}}}},
        refunds: {"value": {"format": "json", "schema": {"columns": {"id": "string"}}}},
        "*": {"key": {"format": "int"}},
    }
    job = home(orders, refunds, clicks, decode=decode, sink={"merge_schema": True})
    job.ingest()
    address = ["_kseg_topic", "_kseg_partition", "_kseg_offset", "_kseg_run"]
    first, rest = (job.table(name).to_pyarrow_table() for name in ("first", "rest"))
    assert (first.column_names, first["id"].to_pylist()) == (["id", *address], [5])
    assert set(rest.column_names) == {"id", "key", *address}
    rows = {row["_kseg_topic"]: (row["id"], row["key"]) for row in rest.to_pylist()}
    assert rows == {refunds: ("r-1", None), clicks: (None, 7)}
    assert verify(job.job).ok
    job.ingest()
    assert job.table("rest").to_pyarrow_table().num_rows == 2


def test_columns_of_each_topic_find_their_place_in_a_query_that_only_selects(records: Any, home: Any) -> None:
    """Its rows are made in tasks, each of one topic; the query counts the columns of all of them."""
    orders, clicks = records.topic(1), records.topic(1)
    producer = Producer(records.settings)
    producer.produce(orders, value=b'{"id": 5, "note": "n"}')
    producer.produce(clicks, value=b'{"page": "p", "id": 7}')
    assert producer.flush(60) == 0
    decode = {
        orders: {"value": {"format": "json", "schema": {"columns": {"id": "bigint", "note": "string"}}}},
        clicks: {"value": {"format": "json", "schema": {"columns": {"page": "string", "id": "bigint"}}}},
    }
    query = "SELECT page, note AS said, id, _kseg_topic, _kseg_partition, _kseg_offset FROM __rows__"
    job = home(orders, clicks, decode=decode, transform=[{"sql": query}])
    job.ingest()
    landed = {name: job.table(name).to_pyarrow_table().to_pylist() for name in ("first", "rest")}
    rows = {name: [(row["page"], row["said"], row["id"]) for row in of_table] for name, of_table in landed.items()}
    assert rows == {"first": [(None, "n", 5)], "rest": [("p", None, 7)]}
    assert verify(job.job).ok


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  enum Kind { PLACED = 0; PAID = 1; }
  message Line { string sku = 1; int32 n = 2; }
  uint64 id = 1; optional string note = 2; repeated Line lines = 3; map<int32, string> tags = 4; Kind kind = 5;
  google.protobuf.Timestamp at = 6;
}
"""


def orders_class() -> Any:
    """The class of Google's library for shop.Order."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compile_text(PROTO)).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_messages_of_protobuf_land_typed(records: Any, home: Any, tmp_path: Path) -> None:
    topic = records.topic(1)
    make, producer = orders_class(), Producer(records.settings)
    at = {"seconds": 1_700_000_000, "nanos": 5000}
    for number in range(4):
        lines = [{"sku": f"s{number}", "n": n} for n in range(number)]
        note = {"note": ""} if number % 2 else {}
        message = make(id=2**64 - 1 - number, lines=lines, tags={number: "x"}, kind=number % 2, at=at, **note)
        producer.produce(topic, value=message.SerializeToString(), partition=0)
    producer.produce(topic, value=None, partition=0)
    assert producer.flush(60) == 0
    (tmp_path / "orders.proto").write_text(PROTO)
    schema = {"file": str(tmp_path / "orders.proto")}
    job = home(topic, decode={"value": {"format": "protobuf", "schema": schema, "message": "shop.Order"}})
    job.ingest()
    rows = sorted(job.table("first").to_pyarrow_table().to_pylist(), key=lambda row: int(row["_kseg_offset"]))
    assert [row["id"] for row in rows] == [Decimal(2**64 - 1 - number) for number in range(4)] + [None]
    assert [row["note"] for row in rows] == [None, "", None, "", None]
    assert rows[2]["lines"] == [{"sku": "s2", "n": 0}, {"sku": "s2", "n": 1}]
    assert [row["tags"] for row in rows[:4]] == [[(number, "x")] for number in range(4)]
    assert [row["kind"] for row in rows] == ["PLACED", "PAID", "PLACED", "PAID", None]
    assert rows[0]["at"] == datetime(2023, 11, 14, 22, 13, 20, 5, UTC)
    assert rows[4]["lines"] is None
    job.ingest()
    assert job.table("first").to_pyarrow_table().num_rows == 5
    assert verify(job.job).ok


def test_debezium_s_changes_land_as_rows(records: Any, home: Any) -> None:
    topic = records.topic(1)
    amount = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    row = {
        "type": "struct",
        "fields": [
            {"field": "id", "type": "int64"},
            {"field": "amount", "type": "bytes", **amount},
            {"field": "note", "type": "string", "optional": True},
        ],
    }
    states = [{**row, "field": "before"}, {**row, "field": "after"}]
    schema = {"type": "struct", "fields": [*states, {"field": "op", "type": "string"}]}
    first = {"id": 2**53 + 1, "amount": "AfQ=", "note": "long"}
    second = {"id": 2**53 + 1, "amount": "/w==", "note": "__debezium_unavailable_value"}
    changes = [
        {"op": "c", "after": first, "source": {"ts_ms": 1_700_000_000_123}},
        {"op": "u", "before": first, "after": second},
        {"op": "d", "before": {**second, "note": None}},
    ]
    producer = Producer(records.settings)
    for change in changes:
        producer.produce(topic, value=json.dumps({"schema": schema, "payload": change}))
    producer.produce(topic, value=None)
    assert producer.flush(60) == 0
    columns = {"id": "bigint", "amount": "decimal(12,2)", "note": "string"}
    value = {"format": "connect_json", "envelope": "debezium", "schema": {"columns": columns}, "tombstones": "drop"}
    job = home(topic, decode={"value": value})
    job.ingest()
    rows = sorted(job.table("first").to_pyarrow_table().to_pylist(), key=lambda row: row["_kseg_offset"])
    assert [(row["id"], row["amount"], row["_kseg_op"]) for row in rows] == [
        (2**53 + 1, Decimal("5.00"), "c"),
        (2**53 + 1, Decimal("-0.01"), "u"),
        (2**53 + 1, Decimal("-0.01"), "d"),
    ]
    assert [(row["note"], row["_kseg_unavailable"]) for row in rows] == [("long", None), (None, ["note"]), (None, None)]
    assert rows[0]["_kseg_source_ts"] == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert verify(job.job).ok
