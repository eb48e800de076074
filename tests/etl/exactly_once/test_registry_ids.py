"""Apicurio's two kinds of ids: its registry counts each for itself, and schemas are found by either."""

from __future__ import annotations

import io
import itertools
import json
import urllib.request
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference

from kseg.etl.errors import Refused
from kseg.etl.operations.verify import verify
from kseg.etl.run.schemas import framed_schemas
from registries import SharedRegistry


@pytest.fixture
def registry(schema_registry: SharedRegistry) -> SharedRegistry:
    return schema_registry


def rows(job: Any) -> list[dict[str, Any]]:
    found = sorted(job.table("first").to_pyarrow_table().to_pylist(), key=lambda row: row["_kseg_offset"])
    return [{name: value for name, value in row.items() if not name.startswith("_kseg_")} for row in found]


def avro_schema(**fields: Any) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": listed})


def avro_bytes(schema: Any, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


def global_id(registry: SharedRegistry, subject: str, version: int) -> int:
    base = registry.url.partition("/apis/")[0]
    path = f"{base}/apis/registry/v3/groups/default/artifacts/{subject}/versions/{version}"
    with urllib.request.urlopen(path) as answer:
        return int(json.load(answer)["globalId"])


def test_ids_before_payloads_are_of_the_kind_that_the_job_file_says(
    records: Any, local_home: Any, registry: SharedRegistry
) -> None:
    """Copies of one schema have one content id, and a global id each."""
    topics = [records.topic(1) for _ in range(3)]
    text = avro_schema(id="long", note={"type": "string", "doc": str(topics[0])})  # a content that is new
    copies = (f"{topics[0]}-copy-{number}" for number in itertools.count())
    content = registry.client.register_schema(copy := next(copies), Schema(text, "AVRO"))
    while global_id(registry, copy, 1) < content:
        registry.client.register_schema(copy := next(copies), Schema(text, "AVRO"))
    for topic in reversed(topics):
        assert registry.client.register_schema(f"{topic}-value", Schema(text, "AVRO")) == content
    first, number = global_id(registry, f"{topics[0]}-value", 1), global_id(registry, f"{topics[2]}-value", 1)
    assert content < number < first, "the numbers of the last are no content ids"
    payload = avro_bytes(fastavro.parse_schema(json.loads(text)), {"id": 1, "note": "a"})
    producer = Producer(records.settings)
    for topic, frame in zip(topics, (first.to_bytes(8), content.to_bytes(8), number.to_bytes(4)), strict=True):
        producer.produce(topic, b"\0" + frame + payload, partition=0)
    assert producer.flush(60) == 0

    def job_of_topic(topic: Any, **value: Any) -> Any:
        decode = {"value": {"format": "avro", "schema": "registry", **value}}
        return local_home(topic, decode=decode, registry={"url": registry.url})

    job = job_of_topic(topics[0], frame="apicurio")
    with pytest.raises(Refused, match=f"names the schema {first}, .* it has a global id of this number") as refused:
        job.ingest()
    assert "set decode.value.ids: global" in str(refused.value.remedy)
    job.change(decode={"value": {"ids": "global"}})
    others = [job_of_topic(topics[1], frame="apicurio", ids="content"), job_of_topic(topics[2], ids="global")]
    for made, name in zip((job, *others), (f"global/{first}", f"content/{content}", f"global/{number}"), strict=True):
        made.ingest()
        assert rows(made) == [{"id": 1, "note": "a"}]
        assert name in list(made.state.runs.values())[-1].plan.schemas["value"].writers
    assert verify(job.job).ok


def test_apicurios_global_ids_are_not_taken_for_content_ids(
    records: Any, local_home: Any, registry: SharedRegistry
) -> None:
    """Two artifacts with the same content have one content id, and two global ids."""
    topic = records.topic(1)
    subject, money = f"{topic}-value", '{"type": "record", "name": "Money", "namespace": "shop", "fields": []}'
    money = money.replace("[]", '[{"name": "cents", "type": "long"}]')
    older, newer = avro_schema(id="long"), avro_schema(id="long", price="shop.Money")
    newer = newer.replace('"type": "shop.Money"', '"type": ["null", "shop.Money"], "default": null')
    content = registry.client.register_schema(f"{topic}-copy", Schema(older, "AVRO"))
    assert registry.client.register_schema(subject, Schema(older, "AVRO")) == content
    registry.client.register_schema(f"{topic}-money", Schema(money, "AVRO"))
    references = [SchemaReference("shop.Money", f"{topic}-money", 1)]
    registry.client.register_schema(subject, Schema(newer, "AVRO", references=references))
    first, second, copy = global_id(registry, subject, 1), global_id(registry, subject, 2), f"{topic}-copy"
    assert len({content, first, global_id(registry, copy, 1)}) > 1, "the two kinds differ"

    plain = fastavro.parse_schema(json.loads(older))
    priced = fastavro.parse_schema(json.loads(newer), named_schemas={"shop.Money": json.loads(money)})
    producer = Producer(records.settings)
    for payload, kind, number in (
        (avro_bytes(plain, {"id": 1}), "globalId", first),
        (avro_bytes(priced, {"id": 2, "price": {"cents": 5}}), "globalId", second),
        (avro_bytes(plain, {"id": 3}), "contentId", content),
        (avro_bytes(plain, {"id": 4}), "globalId", global_id(registry, copy, 1)),
    ):
        headers = [(f"apicurio.value.{kind}", number.to_bytes(8, "big"))]
        producer.produce(topic, payload, headers=headers, partition=0)
    assert producer.flush(60) == 0

    decode = {"value": {"format": "avro", "schema": "registry", "frame": "apicurio"}}
    job = local_home(topic, decode=decode, registry={"url": registry.url})
    job.ingest()
    assert rows(job) == [
        {"id": 1, "price": None},
        {"id": 2, "price": {"cents": 5}},
        {"id": 3, "price": None},
        {"id": 4, "price": None},
    ]
    assert verify(job.job).ok
    (run,) = job.state.runs.values()
    assert {f"global/{first}", f"global/{second}", str(content)} < set(run.plan.schemas["value"].writers)
    for rules, apart in ((1, False), (2, True)):
        plan = replace(run.plan, decoding_rules=rules)
        assert framed_schemas(job.job, plan, job.state)["value"].global_ids is apart
