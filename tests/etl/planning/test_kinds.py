"""Which kinds a job's records are told apart by, and the lineage of each: what a plan pins, and how it grows."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.decoding.formats.registry import kept_text
from kseg.etl.decoding.rules import NEWEST
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.schemas import Lineage, SchemasAdded, SchemaText, changed_lineages
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.kinds import Kinds, kinds_of
from kseg.etl.planning.schemas import FoundSchemas, extended, pinned_schemas
from kseg.etl.run.schemas import framed_schemas
from kseg.segment_reader.payload.row_schema import parse_schema

EMPTY = JobState(job="shop", ledger_id="l")
URL = "http://sr"
VALUE: dict[str, Any] = {"format": "avro", "schema": "registry", "subject": ["Order", "Payment"]}
ROUTES = {"Order": "orders", "Payment": "payments"}


def job_of(
    routes: dict[str, str] = ROUTES,
    value: dict[str, Any] | None = None,
    sink: dict[str, Any] | None = None,
    **more: Any,
) -> Job:
    return load_job(
        {
            "version": 1,
            "name": "shop",
            "kafka": {"bootstrap.servers": "localhost:9092"},
            "registry": {"url": URL},
            "source": {"topics": ["shop"]},
            "decode": {"value": VALUE | (value or {})},
            "sink": {
                "route_by": "schema",
                "routes": {route: {"path": f"./lake/{table}"} for route, table in routes.items()},
                **(sink or {}),
            },
            "ledger": "./ledger",
            **more,
        }
    )


def text(name: str, **fields: Any) -> SchemaText:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return SchemaText(json.dumps({"type": "record", "name": name, "fields": listed}))


ORDER, PAYMENT = text("Order", id="long", note="string"), text("Payment", id="string")


def found(*newest: SchemaText, older: tuple[SchemaText, ...] = (), first: int = 1) -> FoundSchemas:
    texts = (*older, *newest)
    writers = {str(number): one.hash for number, one in enumerate(texts, first)}
    return FoundSchemas(URL, tuple(("the newest", one) for one in newest), {one.hash: one for one in texts}, writers)


def planned(job: Job, state: JobState, seen: FoundSchemas) -> tuple[JobState, Any]:
    """The state after the plan's event, and the plan."""
    event, pinned = pinned_schemas(job, {"value": seen}, state)
    routes = {route: str(target) for route, target in job.sink.targets.items()}
    return after(state, event), SimpleNamespace(run_id="r", rules=NEWEST, schemas=pinned, routes=routes)


def after(state: JobState, event: SchemasAdded | None) -> JobState:
    if event is None:
        return state
    return replace(
        state,
        lineages=changed_lineages(state.lineages, event.lineages),
        schema_texts={**state.schema_texts, **event.texts},
    )


def columns(state: JobState) -> dict[str, list[str]]:
    """Those of each lineage that has any, in its newest version."""
    return {
        name: [field["name"] for field in json.loads(lineage.readers[-1])["fields"]]
        for name, lineage in state.lineages.items()
        if lineage.readers
    }


def test_records_of_one_table_are_a_kind() -> None:
    job = job_of({"Order": "orders", "Payment": "payments", "Refund": "payments", "*": "rest"})
    kinds = kinds_of(job, "value", {})
    assert kinds is not None
    assert kinds.records == (("Order",), ("Payment", "Refund"), ("*",))
    assert [kinds.of(name) for name in ("Order", "Refund", "Return", None)] == [0, 1, 2, 2]
    assert kinds.lineage_of(1, {}) == "value:Payment"
    assert kinds.lineage_of(1, {"value:Refund"}) == "value:Refund", "the table's lineage goes on"


@pytest.mark.parametrize(
    "given",
    [
        {"routes": {"Order": "orders", "7": "payments"}},
        {"routes": {"Order": "orders", "89791762-2336-4186-9674-299b90a802e2": "payments"}},
        {"routes": {"Order": "one", "Payment": "one"}},
        {"value": {"subject": "Order"}},
        {"value": {"into": "struct"}},
        {"value": {"envelope": "debezium"}},
        {"transform": [{"sql": "SELECT * FROM __rows__"}]},
        {"routes": {"a": "a", "b": "b"}, "sink": {"route_by": "value.note"}},
    ],
)
def test_other_jobs_have_one_lineage_for_all_records(given: dict[str, Any]) -> None:
    assert kinds_of(job_of(**given), "value", {}) is None


