"""Would a new schema fit a job? As the next run would decide: by its reader's schema, its names, and its tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.client.registry.schemas import Resolved, Schema
from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.ledger.schemas import Lineage
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.schema_check import (
    SchemaCheck,
    check_against_job,
    check_against_version,
    parts_of,
    subjects_of,
)
from kseg.etl.planning.growing import grown
from kseg.etl.planning.schemas import kept_schema

NEW = JobState(job="orders", ledger_id="l")


def avro(**fields: Any) -> Resolved:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return Resolved(Schema(json.dumps({"type": "record", "name": "Order", "fields": listed})))


def renamed(old: str, new: str, kind: str) -> Resolved:
    fields = [{"name": new, "type": kind, "aliases": [old]}]
    return Resolved(Schema(json.dumps({"type": "record", "name": "Order", "fields": fields})))


def json_schema(**properties: Any) -> Resolved:
    return Resolved(Schema(json.dumps({"type": "object", "properties": properties}), "JSON"))


def proto(fields: str) -> Resolved:
    return Resolved(Schema(f'syntax = "proto3"; message Order {{ {fields} }}', "PROTOBUF"))


def job_of(folder: Path, decode: Any, **source: Any) -> Job:
    return load_job(
        {
            "version": 1,
            "name": "orders",
            "kafka": {"bootstrap.servers": "localhost:9092"},
            "registry": {"url": "http://sr"},
            "source": source or {"topics": ["orders"]},
            "decode": decode,
            "sink": {"path": str(folder / "lake")},
            "ledger": str(folder / "ledger"),
        }
    )


REGISTRY = {"value": {"format": "avro", "schema": "registry"}}


def landed(*readers: Resolved) -> JobState:
    return replace(NEW, lineages={"value": Lineage("http://sr", tuple(one.schema.text for one in readers))})


def check(job: Job, state: JobState, candidate: Resolved, subject: str = "orders-value") -> SchemaCheck:
    (part,) = parts_of(job, subject)
    return check_against_job(job, state, part, candidate, "new.avsc")


# --- a registered version


@pytest.mark.parametrize(
    ("newest", "candidate", "added", "missing", "refused"),
    [
        (avro(id="long"), avro(id="long", note="string"), (("note", "string"),), (), ""),
        (avro(id="long", note="string"), avro(id="int"), (), ("note",), ""),
        (avro(id="int"), avro(id="long"), (), (), "Order.id: long does not fit the column, which is int: int"),
        (avro(a="int"), renamed("a", "b", "int"), (), (), ""),
        (json_schema(id={"type": "integer"}), json_schema(id={"type": "string"}), (), (), "id is bigint, and would be"),
        (proto("int32 id = 1;"), proto("int32 id = 1; string n = 2;"), (("n", "string"),), (), ""),
        (proto("int32 id = 1;"), proto("int64 id = 1;"), (), (), "id is int, and would be bigint"),
        (avro(id="int"), proto("int32 id = 1;"), (), (), "it is of type PROTOBUF, version 1 is AVRO"),
        (avro(id="int"), Resolved(Schema("{")), (), (), "JSON"),
    ],
)
def test_against_a_registered_version(
    newest: Resolved, candidate: Resolved, added: Any, missing: Any, refused: str
) -> None:
    found = check_against_version("version 1", newest, candidate)
    assert (found.added, found.missing) == (added, missing)
    assert bool(found.refused) == bool(refused)
    assert refused in "".join(found.refused)


# --- a job


def test_fields_are_added_behind_the_readers(tmp_path: Path) -> None:
    found = check(job_of(tmp_path, REGISTRY), landed(avro(id="long", note="string")), avro(new="double", id="int"))
    assert found == SchemaCheck("job orders, decode.value", (("new", "double"),), ("note",))


def test_a_field_that_was_renamed_is_neither_added_nor_missing(tmp_path: Path) -> None:
    found = check(job_of(tmp_path, REGISTRY), landed(avro(a="int")), renamed("a", "b", "int"))
    assert (found.added, found.missing, found.refused) == ((), (), ())


def test_a_type_that_changes_is_refused_with_both(tmp_path: Path) -> None:
    found = check(job_of(tmp_path, REGISTRY), landed(avro(id="int")), avro(id="string"))
    assert "Order.id: string does not fit the column, which is int" in found.refused[0]
    assert found.refused[0].startswith("new.avsc")


def test_a_job_that_has_not_run_takes_the_schema_as_its_first(tmp_path: Path) -> None:
    found = check(job_of(tmp_path, REGISTRY), NEW, avro(id="int"))
    assert (found.added, found.refused) == ((("id", "int"),), ())
    assert "has not run" in found.notes[0]


def test_a_new_tables_columns_hold_the_newest_versions_rows_too(tmp_path: Path) -> None:
    job = job_of(tmp_path, REGISTRY)
    (part,) = parts_of(job, "orders-value")
    for before, refused in (("long", False), ("string", True)):
        found = check_against_job(job, NEW, part, avro(id="int"), "new.avsc", ("version 1", avro(id=before)))
        assert bool(found.refused) == refused
        assert refused or found.added == (("id", "bigint"),)


INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
OF_FORMATS = {
    "json_schema": [
        json_schema(id=INTEGER, note=TEXT),
        json_schema(id=INTEGER, new=TEXT),
        json_schema(id=TEXT),
    ],
    "protobuf": [
        proto("int64 id = 1; string note = 2; string old = 3;"),
        proto("int64 renamed = 1; string old = 3; string new = 4;"),
        proto("string id = 1;"),
    ],
}


@pytest.mark.parametrize("format", OF_FORMATS)
def test_schemas_of_a_registry_in_other_formats(tmp_path: Path, format: str) -> None:
    job = job_of(tmp_path, {"value": {"format": format, "schema": "registry"}})
    first, second, other = OF_FORMATS[format]
    (part,) = parts_of(job, "orders-value")
    kept = kept_schema(format, first)
    reader = grown(part.payload, part.lineage, (), [("first", kept)])
    state = replace(NEW, lineages={"value": Lineage("http://sr", (reader,))})
    assert check(job, state, second) == SchemaCheck("job orders, decode.value", (("new", "string"),), ("note",))
    assert "id: string does not fit the column, which is bigint" in check(job, state, other).refused[0]
    assert [path for path, _ in check(job, NEW, first).added][:2] == ["id", "note"]


def test_names_that_a_table_cannot_have_are_refused(tmp_path: Path) -> None:
    found = check(job_of(tmp_path, REGISTRY), landed(avro(id="int")), avro(id="int", ID="int"))
    assert found.refused == ("columns id and ID are one name to Delta",)


@pytest.mark.parametrize(("unknown", "added"), [("add", ["note"]), ("ignore", [])])
def test_unknown_fields_as_the_job_has_them(tmp_path: Path, unknown: str, added: list[str]) -> None:
    decode = {"value": {**REGISTRY["value"], "unknown_fields": unknown}}
    found = check(job_of(tmp_path, decode), landed(avro(id="int")), avro(id="int", note="string"))
    assert [path for path, _ in found.added] == added


def test_a_table_with_another_type_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "lake"), pa.table({"id": pa.array([1], pa.int64()), "note": pa.array([1])}))
    found = check(job_of(tmp_path, REGISTRY), landed(avro(id="int")), avro(id="int", note="string"))
    place = str(tmp_path / "lake")
    assert found.refused == (f"table {place}: note: the rows have string, the table has bigint",)
    assert DeltaTable(place).version() == 0, "nothing is written"


DATED = {"type": "int", "connect.name": "org.apache.kafka.connect.data.Date"}


@pytest.mark.parametrize("rebuilt", [True, False], ids=["rebuilt", "another-job's-table"])
@pytest.mark.parametrize(
    ("properties", "columns"),
    [
        ({}, "int"),  # rows of an earlier release
        ({"kseg.decodingRules": "2"}, "date"),
        ({"kseg.decodingRules": "2", "kseg.columnRules": "1"}, "int"),  # all of them were replaced
    ],
)
def test_a_ledger_without_schemas_has_the_columns_that_the_table_was_made_with(
    tmp_path: Path, properties: dict[str, str], columns: str, rebuilt: bool
) -> None:
    """As the next run takes them; the newest ones were compared, and refused."""
    days = pa.array([19000], pa.int32()).cast(pa.date32() if columns == "date" else pa.int32())
    write_deltalake(str(tmp_path / "lake"), pa.table({"day": days, "_kseg_offset": [0]}))
    log = tmp_path / "lake" / "_delta_log" / f"{0:020d}.json"
    assert '"configuration":{}' in log.read_text()
    log.write_text(log.read_text().replace('"configuration":{}', f'"configuration":{json.dumps(properties)}'))
    state = replace(NEW, lost_ledgers=("before",)) if rebuilt else NEW
    job = job_of(tmp_path, REGISTRY)
    job = job.model_copy(update={"sink": job.sink.model_copy(update={"merge_schema": True})})
    found = check(job, state, avro(day=DATED, note="string"))
    assert (found.added, found.refused) == ((("day", columns), ("note", "string")), ())
    assert found.notes[0].startswith("the ledger was rebuilt" if rebuilt else "the job has not run yet")


def test_a_job_that_widens_says_so(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "lake"), pa.table({"id": pa.array([1], pa.int32())}))
    job = job_of(tmp_path, REGISTRY)
    assert check(job, landed(avro(id="int")), avro(id="long")).refused
    job = job.model_copy(update={"sink": job.sink.model_copy(update={"widen": True, "merge_schema": True})})
    found = check(job, landed(avro(id="int")), avro(id="long"))
    assert (found.refused, found.notes) == ((), ("id is int, and would be widened to bigint",))
    assert check(job, landed(avro(id="int")), avro(id="float")).refused


FILES = {
    "avro": ("orders.avsc", avro(id="long").schema.text, avro(id="long", note="string"), avro(id="string")),
    "json_schema": (
        "orders.json",
        json_schema(id={"type": "integer"}).schema.text,
        json_schema(id={"type": "integer"}, note={"type": "string"}),
        json_schema(id={"type": "string"}),
    ),
    "protobuf": (
        "orders.proto",
        proto("int64 id = 1;").schema.text,
        proto("int64 id = 1; string note = 2;"),
        proto("string id = 1;"),
    ),
}


@pytest.mark.parametrize("format", FILES)
def test_a_schema_in_place_of_the_jobs_file(tmp_path: Path, format: str) -> None:
    name, text, wider, other = FILES[format]
    (tmp_path / name).write_text(text)
    decode = {"value": {"format": format, "schema": {"file": str(tmp_path / name)}, "rename": {"id": "number"}}}
    job = job_of(tmp_path, decode)
    assert check(job, NEW, wider) == SchemaCheck("job orders, decode.value", (("note", "string"),))
    assert check(job, NEW, other).refused == ("number is bigint, and would be string",)
    write_deltalake(str(tmp_path / "lake"), pa.table({"number": pa.array([1], pa.int64())}))
    assert "the table has no such column" in check(job, NEW, wider).refused[0]


def test_a_schema_of_another_format_is_refused(tmp_path: Path) -> None:
    found = check(job_of(tmp_path, REGISTRY), NEW, proto("int32 id = 1;"))
    assert found.refused == ("its format is avro, the schema PROTOBUF",)


# --- which part of a job a subject is of


BY_TOPIC = {
    "orders": {"key": REGISTRY["value"], "value": {**REGISTRY["value"], "subject": "shop.Order"}},
    "*": REGISTRY,
}


@pytest.mark.parametrize(
    ("decode", "source", "subject", "expected"),
    [
        (REGISTRY, {"topics": ["orders"]}, "orders-value", [("decode", "value", ("orders",))]),
        (REGISTRY, {"topics": ["orders"]}, "orders-key", []),
        (REGISTRY, {"topics": ["orders"]}, "others-value", []),
        (REGISTRY, {"pattern": "^ord"}, "orders-value", [("decode", "value", ("orders",))]),
        (REGISTRY, {"pattern": "^ord"}, "payments-value", []),
        (REGISTRY, {"pattern": "^ord"}, "-value", []),
        (BY_TOPIC, {"topics": ["orders", "b"]}, "shop.Order", [("decode.orders", "value", ("orders",))]),
        (BY_TOPIC, {"topics": ["orders", "b"]}, "orders-key", [("decode.orders", "key", ("orders",))]),
        (BY_TOPIC, {"topics": ["orders", "b"]}, "orders-value", []),
        (BY_TOPIC, {"topics": ["orders", "b"]}, "b-value", [("decode.*", "value", ("b",))]),
        (BY_TOPIC, {"pattern": "."}, "shop.Order", [("decode.orders", "value", ())]),
        (BY_TOPIC, {"pattern": "."}, "b-value", [("decode.*", "value", ("b",))]),
    ],
)
def test_which_part_of_a_job_a_subject_is_of(
    tmp_path: Path, decode: Any, source: Any, subject: str, expected: Any
) -> None:
    found = [(part.place, part.source, part.topics) for part in parts_of(job_of(tmp_path, decode, **source), subject)]
    assert found == expected


def test_a_jobs_subjects(tmp_path: Path) -> None:
    assert subjects_of(job_of(tmp_path, BY_TOPIC, topics=["b", "orders"])) == ["orders-key", "shop.Order", "b-value"]
    assert subjects_of(job_of(tmp_path, REGISTRY, pattern=".")) == []


def test_fields_that_a_job_rescues_are_no_new_columns(tmp_path: Path) -> None:
    job = job_of(tmp_path, {"value": {"format": "avro", "schema": "registry", "unknown_fields": "rescue"}})
    line = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
    wider = {**line, "fields": [*line["fields"], {"name": "color", "type": "string"}]}
    found = check(job, landed(avro(id="long", line=line)), avro(id="long", line=wider, note="string"))
    assert (found.added, found.refused) == ((), ())
    assert "without a column, and kept as text in _kseg_rescued: line.color, note" in found.notes
