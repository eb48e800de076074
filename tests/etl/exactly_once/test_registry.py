"""Jobs whose schemas are in a registry: Avro by Confluent's own serializer, a real registry, schemas that change on the
way. Rows are typed, land once, and a run decodes as it was planned whatever the registry says by then."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema as RegisteredSchema
from confluent_kafka.schema_registry import (
    record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kseg.client.registry.errors import RegistryUnavailable
from kseg.client.registry.schemas import Resolved, Schema
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.operations.schema_check import check_against_job, parts_of
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify
from registries import SharedRegistry

DECODE = {"value": {"format": "avro", "schema": "registry"}}


@pytest.fixture
def registry(schema_registry: SharedRegistry) -> SharedRegistry:
    return schema_registry


def schema(*fields: tuple[str, Any], name: str = "Order", **more: Any) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": listed, **more})


FIRST = schema(("id", "int"), ("note", "string"))
SECOND = schema(("id", "long"), ("note", "string"), ("amount", ["null", "long"]))
THIRD = schema(("id", "long"), ("tags", {"type": "array", "items": "string"}), ("amount", ["null", "long"]))
TABLE = ["id", "note", "amount", "tags"]


class Orders:
    """Writes records with schemas that it registers."""

    def __init__(self, records: Any, registry: SharedRegistry, topic: str) -> None:
        self.topic = topic
        self.producer = Producer(records.settings)
        self.client = registry.client
        self.rows: list[tuple[int, dict[str, Any]]] = []

    def write(self, text: str, *values: dict[str, Any] | None, partition: int = 0, **options: Any) -> None:
        strategy = options.pop("strategy", topic_subject_name_strategy)
        serializer = AvroSerializer(self.client, text, conf={"subject.name.strategy": strategy, **options})
        for value in values:
            data = serializer(value, SerializationContext(self.topic, MessageField.VALUE))
            self.producer.produce(self.topic, data, partition=partition)
            self.rows.append((partition, value or {}))
        assert self.producer.flush(60) == 0

    def expected(self, columns: list[str]) -> list[tuple[Any, ...]]:
        """Partition, and the columns."""
        return sorted(((p, *(row.get(name) for name in columns)) for p, row in self.rows), key=str)


def typed(job: Any, columns: list[str]) -> list[tuple[Any, ...]]:
    rows = job.table("first").to_pyarrow_table().to_pylist()
    return sorted(((row["_kseg_partition"], *(row[name] for name in columns)) for row in rows), key=str)


def first(number: int) -> dict[str, Any]:
    return {"id": number, "note": f"n{number}"}


def third(number: int) -> dict[str, Any]:
    return {"id": number, "tags": ["a", "b"][: number % 3], "amount": None}


def write_three_versions(orders: Orders) -> None:
    for number in range(0, 30, 3):
        partition = number % 2
        orders.write(FIRST, first(number), partition=partition)
        orders.write(SECOND, {**first(number + 1), "amount": number}, None, partition=partition)
        orders.write(THIRD, third(number + 2), partition=partition)


def test_three_versions_in_turn_become_one_table(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = records.topic(2)
    orders = Orders(records, registry, topic)
    write_three_versions(orders)
    job = home(topic, decode=DECODE, registry={"url": registry.url})
    job.ingest()
    assert typed(job, TABLE) == orders.expected(TABLE)
    assert job.table("first").to_pyarrow_table().schema.field("id").type == pa.int64()
    job.ingest()
    assert typed(job, TABLE) == orders.expected(TABLE), "nothing new, nothing twice"
    assert verify(job.job).ok


def test_a_schema_of_another_subject_is_found_on_the_way(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = records.topic(1)
    orders = Orders(records, registry, topic)
    orders.write(FIRST, first(1))
    other = schema(("id", "int"), ("found", "string"), name=f"Order{topic.rpartition('-')[2]}", aliases=["Order"])
    orders.write(other, {"id": 2, "found": "here"}, strategy=record_subject_name_strategy)
    job = home(topic, decode=DECODE, registry={"url": registry.url})
    job.ingest()
    assert typed(job, ["id", "note", "found"]) == orders.expected(["id", "note", "found"])
    (run,) = job.state.runs.values()
    pinned = run.plan.schemas["value"]
    assert (pinned.reader, len(job.state.lineages["value"].readers)) == (2, 2)
    assert job.orphans() == set()


@pytest.mark.parametrize("step", ["plan:after", "schemas:after", "land:first:committed", "account:after"])
def test_a_run_killed_at_a_step_lands_once(
    records: Any, home: Any, children: Any, registry: SharedRegistry, step: str
) -> None:
    topic = records.topic(2)
    orders = Orders(records, registry, topic)
    orders.write(FIRST, first(100))
    orders.write(
        schema(("id", "long"), ("extra", "int")), {"id": 101, "extra": 7}, strategy=record_subject_name_strategy
    )
    write_three_versions(orders)
    job = home(topic, decode=DECODE, registry={"url": registry.url})
    children.run(job, at=step, signal="SIGKILL").killed()
    job.ingest(take_over=True)
    columns = [*TABLE, "extra"]
    assert typed(job, columns) == orders.expected(columns)
    state = job.state
    assert [run.phase for run in state.runs.values()] == ["finished"]
    assert job.frontiers() == records.ends(topic) == job.group_offsets()
    assert verify(job.job).ok
    job.ingest()
    assert typed(job, columns) == orders.expected(columns)
    assert state.lineages == job.state.lineages, "nothing is registered twice"


def test_a_planned_run_needs_no_registry(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = records.topic(1)
    orders = Orders(records, registry, topic)
    orders.write(FIRST, first(1))
    job = home(topic, decode=DECODE, registry={"url": registry.url})
    job.die("plan:after")
    job.change(registry={"url": "http://127.0.0.1:1/away", "default.api.timeout.ms": 300})
    job.ingest(take_over=True)
    assert typed(job, ["id", "note"]) == orders.expected(["id", "note"])
    with pytest.raises(RegistryUnavailable, match=r"127\.0\.0\.1:1"):
        job.ingest()


def test_what_cannot_be_decoded_is_refused(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = records.topic(1)
    orders = Orders(records, registry, topic)
    job = home(topic, decode=DECODE, registry={"url": registry.url})
    with pytest.raises(ConfigurationError) as nothing:
        job.ingest()
    assert f"has no subject {topic}-value" in str(nothing.value.faults[0])
    orders.write(FIRST, first(1))
    job.ingest()
    orders.producer.produce(topic, b"\0\0\x7f\xff\xffx", partition=0)
    assert orders.producer.flush(60) == 0
    with pytest.raises(Refused, match="names the schema 8388607, which the registry") as unknown:
        job.ingest()
    assert (unknown.value.code, unknown.value.address["offset"]) == ("schema-unknown", 1)
    (*_, run) = job.state.runs
    job.abandon(run)
    orders.write(schema(("id", "string"), ("note", "string")), {"id": "x", "note": ""})
    with pytest.raises(Refused, match=r"Order\.id: string does not fit the column, which is int: int") as changed:
        job.ingest()
    assert changed.value.code == "schema-conflict"


def test_unknown_fields_can_be_ignored_and_columns_are_bounded(
    records: Any, home: Any, registry: SharedRegistry
) -> None:
    topic = records.topic(1)
    orders = Orders(records, registry, topic)
    orders.write(FIRST, first(1))
    job = home(topic, decode={"value": {**DECODE["value"], "max_columns": 2}}, registry={"url": registry.url})
    job.ingest()
    more = schema(("id", "int"), ("note", "string"), ("amount", "int"))
    orders.write(more, {**first(2), "amount": 5})
    with pytest.raises(Refused, match="would have 3 columns") as many:
        job.ingest()
    assert many.value.code == "too-many-columns"
    job.change(decode={"value": {"unknown_fields": "ignore"}})
    job.ingest()
    assert typed(job, ["id", "note"]) == orders.expected(["id", "note"])
    assert "amount" not in job.table("first").schema().to_arrow().names


def test_fields_inside_of_records_are_added(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = records.topic(1)
    orders = Orders(records, registry, topic)
    city = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
    with_zip = {**city, "fields": [{"name": "zip", "type": "int"}, *city["fields"]]}
    job = home(topic, decode=DECODE, registry={"url": registry.url})
    for kind, address in ((city, {"city": "Bern"}), (with_zip, {"city": "Basel", "zip": 4000})):
        text = schema(("to", ["null", kind]), ("all", {"type": "array", "items": "Address"}))
        orders.write(text, {"to": address, "all": [address]})
        job.ingest()
    rows = job.table("first").to_pyarrow_table().to_pylist()
    assert sorted((row["to"]["city"], row["to"]["zip"], row["all"][0]["zip"]) for row in rows) == [
        ("Basel", 4000, 4000),
        ("Bern", None, None),
    ]
    assert verify(job.job).ok


def test_a_schema_that_nobody_knows_is_a_dead_letter(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = records.topic(1)
    orders = Orders(records, registry, topic)
    orders.write(FIRST, first(1))
    orders.producer.produce(topic, b"\0\0\x7f\xff\xffx", partition=0)
    orders.write(FIRST, first(2))
    job = home(
        topic,
        decode={**DECODE, "on_error": "dead_letter"},
        sink={"dead_letters": {"path": "./lake/dead", "max": "50%"}},
        registry={"url": registry.url},
    )
    job.ingest()
    assert typed(job, ["id", "note"]) == orders.expected(["id", "note"])
    (letter,) = job.table("dead").to_pyarrow_table().to_pylist()
    assert "the registry does not know the schema 8388607" in str(letter)
    (run,) = job.state.runs.values()
    assert run.plan.schemas["value"].writers["8388607"] == ""


def test_a_new_schema_is_checked_against_what_was_landed(records: Any, home: Any, registry: SharedRegistry) -> None:
    topic = records.topic(1)
    orders = Orders(records, registry, topic)
    orders.write(FIRST, first(1))
    job = home(topic, decode=DECODE, registry={"url": registry.url})
    job.ingest()
    (part,) = parts_of(job.job, f"{topic}-value")
    wider = schema(("id", "int"), ("amount", "double"))
    found = check_against_job(job.job, job.state, part, Resolved(Schema(wider)), "the new one")
    assert (found.added, found.missing, found.refused) == ((("amount", "double"),), ("note",), ())
    found = check_against_job(job.job, job.state, part, Resolved(Schema(SECOND)), "the new one")
    assert "long does not fit the column, which is int" in found.refused[0]
    orders.write(SECOND, {**first(2), "amount": 5})
    with pytest.raises(Refused, match="long does not fit the column, which is int"):
        job.ingest()


def test_records_of_a_schema_that_does_not_fit_the_columns_are_dead_letters(
    records: Any, home: Any, registry: SharedRegistry
) -> None:
    """The topic's first records are of a version that the newest one has broken with."""
    topic = records.topic(1)
    orders = Orders(records, registry, topic)
    orders.write(schema(("id", "string"), ("note", "string"), ("gone", "int")), {"id": "x", "note": "", "gone": 1})
    orders.rows.clear()
    orders.write(FIRST, first(1), first(2))
    job = home(topic, decode={**DECODE}, registry={"url": registry.url})
    with pytest.raises(Refused) as changed:
        job.ingest()
    assert changed.value.code == "schema-conflict"
    job.change(decode={"on_error": "dead_letter"}, sink={"dead_letters": {"path": "./lake/dead", "max": "50%"}})
    job.ingest()
    assert typed(job, ["id", "note"]) == orders.expected(["id", "note"])
    (letter,) = job.table("dead").to_pyarrow_table().to_pylist()
    assert (letter["offset"], letter["error"]) == (0, "INCOMPATIBLE_SCHEMA")
    assert "gone" not in job.table("first").schema().to_arrow().names
    orders.write(FIRST, first(3))
    job.ingest()
    assert typed(job, ["id", "note"]) == orders.expected(["id", "note"])


