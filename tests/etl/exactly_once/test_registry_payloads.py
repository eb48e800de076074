"""Payloads of a registry as others write them: fields that change their types and go, in jobs that land them once."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema as RegisteredSchema
from confluent_kafka.schema_registry import SchemaReference, record_subject_name_strategy, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kseg.etl.errors import KsegError, Refused
from kseg.etl.operations.verify import verify
from kseg.jobs.inference.draft import draft_of
from kseg.jobs.inference.sampling import Sample
from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from registries import SharedRegistry


class Topic:
    """A topic to which Confluent's serializers write. suffix: for names that no other topic's subjects have."""

    def __init__(self, records: Any, registry: SharedRegistry, partitions: int = 1) -> None:
        self.name = records.topic(partitions)
        self.suffix = self.name.rpartition("-")[2]
        self.registry = registry
        self._producer = Producer(records.settings)

    def write(self, data: bytes, partition: int = 0) -> None:
        self._producer.produce(self.name, data, partition=partition)
        assert self._producer.flush(60) == 0

    def write_avro(self, schema: Any, *values: Any, partition: int = 0, **options: Any) -> None:
        serializer = AvroSerializer(self.registry.client, json.dumps(schema), conf=options)
        for value in values:
            self.write(serializer(value, SerializationContext(self.name, MessageField.VALUE)), partition)

    def write_json(self, schema: Any, *values: Any) -> list[bytes]:
        serializer = JSONSerializer(json.dumps(schema), self.registry.client)
        written = [serializer(value, SerializationContext(self.name, MessageField.VALUE)) for value in values]
        for data in written:
            self.write(data)
        return written


@pytest.fixture
def topic_of(records: Any, schema_registry: SharedRegistry) -> Callable[..., Topic]:
    def make(partitions: int = 1) -> Topic:
        return Topic(records, schema_registry, partitions)

    return make


@pytest.fixture
def job_of(home: Any, schema_registry: SharedRegistry) -> Callable[..., Any]:
    """job_of(topic, value, **sections): a job whose values are decoded so."""

    def make(topic: Topic, value: dict[str, Any], *, decode: Any = None, **sections: Any) -> Any:
        decode = {"value": {"schema": "registry", **value}, **(decode or {})}
        return home(topic.name, decode=decode, registry={"url": schema_registry.url}, **sections)

    return make


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields.items()]}


def rows(job: Any, table: str = "first") -> list[dict[str, Any]]:
    """What a table has of the decoded columns."""

    def decoded() -> Iterator[dict[str, Any]]:
        for row in job.table(table).to_pyarrow_table().sort_by("_kseg_offset").to_pylist():
            yield {name: value for name, value in row.items() if not name.startswith("_kseg_")}

    return list(decoded())


@pytest.mark.parametrize("strategy", [topic_subject_name_strategy, record_subject_name_strategy])
def test_a_field_that_was_widened_and_removed_since_lands_with_its_widest_type(
    topic_of: Any, job_of: Any, strategy: Any
) -> None:
    """Also of a subject that the job does not name, whose versions are met one after the other."""
    topic = topic_of(2)
    name = f"Order{topic.suffix}"
    options = {"subject.name.strategy": strategy}
    for partition in (1, 0):
        topic.write_avro(record(name, id="int", x="int"), {"id": 1, "x": 1}, partition=partition, **options)
        topic.write_avro(record(name, id="int", x="long"), {"id": 2, "x": 2**40}, partition=partition, **options)
    topic.write_avro(record(name, id="int"), {"id": 3})
    job = job_of(topic, {"format": "avro"})
    job.ingest()
    found = sorted((row["id"], row["x"]) for row in rows(job) if row["x"] is not None)
    assert found == [(1, 1), (1, 1), (2, 2**40), (2, 2**40)]
    assert pa.schema(job.table("first").schema().to_arrow()).field("x").type == pa.int64()
    assert verify(job.job).ok


def test_a_field_that_changes_between_types_of_one_column_lands(topic_of: Any, job_of: Any) -> None:
    """The registry's rule is NONE, as where others have changed them: an enum, a string, an enum of another name."""
    topic = topic_of()
    colours = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
    fixed = {"type": "fixed", "name": "F", "size": 2}
    topic.write_avro(record("Order", a=colours, b=fixed), {"a": "RED", "b": b"ab"})
    topic.registry.client.set_compatibility(f"{topic.name}-value", level="NONE")
    job = job_of(topic, {"format": "avro"})
    job.ingest()
    topic.write_avro(record("Order", a="string", b="bytes"), {"a": "green", "b": b"abc"})
    job.ingest()
    topic.write_avro(
        record("Order", a={**colours, "name": "Paint"}, b={**fixed, "size": 3}), {"a": "BLUE", "b": b"xyz"}
    )
    job.ingest()
    assert rows(job) == [{"a": "RED", "b": b"ab"}, {"a": "green", "b": b"abc"}, {"a": "BLUE", "b": b"xyz"}]
    assert verify(job.job).ok