def test_a_ledger_with_columns_for_all_records_keeps_them() -> None:
    job = job_of()
    before = replace(EMPTY, lineages={"value": Lineage(URL, (ORDER.text,))})
    assert kinds_of(job, "value", before.lineages) is None
    state, plan = planned(job, before, found(ORDER, text("Payment", id="long", paid="int")))
    assert columns(state) == {"value": ["id", "note", "paid"]}
    assert (plan.schemas["value"].reader, plan.schemas["value"].kinds) == (2, {})
    with pytest.raises(Refused) as conflict:
        planned(job, before, found(ORDER, PAYMENT))
    assert "this takes a new job" in str(conflict.value.remedy)


def test_each_kind_grows_by_itself() -> None:
    job = job_of()
    state, plan = planned(job, EMPTY, found(ORDER, PAYMENT))
    assert columns(state) == {"value:Order": ["id", "note"], "value:Payment": ["id"]}
    assert plan.schemas["value"].kinds == {"value:Order": 1, "value:Payment": 1}
    assert list(plan.schemas["value"].writers) == ["1", "2"]
    assert pinned_schemas(job, {"value": found(ORDER, PAYMENT)}, state) == (None, plan.schemas)
    more = text("Payment", id="string", note="long")
    later, plan = planned(job, state, found(ORDER, more, older=(PAYMENT,), first=1))
    assert columns(later) == {"value:Order": ["id", "note"], "value:Payment": ["id", "note"]}
    assert plan.schemas["value"].kinds == {"value:Order": 1, "value:Payment": 2}
    with pytest.raises(Refused) as conflict:
        planned(job, later, found(text("Order", id="string"), PAYMENT))
    assert (conflict.value.code, "keeps the column's type" in str(conflict.value.remedy)) == ("schema-conflict", True)


def test_columns_are_counted_by_kind() -> None:
    job = job_of(value={"max_columns": 2})
    planned(job, EMPTY, found(ORDER, PAYMENT))
    with pytest.raises(Refused) as many:
        planned(job, EMPTY, found(ORDER, text("Payment", id="long", a="int", b="int")))
    assert many.value.code == "too-many-columns"


def test_a_new_table_has_the_widest_types_of_its_kind() -> None:
    seen = found(text("Order", id="int"), PAYMENT, older=(text("Order", id="long"), text("Order", id="int", old="int")))
    state, plan = planned(job_of(), EMPTY, seen)
    assert json.loads(state.lineages["value:Order"].readers[0])["fields"][0]["type"] == "long"
    assert list(plan.schemas["value"].writers) == ["1", "3", "4"], "a field that the newest lacks waits for a record"


def test_a_kind_of_which_only_older_versions_are_known_begins_with_the_last() -> None:
    """One subject has versions of both kinds."""
    seen = found(PAYMENT, older=(text("Order", id="long"), text("Order", id="long", note="string")))
    state, plan = planned(job_of(), EMPTY, seen)
    assert columns(state) == {"value:Payment": ["id"], "value:Order": ["id", "note"]}
    assert list(plan.schemas["value"].writers) == ["1", "2", "3"]


def test_records_without_a_route_have_no_columns_until_they_have_one() -> None:
    refund = text("Refund", id="boolean")
    state, plan = planned(job_of(), EMPTY, found(ORDER, PAYMENT, refund))
    assert list(columns(state)) == ["value:Order", "value:Payment"]
    assert list(plan.schemas["value"].writers) == ["1", "2", "3"], "their records need no columns"
    job = job_of({**ROUTES, "Refund": "refunds"})
    later, plan = planned(
        job, state, FoundSchemas(URL, (("the newest", ORDER),), {ORDER.hash: ORDER}, {"1": ORDER.hash})
    )
    assert columns(later)["value:Refund"] == ["id"], "of the schemas that the ledger knows"
    assert plan.schemas["value"].kinds == {"value:Order": 1, "value:Payment": 1, "value:Refund": 1}