def test_dead_letters_of_a_registry_s_job_land_once_their_schema_is_known(
    records: Any, home: Any, registry: SharedRegistry
) -> None:
    topic = records.topic(1)
    orders = Orders(records, registry, topic)
    orders.write(FIRST, first(1))
    last = orders.client.register_schema(f"{topic}-last", RegisteredSchema(schema(("x", "int"), name="Last"), "AVRO"))
    framed = b"\0" + (last + 1).to_bytes(4, "big")
    orders.producer.produce(topic, framed + b"\x04\x08here", partition=0)
    orders.producer.produce(topic, framed + b"\x04\x08he", partition=0)
    orders.producer.produce(topic, b"\0" + (last + 2).to_bytes(4, "big") + b"\x04", partition=0)
    orders.write(FIRST, first(3))
    job = home(
        topic,
        decode={**DECODE, "on_error": "dead_letter"},
        sink={"dead_letters": {"path": "./lake/dead", "max": "90%"}},
        registry={"url": registry.url},
    )
    job.ingest()
    columns = ["id", "note"]
    assert typed(job, columns) == orders.expected(columns)
    assert {letter["schema_id"] for letter in job.table("dead").to_pyarrow_table().to_pylist()} == {
        last + 1,
        last + 2,
    }
    report = job.redrive()
    assert (report.status, "stay open: 3." in " ".join(report.notes)) == ("nothing-to-do", True)

    added = schema(("id", "int"), ("late", "string"))
    assert orders.client.register_schema(f"{topic}-other", RegisteredSchema(added, "AVRO")) == last + 1
    orders.client.register_schema(f"{topic}-unfit", RegisteredSchema(schema(("id", "string")), "AVRO"))
    job.die_redriving("schemas:after")
    assert job.redrive(take_over=True).status == "done"
    notes = " ".join(job.redrive().notes)
    assert "stay open: 2." in notes
    assert f"INCOMPATIBLE_SCHEMA: schema {last + 2}: " in notes
    orders.rows.append((0, {"id": 2, "late": "here"}))
    columns = [*columns, "late"]
    assert typed(job, columns) == orders.expected(columns)
    assert status(job.job).dead_letters == {"open": 2, "redriven": 1}
    assert verify(job.job).ok
    job.ingest()
    assert typed(job, columns) == orders.expected(columns)


