"""`kseg peek` shows typed values: as a job decodes them, or by the schemas that frames name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kseg.jobs.cli import cli
from registries import SharedRegistry, behind_a_password

pytestmark = pytest.mark.broker
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
)
NEWER = ORDER.replace('"fields": [', '"fields": [{"name": "note", "type": "string"}, ')
EVENT = '{"title": "Event", "type": "object", "properties": {"name": {"type": "string"}}}'
PROTO = 'syntax = "proto3"; message First { int64 id = 1; } message Second { string name = 1; }'


@pytest.fixture
def registry(schema_registry: SharedRegistry) -> SharedRegistry:
    return schema_registry


def write(kafka: Any, topic: str, *values: bytes | None, key: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def peek(kafka: Any, *args: str) -> Result:
    bootstrap = [] if args[0].endswith(".yaml") else ["--bootstrap", kafka.bootstrap_servers]
    result = CliRunner().invoke(cli, ["peek", *args, *bootstrap, "--offset", "earliest"])
    assert result.exit_code == 0, result.output
    return result


def rows(kafka: Any, *args: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in peek(kafka, *args, "--json").stdout.splitlines()]


def avro(registry: SharedRegistry, topic: str, text: str, value: dict[str, Any]) -> bytes:
    serializer = AvroSerializer(registry.client, text)
    data = serializer(value, SerializationContext(topic, MessageField.VALUE))
    assert data is not None
    return data


FIRST = {"id": 7, "at": 1767225600000}
SHOWN = {"id": 7, "at": "2026-01-01T00:00:00Z"}


def test_frames_of_all_types_by_registry(kafka: Any, registry: SharedRegistry) -> None:
    topic = kafka.topic(1)
    client = registry.client
    event = JSONSerializer(EVENT, client)({"name": "x"}, SerializationContext(f"{topic}-j", MessageField.VALUE))
    number = client.register_schema(f"{topic}-p", Schema(PROTO, "PROTOBUF")).to_bytes(4, "big")
    write(
        kafka,
        topic,
        avro(registry, topic, ORDER, FIRST),
        event,
        b"\0" + number + b"\0" + b"\x08\x09",
        b"\0" + number + b"\x02\x02" + b"\x0a\x03ann",
        b"\0" + number + b"\x02\x0e",
        b"\0\0\x0f\x42\x40 of nobody",
        avro(registry, topic, ORDER, FIRST)[:6],
        b"plain",
        None,
        key=(7).to_bytes(8, "big"),
    )
    found = rows(kafka, topic, "--registry", registry.url)
    assert [row.get("valueDecoded") for row in found] == [
        SHOWN, {"name": "x"}, {"id": 9}, {"name": "ann"}, None, None, None, None, None,
    ]  # fmt: skip
    errors = [row.get("valueError", {}).get("class") for row in found]
    assert errors == [None] * 4 + ["INCOMPATIBLE_SCHEMA", "UNKNOWN_SCHEMA", "TRUNCATED", None, None]
    assert "the registry does not know the schema 1000000" in found[5]["valueError"]["message"]
    assert all("keyDecoded" not in row and "keyError" not in row for row in found), "a long is no frame"
    lines = peek(kafka, topic, "--registry", registry.url).stdout.splitlines()
    assert lines[0].endswith(json.dumps(SHOWN))
    assert "<TRUNCATED at:" in lines[6]
    assert lines[7].endswith("plain")
    assert lines[8].endswith("<null>")


JOB = """
version: 1
name: orders
kafka: {{bootstrap.servers: "{brokers}"}}
registry: {{url: "{url}"}}
source: {{topics: [{topic}]}}
decode: {decode}
sink: {{path: ./lake}}
ledger: ./ledger
"""


def job_file(folder: Path, kafka: Any, registry: str, topic: str, decode: Any) -> str:
    place = folder / "orders.yaml"
    text = JOB.format(brokers=kafka.bootstrap_servers, url=registry, topic=topic, decode=json.dumps(decode))
    place.write_text(text)
    return str(place)


def test_a_jobs_columns_and_a_bad_records_error(kafka: Any, registry: SharedRegistry, tmp_path: Path) -> None:
    topic = kafka.topic(1)
    write(kafka, topic, b'{"n": 1, "amount": 9.50}', b'{"n": "x"}', None, key=b"k")
    decode = {
        "key": {"format": "string", "as": "name"},
        "value": {
            "format": "json",
            "schema": {"columns": {"n": "bigint", "amount": "decimal(9,2)"}},
            "rename": {"n": "number"},
        },
    }
    place = job_file(tmp_path, kafka, registry.url, topic, decode)
    found = rows(kafka, place)
    assert [row["keyDecoded"] for row in found] == [{"name": "k"}] * 3
    assert [row.get("valueDecoded") for row in found] == [{"number": 1, "amount": "9.50"}, None, None]
    assert found[1]["valueError"] | {"message": ""} == {"class": "WRONG_TYPE", "path": "n", "message": ""}
    assert (found[0]["key"], found[0]["value"]) == ("k", '{"n": 1, "amount": 9.50}'), "as `kseg produce` reads it"
    lines = peek(kafka, place).stdout.splitlines()
    assert lines[0].endswith('{"name": "k"}  {"number": 1, "amount": "9.50"}')
    assert "<WRONG_TYPE n: " in lines[1]
    assert lines[1].endswith('> {"n": "x"}')
    assert lines[2].endswith("<null>")
    assert peek(kafka, place, "--raw").stdout.splitlines()[0].endswith('k  {"n": 1, "amount": 9.50}')


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_records_of_kinds_have_the_columns_of_their_own(
    kafka: Any, registry: SharedRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topic = kafka.topic(1)
    names = [f"{kind}{''.join(filter(str.isalnum, topic))}" for kind in ("Order", "Payment", "Refund")]
    order, payment, refund = (
        json.dumps({"type": "record", "name": name, "fields": [{"name": "id", "type": kind}]})
        for name, kind in zip(names, ("long", "string", "boolean"), strict=True)
    )

    def one(text: str, value: Any) -> bytes:
        conf = {"subject.name.strategy": record_subject_name_strategy}
        serializer = AvroSerializer(registry.client, text, conf=conf)
        return bytes(serializer({"id": value}, SerializationContext(topic, MessageField.VALUE)) or b"")

    write(kafka, topic, one(order, 1), one(payment, "p"))
    decode = {"value": {"format": "avro", "schema": "registry", "subject": names[:2], "rename": {"id": "number"}}}
    place = job_file(tmp_path, kafka, registry.url, topic, decode)
    routes = {name: {"path": f"./lake/{name}"} for name in names}
    text = Path(place).read_text().replace("{path: ./lake}", json.dumps({"route_by": "schema", "routes": routes}))
    Path(place).write_text(text)
    assert [row["valueDecoded"] for row in rows(kafka, place)] == [{"id": 1}, {"id": "p"}], "before any run"
    ran = CliRunner().invoke(cli, ["ingest", place, "--progress", "none"])
    assert ran.exit_code == 0, ran.output
    write(kafka, topic, one(refund, True), b"no frame")
    found = rows(kafka, place)
    assert [row.get("valueDecoded") for row in found] == [{"number": 1}, {"number": "p"}, {"id": True}, None]
    assert found[3]["valueError"]["class"] == "BAD_FRAME"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_registrys_payloads_have_the_readers_columns_once_a_run_has_pinned_them(
    kafka: Any, registry: SharedRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topic = kafka.topic(1)
    write(kafka, topic, avro(registry, topic, ORDER, FIRST))
    place = job_file(tmp_path, kafka, registry.url, topic, {"value": {"format": "avro", "schema": "registry"}})
    assert [row["valueDecoded"] for row in rows(kafka, place)] == [SHOWN], "before any run"
    ran = CliRunner().invoke(cli, ["ingest", place, "--progress", "none"])
    assert ran.exit_code == 0, ran.output
    write(kafka, topic, avro(registry, topic, NEWER, {"note": "new", **FIRST}), b"\0\0\x0f\x42\x40x")
    found = rows(kafka, place)
    assert [row.get("valueDecoded") for row in found] == [SHOWN, SHOWN, None], "the table has no note yet"
    assert found[2]["valueError"]["class"] == "UNKNOWN_SCHEMA"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_messages_have_the_readers_columns_too(
    kafka: Any, registry: SharedRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topic = kafka.topic(1)
    client = registry.client
    newer = PROTO.replace("int64 id = 1;", "int64 number = 1; string note = 2;")
    first, second = (
        b"\0" + client.register_schema(f"{topic}-{subject}", Schema(text, "PROTOBUF")).to_bytes(4, "big") + b"\0"
        for subject, text in (("value", PROTO), ("other", newer))
    )
    write(kafka, topic, first + b"\x08\x09")
    decode = {"value": {"format": "protobuf", "schema": "registry", "message": "First"}}
    place = job_file(tmp_path, kafka, registry.url, topic, decode)
    assert [row["valueDecoded"] for row in rows(kafka, place)] == [{"id": 9}], "before any run"
    ran = CliRunner().invoke(cli, ["ingest", place, "--progress", "none"])
    assert ran.exit_code == 0, ran.output
    write(kafka, topic, second + b"\x08\x0a\x12\x01n", first[:-1] + b"\2\2\x0a\x01x")
    found = rows(kafka, place)
    assert [row.get("valueDecoded") for row in found] == [{"id": 9}, {"id": 10}, None], "field 1 is one column"
    assert "is a Second, and the columns are those of First" in found[2]["valueError"]["message"]


def test_options_that_exclude_each_other() -> None:
    result = CliRunner().invoke(cli, ["peek", "t", "--raw", "--registry", "http://x"])
    assert result.exit_code == 2
    assert "--raw and --registry exclude each other" in result.stderr


def test_a_registry_that_is_away_ends_the_command(kafka: Any, tmp_path: Path) -> None:
    topic = kafka.topic(1)
    write(kafka, topic, b"\0\0\0\0\1abc")
    place = job_file(tmp_path, kafka, "http://127.0.0.1:9", topic, {"value": {"format": "avro", "schema": "registry"}})
    text = Path(place).read_text()
    Path(place).write_text(text.replace("registry: {", 'registry: {default.api.timeout.ms: "300", '))
    result = CliRunner().invoke(cli, ["peek", place, "--offset", "earliest"])
    assert result.exit_code == 4
    assert "does not answer" in result.stderr


def test_a_registry_with_a_password(kafka: Any, registry: SharedRegistry, tmp_path: Path) -> None:
    """In front of the registry there is a server that asks for one."""
    topic = kafka.topic(1)
    write(kafka, topic, avro(registry, topic, ORDER, FIRST))
    with behind_a_password(registry.url, "me:hunter22") as guarded:
        refused = CliRunner().invoke(
            cli, ["peek", topic, "--bootstrap", kafka.bootstrap_servers, "--registry", guarded]
        )
        assert refused.exit_code == 2
        pair = "schema.registry.basic.auth.user.info=me:hunter22"
        (row,) = rows(kafka, topic, "--registry", guarded, "-X", pair)
        assert row["valueDecoded"] == SHOWN
        file = tmp_path / "client.properties"
        file.write_text(f"{pair}\nschema.registry.url={guarded}\n")
        (row,) = rows(kafka, topic, "--command-config", str(file))
        assert row["valueDecoded"] == SHOWN
        job = tmp_path / "job.yaml"
        init = ["init", "--topic", topic, "--bootstrap", kafka.bootstrap_servers, "--command-config", str(file)]
        made = CliRunner().invoke(cli, [*init, "-o", str(job)])
        assert made.exit_code == 0, made.output
        text = job.read_text()
        assert "${KSEG_SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO}" in text
        assert "hunter22" not in text + made.output
        assert "format: avro" in text


def test_null_and_the_text_null_differ(kafka: Any) -> None:
    topic = kafka.topic(1)
    write(kafka, topic, b"null", None)
    text, nothing = peek(kafka, topic).stdout.splitlines()
    assert text.endswith("  null")
    assert nothing.endswith("  <null>")
