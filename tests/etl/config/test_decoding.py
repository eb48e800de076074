"""The job file's `decode:` section."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config.decoding import Decode
from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document

JSON = {"format": "json", "schema": {"columns": {"id": "bigint"}}}


@pytest.mark.parametrize(
    ("decode", "place", "message"),
    [
        ({}, "decode", "decodes nothing"),
        ({"value": {"format": "xml"}}, "decode.value.format", "'xml' is not one of"),
        ({"value": {"format": "json"}}, "decode.value.schema", "is missing"),
        ({"value": {"format": "avro"}}, "decode.value.schema", "is missing"),
        ({"value": {"format": "avro", "schema": {"columns": {"a": "int"}}}}, "decode.value.schema", "is none of avro"),
        ({"value": {"format": "avro", "schema": {"file": "no.avsc"}}}, "decode.value.schema", "cannot read"),
        ({"value": {"format": "protobuf"}}, "decode.value.schema", "is missing"),
        ({"value": {"format": "protobuf", "schema": {"file": "no.proto"}}}, "decode.value.schema", "cannot read"),
        ({"value": {"format": "protobuf", "schema": {"file": "no.desc"}}}, "decode.value.schema", "cannot read"),
        ({"value": {**JSON, "message": "shop.Order"}}, "decode.value.message", "no meaning for json"),
        (
            {"value": {"format": "string", "nanoseconds": "truncate"}},
            "decode.value.nanoseconds",
            "no meaning for string",
        ),
        (
            {"value": {"format": "uuid", "out_of_range_times": "set_null"}},
            "decode.value.out_of_range_times",
            "no meaning for uuid",
        ),
        (
            {"value": {"format": "long", "out_of_range_times": "set_null"}},
            "decode.value.out_of_range_times",
            "no meaning for long",
        ),
        (
            {"value": {**JSON, "out_of_range_times": "text"}},
            "decode.value.out_of_range_times",
            "is not fail or set_null",
        ),
        ({"value": {"format": "connect_json"}}, "decode.value.schema", "is missing"),
        ({"value": {**JSON, "format": "json_schema"}}, "decode.value.schema", "is none of json_schema"),
        ({"value": {**JSON, "format": "json", "envelope": "debezium2"}}, "decode.value.envelope", "is not none or"),
        ({"key": {**JSON, "envelope": "debezium"}}, "decode.key.envelope", "is around values"),
        ({"value": {"format": "long", "envelope": "debezium"}}, "decode.value.envelope", "has no meaning for long"),
        ({"value": {**JSON, "unavailable": "mark"}}, "decode.value.unavailable", "no meaning for records without an"),
        ({"value": {"format": "long", "unavailable": "null"}}, "decode.value.unavailable", "has no meaning for long"),
        (
            {"value": {**JSON, "envelope": "debezium", "unavailable": "drop"}},
            "decode.value.unavailable",
            "'drop' is not one of",
        ),
        ({"value": {"format": "long", "into": "struct"}}, "decode.value.into", "has no meaning for long"),
        ({"value": {"format": "long", "schema": {"columns": {"a": "int"}}}}, "decode.value.schema", "no meaning"),
        ({"value": {**JSON, "as": "x"}}, "decode.value.as", "names no column"),
        (
            {"value": JSON, "on_error": "set_null", "expect": {"id": "not null"}},
            "decode.expect.id",
            "not null has no effect with on_error: set_null",
        ),
        ({"value": JSON, "keep": ["offset"]}, "decode.keep[0]", "'offset' is not one of"),
        ({"value": JSON, "keep": ["key", "key"]}, "decode.keep", "more than once"),
        ({"value": {"format": "avro", "schema": "registry"}}, "decode.value.schema", "needs a schema registry"),
        ({"value": {"format": "connect_json", "schema": "registry"}}, "decode.value.schema", "is none of connect_json"),
        ({"value": {"format": "protobuf", "schema": "registry"}}, "decode.value.schema", "needs a schema registry"),
        (
            {"value": {"format": "protobuf", "schema": "registry", "defaults": "fill"}},
            "decode.value.defaults",
            "no mean",
        ),
        (
            {"value": {"format": "avro", "schema": {"file": __file__}, "unknown_fields": "rescue"}},
            "decode.value.unknown_fields",
            "rescue is not possible here",
        ),
        (
            {"value": {"format": "protobuf", "schema": {"file": "no.desc", "text": ""}, "unknown_fields": "rescue"}},
            "decode.value.unknown_fields",
            "rescue is not possible here",
        ),
        ({"value": {"format": "avro", "schema": "orders"}}, "decode.value.schema", "is no schema"),
        ({"value": {"format": "json", "schema": "registry"}}, "decode.value.schema", "is none of json"),
        ({"value": {**JSON, "subject": "orders"}}, "decode.value.subject", "no meaning for a schema that is in no"),
        (
            {"key": {"format": "protobuf", "schema": "registry", "subject": ["a", "b"]}},
            "decode.key.subject",
            "no columns in common",
        ),
        (
            {"value": {"format": "protobuf", "schema": "registry", "subject": ["a", "b"], "message": "a"}},
            "decode.value.message",
            "the routes name the messages",
        ),
        (
            {"value": {"format": "protobuf", "schema": "registry", "subject": ["a", "b"], "into": "struct"}},
            "decode.value.into",
            "columns of its own",
        ),
        (
            {"value": {"format": "avro", "schema": "registry", "subject": ["a", "b"], "defaults": "fill"}},
            "decode.value.defaults",
            "lacks the fields of all other kinds",
        ),
        ({"value": {**JSON, "unknown_fields": "add"}}, "decode.value.unknown_fields", "add is not possible here"),
        ({"value": {**JSON, "schemas": {}}}, "decode.value.schemas", "is an unknown key"),
    ],
)
def test_what_is_wrong_is_said(faults: Callable[..., Any], decode: dict[str, Any], place: str, message: str) -> None:
    found = {fault.path: fault.message for fault in faults({"decode": decode})}
    assert message in found.get(place, ""), found


def test_an_avro_schema_is_read_beside_the_job_file_and_pinned_with_it(
    load: Callable[..., Job], tmp_path: Path
) -> None:
    (tmp_path / "order.avsc").write_text('{"type": "long"}')
    decode = {"value": {"format": "avro", "schema": {"file": "order.avsc"}}}
    job = load({"decode": decode})
    assert job.decode is not None
    (tmp_path / "order.avsc").write_text('{"type": "string"}')
    pinned = job_from_document(job.pinned())
    assert pinned.decode == job.decode
    assert pinned.config_hash == job.config_hash
    assert load({"decode": decode}).config_hash != job.config_hash


def test_a_protobuf_schema_is_compiled_and_pinned_with_the_job(load: Callable[..., Job], tmp_path: Path) -> None:
    (tmp_path / "types.proto").write_text('syntax = "proto3"; message Line { string sku = 1; }')
    order = tmp_path / "order.proto"
    order.write_text('syntax = "proto3"; import "types.proto"; message Order { Line line = 1; }')
    decode = {"value": {"format": "protobuf", "schema": {"file": "order.proto"}, "message": "Order"}}
    job = load({"decode": decode})
    order.write_text(order.read_text() + "\n// a comment")
    assert load({"decode": decode}).config_hash == job.config_hash
    order.write_text('syntax = "proto3"; message Order { int32 id = 1; }')
    assert load({"decode": decode}).config_hash != job.config_hash
    order.unlink()
    pinned = job_from_document(job.pinned())
    assert (pinned.decode, pinned.config_hash) == (job.decode, job.config_hash)


def test_a_protobuf_schema_that_does_not_compile_says_where(faults: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "order.proto").write_text("message {")
    decode = {"value": {"format": "protobuf", "schema": {"file": str(tmp_path / "order.proto")}}}
    found = {fault.path: fault.message for fault in faults({"decode": decode})}
    assert "order.proto:1:9: Expected message name." in found["decode.value.schema"]


def test_a_job_with_a_registry_is_pinned_and_its_hash_knows_no_registry(load: Callable[..., Job]) -> None:
    registry = {"url": "http://sr:8081", "basic.auth": {"user.info": "${SR_AUTH}"}}
    decode = {"value": {"format": "avro", "schema": "registry"}}
    job = load({"decode": decode, "registry": registry}, env={"SR_AUTH": "kseg:hunter2"})
    pinned = job_from_document(job.pinned(), env={"SR_AUTH": "kseg:hunter2"})
    assert (pinned.decode, pinned.config_hash) == (job.decode, job.config_hash)
    elsewhere = load({"decode": decode, "registry": {"url": "http://other:8081"}})
    assert elsewhere.config_hash == job.config_hash
    assert "hunter2" not in repr(job) + str(job.pinned())
    basic = job.registry_config().basic
    assert basic is not None
    assert basic.reveal() == "kseg:hunter2"
    assert job.decode is not None
    assert job.decode.value is not None
    assert (job.decode.value.unknown, job.decode.value.subjects_of("orders", "value")) == ("add", ("orders-value",))


@pytest.mark.parametrize(
    ("registry", "place", "message"),
    [
        ({}, "registry.url", "is missing"),
        ({"url": "sr:8081"}, "registry.url", "is not a URL of a registry"),
        ({"url": "http://user:pass@sr:8081"}, "registry.url", "has a password in plain text"),
        ({"url": "http://sr", "schema.registry.url": "x"}, "registry.schema.registry.url", "is written without"),
        ({"url": "http://sr", "basic.auth.user.info": "a:b"}, "registry.basic.auth.user.info", "is a secret in plain"),
        ("http://sr:8081", "registry", "is text where a mapping is expected"),
    ],
)
def test_what_is_wrong_with_a_registry_is_said(
    faults: Callable[..., Any], registry: Any, place: str, message: str
) -> None:
    found = {fault.path: fault.message for fault in faults({"registry": registry})}
    assert message in found.get(place, ""), found


def test_decoding_is_part_of_the_hash_and_its_absence_is_not(load: Callable[..., Job]) -> None:
    plain = load({})
    typed = load({"decode": {"value": JSON}})
    spelled_out = load({"decode": {"value": {**JSON, "into": "columns", "tombstones": "keep"}, "keep": []}})
    assert plain.config_hash != typed.config_hash == spelled_out.config_hash
    assert typed.transforms_rows
    assert not plain.transforms_rows


def test_rows_that_are_decoded_keep_their_address(faults: Callable[..., Any]) -> None:
    found = faults({"decode": {"value": JSON}, "sink/addresses": False})
    assert [fault.path for fault in found] == ["sink.addresses"]


BY_TOPIC = {"orders": {"value": JSON}, "*": {"key": {"format": "long", "as": "id"}}}


def test_topics_are_decoded_each_in_its_own_way(load: Callable[..., Job]) -> None:
    job = load({"decode": BY_TOPIC})
    assert isinstance(job.decode, dict)
    assert {topic: section.key is not None for topic, section in job.decode.items()} == {"orders": False, "*": True}
    assert job_from_document(job.pinned()).config_hash == job.config_hash
    spelled_out = {**BY_TOPIC, "orders": {"value": {**JSON, "into": "columns"}, "keep": []}}
    assert load({"decode": spelled_out}).config_hash == job.config_hash
    assert load({"decode": {**BY_TOPIC, "orders": {"value": JSON, "keep": ["key"]}}}).config_hash != job.config_hash
    assert load({"decode": {"orders": {"value": JSON}}}).config_hash != load({"decode": {"value": JSON}}).config_hash


@pytest.mark.parametrize(
    ("decode", "place", "message"),
    [
        ({"orders": {"value": {"format": "json"}}}, "decode.orders.value.schema", "is missing"),
        ({"orders": {"value": {"format": "xml"}}}, "decode.orders.value.format", "'xml' is not one of"),
        ({"orders": {"valeu": JSON}}, "decode.orders.valeu", "is an unknown key"),
        ({"*": {"value": JSON}, "orders": {}}, "decode.orders", "decodes nothing"),
        ({"a b": {"value": JSON}}, "decode.a b", "is not a topic name"),
        ({"order": {"value": JSON}, "*": {"value": JSON}}, "decode.order", "a topic that the source does not read"),
        ({"order": {"value": JSON}}, "decode", "says nothing of topic orders"),
        ({"valeu": JSON}, "decode.valeu", "is an unknown key"),
        ({"orders": {"value": JSON}, "keep": ["key"]}, "decode.orders", "is an unknown key"),
    ],
)
def test_what_is_wrong_with_a_topic_is_said(
    faults: Callable[..., Any], decode: dict[str, Any], place: str, message: str
) -> None:
    found = {fault.path: fault.message for fault in faults({"decode": decode})}
    assert message in found.get(place, ""), found


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"format": "avro", "schema": "registry", "frame": "glue"}, "`registry:` is another one"),
        ({"format": "json", "schema": {"columns": {"id": "int"}}, "frame": "apicurio"}, "those of a registry"),
        ({"format": "protobuf", "schema": "registry", "frame": "apicurio"}, "not possible for Protobuf"),
        ({"format": "protobuf", "schema": "registry", "frame": "glue"}, "AWS Glue writes the message's number"),
        ({"format": "string", "frame": "glue"}, "has no meaning"),
    ],
)
def test_a_frame_fits_the_schemas_place(faults: Callable[..., Any], value: Any, message: str) -> None:
    found = faults({"decode": {"value": value}, "registry": {"url": "http://sr"}})
    assert [fault.path for fault in found] == ["decode.value.frame"]
    assert message in found[0].message, found


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ({"format": "avro", "schema": "registry", "frame": "glue"}, "frame: glue"),
        ({"format": "avro", "schema": {"file": "order.avsc"}}, "a schema that is in no registry"),
        ({"format": "string"}, "string"),
    ],
)
def test_kinds_of_ids_are_of_apicurios_frames(
    load: Callable[..., Job], faults: Callable[..., Any], value: Any, meant: str, tmp_path: Path
) -> None:
    (tmp_path / "order.avsc").write_text('{"type": "record", "name": "R", "fields": []}')
    registry = {"type": "glue"} if value.get("frame") else {"url": "http://sr"} if "registry" in value.values() else {}
    given = {"registry": registry} if registry else {}
    (found,) = faults({"decode": {"value": {**value, "ids": "global"}}, **given})
    assert (found.path, found.message) == ("decode.value.ids", f"has no meaning for {meant}")
    for frame in ("confluent", "apicurio"):
        value = {"format": "avro", "schema": "registry", "frame": frame, "ids": "content"}
        assert load({"decode": {"value": value}, "registry": {"url": "http://sr"}}).decode.value.ids == "content"


@pytest.mark.parametrize("registry", [{"type": "glue"}, {"type": "glue", "region": "eu-central-1"}])
def test_a_registry_of_aws_is_for_its_own_frame(
    load: Callable[..., Job], faults: Callable[..., Any], registry: dict[str, str]
) -> None:
    value = {"format": "avro", "schema": "registry"}
    job = load({"decode": {"value": {**value, "frame": "glue"}}, "registry": registry})
    assert isinstance(job.decode, Decode)
    assert job.decode.value is not None
    assert job.decode.value.subjects_of("orders", "value") == ("orders",)
    for frame in ("confluent", "apicurio"):
        (found,) = faults({"decode": {"value": {**value, "frame": frame}}, "registry": registry})
        assert (found.path, found.remedy) == ("decode.value.frame", "write `frame: glue`")


def test_a_job_with_glues_frame_and_no_registry_is_told_which(faults: Callable[..., Any]) -> None:
    (found,) = faults({"decode": {"value": {"format": "avro", "schema": "registry", "frame": "glue"}}})
    assert (found.path, found.remedy) == ("decode.value.schema", "add `registry: {type: glue}`")


@pytest.mark.parametrize(
    ("registry", "path"),
    [
        ({"type": "azure"}, "registry.type"),
        ({"type": "glue", "url": "http://sr"}, "registry.url"),
        ({"type": "glue", "endpoint": "glue.example"}, "registry.endpoint"),
        ({"type": "glue", "retries.wait.ms": "soon"}, "registry.retries.wait.ms"),
    ],
)
def test_properties_of_aws_registry_are_checked(faults: Callable[..., Any], registry: Any, path: str) -> None:
    decode = {"value": {"format": "avro", "schema": "registry", "frame": "glue"}}
    assert path in [fault.path for fault in faults({"decode": decode, "registry": registry})]
