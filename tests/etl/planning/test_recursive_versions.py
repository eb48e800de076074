"""A schema that comes to contain itself in a later version, or ceases to: it lands as JSON text where it begins again,
or the plan is refused, and each remedy that the refusal names leads out."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest
import yaml

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.decoding.formats.registry import kept_text, schema_format
from kseg.etl.decoding.rules import NEWEST
from kseg.etl.errors import Refused
from kseg.etl.ledger.schemas import SchemasAdded, SchemaText, changed_lineages
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.schemas import FoundSchemas, extended, lineages_of, pinned_schemas

EMPTY = JobState(job="trees", ledger_id="l")
URL = "http://sr"
Json = dict[str, Any]


def job_of(format: str, value: Mapping[str, Any] = {}, *, on_error: str = "fail") -> Job:
    of_format = {"message": "Tree"} if format == "protobuf" else {}
    return load_job(
        {
            "version": 1,
            "name": "trees",
            "kafka": {"bootstrap.servers": "localhost:9092"},
            "registry": {"url": URL},
            "source": {"topics": ["trees"]},
            "decode": {"value": {"format": format, "schema": "registry", **of_format, **value}, "on_error": on_error},
            "sink": {"path": "./lake/trees"},
            "ledger": "./ledger",
        }
    )


def found(*versions: SchemaText, newest: SchemaText | None = None) -> FoundSchemas:
    """newest: in place of the last one."""
    numbers = {str(number): version.hash for number, version in enumerate(versions, 1)}
    texts = {version.hash: version for version in versions}
    return FoundSchemas(URL, (("the newest", newest or versions[-1]),), texts, numbers)


def after(state: JobState, event: SchemasAdded | None) -> JobState:
    if event is None:
        return state
    lineages = changed_lineages(state.lineages, event.lineages)
    return replace(state, lineages=lineages, schema_texts={**state.schema_texts, **event.texts})


# --- versions of a schema, by format: as it was, and as it contains itself


def record(name: str, **fields: Any) -> Json:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


def avro(document: Json) -> SchemaText:
    return SchemaText(json.dumps(document))


def json_schema(definitions: Json | None = None, /, **properties: Any) -> SchemaText:
    document = {"type": "object", "properties": properties, "definitions": definitions or {}}
    return SchemaText(json.dumps(document))


def protobuf(text: str) -> SchemaText:
    kept, _ = kept_text("protobuf", f'syntax = "proto3"; {text}', {})
    return SchemaText(kept)


TEXT: Final = {"type": "string"}
LEAF: Final = {"type": "object", "properties": {"value": TEXT}}
ITEM: Final = {
    "type": "object",
    "properties": {"value": TEXT, "next": {"type": "array", "items": {"$ref": "#/definitions/I"}}},
}
OF_ITEMS: Final = {"type": "array", "items": {"$ref": "#/definitions/I"}}

NEW_FIELDS: Final = {
    "avro, its own": (
        avro(record("Tree", value="string")),
        avro(record("Tree", value="string", next=["null", "Tree"])),
    ),
    "avro, of items": (
        avro(record("Tree", items={"type": "array", "items": record("Item", value="string")})),
        avro(
            record(
                "Tree",
                items={
                    "type": "array",
                    "items": record("Item", value="string", next={"type": "array", "items": "Item"}),
                },
            )
        ),
    ),
    "json_schema, its own": (json_schema(value=TEXT), json_schema(value=TEXT, next={"$ref": "#"})),
    "json_schema, of items": (json_schema({"I": LEAF}, items=OF_ITEMS), json_schema({"I": ITEM}, items=OF_ITEMS)),
    "protobuf, its own": (
        protobuf("message Tree { string value = 1; }"),
        protobuf("message Tree { string value = 1; Tree next = 2; }"),
    ),
    "protobuf, of items": (
        protobuf("message Tree { repeated Item items = 1; message Item { string value = 1; } }"),
        protobuf(
            "message Tree { repeated Item items = 1; message Item { string value = 1; repeated Item next = 2; } }"
        ),
    ),
}
"""The field in which it begins again is new."""

OLD_FIELDS: Final = {
    "avro": (
        avro(record("Tree", value="string", next=["null", record("Leaf", value="string")])),
        avro(record("Tree", value="string", next=["null", "Tree"])),
    ),
    "json_schema": (json_schema(value=TEXT, next=LEAF), json_schema(value=TEXT, next={"$ref": "#"})),
    "protobuf": (
        protobuf("message Tree { string value = 1; Leaf next = 2; } message Leaf { string value = 1; }"),
        protobuf("message Tree { string value = 1; Tree next = 2; } message Leaf { string value = 1; }"),
    ),
}
"""The field was there, and a struct."""


def columns(job: Job, state: JobState) -> pa.DataType:
    form = schema_format(dict(lineages_of(job))["value"], NEWEST)
    return form.type(form.reader(state.lineages["value"].readers[-1]))


@pytest.mark.parametrize("unknown", ["add", "rescue", "ignore"])
@pytest.mark.parametrize("name", NEW_FIELDS)
def test_a_new_field_in_which_it_begins_again_is_json_text(name: str, unknown: str) -> None:
    format, _, where = name.partition(", ")
    job = job_of(format, {"unknown_fields": unknown})
    before, then = NEW_FIELDS[name]
    state = after(EMPTY, pinned_schemas(job, {"value": found(before)}, EMPTY)[0])
    event, pinned = pinned_schemas(job, {"value": found(before, then)}, state)
    assert sorted(pinned["value"].writers) == ["1", "2"], "records of both are read"
    kind = columns(job, after(state, event))
    inner = kind if where == "its own" else kind.field("items").type.value_type
    known = [field.name for field in inner if field.name != "_kseg_rescued"]
    assert known == (["value", "next"] if unknown == "add" else ["value"])
    if unknown == "add":
        assert inner.field("next").type == (pa.string() if where == "its own" else pa.list_(pa.string()))
    assert pinned_schemas(job, {"value": found(before, then)}, after(state, event))[0] is None, "it stays as it is"


@pytest.mark.parametrize("ceases", [False, True], ids=["comes to", "ceases to"])
@pytest.mark.parametrize("format", OLD_FIELDS)
def test_a_struct_that_would_become_text_is_refused_and_each_remedy_leads_out(format: str, ceases: bool) -> None:
    job = job_of(format)
    before, then = OLD_FIELDS[format][::-1] if ceases else OLD_FIELDS[format]
    state = after(EMPTY, pinned_schemas(job, {"value": found(before)}, EMPTY)[0])
    with pytest.raises(Refused, match=r"next: .* does not fit the column, which is ") as refused:
        pinned_schemas(job, {"value": found(before, then)}, state)
    assert refused.value.code == "schema-conflict"
    words = (refused.value.remedy or "").partition("\n")[0]
    assert "sink.widen" not in words
    assert "register a schema that keeps the column's type, and set decode.on_error: dead_letter" in words
    aside, corrected = job_of(format, on_error="dead_letter"), found(before, then, newest=before)
    event, pinned = pinned_schemas(aside, {"value": corrected}, state)
    plan: Any = SimpleNamespace(run_id="r", rules=NEWEST, schemas=pinned)
    learned = extended(aside, plan, {"value": {"2": then}}, after(state, event))
    assert sorted(learned.pinned["value"].writers) == ["1", "2"]
    subject = re.search("write `(subject: [^`]+)`", words)
    assert (subject is not None) == (format == "avro"), "it compares names, and the records' are not the same"


def written(schema: SchemaText, *values: str) -> bytes:
    value: Json | None = None
    for one in reversed(values):
        value = {"value": one, "next": value}
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(json.loads(schema.text)), value)
    return payload.getvalue()


@pytest.mark.parametrize("engine", ["reference", "fast"])
@pytest.mark.parametrize("ceases", [False, True], ids=["comes to", "ceases to"])
def test_avros_records_are_read_by_a_list_of_subjects_as_the_refusal_says(ceases: bool, engine: Any) -> None:
    """The plan took them, and each record of the one version was undecodable then."""
    leaf, tree = OLD_FIELDS["avro"]
    before, then = (tree, leaf) if ceases else (leaf, tree)
    state = after(EMPTY, pinned_schemas(job_of("avro"), {"value": found(before)}, EMPTY)[0])
    with pytest.raises(Refused) as refused:
        pinned_schemas(job_of("avro"), {"value": found(before, then)}, state)
    subject = re.search("write `(subject: [^`]+)`", refused.value.remedy or "")
    assert subject is not None
    job = job_of("avro", yaml.safe_load(subject[1]))
    event, pinned = pinned_schemas(job, {"value": found(before, then)}, state)
    assert sorted(pinned["value"].writers) == ["1", "2"]
    form = schema_format(dict(lineages_of(job))["value"], NEWEST)
    reader = form.reader(after(state, event).lineages["value"].readers[-1])
    rows = []
    for schema, values in ((leaf, "ab"), (tree, "abc")):
        decoder = form.decoder(form.writer(schema.text), reader, engine=engine)
        rows += decoder.decode(pa.array([written(schema, *values)])).rows.to_pylist()
    end = '{"value":"c","next":null}'
    assert [row["next"] for row in rows] == (
        ['{"value":"b"}', f'{{"value":"b","next":{end}}}']
        if ceases
        else [{"value": "b", "next": None}, {"value": "b", "next": end}]
    )
