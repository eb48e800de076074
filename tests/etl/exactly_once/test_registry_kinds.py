"""Topics with several kinds of records, each kind with a table whose columns are its own: fields of one name and
different types, records that have no row, kinds that change and kinds that come later. Each record lands once."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kseg.client.registry.schemas import Resolved, Schema
from kseg.etl.errors import Refused
from kseg.etl.operations.schema_check import check_against_job, parts_of
from kseg.etl.operations.verify import verify
from kseg.etl.planning import schemas as planning
from registries import SharedRegistry
from skips import IN_FULL


@pytest.fixture
def registry(schema_registry: SharedRegistry) -> SharedRegistry:
    return schema_registry


class Shop:
    """A topic of orders, payments and refunds, whose namespace is the topic's own: the registry is the tests' own."""

    def __init__(self, records: Any, registry: SharedRegistry, partitions: int = 1) -> None:
        self.topic = records.topic(partitions)
        self.client = registry.client
        self.producer = Producer(records.settings)
        self.namespace = "shop" + "".join(letter for letter in self.topic if letter.isalnum())

    def schema(self, name: str, *fields: tuple[str, Any]) -> str:
        listed = [{"name": field, "type": kind} for field, kind in fields]
        return json.dumps({"type": "record", "name": name, "namespace": self.namespace, "fields": listed})

    def name(self, record: str) -> str:
        return f"{self.namespace}.{record}"

    def write(self, text: str, *values: dict[str, Any], partition: int = 0) -> None:
        conf = {"subject.name.strategy": record_subject_name_strategy}
        serializer = AvroSerializer(self.client, text, conf=conf)
        for value in values:
            self.write_bytes(serializer(value, SerializationContext(self.topic, MessageField.VALUE)), partition)
        assert self.producer.flush(60) == 0

    def write_bytes(self, data: bytes | None, partition: int = 0) -> None:
        self.producer.produce(self.topic, data, partition=partition)


class Orders(Shop):
    """Orders and payments whose `id` has different types, and whose `note` has one."""

    def __init__(self, records: Any, registry: SharedRegistry, partitions: int = 1) -> None:
        super().__init__(records, registry, partitions)
        self.order = self.schema("Order", ("id", "long"), ("note", "string"))
        self.payment = self.schema("Payment", ("note", "string"), ("id", "string"), ("paid", "double"))

    def job(self, home: Any, registry: SharedRegistry, *kinds: str, **changes: Any) -> Any:
        kinds = kinds or ("Order", "Payment")
        subjects = [self.name(kind) for kind in kinds if kind != "*"]
        routes = {
            self.name(kind) if kind != "*" else "*": {"path": f"./lake/{'rest' if kind == '*' else kind.lower()}"}
            for kind in kinds
        }
        made = home(
            self.topic,
            decode={"value": {"format": "avro", "schema": "registry", "subject": subjects}, "on_error": "dead_letter"},
            sink={
                "path": None,
                "route_by": "schema",
                "routes": routes,
                "dead_letters": {"path": "./lake/dead", "max": "90%"},
            },
            registry={"url": registry.url},
        )
        return made.change(**changes)


def rows(job: Any, table: str) -> list[dict[str, Any]]:
    found = sorted(job.table(table).to_pyarrow_table().to_pylist(), key=lambda row: row["_kseg_offset"])
    return [{name: value for name, value in row.items() if not name.startswith("_kseg_")} for row in found]


def columns(job: Any, table: str) -> dict[str, pa.DataType]:
    made = job.table(table).to_pyarrow_table().schema
    return {field.name: field.type for field in made if not field.name.startswith("_kseg_")}


def check(job: Any) -> None:
    found = verify(job.job)
    assert found.ok, found.findings
    assert "all rows agree" in found.headline


def test_each_kind_has_columns_and_types_of_its_own(records: Any, home: Any, registry: SharedRegistry) -> None:
    shop = Orders(records, registry)
    shop.write(shop.order, {"id": 1, "note": "a"})
    shop.write(shop.payment, {"id": "p1", "note": "b", "paid": 2.5})
    shop.write(shop.order, {"id": 2, "note": "c"})
    job = shop.job(home, registry)
    job.ingest()
    assert columns(job, "order") == {"id": pa.int64(), "note": pa.string()}
    assert columns(job, "payment") == {"note": pa.string(), "id": pa.string(), "paid": pa.float64()}
    assert list(columns(job, "payment")) == ["note", "id", "paid"]
    assert rows(job, "order") == [{"id": 1, "note": "a"}, {"id": 2, "note": "c"}]
    assert rows(job, "payment") == [{"id": "p1", "note": "b", "paid": 2.5}]
    check(job)
    lineages = job.state.lineages
    names = {f"value:{shop.name(kind)}" for kind in ("Order", "Payment")}
    assert lineages.keys() == {"value", *names}
    assert (lineages["value"].readers, len(lineages["value"].writers) >= 2) == ((), True)
    (run,) = job.state.runs.values()
    assert run.plan.schemas["value"].kinds == dict.fromkeys(names, 1)
    job.ingest()
    assert len(rows(job, "order")) == 2
    assert job.state.lineages == lineages, "nothing is registered twice"


def test_one_kind_changes_and_the_other_stays(records: Any, home: Any, registry: SharedRegistry) -> None:
    shop = Orders(records, registry)
    shop.write(shop.order, {"id": 1, "note": "a"})
    shop.write(shop.payment, {"id": "p1", "note": "b", "paid": 2.5})
    job = shop.job(home, registry)
    job.ingest()
    second = shop.schema("Order", ("id", "long"), ("note", "string"), ("paid", ["null", "string"]))
    shop.write(second, {"id": 2, "note": "c", "paid": "yes"})
    shop.write(shop.payment, {"id": "p2", "note": "d", "paid": 3.5})
    job.ingest()
    assert rows(job, "order") == [{"id": 1, "note": "a", "paid": None}, {"id": 2, "note": "c", "paid": "yes"}]
    assert rows(job, "payment")[1] == {"id": "p2", "note": "d", "paid": 3.5}
    readers = {name: len(lineage.readers) for name, lineage in job.state.lineages.items()}
    assert readers == {"value": 0, f"value:{shop.name('Order')}": 2, f"value:{shop.name('Payment')}": 1}
    check(job)
    shop.write(shop.schema("Order", ("id", "string")), {"id": "x"})
    with pytest.raises(Refused, match=r"Order\.id: string does not fit the column, which is long") as conflict:
        job.ingest()
    assert conflict.value.code == "schema-conflict"
    assert "keeps the column's type" in str(conflict.value.remedy)


DEATHS = ("plan:after", "schemas:after", "land:order:committed", "account:after")


@pytest.mark.parametrize("step", DEATHS)
def test_a_kind_met_on_the_way_and_a_death(
    records: Any, home: Any, children: Any, registry: SharedRegistry, step: str, scale: Any
) -> None:
    """The third version of orders is of a subject that the job does not name; a refund's schema has no version yet."""
    if step not in scale(("schemas:after", "land:order:committed"), DEATHS):
        pytest.skip(IN_FULL)
    shop = Orders(records, registry, 2)
    shop.write(shop.order, {"id": 1, "note": "a"})
    shop.write(shop.payment, {"id": "p1", "note": "b", "paid": 2.5}, partition=1)
    job = shop.job(home, registry, "Order", "Payment", "Refund")
    third = shop.schema("Order", ("id", "long"), ("note", "string"), ("gift", ["null", "boolean"]))
    refund = shop.schema("Refund", ("id", {"type": "array", "items": "int"}))
    for text, value in ((third, {"id": 3, "note": "c", "gift": True}), (refund, {"id": [1, 2]})):
        by_topic = AvroSerializer(shop.client, text, conf={"subject.name.strategy": lambda c, n: f"{shop.topic}-{n}"})
        shop.write_bytes(by_topic(value, SerializationContext(shop.topic, MessageField.VALUE)), 1)
    assert shop.producer.flush(60) == 0
    children.run(job, at=step, signal="SIGKILL").killed()
    job.ingest(take_over=True)
    assert {row["id"]: row["gift"] for row in rows(job, "order")} == {1: None, 3: True}
    assert [row["id"] for row in rows(job, "payment")] == ["p1"]
    assert rows(job, "refund") == [{"id": [1, 2]}]
    assert [run.phase for run in job.state.runs.values()] == ["finished"]
    assert job.frontiers() == records.ends(shop.topic) == job.group_offsets()
    check(job)


