"""Runs decode by the rules of their tables' rows, whatever this release would do with new ones."""

from __future__ import annotations

import io
import json
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kseg.etl.decoding.rules import COLUMNS_PROPERTY, FIRST, NEWEST, PROPERTY
from kseg.etl.operations.rebuild_ledger import rebuild_ledger
from kseg.etl.operations.verify import verify
from kseg.etl.planning import table_rules
from registries import SharedRegistry

DECODE = {"value": {"format": "json", "schema": {"columns": {"id": "bigint"}}}}


def write(records: Any, topic: str, *values: str) -> None:
    producer = Producer(records.settings)
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(60) == 0


def planned(job: Any) -> list[int]:
    """The rules of the job's runs."""
    return [run.plan.decoding_rules for run in job.state.runs.values()]


def of_an_earlier_release(job: Any) -> None:
    """Take the rules out of the job's table, and the ledger away."""
    first = Path(job.folder / "lake" / "first" / "_delta_log" / f"{0:020d}.json")
    text = first.read_text()
    known = f'"{PROPERTY}":"{NEWEST.version}"'
    assert known in text
    first.write_text(text.replace(known, ""))
    shutil.rmtree(job.job.ledger)
    rebuild_ledger(job.job)


def test_a_new_table_has_the_newest_rules_in_plan_ledger_and_property(records: Any, home: Any) -> None:
    topic = records.topic(1)
    write(records, topic, '{"id": 1}')
    job = home(topic, decode=DECODE)
    job.ingest()
    write(records, topic, '{"id": 2}')
    job.ingest()
    assert planned(job) == [NEWEST.version] * 2
    assert [record.rules for record in job.state.table_records.values() if record.landed] == [NEWEST.version]
    assert job.table("first").metadata().configuration[PROPERTY] == str(NEWEST.version)


def test_a_job_that_decodes_nothing_records_no_rules(records: Any, home: Any) -> None:
    topic = records.topic(1)
    write(records, topic, "x")
    job = home(topic)
    job.ingest()
    assert planned(job) == [FIRST.version]
    assert PROPERTY not in job.table("first").metadata().configuration


def test_a_rebuilt_ledger_finds_the_rules_in_the_tables(records: Any, home: Any) -> None:
    topic = records.topic(1)
    write(records, topic, '{"id": 1}')
    job = home(topic, decode=DECODE)
    job.ingest()
    shutil.rmtree(job.job.ledger)
    rebuild_ledger(job.job)
    write(records, topic, '{"id": 2}')
    job.ingest()
    assert planned(job) == [NEWEST.version]


def test_rows_of_an_earlier_release_keep_their_rules_until_all_of_them_are_replaced(records: Any, home: Any) -> None:
    topic = records.topic(1)
    write(records, topic, '{"id": 1}', '{"id": 2}')
    job = home(topic, decode=DECODE)
    job.ingest()
    of_an_earlier_release(job)
    write(records, topic, '{"id": 3}')
    job.ingest()
    assert planned(job) == [FIRST.version]
    for to, rules in (2, FIRST), (3, NEWEST):
        job.backfill(from_=[f"{topic}:0:0"], to=[f"{topic}:0:{to}"], mode="replace")
        assert planned(job)[-1] == rules.version
    write(records, topic, '{"id": 4}')
    job.ingest()
    assert planned(job)[-1] == NEWEST.version


def test_literals_are_yamls_values_in_tables_of_an_earlier_release(records: Any, home: Any) -> None:
    """Norway's code was false: a new table takes it, and a table with rows keeps what it refused."""
    topic = records.topic(1)
    columns = {"value": {"format": "json", "schema": {"columns": {"country": "string"}}}}
    write(records, topic, '{"country": "DE"}')
    job = home(topic)
    text = json.dumps(
        {**job.document, "decode": {**columns, "on_error": "set_null", "expect": {"country": ["DE", "@"]}}}
    )
    job.file.write_text(text.replace('"@"', "NO"))
    job.ingest()
    write(records, topic, '{"country": "NO"}')
    assert job.ingest().notes == []
    of_an_earlier_release(job)
    write(records, topic, '{"country": "NO"}')
    report = job.ingest()
    assert any("[DE, false] in this run" in note for note in report.notes)
    countries = {row["_kseg_offset"]: row["country"] for row in job.table("first").to_pyarrow_table().to_pylist()}
    assert countries == {0: "DE", 1: "NO", 2: None}


