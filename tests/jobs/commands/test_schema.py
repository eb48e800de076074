"""`kseg schema` on a real registry: subjects as columns, and new schemas checked before anybody registers them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.schema_registry import Schema, SchemaReference

from kseg.jobs.cli import cli
from registries import SharedRegistry

JOB = """
version: 1
name: orders
kafka: {{bootstrap.servers: "localhost:9"}}
registry: {{url: "{url}"}}
source: {{topics: [orders]}}
decode: {{value: {{format: avro, schema: registry}}}}
sink: {{path: ./lake}}
ledger: ./ledger
"""


def order(**fields: Any) -> str:
    listed = [{"name": name, **(kind if isinstance(kind, dict) else {"type": kind})} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": listed})


OPTIONAL = {"type": ["null", "string"], "default": None}


@pytest.fixture(scope="module")
def registry(schema_registry: SharedRegistry) -> str:
    """orders-value: two versions; customers (with a reference), events (JSON Schema) and payments (Protobuf)."""
    client = schema_registry.client
    client.register_schema("orders-value", Schema(order(id="long"), "AVRO"))
    client.set_compatibility("orders-value", "BACKWARD")
    client.register_schema("orders-value", Schema(order(id="long", note=OPTIONAL), "AVRO"))
    reference = SchemaReference("shop.Order", "orders-value", 1)
    client.register_schema(
        "customers",
        Schema(
            '{"type": "record", "name": "C", "fields": [{"name": "last", "type": "shop.Order"}]}', "AVRO", [reference]
        ),
    )
    client.register_schema(
        "events",
        Schema('{"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}', "JSON"),
    )
    client.register_schema(
        "payments", Schema('syntax = "proto3"; message P { uint64 id = 1; repeated string tags = 2; }', "PROTOBUF")
    )
    return schema_registry.url


def run(*args: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["schema", *args, "--json"])
    assert result.exit_code == code, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def columns(registry: str, *args: str) -> list[dict[str, str]]:
    (subject,) = run(*args, "--registry", registry)["subjects"]
    return [version["columns"] for version in subject["versions"]]


@pytest.mark.broker
def test_the_columns_of_each_type(registry: str) -> None:
    assert columns(registry, "orders-value") == [{"id": "bigint", "note": "string"}]
    assert columns(registry, "orders-value", "--version", "1") == [{"id": "bigint"}]
    assert columns(registry, "orders-value", "--versions") == [{"id": "bigint"}, {"id": "bigint", "note": "string"}]
    assert columns(registry, "customers") == [{"last": "struct<id: bigint>"}]
    assert columns(registry, "events") == [{"at": "timestamp"}]
    assert columns(registry, "payments") == [{"id": "decimal(20,0)", "tags": "array<string>"}]


@pytest.mark.broker
def test_versions_side_by_side_for_people(registry: str) -> None:
    shown = CliRunner().invoke(cli, ["schema", "orders-value", "--versions", "--registry", registry])
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["column", "version", "1", "version", "2"] in lines
    assert ["note", "–", "string"] in lines


@pytest.mark.broker
def test_a_subject_or_version_that_is_not_there(registry: str, schema_registry: SharedRegistry) -> None:
    error = run("nobody", "--registry", registry, code=2)["error"]
    known = sorted(schema_registry.client.get_subjects())
    assert {"customers", "events", "orders-value", "payments"} <= set(known)
    assert f"it has {', '.join(known[:20])}" in str(error)
    assert "1, 2" in str(run("orders-value", "--version", "3", "--registry", registry, code=2)["error"])


@pytest.fixture
def job(registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "orders.yaml"
    place.write_text(JOB.format(url=registry))
    return place


@pytest.mark.broker
def test_a_jobs_subjects_by_its_own_registry(job: Path) -> None:
    (subject,) = run(str(job))["subjects"]
    assert (subject["subject"], subject["all_versions"]) == ("orders-value", [1, 2])


@pytest.mark.broker
@pytest.mark.parametrize(
    ("text", "accepted", "fits"),
    [
        (order(id="long", note=OPTIONAL, more={"type": "int", "default": 0}), True, True),
        (order(id="long", note=OPTIONAL, more="int"), False, True),
        (order(id="double", note=OPTIONAL), True, False),
        (order(id="string", note=OPTIONAL), False, False),
    ],
)
def test_a_new_schema_is_checked_by_registry_and_columns(
    registry: str, tmp_path: Path, text: str, accepted: bool, fits: bool
) -> None:
    (tmp_path / "new.avsc").write_text(text)
    code = 0 if accepted and fits else 3
    args = ("orders-value", "--registry", registry, "--check", str(tmp_path / "new.avsc"))
    found = run(*args, code=code)["check"]
    assert found["fits"] == (accepted and fits)
    assert found["registry"]["accepted"] == accepted
    assert bool(found["registry"]["reasons"]) != accepted
    (columns,) = found["columns"]
    assert (columns["against"], columns["fits"]) == ("version 2 of subject orders-value", fits)
    assert columns["added"] == ({"more": "int"} if fits else {})
    if not fits:
        assert "does not fit the column, which is long" in columns["reasons"][0]


@pytest.mark.broker
@pytest.mark.parametrize(("kind", "code"), [("double", 0), ("string", 3)])
def test_before_a_jobs_first_run_its_columns_are_the_new_schemas(job: Path, kind: str, code: int) -> None:
    """The records that are there have the newest version: it has to fit these columns."""
    Path("new.avsc").write_text(order(id=kind, note=OPTIONAL))
    found = run("orders-value", "--table", str(job), "--check", "new.avsc", code=code)["check"]
    (columns,) = found["columns"]
    assert columns["against"] == "job orders, decode.value"
    if code:
        assert "version 2 of subject orders-value does not fit" in columns["reasons"][0]
    else:
        assert columns["added"] == {"id": "double", "note": "string"}


@pytest.mark.broker
def test_a_check_is_shown_to_people_and_registers_nothing(registry: str, job: Path) -> None:
    Path("new.avsc").write_text(order(id="long", more={"type": "int", "default": 0}))
    shown = CliRunner().invoke(cli, ["schema", str(job), "--check", "new.avsc"])
    assert shown.exit_code == 0, shown.output
    for words in ("fits as the next version of orders-value", "more", "has not run yet"):
        assert words in shown.stdout
    alone = CliRunner().invoke(cli, ["schema", "orders-value", "--registry", registry, "--check", "new.avsc"])
    assert "null from now on" in alone.stdout
    (subject,) = run(str(job))["subjects"]
    assert subject["all_versions"] == [1, 2]


@pytest.mark.broker
def test_a_file_that_is_no_schema(job: Path) -> None:
    Path("new.avsc").write_text("{")
    error = run(str(job), "--check", "new.avsc", code=2)["error"]
    assert "new.avsc is no AVRO schema" in str(error)


@pytest.mark.broker
def test_a_schema_that_the_registry_alone_rejects(job: Path) -> None:
    Path("new.json").write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    found = run(str(job), "--check", "new.json", "--type", "json", code=3)["check"]
    assert not found["registry"]["accepted"]
    assert [one["fits"] for one in found["columns"]] == [False]


@pytest.mark.broker
def test_a_subject_that_is_new_is_compared_with_the_job_alone(registry: str, job: Path) -> None:
    job.write_text(JOB.format(url=registry).replace("[orders]", "[fresh]"))
    Path("new.avsc").write_text(order(id="long"))
    found = run(str(job), "--check", "new.avsc")["check"]
    assert found["registry"]["accepted"]
    assert [one["added"] for one in found["columns"]] == [{"id": "bigint"}]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["s"], "--registry: is missing"),
        (["s", "--registry", "ftp://x"], "http"),
        (["s", "--registry", "http://x", "-X", "basic.auth.user.info"], "has no value"),
        (["s", "--table", "a.yaml"], "--table and --type belong to --check"),
        (["a.yaml", "--table", "b.yaml", "--check", "f"], "first argument already"),
        (["s", "--version", "1", "--versions"], "exclude each other"),
        (["s", "--registry", "http://127.0.0.1:9", "--check", "/nowhere.avsc"], "/nowhere.avsc cannot be read"),
    ],
)
def test_options_that_do_not_fit(args: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["schema", *args])
    assert result.exit_code == 2, result.output
    assert message in result.stderr


def test_a_job_that_names_no_topic(tmp_path: Path) -> None:
    place = tmp_path / "orders.yaml"
    place.write_text(JOB.format(url="http://x").replace("{topics: [orders]}", "{pattern: ord}"))
    result = CliRunner().invoke(cli, ["schema", str(place)])
    assert result.exit_code == 2
    assert "kseg schema SUBJECT --table JOB.yaml" in result.stderr


def test_a_registry_that_is_away(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        cli, ["schema", "s", "--registry", "http://127.0.0.1:9", "-X", "default.api.timeout.ms=200"]
    )
    assert result.exit_code == 4
    assert "does not answer" in result.stderr