def test_bad_records_are_dead_letters_and_land_after_a_redrive(
    records: Any, home: Any, registry: SharedRegistry
) -> None:
    shop = Orders(records, registry)
    refund = shop.schema("Refund", ("id", "boolean"), ("note", "string"))
    shop.write(shop.order, {"id": 1, "note": "a"})
    shop.write(refund, {"id": True, "note": "r"})
    shop.write_bytes(b"\0\0\x7f\xff\xffx")
    shop.write_bytes(b"no frame")
    shop.write_bytes(None)
    shop.write(shop.payment, {"id": "p1", "note": "b", "paid": 2.5})
    job = shop.job(home, registry)
    job.ingest()
    dead = job.table("dead").to_pyarrow_table().sort_by("offset").to_pylist()
    assert [(row["offset"], row["error"]) for row in dead] == [
        (1, "ROUTE"),
        (2, "UNKNOWN_SCHEMA"),
        (3, "BAD_FRAME"),
        (4, "ROUTE"),
    ]
    check(job)
    job.change(sink={"routes": {shop.name("Refund"): {"path": "./lake/refund"}}})
    assert job.redrive().status == "done"
    assert rows(job, "refund") == [{"id": True, "note": "r"}]
    assert len(rows(job, "order")) == len(rows(job, "payment")) == 1
    check(job)


