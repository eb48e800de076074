"""Fields that a registry's schemas have and a table has not: kept as text, row by row, through dead letters, a death on
the way, and until the job makes columns of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kseg.etl.operations.verify import verify
from registries import SharedRegistry

LINE = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
COLORED = {**LINE, "fields": [*LINE["fields"], {"name": "color", "type": ["null", "string"]}]}


@pytest.fixture
def registry(schema_registry: SharedRegistry) -> SharedRegistry:
    return schema_registry


def avro(*fields: tuple[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": [{"name": n, "type": kind} for n, kind in fields]})


FIRST = avro(("id", "long"), ("lines", {"type": "array", "items": LINE}))
SECOND = avro(("id", "long"), ("lines", {"type": "array", "items": COLORED}), ("big", "long"))
LATE = avro(("id", "long"), ("late", "string"))


class Topic:
    def __init__(self, records: Any, registry: SharedRegistry) -> None:
        self.name = records.topic(1)
        self.client = registry.client
        self.producer = Producer(records.settings)

    def write(self, text: str, *values: dict[str, Any], form: Any = AvroSerializer) -> None:
        serializer = form(text, self.client) if form is JSONSerializer else form(self.client, text)
        for value in values:
            data = serializer(value, SerializationContext(self.name, MessageField.VALUE))
            self.producer.produce(self.name, data, partition=0)
        assert self.producer.flush(60) == 0


def found(job: Any, *columns: str) -> list[tuple[Any, ...]]:
    rows = sorted(job.table("first").to_pyarrow_table().to_pylist(), key=lambda row: row["_kseg_offset"])
    return [tuple(row[column] for column in ("id", *columns)) for row in rows]


@pytest.mark.parametrize("into", ["columns", "struct"])
def test_rows_keep_what_the_table_lacks(
    records: Any, home: Any, children: Any, registry: SharedRegistry, into: str
) -> None:
    topic = Topic(records, registry)
    topic.write(FIRST, {"id": 1, "lines": [{"sku": "a"}]})
    value = {"format": "avro", "schema": "registry", "unknown_fields": "rescue", "into": into}
    job = home(
        topic.name,
        decode={"value": value, "on_error": "dead_letter"},
        sink={"dead_letters": {"path": "./lake/dead", "max": "90%"}},
        registry={"url": registry.url},
    )
    job.ingest()
    topic.write(SECOND, {"id": 2, "lines": [{"sku": "b"}, {"sku": "c", "color": "red"}], "big": 2**63 - 1})
    topic.write(FIRST, {"id": 3, "lines": []})
    if into == "struct":
        job.ingest()
        rows = sorted(job.table("first").to_pyarrow_table().to_pylist(), key=lambda row: row["_kseg_offset"])
        assert [(row["value"]["id"], row["value"]["_kseg_rescued"]) for row in rows] == [
            (1, None),
            (2, '{"lines":[{"color":null},{"color":"red"}],"big":9223372036854775807}'),
            (3, None),
        ]
        assert verify(job.job).ok
        return
    last = avro((f"x{topic.name.rpartition('-')[2]}", "int"))  # the same text would have the same id
    unknown = topic.client.register_schema(f"{topic.name}-last", Schema(last, "AVRO")) + 1
    topic.producer.produce(topic.name, b"\0" + unknown.to_bytes(4, "big") + b"\x08\x08here", partition=0)
    assert topic.producer.flush(60) == 0
    children.run(job, at="land:first:committed", signal="SIGKILL").killed()
    job.ingest(take_over=True)
    text = '{"lines":[{"color":null},{"color":"red"}],"big":9223372036854775807}'
    assert found(job, "_kseg_rescued") == [(1, None), (2, text), (3, None)]
    assert topic.client.register_schema(f"{topic.name}-other", Schema(LATE, "AVRO")) == unknown
    assert job.redrive().status == "done"
    assert found(job, "_kseg_rescued") == [(1, None), (2, text), (3, None), (4, '{"late":"here"}')]
    checked = verify(job.job, reference=True)
    assert checked.ok, checked.findings
    # The fields become columns from here on; rows that are there keep their text.
    job.change(decode={"value": {"unknown_fields": "add"}})
    topic.write(SECOND, {"id": 5, "lines": [{"sku": "d", "color": "blue"}], "big": 7})
    job.ingest()
    assert found(job, "big", "_kseg_rescued")[1] == (2, None, text)
    assert found(job, "big", "_kseg_rescued")[-1] == (5, 7, None)
    assert job.table("first").to_pyarrow_table().sort_by("_kseg_offset").to_pylist()[-1]["lines"] == [
        {"sku": "d", "color": "blue"}
    ]
    assert verify(job.job).ok


def json_schema(**properties: Any) -> str:
    return json.dumps({"title": "Order", "type": "object", "properties": properties})


def test_documents_keep_what_the_table_lacks(records: Any, home: Any, registry: SharedRegistry) -> None:
    """Of a JSON Schema's documents also what their own schema does not have."""
    topic, number = Topic(records, registry), {"type": "integer"}
    topic.write(json_schema(id=number), {"id": 1}, form=JSONSerializer)
    value = {"format": "json_schema", "schema": "registry", "unknown_fields": "rescue"}
    job = home(topic.name, decode={"value": value}, registry={"url": registry.url})
    job.ingest()
    topic.write(json_schema(id=number, big=number), {"id": 2, "big": 2**63 - 1, "more": [1]}, form=JSONSerializer)
    job.ingest()
    text = '{"big": 9223372036854775807, "more": [1]}'
    kept = found(job, "_kseg_rescued")
    assert [(id, rescued and json.loads(rescued)) for id, rescued in kept] == [(1, None), (2, json.loads(text))]
    checked = verify(job.job, reference=True)
    assert checked.ok, checked.findings


def envelope(*fields: tuple[str, Any]) -> str:
    row = {**json.loads(avro(*fields)), "name": "Value"}
    source = {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}]}
    return json.dumps(
        {
            "type": "record",
            "name": "Envelope",
            "fields": [
                {"name": "before", "type": ["null", row]},
                {"name": "after", "type": ["null", "Value"]},
                {"name": "source", "type": source},
                {"name": "op", "type": "string"},
                {"name": "ts_ms", "type": ["null", "long"]},
            ],
        }
    )


def test_changed_rows_keep_what_the_table_lacks(records: Any, home: Any, registry: SharedRegistry) -> None:
    """A column that is new in a database, in Debezium's envelope."""
    topic = Topic(records, registry)
    change = {"before": None, "source": {"ts_ms": 5}, "op": "c", "ts_ms": 6}
    topic.write(envelope(("id", "long")), {**change, "after": {"id": 1}})
    value = {"format": "avro", "schema": "registry", "envelope": "debezium", "unknown_fields": "rescue"}
    job = home(topic.name, decode={"value": value}, registry={"url": registry.url})
    job.ingest()
    topic.write(envelope(("id", "long"), ("note", "string")), {**change, "after": {"id": 2, "note": "new"}})
    job.ingest()
    kept = found(job, "_kseg_rescued")
    assert [(id, rescued and json.loads(rescued)) for id, rescued in kept] == [
        (1, None),
        (2, {"after": {"note": "new"}}),
    ]
    checked = verify(job.job, reference=True)
    assert checked.ok, checked.findings