def test_each_kind_of_record_lands_in_a_table_of_its_own_fields(
    records: Any, home: Any, registry: SharedRegistry
) -> None:
    """Two kinds in one topic, by RecordNameStrategy, with records of their own in one field; one is renamed and grows,
    through a death between the tables."""
    topic = records.topic(1)
    unique = topic.rpartition("-")[2]
    names = [f"{kind}{unique}" for kind in ("Order", "Payment")]
    orders = Orders(records, registry, topic)
    shop, bank = (
        {"type": "record", "name": name, "fields": [{"name": field, "type": "int"}]}
        for name, field in (("Shop", "till"), ("Bank", "branch"))
    )
    order = schema(("id", "long"), ("size", "int"), ("at", shop), name=names[0])
    payment = schema(("id", "long"), ("paid", "double"), ("at", bank), name=names[1])
    for number in range(0, 8, 2):
        orders.write(order, {"id": number, "size": 3, "at": {"till": 5}}, strategy=record_subject_name_strategy)
        orders.write(
            payment, {"id": number + 1, "paid": 9.5, "at": {"branch": 6}}, strategy=record_subject_name_strategy
        )
    routes = {f"shop.{name}": {"path": f"./lake/{kind}"} for name, kind in zip(names, ("a", "b"), strict=True)}
    job = home(
        topic,
        decode={"value": {**DECODE["value"], "subject": [f"shop.{name}" for name in names]}},
        registry={"url": registry.url},
        sink={"path": None, "route_by": "schema", "routes": routes},
    )
    job.die("land:a:committed")
    job.ingest(take_over=True)
    assert of_table(job, "a") == [{"id": number, "size": 3, "at": {"till": 5}} for number in range(0, 8, 2)]
    assert of_table(job, "b") == [{"id": number + 1, "paid": 9.5, "at": {"branch": 6}} for number in range(0, 8, 2)]
    fields = [{"name": "id", "type": "long"}, {"name": "total", "type": "double", "aliases": ["paid"]}]
    fields.append({"name": "by", "type": ["null", "string"]})
    renamed = json.dumps({"type": "record", "name": names[1], "namespace": "shop", "fields": fields})
    registry.client.set_compatibility(subject_name=f"shop.{names[1]}", level="NONE")
    orders.write(renamed, {"id": 9, "total": 1.5, "by": "card"}, strategy=record_subject_name_strategy)
    job.ingest()
    assert of_table(job, "b")[-1] == {"id": 9, "paid": 1.5, "at": None, "by": "card"}
    assert [*of_table(job, "a")[0]] == ["id", "size", "at"]
    found = verify(job.job)
    assert found.ok, found.findings
    assert found.headline.startswith("all rows agree")


