"""Which schemas a run decodes with: the newest merged into the lineage, ids that it covers, and refusals."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from kseg.client.registry.config import RegistryConfig
from kseg.client.registry.registry import SchemaRegistry
from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.decoding.rules import NEWEST
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.schemas import SchemasAdded, SchemaText, changed_lineages
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.schemas import FoundSchemas, extended, lineages_of, pinned_schemas, read_schemas

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


def test_versions_grow_the_lineage_and_what_is_known_is_written_once() -> None:
    job = job_of({"value": avro()})
    one, two = text(id="long"), text(id="int", note="string")
    event, pinned = pinned_schemas(job, {"value": found(one)}, EMPTY)
    state = after(EMPTY, event)
    assert (columns(state), pinned["value"].reader, pinned["value"].writers) == (["id"], 1, {"1": one.hash})
    assert pinned_schemas(job, {"value": found(one)}, state) == (None, pinned)
    event, pinned = pinned_schemas(job, {"value": found(one, two)}, state)
    assert event is not None
    assert event.texts == {two.hash: two}
    assert (columns(after(state, event)), pinned["value"].reader) == (["id", "note"], 2)


def test_a_version_with_fields_that_the_newest_lacks_waits_for_a_record() -> None:
    job = job_of({"value": avro()})
    event, pinned = pinned_schemas(job, {"value": found(text(id="long", old="int"), text(id="long"))}, EMPTY)
    state = after(EMPTY, event)
    assert columns(state) == ["id"]
    assert list(pinned["value"].writers) == ["2"]
    assert list(state.lineages["value"].writers) == ["1", "2"], "its text is known when a record names it"


def test_ignored_fields_are_no_columns_and_keep_no_schema_from_being_read() -> None:
    job = job_of({"value": avro(unknown_fields="ignore")})
    state = after(EMPTY, pinned_schemas(job, {"value": found(text(id="long"))}, EMPTY)[0])
    event, pinned = pinned_schemas(job, {"value": found(text(id="long"), text(id="long", more="int"))}, state)
    assert columns(after(state, event)) == ["id"]
    assert list(pinned["value"].writers) == ["1", "2"]


def test_rescued_fields_are_no_columns_and_keep_no_schema_from_being_read() -> None:
    job = job_of({"value": avro(unknown_fields="rescue")})
    state = after(EMPTY, pinned_schemas(job, {"value": found(text(id="long"))}, EMPTY)[0])
    event, pinned = pinned_schemas(job, {"value": found(text(id="long"), text(id="long", more="int"))}, state)
    assert columns(after(state, event)) == ["id"]
    assert list(pinned["value"].writers) == ["1", "2"]


@pytest.mark.parametrize("unknown", ["ignore", "rescue"])
def test_a_new_table_has_the_columns_of_all_subjects_whatever_becomes_of_later_fields(unknown: str) -> None:
    job = job_of({"value": avro(unknown_fields=unknown, subject=["shop.Order", "shop.Payment"])})
    old, order, paid = text(id="long", gone="int"), text(id="long"), text(id="long", paid="double")
    seen = replace(found(old, order, paid), newest=(("an order", order), ("a payment", paid)))
    event, pinned = pinned_schemas(job, {"value": seen}, EMPTY)
    state = after(EMPTY, event)
    assert columns(state) == ["id", "paid"]
    assert list(pinned["value"].writers) == ["1", "2", "3"], "also the one whose field has no column"
    more = found(order, paid, text(id="long", more="int"))
    assert columns(after(state, pinned_schemas(job, {"value": more}, state)[0])) == ["id", "paid"]


def nested(levels: int) -> Any:
    kind: Any = "int"
    for level in range(levels):
        kind = {"type": "record", "name": f"R{level}", "fields": [{"name": "below", "type": kind}]}
    return kind


def test_a_field_that_cannot_be_rescued_is_not_left_out() -> None:
    job = job_of({"value": avro(unknown_fields="rescue")})
    state = after(EMPTY, pinned_schemas(job, {"value": found(text(id="long"))}, EMPTY)[0])
    with pytest.raises(ConfigurationError, match="nested more than 64 deep") as caught:
        pinned_schemas(job, {"value": found(text(id="long"), text(id="long", tree=nested(70)))}, state)
    assert "unknown_fields: ignore" in (caught.value.faults[0].remedy or "")


def test_ids_of_another_registry_are_forgotten() -> None:
    job = job_of({"value": avro()})
    state = after(EMPTY, pinned_schemas(job, {"value": found(text(id="long"), text(id="int"))}, EMPTY)[0])
    event, pinned = pinned_schemas(job, {"value": found(text(id="int"), registry="http://other")}, state)
    assert (pinned["value"].registry, list(pinned["value"].writers)) == ("http://other", ["1"])
    assert list(after(state, event).lineages["value"].writers) == ["1"]


@pytest.mark.parametrize(
    ("newest", "options", "code", "message"),
    [
        (text(id="string"), {}, "schema-conflict", "the newest .*Order.id: string .* which is long: bigint"),
        (text(id="long", a="int", b="int"), {"max_columns": 2}, "too-many-columns", "would have 3 columns"),
    ],
)
def test_what_does_not_fit_is_refused(newest: SchemaText, options: dict[str, Any], code: str, message: str) -> None:
    job = job_of({"value": avro(**options)})
    state = after(EMPTY, pinned_schemas(job, {"value": found(text(id="long"))}, EMPTY)[0])
    with pytest.raises(Refused, match=message) as caught:
        pinned_schemas(job, {"value": found(text(id="long"), newest)}, state)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("met", "options", "code"),
    [
        (text(id="string", more="int"), {}, None),
        (text(id="string"), {"on_error": "fail"}, "schema-conflict"),
        # Its records can be read, without the fields that are too many: no reader would know that they are missing.
        (text(id="long", a="int", b="int"), {}, "too-many-columns"),
    ],
)
def test_a_schema_that_a_record_names_and_that_does_not_fit_is_pinned_if_its_records_may_be_set_aside(
    met: SchemaText, options: dict[str, str], code: str | None
) -> None:
    job = job_of({"value": avro(max_columns=2), "on_error": "set_null", **options})
    event, pinned = pinned_schemas(job, {"value": found(text(id="long"))}, EMPTY)
    state = after(EMPTY, event)
    plan: Any = SimpleNamespace(run_id="r", rules=NEWEST, schemas=pinned)
    if code is not None:
        with pytest.raises(Refused) as caught:
            extended(job, plan, {"value": {"7": met}}, state)
        assert caught.value.code == code
        return
    event = extended(job, plan, {"value": {"7": met}}, state)
    assert (columns(after(state, event)), event.pinned["value"].writers["7"]) == (["id"], met.hash)


def test_a_schema_without_columns_is_bad_configuration() -> None:
    with pytest.raises(ConfigurationError) as caught:
        pinned_schemas(job_of({"value": avro()}), {"value": found(text(id="long", tree=nested(70)))}, EMPTY)
    assert "nested more than 64 deep" in str(caught.value.faults[0])


def test_a_new_table_has_the_widest_types_of_all_versions() -> None:
    job = job_of({"value": avro()})
    versions = [text(id="long", old="int"), text(id="string"), text(id="int", note="string")]
    event, pinned = pinned_schemas(job, {"value": found(*versions)}, EMPTY)
    state = after(EMPTY, event)
    fields = json.loads(state.lineages["value"].readers[-1])["fields"]
    assert [(field["name"], field["type"]) for field in fields] == [("id", "long"), ("note", "string")]
    assert list(pinned["value"].writers) == ["3"], "the others have a field or a type that the columns do not have"
    known = after(EMPTY, pinned_schemas(job, {"value": found(text(id="int"))}, EMPTY)[0])
    with pytest.raises(Refused, match="long does not fit the column, which is int"):
        pinned_schemas(job, {"value": found(text(id="int"), text(id="long"))}, known)


def test_topics_whose_types_differ_in_width_begin_one_table() -> None:
    versions = [text(id="int"), text(id="long")]
    seen = replace(found(*versions), newest=(("of orders", versions[0]), ("of others", versions[1])))
    event, pinned = pinned_schemas(job_of({"value": avro()}), {"value": seen}, EMPTY)
    assert '"long"' in after(EMPTY, event).lineages["value"].readers[-1]
    assert list(pinned["value"].writers) == ["1", "2"]


def test_a_json_schema_is_kept_with_those_that_it_refers_to() -> None:
    job = job_of({"value": {"format": "json_schema", "schema": "registry"}})
    money = {"money.json": '{"type": "object", "properties": {"units": {"type": "integer"}}}'}
    using = SchemaText('{"type": "object", "properties": {"price": {"$ref": "money.json"}}}', named=money)
    event, _ = pinned_schemas(job, {"value": found(using)}, EMPTY)
    state = after(EMPTY, event)
    reader = json.loads(state.lineages["value"].readers[-1])
    assert reader["columns"] == [{"name": "price", "type": {"columns": [{"name": "units", "type": "bigint"}]}}]
    assert using.hash != SchemaText(using.text, named={"money.json": "{}"}).hash


def test_a_job_keeps_the_format_of_its_schemas() -> None:
    document = SchemaText('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    cases = [(avro(), text(id="int")), ({"format": "json_schema", "schema": "registry"}, document)]
    for (before, schema), (after_that, other) in (cases, cases[::-1]):
        state = after(EMPTY, pinned_schemas(job_of({"value": before}), {"value": found(schema)}, EMPTY)[0])
        with pytest.raises(ConfigurationError) as caught:
            pinned_schemas(job_of({"value": after_that}), {"value": found(other)}, state)
        assert "come from schemas of another format" in str(caught.value.faults[0])


def test_what_is_no_envelope_is_bad_configuration() -> None:
    with pytest.raises(ConfigurationError) as caught:
        pinned_schemas(job_of({"value": avro(envelope="debezium")}), {"value": found(text(id="int"))}, EMPTY)
    assert "is no envelope of Debezium: it has no field before" in str(caught.value.faults[0])


@pytest.fixture
def registry_of() -> Any:
    """registry_of(answer): a registry whose answers are `answer(path)`, a status and a document; and what was asked."""
    servers: list[HTTPServer] = []

    def make(answer: Callable[[str], tuple[int, Any]]) -> tuple[SchemaRegistry, list[str]]:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                status, document = answer(self.path)
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        servers.append(server)
        url = f"http://127.0.0.1:{server.server_address[1]}"
        return SchemaRegistry(RegistryConfig.from_properties({"url": url})), asked

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


def version(path: str, **more: Any) -> tuple[int, Any]:
    """A registry with two versions of every subject."""
    number = path.rpartition("/")[2]
    if number == "versions":
        return 200, [1, 2]
    known = 2 if number == "latest" else int(number)
    return 200, {"id": 10 + known, "version": known, "schema": text(id="long").text, **more}


def test_versions_that_the_ledger_knows_are_not_asked_for_again(registry_of: Any) -> None:
    registry, asked = registry_of(version)
    job = job_of({"value": avro(subject="{topic}-shop.Order")})
    with registry:
        seen = read_schemas(job, registry, ["orders"], EMPTY)
        assert [path.rpartition("/")[2] for path in asked] == ["versions", "latest", "1"]
        assert asked[0] == "/subjects/orders-shop.Order/versions"
        state = after(EMPTY, pinned_schemas(job, seen, EMPTY)[0])
        assert state.lineages["value"].subjects == {"orders-shop.Order": {"1": "11", "2": "12"}}
        asked.clear()
        read_schemas(job, registry, ["orders"], state)
        assert [path.rpartition("/")[2] for path in asked] == ["versions", "latest"]


def test_each_part_of_the_section_reads_the_subjects_of_its_topics(registry_of: Any) -> None:
    registry, asked = registry_of(version)
    job = job_of({"orders": {"key": avro(), "value": avro()}, "*": {"value": avro()}})
    assert [lineage for lineage, _ in lineages_of(job)] == ["orders.key", "orders.value", "*.value"]
    with registry:
        read_schemas(job, registry, ["orders", "orders-eu", "orders-us"], EMPTY)
    assert [path.split("/")[2] for path in asked if path.endswith("latest")] == [
        "orders-key",
        "orders-value",
        "orders-eu-value",
        "orders-us-value",
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda path: (401, {"error_code": 401, "message": "Unauthorized"}), "status 401"),
        (lambda path: (404, {"error_code": 40401}), "has no subject orders-value"),
        (lambda path: (404, {"message": "HTTP 404 Not Found"}), "not that of a registry's API"),
        (lambda path: version(path, schemaType="PROTOBUF"), "is of type PROTOBUF, and the format is avro"),
        (lambda path: version(path, schemaType="JSON"), "write format: json_schema"),
    ],
)
def test_a_registry_that_cannot_be_used_is_bad_configuration(registry_of: Any, answer: Any, message: str) -> None:
    registry, _ = registry_of(answer)
    with registry, pytest.raises(ConfigurationError) as caught:
        read_schemas(job_of({"value": avro()}), registry, ["orders"], EMPTY)
    assert message in str(caught.value.faults[0])


@pytest.mark.parametrize(
    ("before", "then", "widened"),
    [
        ("int", "long", True),
        ("float", "double", True),
        ("int", "double", True),
        ("long", "double", False),  # Avro promotes it; a table's column cannot become one
        ("int", "float", False),
        ("string", "long", False),
    ],
)
def test_columns_become_wider_as_far_as_tables_can(before: str, then: str, widened: bool) -> None:
    job, wide = job_of({"value": avro()}), job_of({"value": avro()}, widen=True)
    first, second = text(a=before), text(a=then, b="string")
    state = after(EMPTY, pinned_schemas(job, {"value": found(first)}, EMPTY)[0])
    for one in (job,) if widened else (job, wide):
        with pytest.raises(Refused) as refused:
            pinned_schemas(one, {"value": found(first, second)}, state)
        assert refused.value.code == "schema-conflict"
        assert ("sink.widen: true" in str(refused.value.remedy)) is widened
        assert [line.split() for line in str(refused.value.remedy).splitlines()][2] == ["the", "rows", "the", "table"]
    if widened:
        event, pinned = pinned_schemas(wide, {"value": found(first, second)}, state)
        (field, _) = json.loads(after(state, event).lineages["value"].readers[-1])["fields"]
        assert (field["type"], pinned["value"].reader, sorted(pinned["value"].writers)) == (then, 2, ["1", "2"])


def test_an_old_version_whose_references_are_gone_is_not_used(registry_of: Any) -> None:
    """No record may have it: it is an error of those that do."""
    reference = {"name": "A", "subject": "a-value", "version": 1}

    def answer(path: str) -> tuple[int, Any]:
        if "a-value" in path:
            return 404, {"error_code": 40402, "message": "Version 1 not found."}
        return version(path, references=[reference] if path.endswith("/1") else [])

    registry, _ = registry_of(answer)
    with registry:
        seen = read_schemas(job_of({"value": avro()}), registry, ["orders"], EMPTY)["value"]
    assert seen.texts[seen.writers["11"]].unusable == (
        "references version 1 of subject a-value, which the registry does not have, or not with all that they reference"
    )
    assert seen.texts[seen.writers["12"]].unusable is None