def test_a_table_with_rows_gets_marks_where_its_job_says_so(home: Any, records: Any) -> None:
    """Of values that Debezium's connector did not have: tables of an earlier release have the placeholder."""
    topic = records.topic(1)
    lacking = "__debezium_unavailable_value"
    write(records, topic, json.dumps({"op": "c", "after": {"id": 1, "bio": "long"}}))
    value = {"format": "json", "envelope": "debezium", "schema": {"columns": {"id": "bigint", "bio": "string"}}}
    job = home(topic, decode={"value": {**value, "unavailable": "text"}})
    job.ingest()
    of_an_earlier_release(job)
    job.change(decode={"value": {"unavailable": None}})
    write(records, topic, json.dumps({"op": "u", "after": {"id": 1, "bio": lacking}}))
    job.ingest()
    assert "_kseg_unavailable" not in job.table("first").to_pyarrow_table().column_names
    job.change(decode={"value": {"unavailable": "mark"}}, sink={"merge_schema": True})
    write(records, topic, json.dumps({"op": "u", "after": {"id": 1, "bio": lacking}}))
    job.ingest()
    rows = sorted(job.table("first").to_pyarrow_table().to_pylist(), key=lambda row: row["_kseg_offset"])
    assert [(row["bio"], row["_kseg_unavailable"]) for row in rows] == [
        ("long", None),
        (lacking, None),
        (None, ["bio"]),
    ]
    assert planned(job) == [FIRST.version] * 2


def test_connects_logical_types_in_avro_are_columns_of_a_new_table(home: Any, records: Any) -> None:
    topic = records.topic(1)

    def annotated(base: str, name: str, **more: Any) -> dict[str, Any]:
        return {"type": base, "connect.version": 1, "connect.name": name, **more}

    decimal = {"connect.parameters": {"scale": "2"}, "logicalType": "decimal", "scale": 2, "precision": 64}
    fields = {
        "id": "long",
        "price": annotated("bytes", "org.apache.kafka.connect.data.Decimal", **decimal),
        "day": annotated("int", "io.debezium.time.Date"),
        "at": annotated("long", "io.debezium.time.MicroTimestamp"),
        "atz": ["null", annotated("string", "io.debezium.time.ZonedTimestamp")],
    }
    schema = {"type": "record", "name": "V", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    plain = json.loads(json.dumps(schema).replace('"logicalType": "decimal"', '"x": 1'))
    out = io.BytesIO()
    value = {"id": 1, "price": b"\x04\xd2", "day": 19700, "at": 1_700_000_000_123_456, "atz": "2024-02-29T12:30:00.5Z"}
    fastavro.schemaless_writer(out, plain, value)
    producer = Producer(records.settings)
    producer.produce(topic, value=out.getvalue(), partition=0)
    assert producer.flush(60) == 0
    job = home(topic)
    (job.folder / "v.avsc").write_text(json.dumps(schema))
    job.change(decode={"value": {"format": "avro", "schema": {"file": "v.avsc"}}}).ingest()
    types = {field.name: field.type.type for field in job.table("first").schema().fields}
    assert [types[name] for name in fields] == ["long", "decimal(38,2)", "date", "timestamp_ntz", "timestamp"]
    (row,) = job.table("first").to_pyarrow_table().select(list(fields)).to_pylist()
    assert row == {
        **{"id": 1, "price": Decimal("12.34"), "day": date(2023, 12, 9)},
        "at": datetime(2023, 11, 14, 22, 13, 20, 123_456),
        "atz": datetime(2024, 2, 29, 12, 30, 0, 500_000, UTC),
    }
    assert verify(job.job).ok


def dated(*more: tuple[str, str]) -> str:
    """Avro's schema of a record with one of Connect's types, and these fields."""
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    fields = [("id", "int"), ("day", day), *more]
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields]})


def test_a_rebuilt_ledger_keeps_columns_that_an_earlier_release_has_made(
    records: Any, local_home: Any, schema_registry: SharedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows are decoded by the newest rules after they were replaced, and the columns were no longer known."""
    topic = records.topic(1)
    job = local_home(
        topic, decode={"value": {"format": "avro", "schema": "registry"}}, registry={"url": schema_registry.url}
    )

    def send(schema: str, value: dict[str, Any]) -> None:
        serializer = AvroSerializer(schema_registry.client, schema)
        producer = Producer(records.settings)
        producer.produce(topic, serializer(value, SerializationContext(topic, MessageField.VALUE)), partition=0)
        assert producer.flush(60) == 0

    send(dated(), {"id": 0, "day": 19000})
    with monkeypatch.context() as earlier:
        earlier.setattr(table_rules, "NEWEST", FIRST)
        job.ingest()
    everything = {"from_": [f"{topic}:0:0"], "mode": "replace"}
    job.backfill(**everything, to=[f"{topic}:0:1"])
    shutil.rmtree(job.job.ledger)
    rebuild_ledger(job.job)
    send(dated(("note", "string")), {"id": 1, "day": 19001, "note": "a"})
    job.ingest()
    job.backfill(**everything, to=[f"{topic}:0:2"])
    found = job.table("first").to_pyarrow_table().sort_by("_kseg_offset")
    assert [found[name].to_pylist() for name in ("day", "note")] == [[19000, 19001], [None, "a"]]
    assert verify(job.job).ok
    assert planned(job) == [NEWEST.version] * 2
    properties = job.table("first").metadata().configuration
    assert [properties[name] for name in (PROPERTY, COLUMNS_PROPERTY)] == [str(NEWEST.version), str(FIRST.version)]