def test_fields_of_keys_route_rows(records: Any, home: Any, registry: SharedRegistry) -> None:
    """Keys and values by the registry, each with schemas of their own."""
    topic = records.topic(1)
    key = schema(("kind", "string"), name="Key")
    producer = Producer(records.settings)
    serializers = [AvroSerializer(registry.client, text) for text in (key, FIRST)]
    for number in range(6):
        parts = [
            serializer(value, SerializationContext(topic, field))
            for serializer, value, field in zip(
                serializers,
                ({"kind": "big" if number % 3 == 0 else "small"}, first(number)),
                (MessageField.KEY, MessageField.VALUE),
                strict=True,
            )
        ]
        producer.produce(topic, key=parts[0], value=parts[1], partition=0)
    assert producer.flush(60) == 0
    routes = {"big": {"path": "./lake/a"}, "*": {"path": "./lake/b"}}
    job = home(
        topic,
        decode={"key": {"format": "avro", "schema": "registry"}, **DECODE},
        registry={"url": registry.url},
        sink={"path": None, "route_by": "key.kind", "routes": routes},
    )
    job.ingest()
    assert of_table(job, "a") == [{"kind": "big", **first(number)} for number in (0, 3)]
    assert of_table(job, "b") == [{"kind": "small", **first(number)} for number in (1, 2, 4, 5)]
    assert verify(job.job).ok