def test_a_run_that_meets_schemas_on_the_way_pins_them() -> None:
    job = job_of({**ROUTES, "Refund": "refunds"})
    state, plan = planned(job, EMPTY, found(ORDER, PAYMENT))
    resolved = {"8": text("Order", id="long", gift="int"), "9": text("Refund", id="int"), "10": text("No", a="int")}
    event = extended(job, plan, {"value": {**resolved, "11": None}}, state)
    later = after(state, event)
    assert columns(later) == {
        "value:Order": ["id", "note", "gift"],
        "value:Payment": ["id"],
        "value:Refund": ["id"],
    }
    assert event.pinned["value"].kinds == {"value:Order": 2, "value:Payment": 1, "value:Refund": 1}
    assert list(event.pinned["value"].writers) == ["1", "2", "8", "9", "10", "11"]
    assert event.pinned["value"].writers["11"] == ""
    with pytest.raises(Refused, match="does not fit"):
        extended(job, plan, {"value": {"12": text("Payment", id="int")}}, state)


def test_columns_stay_where_the_registry_becomes_another() -> None:
    job = job_of()
    state, _ = planned(job, EMPTY, found(ORDER, PAYMENT))
    other = replace(found(text("Order", id="long", note="string", more="int"), PAYMENT), registry="http://other")
    later, plan = planned(job, state, other)
    assert columns(later) == {"value:Order": ["id", "note", "more"], "value:Payment": ["id"]}
    assert plan.schemas["value"].kinds == {"value:Order": 2, "value:Payment": 1}
    assert later.lineages["value"].writers == other.writers
    again, _ = planned(job, later, found(ORDER, PAYMENT))
    assert columns(again) == columns(later)


def test_tasks_get_the_versions_that_a_run_has_pinned() -> None:
    job = job_of({**ROUTES, "Refund": "refunds"})
    state, plan = planned(job, EMPTY, found(ORDER, PAYMENT))
    later, _ = planned(job, state, found(text("Order", id="long", more="int"), PAYMENT, first=7))
    schemas = framed_schemas(job, plan, later)["value"]
    assert [kind.records for kind in schemas.kinds] == [("Order",), ("Payment",), ("Refund",)]
    assert [kind.reader and len(json.loads(kind.reader)["fields"]) for kind in schemas.kinds] == [2, 1, None]
    assert (schemas.reader, [key for key, _ in schemas.writers]) == ("", [1, 2])


def test_what_a_lineage_is_called_is_the_same_for_any_topic() -> None:
    kinds = Kinds.of_routes("orders.value", {"Order": "a", "Payment": "b"})
    assert [kinds.lineage_of(number, ()) for number in range(2)] == ["orders.value:Order", "orders.value:Payment"]


PROTO = """
    syntax = "proto3"; package shop;
    message Order { int64 id = 1; }
    message Payment { string id = 1; %s }
"""


def messages(more: str = "") -> SchemaText:
    return SchemaText(kept_text("protobuf", PROTO % more, {})[0])


def names(state: JobState) -> dict[str, list[str]]:
    """Columns of each lineage of messages, in its newest version."""
    return {
        name: [field.name for field in parse_schema(lineage.readers[-1]).fields]
        for name, lineage in state.lineages.items()
        if lineage.readers
    }


def test_a_schema_of_protobuf_has_the_messages_of_several_kinds() -> None:
    job = job_of({"shop.Order": "a", "shop.Payment": "b"}, {"format": "protobuf"})
    state, plan = planned(job, EMPTY, found(messages()))
    assert names(state) == {"value:shop.Order": ["id"], "value:shop.Payment": ["id"]}
    event = extended(job, plan, {"value": {"7": messages("bool late = 2;")}}, state)
    assert event.pinned["value"].kinds == {"value:shop.Order": 1, "value:shop.Payment": 2}
    assert list(event.pinned["value"].writers) == ["1", "7"]
    with pytest.raises(Refused, match="does not fit"):
        extended(
            job,
            plan,
            {"value": {"8": SchemaText(kept_text("protobuf", PROTO.replace("int64", "bool") % "", {})[0])}},
            state,
        )
    alone, _ = planned(job_of({"shop.Order": "a"}, {"format": "protobuf"}), EMPTY, found(messages()))
    assert names(alone) == {"value:shop.Order": ["id"]}


def test_tables_made_for_one_message_do_not_become_those_of_kinds() -> None:
    job = job_of({"shop.Order": "a", "shop.Payment": "b"}, {"format": "protobuf"})
    before = replace(EMPTY, lineages={"value": Lineage(URL, ("{}",))})
    with pytest.raises(ConfigurationError, match="were made with one for all messages"):
        planned(job, before, found(messages()))
