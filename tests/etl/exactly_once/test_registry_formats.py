"""Jobs whose schemas are in a registry, beside those of plain Avro: JSON Schema, Protobuf and Debezium's envelopes by
Confluent's own serializers and a real registry, with schemas that change on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kseg.client.registry.schemas import Resolved
from kseg.client.registry.schemas import Schema as RegistrySchema
from kseg.etl.errors import Refused
from kseg.etl.operations.schema_check import check_against_job, parts_of
from kseg.etl.operations.verify import verify
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from registries import SharedRegistry


@pytest.fixture
def registry(schema_registry: SharedRegistry) -> SharedRegistry:
    return schema_registry


class Topic:
    """Writes records of a topic by serializers that register their schemas."""

    def __init__(self, records: Any, registry: SharedRegistry) -> None:
        self.name = records.topic(1)
        self.client = registry.client
        self._producer = Producer(records.settings)

    def write(self, serializer: Any, *values: Any) -> None:
        for value in values:
            headers: list[tuple[str, Any]] = []
            data = serializer(value, SerializationContext(self.name, MessageField.VALUE, headers))
            self._producer.produce(self.name, data, headers=headers, partition=0)
        assert self._producer.flush(60) == 0


def id_in_header(payload: bytes, context: SerializationContext, schema_id: Any) -> bytes:
    """As Confluent's header_schema_id_serializer, but by the id: Apicurio has no GUIDs."""
    context.headers.append(("__value_schema_id", schema_id.id_to_bytes()))
    return payload


def job_of(home: Any, topic: Topic, registry: SharedRegistry, **value: Any) -> Any:
    decode = {"value": {"schema": "registry", **value}}
    return home(topic.name, decode=decode, registry={"url": registry.url})


def rows(job: Any, table: str = "first") -> list[dict[str, Any]]:
    found = sorted(job.table(table).to_pyarrow_table().to_pylist(), key=lambda row: row["_kseg_offset"])
    return [{name: value for name, value in row.items() if not name.startswith("_kseg_")} for row in found]


def json_schema(**properties: Any) -> str:
    return json.dumps({"title": "Order", "type": "object", "properties": properties, "additionalProperties": True})


def test_a_choice_of_objects_is_a_struct_for_each_member(records: Any, home: Any, registry: SharedRegistry) -> None:
    """A later version has another member, before the others."""
    topic = Topic(records, registry)

    def schema(*names: str) -> str:
        members = [
            {"title": name, "type": "object", "properties": {"is": {"const": name}, "id": {"type": "integer"}}}
            for name in names
        ]
        required = [{**each, "required": ["is"]} for each in members]
        return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": "Event", "oneOf": required})

    job = job_of(home, topic, registry, format="json_schema")
    topic.write(JSONSerializer(schema("Order", "Refund"), topic.client), {"is": "Order", "id": 1}, {"is": "Refund"})
    job.ingest()
    topic.write(JSONSerializer(schema("Gift", "Order", "Refund"), topic.client), {"is": "Gift"}, {"is": "Order"}, None)
    job.ingest()
    assert rows(job) == [
        {"Order": {"is": "Order", "id": 1}, "Refund": None, "Gift": None},
        {"Order": None, "Refund": {"is": "Refund", "id": None}, "Gift": None},
        {"Order": None, "Refund": None, "Gift": {"is": "Gift", "id": None}},
        {"Order": {"is": "Order", "id": None}, "Refund": None, "Gift": None},
        {"Order": None, "Refund": None, "Gift": None},
    ]
    assert verify(job.job).ok


