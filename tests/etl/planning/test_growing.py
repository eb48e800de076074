"""A reader's schema that grows: types of columns that tables do not have yet, and what refusals say."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.decoding.formats.registry import kept_text
from kseg.etl.decoding.rules import NEWEST
from kseg.etl.errors import Refused
from kseg.etl.ledger.schemas import SchemasAdded, SchemaText, changed_lineages
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.schemas import FoundSchemas, extended, pinned_schemas

EMPTY = JobState(job="orders", ledger_id="l")
URL = "http://sr"


def job_of(decode: dict[str, Any], **sink: Any) -> Job:
    return load_job(
        {
            "version": 1,
            "name": "orders",
            "kafka": {"bootstrap.servers": "localhost:9092"},
            "registry": {"url": URL},
            "source": {"pattern": "^orders"},
            "decode": decode,
            "sink": {"path": "./lake/orders", **sink},
            "ledger": "./ledger",
        }
    )


def avro(**options: Any) -> dict[str, Any]:
    return {"format": "avro", "schema": "registry", **options}


def text(**fields: Any) -> SchemaText:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return SchemaText(json.dumps({"type": "record", "name": "Order", "fields": listed}))


def found(*versions: SchemaText, registry: str = URL) -> FoundSchemas:
    writers = {str(number): version.hash for number, version in enumerate(versions, start=1)}
    numbers = {str(number): str(number) for number in range(1, len(versions) + 1)}
    texts = {version.hash: version for version in versions}
    return FoundSchemas(registry, (("the newest", versions[-1]),), texts, writers, {"orders-value": numbers})


def after(state: JobState, event: SchemasAdded | None) -> JobState:
    assert event is not None
    return replace(
        state,
        lineages=changed_lineages(state.lineages, event.lineages),
        schema_texts={**state.schema_texts, **event.texts},
    )


def columns(state: JobState) -> list[str]:
    return [field["name"] for field in json.loads(state.lineages["value"].readers[-1])["fields"]]


def plan_of(pinned: Any) -> Any:
    return SimpleNamespace(run_id="r7", rules=NEWEST, schemas=pinned)


def named(name: str, **fields: Any) -> SchemaText:
    return SchemaText(json.dumps({**json.loads(text(**fields).text), "name": name}))


@pytest.mark.parametrize(
    ("second", "options", "remedy"),
    [
        (named("Other", id="long", more="int"), {}, 'write `subject: ["{topic}-value"]`, a list: '),
        (named("Other", id="int"), {"subject": "orders"}, 'write `subject: ["orders"]`, a list: '),
        (named("Other", id="string"), {}, "register a schema"),
        (named("Other", id="long"), {"defaults": "fill"}, "register a schema"),
    ],
)
def test_records_that_differ_in_their_names_are_matched_by_a_list(
    second: SchemaText, options: dict[str, Any], remedy: str
) -> None:
    job = job_of({"value": avro(**options)})
    seen = found(text(id="long"), second)
    state = after(EMPTY, pinned_schemas(job, {"value": found(text(id="long"))}, EMPTY)[0])
    with pytest.raises(Refused, match="Other does not fit the column") as refused:
        pinned_schemas(job, {"value": seen}, state)
    assert (refused.value.remedy or "").startswith(remedy)
    if "a list" in remedy:
        job = job_of({"value": avro(subject=[options.get("subject", "{topic}-value")])})
        assert sorted(pinned_schemas(job, {"value": seen}, state)[1]["value"].writers) == ["1", "2"]


INTEGER, NUMBER, TEXT = ({"type": kind} for kind in ("integer", "number", "string"))


def of_format(format: str, kind: Any) -> SchemaText:
    """A schema with one field of this type."""
    if format == "avro":
        return text(id=kind)
    if format == "json_schema":
        return SchemaText(json.dumps({"type": "object", "properties": {"id": kind}}))
    kept, _ = kept_text(format, f'syntax = "proto3"; message Order {{ {kind} id = 1; }}', {})
    return SchemaText(kept)


@pytest.mark.parametrize(
    ("format", "before", "then", "wider"),
    [
        ("avro", "int", "long", True),
        ("avro", "long", "double", False),  # Avro promotes it; a table's column cannot become one
        ("avro", "int", "string", False),
        ("json_schema", INTEGER, NUMBER, False),
        ("json_schema", INTEGER, TEXT, False),
        ("protobuf", "int32", "int64", True),
        ("protobuf", "int32", "string", False),
    ],
)
def test_each_remedy_of_a_newest_version_that_does_not_fit_leads_out_at_once(
    format: str, before: Any, then: Any, wider: bool
) -> None:
    """Another version that keeps the type is no way out for records that have the one that does not: said alone, it
    led to a second refusal."""
    given = {"format": format, "schema": "registry"}
    job, wide = job_of({"value": given}), job_of({"value": given}, widen=True)
    aside = job_of({"value": given, "on_error": "dead_letter"}, dead_letters={"path": "./lake/dead"})
    first, second = (of_format(format, kind) for kind in (before, then))
    state = after(EMPTY, pinned_schemas(job, {"value": found(first)}, EMPTY)[0])
    seen = found(first, second)
    with pytest.raises(Refused) as refused:
        pinned_schemas(job, {"value": seen}, state)
    words = (refused.value.remedy or "").partition("\n")[0]
    assert words.startswith("set sink.widen: true, ") is wider
    if wider:
        _, pinned = pinned_schemas(wide, {"value": seen}, state)
        assert sorted(pinned["value"].writers) == ["1", "2"]
    assert "register a schema that keeps the column's type, and set decode.on_error: dead_letter" in words
    corrected = replace(seen, newest=(("the newest", first),))
    event, pinned = pinned_schemas(aside, {"value": corrected}, state)
    learned = extended(aside, plan_of(pinned), {"value": {"2": second}}, after(state, event))
    assert sorted(learned.pinned["value"].writers) == ["1", "2"]
    assert learned.lineages["value"].reader is None, "the columns stay"


@pytest.mark.parametrize("order", list(permutations(("1", "2", "4"))))
@pytest.mark.parametrize("kinds", [("int", "long", "int"), ("int", "float", "double")])
def test_a_field_that_the_newest_version_lacks_gets_the_widest_type_in_any_order_of_meeting(
    kinds: tuple[str, ...], order: tuple[str, ...]
) -> None:
    """Widened and removed, and removed and added again: records of all versions are in the run, one after the other."""
    versions = [text(id="long", x=kinds[0]), text(id="long", x=kinds[1]), text(id="long"), text(id="long", x=kinds[2])]
    job, seen = job_of({"value": avro()}), found(*versions, text(id="long"))
    event, pinned = pinned_schemas(job, {"value": seen}, EMPTY)
    state = after(EMPTY, event)
    assert columns(state) == ["id"]
    for key in order:
        learned = extended(job, plan_of(pinned), {"value": {key: versions[int(key) - 1]}}, state)
        state, pinned = after(state, learned), learned.pinned
    (_, field) = json.loads(state.lineages["value"].readers[-1])["fields"]
    assert field["type"] == max(kinds, key=["int", "float", "long", "double"].index)
    assert len(state.lineages["value"].readers) == 2, "the first version that is met decides for all of them"


@pytest.mark.parametrize(("together", "first"), [(True, False), (False, True), (False, False)])
def test_schemas_of_other_subjects_share_the_wider_type_if_met_together_or_before_any_row(
    together: bool, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kseg.etl.planning.schemas._is_first", lambda *_: first)
    job = job_of({"value": avro()})
    event, pinned = pinned_schemas(job, {"value": found(text(id="long"))}, EMPTY)
    state = after(EMPTY, event)
    met = {"8": text(id="long", x="int"), "9": text(id="long", x="long")}
    if together:
        state = after(state, extended(job, plan_of(pinned), {"value": {**met}}, state))
        assert [one["type"] for one in json.loads(state.lineages["value"].readers[-1])["fields"]] == ["long", "long"]
        return
    learned = extended(job, plan_of(pinned), {"value": {"8": met["8"]}}, state)
    if first:
        state = after(state, learned)
        state = after(state, extended(job, plan_of(learned.pinned), {"value": {"9": met["9"]}}, state))
        assert [one["type"] for one in json.loads(state.lineages["value"].readers[-1])["fields"]] == ["long", "long"]
        return
    with pytest.raises(Refused, match=r"Order\.x: long does not fit") as refused:
        extended(job, plan_of(learned.pinned), {"value": {"9": met["9"]}}, after(state, learned))
    remedy = str(refused.value.remedy)
    assert "--abandon r7" in remedy
    assert "sink.widen: true" in remedy
    assert "register a schema" not in remedy, "the planned records have the one that does not fit"


def test_a_new_column_of_a_table_that_is_there_gets_the_widest_type_and_no_other_column_changes() -> None:
    job = job_of({"value": avro()})
    state = after(EMPTY, pinned_schemas(job, {"value": found(text(id="int"))}, EMPTY)[0])
    versions = [text(id="int"), text(id="int", x="long"), text(id="long", x="double"), text(id="int", x="int")]
    event, pinned = pinned_schemas(job, {"value": found(*versions)}, state)
    fields = json.loads(after(state, event).lineages["value"].readers[-1])["fields"]
    assert [(one["name"], one["type"]) for one in fields] == [("id", "int"), ("x", "long")]
    assert sorted(pinned["value"].writers) == ["1", "2", "4"], "version 3 does not fit the table's column, if it is met"


def test_the_first_rows_of_a_kind_get_the_widest_type_of_its_versions() -> None:
    routes = {"shop.Order": {"path": "./lake/o"}, "shop.Payment": {"path": "./lake/p"}}
    job = job_of({"value": avro(subject=["orders", "payments"])}, path=None, route_by="schema", routes=routes)

    def of(record: str, **fields: Any) -> SchemaText:
        document = json.loads(text(**fields).text)
        return SchemaText(json.dumps({**document, "name": record, "namespace": "shop"}))

    order = of("Order", id="long")
    event, pinned = pinned_schemas(job, {"value": found(order)}, EMPTY)
    state, tables = after(EMPTY, event), {route: one["path"] for route, one in routes.items()}
    plan = SimpleNamespace(run_id="r", rules=NEWEST, schemas=pinned, routes=tables)
    met = {"8": of("Payment", paid="int"), "9": of("Payment", paid="long"), "10": of("Order", id="long", x="int")}
    learned = extended(job, plan, {"value": met}, state)
    readers = {name: one.readers[-1] for name, one in after(state, learned).lineages.items() if one.readers}
    types = {name: [one["type"] for one in json.loads(reader)["fields"]] for name, reader in readers.items()}
    assert types == {"value:shop.Order": ["long", "int"], "value:shop.Payment": ["long"]}


@pytest.mark.parametrize("options", [{}, {"subject": ["{topic}-value"]}], ids=["name", "list"])
def test_records_of_a_union_are_kinds_of_their_own(options: dict[str, Any]) -> None:
    def union(*records: SchemaText) -> SchemaText:
        return SchemaText(json.dumps([json.loads(one.text) for one in records]))

    order, customer = named("Order", id="long"), named("Customer", id="string")
    routes = {"Order": {"path": "./lake/o"}, "Customer": {"path": "./lake/c"}}
    job = job_of({"value": avro(**options)}, path=None, route_by="schema", routes=routes)
    event, pinned = pinned_schemas(job, {"value": found(union(order, customer))}, EMPTY)
    state = after(EMPTY, event)

    def fields(state: JobState) -> dict[str, list[tuple[str, str]]]:
        readers = {name: json.loads(one.readers[-1]) for name, one in state.lineages.items() if one.readers}
        return {name: [(one["name"], one["type"]) for one in reader["fields"]] for name, reader in readers.items()}

    assert fields(state) == {"value:Order": [("id", "long")], "value:Customer": [("id", "string")]}
    assert list(pinned["value"].writers) == ["1"]
    later = union(named("Order", id="long", note="string"), customer, named("Refund", why="string"))
    event, pinned = pinned_schemas(job, {"value": found(union(order, customer), later)}, state)
    assert fields(after(state, event)) == {
        "value:Order": [("id", "long"), ("note", "string")],
        "value:Customer": [("id", "string")],
    }
    assert sorted(pinned["value"].writers) == ["1", "2"]
