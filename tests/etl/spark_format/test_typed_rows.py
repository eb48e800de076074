"""Typed columns out of `format("kseg")`, in a batch and in a stream."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kseg.etl.spark_format.datasource import KsegDataSource
from registries import SharedRegistry, behind_a_password

pytestmark = [pytest.mark.broker, pytest.mark.spark]

OPTIONS = {
    "key.format": "string",
    "key.as": "customer",
    "value.format": "json",
    "value.schema": "id bigint, amount decimal(20,2), at timestamp_ntz, tags map<string,int>, "
    "items array<struct<n:int>>",
    "startingOffsets": "earliest",
}
DOCUMENT = b'{"id": 1, "amount": 1.5, "at": "2026-01-02T03:04:05", "tags": {"a": 1}, "items": [{"n": 2}, null]}'


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    if importlib.util.find_spec("pyspark_kseg") is None:
        spark.dataSource.register(KsegDataSource)
    return spark


def options_of(kafka: Any, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic} | OPTIONS | more


def test_rows_are_typed_in_a_batch_and_in_a_stream(
    session: Any, kafka: Any, produce: Callable[..., Any], tmp_path: Path
) -> None:
    topic = kafka.topic(partitions=1)
    produce(topic, [(0, b"ann", DOCUMENT), (0, b"bob", None)])
    options = options_of(kafka, topic)
    batch = session.read.format("kseg").options(**options).load()
    assert batch.schema.simpleString() == (
        "struct<customer:string,id:bigint,amount:decimal(20,2),at:timestamp_ntz,tags:map<string,int>,"
        "items:array<struct<n:int>>,_kseg_topic:string,_kseg_partition:int,_kseg_offset:bigint>"
    )
    first, second = batch.orderBy("_kseg_offset").collect()
    assert (first.customer, first.id, first.amount, first.tags) == ("ann", 1, Decimal("1.50"), {"a": 1})
    assert (first["items"][0].n, first["items"][1], first._kseg_offset) == (2, None, 0)
    assert (second.customer, second.id, second._kseg_offset) == ("bob", None, 1)

    query = (
        session.readStream.format("kseg")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    query.awaitTermination(120)
    assert query.exception() is None
    landed = session.read.parquet(str(tmp_path / "rows")).orderBy("_kseg_offset").collect()
    assert [(row.customer, row.id) for row in landed] == [("ann", 1), ("bob", None)]


def test_a_payload_that_does_not_fit_ends_the_query_with_its_address(
    session: Any, kafka: Any, produce: Callable[..., Any]
) -> None:
    topic = kafka.topic(partitions=1)
    produce(topic, [(0, None, b'{"id": "x"}')])
    frame = session.read.format("kseg").options(**options_of(kafka, topic)).load()
    with pytest.raises(Exception, match=r"the value at id cannot be decoded \(WRONG_TYPE\)"):
        frame.collect()


def order_schema(*fields: tuple[str, str]) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": listed})


def test_schemas_of_a_registry(
    session: Any, kafka: Any, produce: Callable[..., Any], schema_registry: SharedRegistry
) -> None:
    """Three versions in one read: columns of the newest, widened, then what an older one alone has."""
    topic = kafka.topic(partitions=1)
    old = order_schema(("id", "int"), ("gone", "string"))
    new = order_schema(("id", "long"), ("amount", "double"))

    def avro(text: str, value: dict[str, Any]) -> bytes:
        serializer = AvroSerializer(schema_registry.client, text)
        data = serializer(value, SerializationContext(topic, MessageField.VALUE))
        assert data is not None
        return data

    records = [avro(old, {"id": 1, "gone": "x"}), avro(new, {"id": 2**40, "amount": 1.5}), None]
    produce(topic, [(0, b"k", record) for record in records])
    with behind_a_password(schema_registry.url, "me:hunter22") as guarded:
        options = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "value.format": "avro",
            "value.schema": "registry",
            "schema.registry.url": guarded,
            "schema.registry.basic.auth.user.info": "me:hunter22",
        }
        frame = session.read.format("kseg").options(**options).load()
        assert frame.schema.simpleString().startswith("struct<id:bigint,amount:double,gone:string,_kseg_topic:")
        rows = frame.orderBy("_kseg_offset").collect()
        assert [(row.id, row.amount, row.gone) for row in rows] == [(1, None, "x"), (2**40, 1.5, None), (None,) * 3]
        kept = session.read.format("kseg").options(**options, **{"value.unknown_fields": "rescue"}).load()
        assert kept.schema.simpleString().startswith("struct<id:bigint,amount:double,_kseg_rescued:string,_kseg_topic:")
        texts = [row._kseg_rescued for row in kept.orderBy("_kseg_offset").collect()]
        assert texts == ['{"gone":"x"}', None, None]
        with pytest.raises(Exception, match="basic"):
            session.read.format("kseg").options(**options | {"schema.registry.basic.auth.user.info": "me:no"}).load()
    options["schema.registry.url"] = schema_registry.url
    with pytest.raises(Exception, match="has no subject other-value"):
        session.read.format("kseg").options(**options | {"subscribe": "other"}).load()
    produce(topic, [(0, b"k", b"\0\0\x0f\x42\x40x")])
    with pytest.raises(Exception, match="1000000"):
        session.read.format("kseg").options(**options).load().collect()


def test_a_registry_that_grows_after_load_is_told_with_what_helps(
    session: Any, kafka: Any, produce: Callable[..., Any], schema_registry: SharedRegistry
) -> None:
    topic = kafka.topic(partitions=1)
    schema_registry.client.register_schema(f"{topic}-value", Schema(order_schema(("id", "int")), "AVRO"))
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": topic,
        "value.format": "avro",
        "value.schema": "registry",
        "schema.registry.url": schema_registry.url,
    }
    frame = session.read.format("kseg").options(**options).load()
    fields = json.loads(order_schema(("id", "int"), ("note", "string")))
    fields["fields"][1]["default"] = ""
    schema_registry.client.register_schema(f"{topic}-value", Schema(json.dumps(fields), "AVRO"))
    with pytest.raises(
        Exception, match=r"the registry's schemas give other columns than at load\(\).*call load\(\) again"
    ):
        frame.collect()