def test_times_with_digits_below_a_microsecond_land_as_kseg_init_says(topic_of: Any, job_of: Any) -> None:
    """As Go, Java and SQL Server write them, by Confluent's serializer of JSON Schema."""
    topic = topic_of()
    of_time = {"type": "string", "format": "date-time"}
    schema = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "at": of_time}}
    written = topic.write_json(
        schema, {"id": 1, "at": "2024-02-29T12:30:15.1234567Z"}, {"id": 2, "at": "2024-02-29T12:30:15Z"}
    )
    job = job_of(topic, {"format": "json_schema"})
    with pytest.raises(KsegError, match="digits below a microsecond: nanoseconds: truncate"):
        job.ingest()
    registry = {"url": topic.registry.url}
    drafted = draft_of(topic.name, Sample(2, 2, [None, None], [*written]), {}, table="./t", registry=registry)
    value = yaml.safe_load(drafted.text)["decode"]["value"]
    assert value == {"format": "json_schema", "schema": "registry", "nanoseconds": "truncate"}
    assert "# 1 time(s) have digits below a microsecond" in drafted.text
    job.change(decode={"value": value})
    job.ingest()
    times = [datetime(2024, 2, 29, 12, 30, 15, micros, UTC) for micros in (123_456, 0)]
    assert rows(job) == [{"id": 1, "at": times[0]}, {"id": 2, "at": times[1]}]
    assert verify(job.job).ok


@pytest.mark.parametrize("first", [True, False], ids=["in-the-first-run", "later"])
def test_names_of_records_that_change_with_each_version_are_matched_by_a_list(
    topic_of: Any, job_of: Any, first: bool
) -> None:
    """As the source connectors of MongoDB and Cosmos DB infer them: the remedy of the refusal, word for word."""
    topic = topic_of()
    versions = [
        record(f"INFERRED_{number}", id="long", at=record(f"INFERRED_{number}{number}", zip="string", **more))
        for number, more in ((1, {}), (2, {"city": "string"}))
    ]
    job = job_of(topic, {"format": "avro"})
    topic.write_avro(versions[0], {"id": 1, "at": {"zip": "z"}})
    topic.registry.client.set_compatibility(f"{topic.name}-value", level="NONE")
    if not first:
        job.ingest()
    topic.write_avro(versions[1], {"id": 2, "at": {"zip": "z", "city": "c"}})
    with pytest.raises(Refused, match=r"record INFERRED_\d does not fit the column") as refused:
        job.ingest()
    assert refused.value.code == "schema-conflict"
    subject = re.search("write `(subject: [^`]+)`", refused.value.remedy or "")
    assert subject is not None
    job.change(decode={"value": {"format": "avro", "schema": "registry", **yaml.safe_load(subject[1])}})
    job.ingest()
    assert rows(job) == [{"id": 1, "at": {"zip": "z", "city": None}}, {"id": 2, "at": {"zip": "z", "city": "c"}}]
    assert verify(job.job).ok


def write_trees(topic: Topic, format: str) -> None:
    """{value: a, left: {value: b, children: [{value: c}]}} by Confluent's serializer of a format, twice."""
    inner = {"value": "b", "children": [{"value": "c", "children": []}]}
    for _ in range(2):
        if format == "avro":
            tree = record("Tree", value="string", left=["null", "Tree"], children={"type": "array", "items": "Tree"})
            inner = {**inner, "left": None, "children": [{"value": "c", "left": None, "children": []}]}
            topic.write_avro(tree, {"value": "a", "left": inner, "children": []})
        elif format == "json_schema":
            parts = {
                "value": {"type": "string"},
                "left": {"$ref": "#"},
                "children": {"type": "array", "items": {"$ref": "#"}},
            }
            topic.write_json({"title": "Tree", "type": "object", "properties": parts}, {"value": "a", "left": inner})
        else:
            pool = descriptor_pool.DescriptorPool()
            text = 'syntax = "proto3"; message Tree { string value = 1; Tree left = 2; repeated Tree children = 3; }'
            for file in descriptor_pb2.FileDescriptorSet.FromString(compile_text(text)).file:
                pool.Add(file)
            of = message_factory.GetMessageClass(pool.FindMessageTypeByName("Tree"))
            serializer = ProtobufSerializer(of, topic.registry.client, {"use.deprecated.format": False})
            value = of(value="a", left=of(value="b", children=[of(value="c")]))
            topic.write(serializer(value, SerializationContext(topic.name, MessageField.VALUE)))