def test_all_other_kinds_are_one_kind(records: Any, home: Any, registry: SharedRegistry) -> None:
    """`*` takes the records of kinds that no route names, and tombstones: its columns are those of all of them."""
    shop = Orders(records, registry)
    shop.write(shop.order, {"id": 1, "note": "a"})
    shop.write(shop.payment, {"id": "p1", "note": "b", "paid": 2.5})
    shop.write(shop.schema("Refund", ("id", "boolean")), {"id": True})
    shop.write(shop.schema("Return", ("why", "string")), {"why": "late"})
    shop.write_bytes(None)
    assert shop.producer.flush(60) == 0
    job = shop.job(home, registry, "Order", "Payment", "*")
    job.ingest()
    assert rows(job, "order") == [{"id": 1, "note": "a"}]
    assert sorted(columns(job, "rest")) == ["id", "why"]
    assert [(row["id"], row["why"]) for row in rows(job, "rest")] == [(True, None), (None, "late"), (None, None)]
    check(job)


def test_a_ledger_with_columns_for_all_kinds_goes_on_with_them(
    records: Any, home: Any, registry: SharedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Orders(records, registry)
    alike = shop.schema("Payment", ("id", "long"), ("paid", "double"))
    shop.write(shop.order, {"id": 1, "note": "a"})
    shop.write(alike, {"id": 7, "paid": 2.5})
    job = shop.job(home, registry)
    with monkeypatch.context() as before:
        before.setattr(planning, "kinds_of", lambda *_: None)  # as releases did it that knew no kinds
        job.ingest()
    assert len(job.state.lineages["value"].readers) == 1
    shop.write(
        shop.schema("Payment", ("id", "long"), ("paid", "double"), ("by", ["null", "string"])),
        {"id": 8, "paid": 1.5, "by": "x"},
    )
    job.ingest()
    assert rows(job, "payment") == [{"id": 7, "paid": 2.5, "by": None}, {"id": 8, "paid": 1.5, "by": "x"}]
    assert rows(job, "order") == [{"id": 1, "note": "a"}]
    assert {name: len(lineage.readers) for name, lineage in job.state.lineages.items()} == {"value": 2}
    check(job)
    shop.write(shop.schema("Order", ("id", "long"), ("by", "long")), {"id": 2, "by": 5})
    with pytest.raises(Refused, match="does not fit the table's columns") as conflict:
        job.ingest()
    assert "this takes a new job" in str(conflict.value.remedy)


def test_columns_partitions_and_expectations_are_those_of_each_kind(
    records: Any, home: Any, registry: SharedRegistry
) -> None:
    shop = Orders(records, registry)
    day = {"type": "int", "logicalType": "date"}
    moment = {"type": "long", "logicalType": "timestamp-micros"}
    order = shop.schema("Order", ("id", "long"), ("at", day), ("region", "string"), ("paid", "long"))
    payment = shop.schema("Payment", ("id", "string"), ("at", moment), ("secret", "string"))
    shop.write(order, *({"id": n, "at": n, "region": "eu", "paid": n} for n in range(3)))
    shop.write(payment, {"id": "p", "at": 86_400_000_000, "secret": "s"}, {"id": "", "at": 0, "secret": "s"})
    job = shop.job(home, registry)
    job.change(
        decode={"expect": {"paid": "> 0", "id": "not null"}, "value": {"rename": {"id": "nr"}}},
        sink={"partition_by": ["region", {"day": "at"}], "routes": {shop.name("Payment"): {"columns": ["nr", "at"]}}},
    )
    job.change(decode={"expect": {"paid": "> 0", "nr": "not null", "id": None}})
    job.ingest()
    assert [(row["nr"], row["region"], str(row["at_day"])) for row in rows(job, "order")] == [
        (1, "eu", "1970-01-02"),
        (2, "eu", "1970-01-03"),
    ]
    assert job.table("order").metadata().partition_columns == ["region", "at_day"]
    found = rows(job, "payment")
    assert [(row["nr"], row["region"], str(row["at_day"])) for row in found] == [
        ("p", None, "1970-01-02"),
        ("", None, "1970-01-01"),
    ]
    assert "secret" not in found[0]
    assert job.table("dead").to_pyarrow_table()["offset"].to_pylist() == [0], "payments have no paid to be above 0"
    check(job)


def test_kinds_of_one_table_have_one_lineage(records: Any, home: Any, registry: SharedRegistry) -> None:
    shop = Orders(records, registry)
    shop.write(shop.order, {"id": 1, "note": "a"})
    shop.write(shop.payment, {"id": "p1", "note": "b", "paid": 2.5})
    job = shop.job(home, registry)
    job.ingest()
    refund = shop.schema("Refund", ("id", "string"), ("why", "string"))
    shop.write(refund, {"id": "r1", "why": "late"})
    routes = dict(job.document["sink"]["routes"])
    job.document["sink"]["routes"] = {shop.name("Refund"): {"path": "./lake/payment"}, **routes}
    job.change(decode={"value": {"subject": [shop.name(kind) for kind in ("Refund", "Order", "Payment")]}})
    job.ingest()
    assert rows(job, "payment") == [
        {"note": "b", "id": "p1", "paid": 2.5, "why": None},
        {"note": None, "id": "r1", "paid": None, "why": "late"},
    ]
    readers = {name: len(lineage.readers) for name, lineage in job.state.lineages.items()}
    assert readers == {"value": 0, f"value:{shop.name('Order')}": 1, f"value:{shop.name('Payment')}": 2}
    check(job)


def test_fields_that_a_kinds_table_lacks_are_rescued(records: Any, home: Any, registry: SharedRegistry) -> None:
    shop = Orders(records, registry)
    shop.write(shop.order, {"id": 1, "note": "a"})
    shop.write(shop.payment, {"id": "p1", "note": "b", "paid": 2.5})
    job = shop.job(home, registry)
    job.change(decode={"value": {"unknown_fields": "rescue"}})
    job.ingest()
    second = shop.schema("Order", ("id", "long"), ("note", "string"), ("paid", "string"))
    shop.write(second, {"id": 2, "note": "c", "paid": "yes"})
    job.ingest()
    order = job.table("order").to_pyarrow_table().sort_by("_kseg_offset").to_pylist()
    assert [(row["id"], row["_kseg_rescued"]) for row in order] == [(1, None), (2, '{"paid":"yes"}')]
    assert job.table("payment").to_pyarrow_table()["_kseg_rescued"].to_pylist() == [None]
    check(job)


def test_a_new_schema_is_checked_against_its_own_kind(records: Any, home: Any, registry: SharedRegistry) -> None:
    shop = Orders(records, registry)
    shop.write(shop.order, {"id": 1, "note": "a"})
    shop.write(shop.payment, {"id": "p1", "note": "b", "paid": 2.5})
    job = shop.job(home, registry)
    job.ingest()
    (part,) = parts_of(job.job, shop.name("Payment"))

    def of(name: str, *fields: tuple[str, Any]) -> Any:
        schema = Resolved(Schema(shop.schema(name, *fields)))
        return check_against_job(job.job, job.state, part, schema, "the new one")

    found = of("Payment", ("id", "string"), ("amount", "double"))
    assert (found.added, found.missing, found.refused) == ((("amount", "double"),), ("note", "paid"), ())
    assert "long does not fit the column, which is string" in of("Payment", ("id", "long")).refused[0]
    assert of("Refund", ("id", "boolean")).notes == ("no route of the job takes its records",)


def test_a_range_is_landed_again_by_a_backfill(records: Any, home: Any, registry: SharedRegistry) -> None:
    shop = Orders(records, registry)
    shop.write(shop.order, {"id": 1, "note": "a"})
    shop.write(shop.payment, {"id": "p1", "note": "b", "paid": 2.5})
    job = shop.job(home, registry)
    job.ingest()
    second = shop.schema("Payment", ("id", "string"), ("by", ["null", "string"]))
    shop.write(second, {"id": "p2", "by": "x"})
    job.ingest()
    job.backfill(mode="append", label="again", from_=[f"{shop.topic}:0:0"], to=[f"{shop.topic}:0:3"])
    assert [row["id"] for row in rows(job, "order")] == [1, 1]
    assert sorted(row["id"] for row in rows(job, "payment")) == ["p1", "p1", "p2", "p2"]


def test_topics_with_sections_of_their_own_share_the_tables(records: Any, home: Any, registry: SharedRegistry) -> None:
    """Each topic has its own kinds and lineages; what one lacks is null in its rows, and compared as such. A record
    that cannot be decoded is a row of nulls in the table of its kind, a tombstone one of the others'."""
    one, two = Orders(records, registry), Orders(records, registry)
    two.namespace = one.namespace
    refund = one.schema("Refund", ("id", "string"), ("why", ["null", "string"]))
    one.write(one.order, {"id": 1, "note": "a"})
    one.write(one.payment, {"id": "p1", "note": "b", "paid": 2.5})
    two.write(one.order, {"id": 2, "note": "c"})
    two.write(refund, {"id": "r1", "why": "late"})
    two.write_bytes(None)
    one.write_bytes(b"\0\0\x7f\xff\xffx")
    for shop in (one, two):
        assert shop.producer.flush(60) == 0
    value = {"format": "avro", "schema": "registry"}
    nulls = {"on_error": "set_null", "max_nulled": "100%"}
    names = {one.topic: ("Order", "Payment"), two.topic: ("Order", "Refund")}
    decode: dict[str, Any] = {
        topic: {"value": {**value, "subject": [one.name(kind) for kind in kinds]}, **nulls}
        for topic, kinds in names.items()
    }
    decode[one.topic]["key"] = {"format": "string", "as": "who"}
    paths = {"Order": "order", "Payment": "money", "Refund": "money"}
    routes = {one.name(kind): {"path": f"./lake/{path}"} for kind, path in paths.items()}
    job = home(one.topic, two.topic, decode=decode, registry={"url": registry.url})
    job.document["sink"] = {"route_by": "schema", "routes": {**routes, "*": {"path": "./lake/rest"}}}
    job.change(sink={"merge_schema": True})
    job.ingest()
    assert sorted(columns(job, "order")) == ["id", "note", "who"]
    assert sorted((row["id"], row["note"]) for row in rows(job, "order")) == [(1, "a"), (2, "c")]
    assert sorted((row["id"], row["paid"], row["why"]) for row in rows(job, "money")) == [
        ("p1", 2.5, None),
        ("r1", None, "late"),
    ]
    assert len(rows(job, "rest")) == 2
    assert sorted(name.rpartition(".")[2] for name in job.state.lineages if name.startswith(one.topic)) == [
        "Order",
        "Payment",
        "value",
    ]
    check(job)
