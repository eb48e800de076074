"""Options that decode keys and values: as a job's `decode:` section, under their own names."""

from __future__ import annotations

import base64
import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.spark_format.options import ReadOptions
from kseg.etl.spark_format.partition import typed_schema
from kseg.segment_reader.payload.protobuf.compiler import compile_text

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
ADDRESS = ["_kseg_topic", "_kseg_partition", "_kseg_offset"]
AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def schema(**options: str) -> pa.Schema:
    given = {name.replace("__", "."): text for name, text in options.items()}
    read = ReadOptions.parse(BASE | given)
    return typed_schema(pickle.loads(pickle.dumps(read)))


def test_without_a_format_nothing_is_decoded() -> None:
    assert ReadOptions.parse(BASE).decode is None


def test_columns_are_declared_as_spark_declares_them() -> None:
    ddl = "id BIGINT, `a,b`: decimal(10, 2), items array<struct<sku: string, n: int>>"
    found = schema(value__format="json", value__schema=ddl, value__rename='{"a,b": "ab"}')
    items = pa.list_(pa.struct({"sku": pa.string(), "n": pa.int32()}))
    assert dict(zip(found.names[:3], found.types[:3], strict=True)) == {
        "id": pa.int64(),
        "ab": pa.decimal128(10, 2),
        "items": items,
    }
    assert found.names[3:] == ADDRESS


def test_keys_schemas_and_kafka_s_own_columns() -> None:
    options = {"key__format": "string", "key__as": "customer", "value__format": "avro", "value__schema": AVRO}
    assert schema(**options, keep="timestamp, headers").names == [
        "customer",
        "id",
        "_kseg_timestamp",
        "_kseg_headers",
        *ADDRESS,
    ]
    assert schema(**options, includeHeaders="true").names == ["customer", "id", "_kseg_headers", *ADDRESS]
    provenance = schema(**options, includeProvenance="true").names
    assert "_kseg_leaderEpoch" in provenance


def test_envelopes_and_formats() -> None:
    found = schema(
        value__format="connect_json",
        value__envelope="debezium",
        value__schema="at timestamp_ntz",
        value__formats='{"at": "epoch_micros"}',
    )
    assert found.names == ["at", "_kseg_op", "_kseg_source_ts", "_kseg_connector_ts", "_kseg_unavailable", *ADDRESS]


def test_values_that_a_connector_did_not_have() -> None:
    options = {"value.format": "json", "value.envelope": "debezium", "value.schema": "at string"}
    names = {word: schema(**options, **{"value.unavailable": word}).names for word in ("null", "text", "mark")}
    assert names["null"] == names["text"] == ["at", "_kseg_op", "_kseg_source_ts", "_kseg_connector_ts", *ADDRESS]
    assert names["mark"] == [*names["null"][:4], "_kseg_unavailable", *ADDRESS]


@pytest.mark.parametrize(
    ("options", "place", "message"),
    [
        ({"value.format": "xml"}, "value.format", "'xml' is not one of"),
        ({"value.schema": "id int"}, "value.format", "is missing"),
        ({"value.format": "json"}, "value.schema", "is missing"),
        ({"value.format": "json", "value.schema": "id"}, "value.schema", "'id' is no column"),
        ({"value.format": "json", "value.schema": "id int,"}, "value.schema", "'' is no column"),
        ({"value.format": "json", "value.schema": AVRO}, "value.schema", "is none of json"),
        ({"value.format": "json", "value.schema": "id int", "value.formats": "x"}, "value.formats", "no JSON object"),
        ({"value.format": "json", "value.schema": "id int", "value.nope": "x"}, "value.nope", "is an unknown key"),
        (
            {"value.format": "avro", "value.schema": "registry", "value.ids": "global"},
            *("value.ids", "is for jobs alone"),
        ),
        ({"value.format": "long", "value.into": "struct"}, "value.into", "has no meaning for long"),
        ({"value.format": "long", "keep": "offset"}, "keep[0]", "'offset' is not one of"),
        ({"keep": "headers"}, "keep", "names columns beside decoded ones"),
    ],
)
def test_what_is_wrong_is_said_under_the_option_s_name(options: dict[str, str], place: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ReadOptions.parse(BASE | options)
    found: dict[str, Any] = {fault.path: fault.message for fault in caught.value.faults}
    assert message in found.get(place, ""), found


def test_a_type_that_is_none_is_told_with_its_option_and_column() -> None:
    with pytest.raises(ConfigurationError) as caught:
        schema(value__format="json", value__schema="id varint")
    assert [fault.path for fault in caught.value.faults] == ["value.schema.columns.id"]


PROTO = 'syntax = "proto3"; message Order { int64 id = 1; message Item { string sku = 1; } repeated Item items = 2; }'


def test_a_proto_text_or_its_descriptors() -> None:
    columns = {"id": pa.int64(), "items": pa.list_(pa.struct({"sku": pa.string()}))}
    descriptors = base64.b64encode(compile_text(PROTO)).decode()
    for text in (PROTO, descriptors):
        found = schema(value__format="protobuf", value__schema=text, value__message="Order")
        assert dict(zip(found.names[:2], found.types[:2], strict=True)) == columns
    with pytest.raises(ConfigurationError, match=r"schema: cannot be compiled: schema\.proto:1:1: Expected top-level"):
        schema(value__format="protobuf", value__schema="rubbish!")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema__registry__url": "http://sr"}, "schema.registry.url: names a registry, and neither"),
        (
            {"value__format": "string", "schema__registry__url": "http://sr"},
            "schema.registry.url: names a registry, and no schema is in it",
        ),
        ({"value__format": "avro", "value__schema": "registry"}, "value.schema: needs a schema registry"),
        (
            {"value__format": "avro", "value__schema": "registry", "schema__registry__user": "me"},
            "schema.registry.user: unknown property",
        ),
        (
            {"value__format": "avro", "value__schema": "registry", "schema__registry__url": "ftp://sr"},
            "schema.registry.url: is not a URL",
        ),
    ],
)
def test_a_registry_and_what_needs_one_go_together(options: dict[str, str], message: str) -> None:
    if "schema__registry__user" in options:
        options = options | {"schema__registry__url": "http://sr"}
    with pytest.raises(ConfigurationError) as error:
        schema(**options)
    assert message in str(error.value)


def test_a_pattern_needs_a_subject() -> None:
    given = {
        "kafka.bootstrap.servers": "localhost:9092",
        "subscribePattern": "o.*",
        "value.format": "avro",
        "value.schema": "registry",
        "schema.registry.url": "http://sr",
    }
    with pytest.raises(ConfigurationError, match=r"value\.subject: the options name no topics"):
        ReadOptions.parse(given)
