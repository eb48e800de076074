"""Jobs whose schemas are in AWS Glue Schema Registry: payloads with its header, AWS' own client, a server of Glue's
protocol, real brokers and tables, on the local engine."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer

from glue_server import CREDENTIALS, REGION, Fault, GlueServer, glue_server, with_header
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.operations.verify import verify

pytest.importorskip("botocore", reason="needs the extra `glue`")

OLDER = {"id": "long"}
NEWER = {"id": "long", "note": ["null", "string"]}


def avro(fields: dict[str, Any]) -> str:
    return json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    )


def encoded(fields: dict[str, Any], **row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(avro(fields))), row)
    return out.getvalue()


@pytest.fixture(scope="module")
def shared_server() -> Iterator[GlueServer]:
    with glue_server() as server:
        yield server


@pytest.fixture
def server(shared_server: GlueServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[GlueServer]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    yield shared_server
    shared_server.faults.clear()


@pytest.fixture
def topic(records: Any) -> str:
    made: str = records.topic(1)
    return made


@pytest.fixture
def write(records: Any, topic: str) -> Callable[..., None]:
    producer = Producer(records.settings)

    def do(*values: bytes | None) -> None:
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(60) == 0

    return do


@pytest.fixture
def job_of(local_home: Any, topic: str, server: GlueServer) -> Callable[..., Any]:
    def make(*, on_error: str = "fail", sink: dict[str, Any] | None = None, **value: Any) -> Any:
        decode = {"value": {"format": "avro", "schema": "registry", "frame": "glue"} | value, "on_error": on_error}
        registry = {"type": "glue", "region": REGION, "endpoint": server.url}
        return local_home(topic, decode=decode, registry=registry, sink=sink or {})

    return make


def rows(job: Any) -> list[dict[str, Any]]:
    found = sorted(job.table("first").to_pyarrow_table().to_pylist(), key=lambda row: row["_kseg_offset"])
    return [{name: value for name, value in row.items() if not name.startswith("_kseg_")} for row in found]


def pinned(job: Any) -> list[set[str]]:
    return [set(run.plan.schemas["value"].writers) for run in job.state.runs.values()]


def without_answers(server: GlueServer) -> int:
    """From now on every question is refused. The number of those before."""
    server.faults += [Fault(400, "AccessDeniedException")] * 1_000
    return len(server.asked)


def test_versions_are_found_by_the_uuids_of_payloads(
    job_of: Callable[..., Any], write: Callable[..., None], topic: str, server: GlueServer
) -> None:
    first = server.register(topic, avro(OLDER))
    write(with_header(first, encoded(OLDER, id=1)), with_header(first, encoded(OLDER, id=2), compressed=True), None)
    job = job_of()
    job.ingest()
    second = server.register(topic, avro(NEWER))
    write(with_header(second, encoded(NEWER, id=3, note="x" * 99), compressed=True))
    write(with_header(first, encoded(OLDER, id=4)), with_header(second, encoded(NEWER, id=5, note=None)))
    job.ingest()
    assert rows(job) == [
        {"id": 1, "note": None},
        {"id": 2, "note": None},
        {"id": None, "note": None},
        {"id": 3, "note": "x" * 99},
        {"id": 4, "note": None},
        {"id": 5, "note": None},
    ]
    assert pinned(job) == [{str(first)}, {str(first), str(second)}]
    assert job.state.lineages["value"].subjects == {topic: {"1": str(first), "2": str(second)}}
    asked = without_answers(server)
    assert verify(job.job).ok
    assert len(server.asked) == asked


def test_a_run_that_was_killed_goes_on_with_the_texts_of_its_plan(
    job_of: Callable[..., Any], write: Callable[..., None], topic: str, server: GlueServer
) -> None:
    version = server.register(topic, avro(OLDER))
    write(with_header(version, encoded(OLDER, id=1), compressed=True))
    job = job_of()
    job.die("plan:after")
    asked = without_answers(server)
    job.ingest()
    assert rows(job) == [{"id": 1}]
    assert len(server.asked) == asked


def test_a_version_of_another_schema_is_asked_for_by_its_uuid(
    job_of: Callable[..., Any], write: Callable[..., None], topic: str, server: GlueServer
) -> None:
    version = server.register(topic, avro(OLDER))
    elsewhere = server.register(f"{topic}-elsewhere", avro(NEWER))
    write(with_header(version, encoded(OLDER, id=1)), with_header(elsewhere, encoded(NEWER, id=2, note="b")))
    job = job_of()
    job.ingest()
    assert rows(job) == [{"id": 1, "note": None}, {"id": 2, "note": "b"}]
    assert pinned(job) == [{str(version), str(elsewhere)}]


def test_a_version_that_there_is_not_is_refused_or_becomes_a_dead_letter_that_can_be_redriven(
    job_of: Callable[..., Any], write: Callable[..., None], topic: str, server: GlueServer
) -> None:
    version, deleted = server.register(topic, avro(OLDER)), uuid.uuid4()
    damaged = with_header(version, encoded(OLDER, id=3), compressed=True)[:-1]
    write(with_header(version, encoded(OLDER, id=1)), with_header(deleted, encoded(OLDER, id=2)), damaged)
    job = job_of()
    with pytest.raises(Refused, match=str(deleted)) as refused:
        job.ingest()
    assert refused.value.code == "schema-unknown"
    assert "registry.registry.name" in (refused.value.remedy or "")
    job.change(decode={"on_error": "dead_letter"}, sink={"dead_letters": {"path": "./lake/dead", "max": "100%"}})
    job.ingest()
    assert rows(job) == [{"id": 1}]
    letters = job.table("dead").to_pyarrow_table().sort_by("offset").to_pylist()
    assert [(one["error"], one["schema_id"]) for one in letters] == [("UNKNOWN_SCHEMA", None), ("BAD_FRAME", None)]
    assert "no whole zlib stream" in letters[1]["message"]
    server.versions[str(deleted)] = server.versions[str(version)] | {"SchemaVersionId": str(deleted)}
    job.redrive()
    assert rows(job) == [{"id": 1}, {"id": 2}]


def test_json_documents_are_read_by_their_schemas(
    job_of: Callable[..., Any], write: Callable[..., None], topic: str, server: GlueServer
) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    version = server.register(topic, json.dumps(schema), form="JSON")
    write(with_header(version, b'{"id": 7}'), with_header(version, b'{"id": 8}', compressed=True))
    job = job_of(format="json_schema")
    job.ingest()
    assert rows(job) == [{"id": 7}, {"id": 8}]


def test_what_aws_rejects_is_an_error_of_the_configuration(
    job_of: Callable[..., Any], topic: str, server: GlueServer
) -> None:
    server.register(topic, avro(OLDER))
    job = job_of()
    server.faults.append(Fault(400, "AccessDeniedException", "User: arn:aws:iam::1:user/etl is not authorized"))
    with pytest.raises(ConfigurationError, match="is not authorized") as caught:
        job.ingest()
    (fault,) = caught.value.faults
    assert fault.path == "registry"
    assert "glue:GetSchemaVersion" in (fault.remedy or "")