def test_kinds_that_differ_in_a_field_s_type_need_tables_of_their_own(
    records: Any, home: Any, registry: SharedRegistry
) -> None:
    """What the refusal says leads out of it."""
    topic = records.topic(1)
    names = [f"{kind}{topic.rpartition('-')[2]}" for kind in ("Order", "Payment")]
    orders = Orders(records, registry, topic)
    for name, kind, value in zip(names, ("string", "long"), ("a", 7), strict=True):
        orders.write(schema(("id", kind), name=name), {"id": value}, strategy=record_subject_name_strategy)
    subjects = [f"shop.{name}" for name in names]
    given = {"decode": {"value": {**DECODE["value"], "subject": subjects}}, "registry": {"url": registry.url}}
    job = home(topic, **given)
    with pytest.raises(Refused) as caught:
        job.ingest()
    assert caught.value.code == "schema-conflict"
    for words in ("give the field another name", "`sink.route_by: schema`", "routes that are named after records"):
        assert words in (caught.value.remedy or "")
    job.change(
        sink={"path": None, "route_by": "schema", "routes": {one: {"path": f"./lake/{one}"} for one in subjects}}
    )
    job.ingest()
    assert [of_table(job, one) for one in subjects] == [[{"id": "a"}], [{"id": 7}]]
    assert verify(job.job).ok


def test_a_plan_checks_the_columns_of_a_registry_s_rows(records: Any, home: Any, registry: SharedRegistry) -> None:
    """`kseg plan` said that it did not, and that `kseg plan` does."""
    topic = records.topic(1)
    Orders(records, registry, topic).write(FIRST, first(1))
    route = {"path": "./lake/a", "columns": ["note", "nota"]}
    sink = {"path": None, "route_by": "schema", "routes": {"*": route}}
    job = home(topic, decode=DECODE, registry={"url": registry.url}, sink=sink)
    with pytest.raises(ConfigurationError, match="names the column nota, which the rows do not have"):
        job.plan()
    job.change(sink={"routes": {"*": {"columns": ["note"]}}})
    planned = job.plan()
    assert planned.status == "dry-run"
    assert not [note for note in planned.notes if "registry" in note]


def of_table(job: Any, table: str) -> list[dict[str, Any]]:
    rows = job.table(table).to_pyarrow_table().sort_by("_kseg_offset").to_pylist()
    return [{name: value for name, value in row.items() if not name.startswith("_kseg_")} for row in rows]
