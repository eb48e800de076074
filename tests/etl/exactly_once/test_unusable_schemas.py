"""Records whose schema id is of another schema type, or of no sound schema: bad records like others. And runs that were
planned with another registry than the job file has now."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema

from kseg.etl.decoding.errors import UndecodablePayload
from kseg.etl.errors import Refused
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify
from registries import SharedRegistry

DRAFT = "http://json-schema.org/draft-07/schema#"
DECODE = {"value": {"format": "avro", "schema": "registry"}}


@pytest.fixture(scope="module")
def registry(schema_registry: SharedRegistry) -> SharedRegistry:
    return schema_registry


def schema(*fields: str) -> Schema:
    listed = [{"name": name, "type": "int"} for name in fields]
    return Schema(json.dumps({"type": "record", "name": "Order", "fields": listed}), "AVRO")


def framed(schema_id: int, *numbers: int) -> bytes:
    """Small ints as Avro has them."""
    return b"\0" + schema_id.to_bytes(4, "big", signed=schema_id < 0) + bytes(2 * number for number in numbers)


@pytest.fixture
def topic(records: Any, registry: SharedRegistry) -> str:
    """Offsets 0, 4: good. 1: a JSON Schema's id. 2: an Avro schema that columns cannot hold. 3: no id at all."""
    name = str(records.topic(1))
    client = registry.client
    good = client.register_schema(f"{name}-value", schema("id"))
    text = json.dumps({"$schema": DRAFT, "type": "object", "title": name, "properties": {"id": {"type": "integer"}}})
    of_json = client.register_schema(f"{name}-json", Schema(text, "JSON"))
    itself = {"type": "record", "name": "Tree", "fields": [{"name": "below", "type": ["null", "Tree"]}], "doc": name}
    recursive = client.register_schema(f"{name}-tree", Schema(json.dumps(itself), "AVRO"))
    producer = Producer(records.settings)
    for value in (framed(good, 1), framed(of_json, 2), framed(recursive, 0), framed(-5, 3), framed(good, 4)):
        producer.produce(name, value=value, partition=0)
    assert producer.flush(60) == 0
    return name


def rows(job: Any) -> list[tuple[int, int | None]]:
    table = job.table("first").to_pyarrow_table()
    return sorted(zip(table["_kseg_offset"].to_pylist(), table["id"].to_pylist(), strict=True))


def test_they_are_dead_letters_with_the_reason(topic: str, any_home: Any, registry: SharedRegistry) -> None:
    dead = {"dead_letters": {"path": "./lake/dead", "max": "90%"}}
    job = any_home(topic, decode={**DECODE, "on_error": "dead_letter"}, registry={"url": registry.url}, sink=dead)
    job.ingest()
    assert rows(job) == [(0, 1), (4, 4)]
    letters = sorted(job.table("dead").to_pyarrow_table().to_pylist(), key=lambda letter: letter["offset"])
    errors = {letter["offset"]: letter["error"] for letter in letters}
    assert (errors[1], errors[3]) == ("INCOMPATIBLE_SCHEMA", "UNKNOWN_SCHEMA")
    assert "is of type JSON, and the format is avro" in letters[0]["message"]
    assert status(job.job).dead_letters == {"open": 3}
    assert verify(job.job).ok
    producer = Producer(job.records.settings)
    producer.produce(topic, value=letters[0]["value"], partition=0)
    assert producer.flush(60) == 0
    job.ingest()
    assert status(job.job).dead_letters == {"open": 4}, "the ledger knows the schema by now"
    assert job.redrive().status == "nothing-to-do"


def test_they_are_rows_of_nulls_or_end_the_run_at_their_address(
    topic: str, any_home: Any, registry: SharedRegistry
) -> None:
    job = any_home(topic, decode=DECODE, registry={"url": registry.url})
    with pytest.raises((UndecodablePayload, Refused)) as caught:
        job.ingest()
    assert caught.value.address["topic"] == topic
    assert caught.value.exit_code == 3
    assert not job.state.lineages["value"].writers.keys() - {str(key) for key in range(10_000)}
    job.change(decode={"on_error": "set_null", "max_nulled": "100%"})
    job.ingest()
    assert rows(job) == [(0, 1), (1, None), (2, None), (3, None), (4, 4)]


def test_a_run_does_not_ask_another_registry_for_the_schemas_of_its_own(
    records: Any, any_home: Any, registry: SharedRegistry
) -> None:
    """The other registry has another schema by the same id."""
    topic = str(records.topic(1))
    client = registry.client
    planned = client.register_schema(f"{topic}-value", schema("id"))
    late = client.register_schema(f"{topic}-other", schema("id", topic.replace("-", "_")))
    producer = Producer(records.settings)
    for value in (framed(planned, 1), framed(late, 2, 3)):
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(60) == 0
    job = any_home(topic, decode=DECODE, registry={"url": registry.url})
    job.die("plan:after")
    other = registry.url.replace("127.0.0.1", "localhost")
    assert other != registry.url
    job.change(registry={"url": other})
    with pytest.raises(Refused) as caught:
        job.ingest(take_over=True)
    assert caught.value.code == "registry-changed"
    assert registry.url in str(caught.value)
    assert not any(run.landed for run in job.state.runs.values())
    job.change(registry={"url": registry.url})
    job.ingest()
    assert rows(job) == [(0, 1), (1, 2)]
    job.change(registry={"url": other})
    assert job.ingest().status == "nothing-to-do"
    assert verify(job.job).ok