@pytest.mark.parametrize("format", ["avro", "json_schema", "protobuf"])
def test_records_that_contain_themselves_land_with_text_where_they_begin_again(
    topic_of: Any, job_of: Any, format: str
) -> None:
    topic = topic_of()
    write_trees(topic, format)
    job = job_of(topic, {"format": format})
    job.ingest()
    for row in rows(job):
        left = json.loads(row["left"])
        assert (row["value"], left["value"], [one["value"] for one in left["children"]]) == ("a", "b", ["c"])
    assert len(rows(job)) == 2
    assert verify(job.job).ok


def test_records_of_a_union_of_references_land_in_tables_of_their_own(topic_of: Any, job_of: Any) -> None:
    """Several kinds of events in one topic by one subject, as with `use.latest.version`."""
    topic, client = topic_of(), topic_of().registry.client
    names = [f"shop{topic.suffix}.{kind}" for kind in ("Order", "Customer")]
    records = [record(name, id=kind) for name, kind in zip(names, ("long", "string"), strict=True)]
    for name, one in zip(names, records, strict=True):
        client.register_schema(name, RegisteredSchema(json.dumps(one), "AVRO"))
    used = [SchemaReference(name, name, 1) for name in names]
    number = client.register_schema(f"{topic.name}-value", RegisteredSchema(json.dumps(names), "AVRO", used))
    union = fastavro.parse_schema(json.loads(json.dumps(records)))
    for name, value in ((names[0], 1), (names[1], "a"), (names[0], 2)):
        payload = io.BytesIO()
        fastavro.schemaless_writer(payload, union, (name, {"id": value}))
        topic.write(b"\0" + number.to_bytes(4, "big") + payload.getvalue())
    routes = {name: {"path": f"./lake/{table}"} for name, table in zip(names, ("orders", "customers"), strict=True)}
    sink = {"path": None, "route_by": "schema", "routes": routes}
    job = job_of(topic, {"format": "avro"}, sink=sink)
    job.ingest()
    assert [rows(job, table) for table in ("orders", "customers")] == [[{"id": 1}, {"id": 2}], [{"id": "a"}]]
    assert verify(job.job).ok
    plain = job_of(topic, {"format": "avro"})
    plain.ingest()
    members = [{name: one for name, one in row.items() if one is not None} for row in rows(plain)]
    assert members == [{"member0": {"id": 1}}, {"member1": {"id": "a"}}, {"member0": {"id": 2}}]


@pytest.mark.parametrize("kinds", [("int", "long"), ("long", "int")])
def test_other_subjects_that_are_met_one_after_the_other_share_the_wider_type_before_any_row(
    topic_of: Any,
    local_home: Any,
    schema_registry: SharedRegistry,
    kinds: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one was refused, though no row had landed: the first one's columns counted as the table's."""
    monkeypatch.setattr("kseg.etl.run.read_options.Limits", partial(Limits, max_rows=1))
    topic = topic_of()

    def order(name: str, *more: tuple[str, str]) -> dict[str, Any]:
        fields = [{"name": field, "type": kind} for field, kind in (("id", "long"), *more)]
        return {"type": "record", "name": name, "namespace": f"n{topic.suffix}", "fields": fields}

    by_record = {"subject.name.strategy": record_subject_name_strategy}
    topic.write_avro(order("Order"), {"id": 0})
    for number, kind in enumerate(kinds, start=1):
        topic.write_avro(order(f"Order{number}", ("x", kind)), {"id": number, "x": number}, **by_record)
    subjects = [f"{topic.name}-value"]
    job = local_home(
        topic.name,
        decode={"value": {"format": "avro", "schema": "registry", "subject": subjects}},
        registry={"url": schema_registry.url},
    )
    job.ingest()
    found = job.table("first").to_pyarrow_table().sort_by("id")
    assert str(found.schema.field("x").type) == "int64"
    assert found["x"].to_pylist() == [None, 1, 2]
    assert len(job.state.lineages["value"].readers) == 3, "each was met by itself"
    assert verify(job.job).ok