def test_documents_of_several_json_schemas_become_one_table(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = Topic(records, registry)
    text, number, line = {"type": "string"}, {"type": "integer"}, {"type": "object", "properties": {"sku": {}}}
    first = json_schema(id=number, line={**line, "properties": {"sku": text}})
    second = json_schema(id=number, amount=number, line={**line, "properties": {"n": number, "sku": text}})
    job = job_of(home, topic, registry, format="json_schema")
    topic.write(JSONSerializer(first, topic.client), {"id": 2**60, "line": {"sku": "a"}, "amount": "undeclared"})
    job.ingest()
    topic.write(JSONSerializer(second, topic.client), {"id": 2, "amount": 5, "line": {"sku": "b", "n": 3}}, None)
    topic.write(JSONSerializer(first, topic.client), {"id": 3})
    job.ingest()
    assert rows(job) == [
        {"id": 2**60, "line": {"sku": "a", "n": None}, "amount": None},
        {"id": 2, "line": {"sku": "b", "n": 3}, "amount": 5},
        {"id": None, "line": None, "amount": None},
        {"id": 3, "line": None, "amount": None},
    ]
    assert verify(job.job).ok
    changed = json_schema(id=text)
    topic.write(JSONSerializer(changed, topic.client), {"id": "x"})
    with pytest.raises(Refused, match="id: string does not fit the column, which is bigint") as refused:
        job.ingest()
    assert refused.value.code == "schema-conflict"


def test_a_json_schema_is_read_with_those_that_it_refers_to(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = Topic(records, registry)
    money = json.dumps({"type": "object", "properties": {"units": {"type": "integer"}}})
    topic.client.register_schema(f"{topic.name}-money", Schema(money, "JSON"))
    used = [SchemaReference("money.json", f"{topic.name}-money", 1)]
    schema = Schema(json_schema(price={"$ref": "money.json"}), "JSON", used)
    topic.write(JSONSerializer(schema, topic.client), {"price": {"units": 7}})
    job = job_of(home, topic, registry, format="json_schema")
    job.ingest()
    assert rows(job) == [{"price": {"units": 7}}]


def classes(text: str) -> Any:
    """Google's classes of a schema's messages, by name."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compile_text(text)).file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


FIRST = """
    syntax = "proto3"; package shop;
    message Refund { string why = 1; }
    message Order { int64 id = 1; string note = 2; repeated Line lines = 3; message Line { string sku = 1; } }
"""
SECOND = """
    syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
    message Refund { string why = 1; }
    message Order {
      google.protobuf.Timestamp at = 5; map<string, Line> by_name = 4; int64 id = 1; string remark = 2;
      repeated Line lines = 3; message Line { int32 n = 2; string sku = 1; }
    }
"""


def test_messages_of_several_schemas_become_one_table(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = Topic(records, registry)
    job = job_of(home, topic, registry, format="protobuf", message="shop.Order")
    first, second = classes(FIRST)("shop.Order"), classes(SECOND)("shop.Order")

    def by(kind: Any, **conf: Any) -> ProtobufSerializer:
        return ProtobufSerializer(kind, topic.client, {"use.deprecated.format": False, **conf})

    topic.write(by(first), first(id=1, note="a", lines=[{"sku": "x"}]))
    job.ingest()
    topic.write(by(second), second(id=2, remark="b", lines=[{"sku": "y", "n": 4}], by_name={"k": {"n": 1}}))
    topic.write(by(first, **{"schema.id.serializer": id_in_header}), first(id=3, note="c"))
    job.ingest()
    found = rows(job)
    assert [(row["id"], row["note"]) for row in found] == [(1, "a"), (2, "b"), (3, "c")], "field 2 is one column"
    assert [row["lines"] for row in found] == [[{"sku": "x", "n": None}], [{"sku": "y", "n": 4}], []]
    assert [row["by_name"] for row in found] == [None, [("k", {"n": 1, "sku": ""})], None]
    assert [name for name in found[0] if name not in ("id", "note", "lines")] == ["at", "by_name"]
    assert verify(job.job).ok
    refund = classes(FIRST)("shop.Refund")
    topic.write(by(refund), refund(why="broken"))
    with pytest.raises(Exception, match=r"is a shop\.Refund, and the columns are those of shop\.Order"):
        job.ingest()


def test_fields_of_messages_that_the_table_lacks_are_kept_as_text(
    records: Any, home: Any, registry: SharedRegistry
) -> None:
    topic = Topic(records, registry)
    job = job_of(home, topic, registry, format="protobuf", message="shop.Order", unknown_fields="rescue")
    first, second = classes(FIRST)("shop.Order"), classes(SECOND)("shop.Order")
    usual = {"use.deprecated.format": False}
    topic.write(ProtobufSerializer(first, topic.client, usual), first(id=1, note="a"))
    job.ingest()
    topic.write(
        ProtobufSerializer(second, topic.client, usual),
        second(id=2, remark="b", lines=[{"sku": "y"}, {"n": 4}], by_name={"k": {"n": 1}}, at={"seconds": 1}),
        second(id=3),
    )
    job.ingest()
    found = job.table("first").to_pyarrow_table().sort_by("_kseg_offset").to_pylist()
    assert [(row["id"], row["note"], row["_kseg_rescued"] is None) for row in found] == [
        (1, "a", True),
        (2, "b", False),
        (3, "", True),
    ]
    assert json.loads(found[1]["_kseg_rescued"]) == {
        "lines": [None, {"n": 4}],
        "by_name": {"k": {"n": 1}},
        "at": "1970-01-01T00:00:01Z",
    }
    assert verify(job.job).ok


def test_a_run_killed_with_a_schema_found_on_the_way_lands_once(
    records: Any, home: Any, children: Any, registry: SharedRegistry
) -> None:
    topic = Topic(records, registry)
    job = job_of(home, topic, registry, format="protobuf", message="shop.Order")
    first, second = classes(FIRST)("shop.Order"), classes(SECOND)("shop.Order")
    usual = {"use.deprecated.format": False}
    topic.write(ProtobufSerializer(first, topic.client, usual), first(id=1, note="a"))
    elsewhere = {**usual, "subject.name.strategy": lambda context, name, *_: f"{topic.name}-{name}"}
    topic.write(ProtobufSerializer(second, topic.client, elsewhere), second(id=2, lines=[{"n": 4}]))
    children.run(job, at="schemas:after", signal="SIGKILL").killed()
    job.ingest(take_over=True)
    assert [(row["id"], row["note"], row["lines"]) for row in rows(job)] == [
        (1, "a", []),
        (2, "", [{"sku": "", "n": 4}]),
    ]
    assert [run.phase for run in job.state.runs.values()] == ["finished"]
    assert len(job.state.lineages["value"].readers) == 2
    assert verify(job.job).ok
    job.ingest()
    assert len(rows(job)) == 2


def avro(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": name, "type": kind} for name, kind in fields]}


def envelope(*fields: tuple[str, Any]) -> str:
    row, source = avro("Value", *fields), avro("Source", ("ts_ms", "long"))
    columns = (("before", ["null", row]), ("after", ["null", "Value"]), ("source", source), ("op", "string"))
    return json.dumps({**avro("Envelope", *columns), "namespace": "shop"})


def test_rows_of_debeziums_envelopes_get_new_columns(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = Topic(records, registry)
    job = job_of(home, topic, registry, format="avro", envelope="debezium")
    around = {"source": {"ts_ms": 1000}, "before": None, "after": None}
    first = AvroSerializer(topic.client, envelope(("id", "int")))
    topic.write(first, {**around, "op": "c", "after": {"id": 1}})
    job.ingest()
    second = AvroSerializer(topic.client, envelope(("id", "int"), ("note", ["null", "string"])))
    topic.write(second, {**around, "op": "u", "after": {"id": 2, "note": "b"}}, None)
    topic.write(first, {**around, "op": "d", "before": {"id": 1}})
    job.ingest()
    assert rows(job) == [
        {"id": 1, "note": None},
        {"id": 2, "note": "b"},
        {"id": None, "note": None},
        {"id": 1, "note": None},
    ]
    table = job.table("first").to_pyarrow_table().sort_by("_kseg_offset")
    assert table.column("_kseg_op").to_pylist() == ["c", "u", None, "d"]
    assert verify(job.job).ok
    topic.write(first, {**around, "op": "x"})
    with pytest.raises(Exception, match="'x' is none of c, r, u, d, t, m"):
        job.ingest()


def test_a_new_table_has_the_widest_types_of_all_versions(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = Topic(records, registry)
    wide, narrow = (json.dumps(avro("Order", ("id", kind))) for kind in ("long", "int"))
    topic.write(AvroSerializer(topic.client, wide), {"id": 2**40})
    topic.write(AvroSerializer(topic.client, narrow), {"id": 1})
    job = job_of(home, topic, registry, format="avro")
    job.ingest()
    assert rows(job) == [{"id": 2**40}, {"id": 1}]


def job_of_kinds(home: Any, topic: Topic, registry: SharedRegistry, package: str, **value: Any) -> Any:
    """Orders and payments, each with a table of its own columns."""
    names = {f"{package}.{kind}": kind.lower() for kind in ("Order", "Payment")}
    decode = {"value": {"schema": "registry", "subject": list(names), **value}, "on_error": "dead_letter"}
    routes = {name: {"path": f"./lake/{table}"} for name, table in names.items()}
    letters = {"path": "./lake/dead", "max": "90%"}
    sink = {"path": None, "route_by": "schema", "routes": routes, "dead_letters": letters}
    return home(topic.name, decode=decode, registry={"url": registry.url}, sink=sink)


def package_of(topic: Topic) -> str:
    """One that no other test registers records in."""
    return "shop" + "".join(filter(str.isalnum, topic.name))


def test_documents_are_told_apart_by_their_titles(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = Topic(records, registry)
    package = package_of(topic)
    for name, kind, value in (("Order", "integer", 1), ("Payment", "string", "p")):
        document = {"title": f"{package}.{name}", "type": "object", "properties": {"id": {"type": kind}}}
        conf = {"subject.name.strategy": record_subject_name_strategy}
        topic.write(JSONSerializer(json.dumps(document), topic.client, conf=conf), {"id": value})
    job = job_of_kinds(home, topic, registry, package, format="json_schema")
    job.ingest()
    assert (rows(job, "order"), rows(job, "payment")) == ([{"id": 1}], [{"id": "p"}])
    assert verify(job.job).ok


MESSAGES = """
    syntax = "proto3"; package {package};
    message Order {{ int64 id = 1; string note = 2; Line line = 3; message Line {{ string sku = 1; }} }}
    message Payment {{ string id = 1; {more} map<string, double> paid = 3; }}
    message Refund {{ bytes id = 1; }}
"""


def test_messages_are_told_apart_by_their_names(
    records: Any, home: Any, children: Any, registry: SharedRegistry
) -> None:
    """All are in one file; one changes, one has no route at first."""
    topic = Topic(records, registry)
    package = package_of(topic)

    def text(more: str = "") -> str:
        return MESSAGES.format(package=package, more=more)

    def write(name: str, more: str = "", **values: Any) -> None:
        kind = classes(text(more))(f"{package}.{name}")
        conf = {"use.deprecated.format": False, "subject.name.strategy": record_subject_name_strategy}
        topic.write(ProtobufSerializer(kind, topic.client, conf), kind(**values))

    write("Order", id=1, note="a", line={"sku": "x"})
    write("Payment", id="p1", paid={"eur": 2.5})
    write("Refund", id=b"r")
    write("Order.Line", sku="alone")
    write("Payment", id="p2")
    job = job_of_kinds(home, topic, registry, package, format="protobuf")
    children.run(job, at="land:order:committed", signal="SIGKILL").killed()
    job.ingest(take_over=True)
    assert rows(job, "order") == [{"id": 1, "note": "a", "line": {"sku": "x"}}]
    assert rows(job, "payment") == [{"id": "p1", "paid": [("eur", 2.5)]}, {"id": "p2", "paid": []}]
    dead = job.table("dead").to_pyarrow_table().sort_by("offset").to_pylist()
    assert [(row["offset"], row["error"], package in row["message"]) for row in dead] == [
        (2, "ROUTE", True),
        (3, "ROUTE", True),
    ]
    write("Payment", "bool late = 2;", id="p3", late=True)
    job.ingest()
    assert list(rows(job, "payment")[-1].items()) == [("id", "p3"), ("paid", []), ("late", True)]
    assert rows(job, "order")[0].keys() == {"id", "note", "line"}
    job.change(sink={"routes": {f"{package}.Refund": {"path": "./lake/refund"}}})
    assert job.redrive(where='"offset" = 2').status == "done"
    assert rows(job, "refund") == [{"id": b"r"}]
    readers = {name.rpartition(".")[2]: len(lineage.readers) for name, lineage in job.state.lineages.items()}
    assert readers == {"value": 0, "Order": 1, "Payment": 2, "Refund": 1}
    found = verify(job.job)
    assert found.ok, found.findings
    assert "all rows agree" in found.headline
    (part,) = parts_of(job.job, f"{package}.Payment")

    def checked(more: str) -> Any:
        candidate = Resolved(RegistrySchema(text(more), "PROTOBUF"))
        return check_against_job(job.job, job.state, part, candidate, "the new one")

    refused = checked("int32 late = 2; uint32 more = 4;").refused
    assert ("late" in refused[0], len(refused)) == (True, 1)
    fits = checked("uint32 more = 4;")
    assert (fits.added, fits.missing, fits.refused) == ((("more", "bigint"),), ("late",), ())
