"""The `decode:` section of a job, checked without brokers: what would end a run before it reads a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config.load import load_job
from kseg.etl.run.check_decode import decode_faults, decode_warnings

AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "%s"}]}'
FILES = {
    "good.avsc": AVRO % "long",
    "bad.avsc": AVRO % "lng",
    "null.avsc": AVRO % "null",
    "two.proto": 'syntax = "proto3"; message A { int32 x = 1; } message B { int32 y = 1; }',
}


def columns(**types: str) -> dict[str, Any]:
    return {"format": "json", "schema": {"columns": types}}


def of_file(form: str, file: str, **more: str) -> dict[str, Any]:
    return {"format": form, "schema": {"file": file}, **more}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def job(decode: dict[str, Any], **changes: Any) -> Any:
    document = {
        "version": 1,
        "name": "orders",
        "kafka": {"bootstrap.servers": "localhost:1"},
        "registry": {"url": "http://localhost:1"},
        "source": {"topics": ["orders", "payments"]},
        "decode": decode,
        "sink": {"path": "./lake/orders"},
        "ledger": "./lake/_kseg_ledger",
        **changes,
    }
    return load_job(document, env={})


@pytest.mark.parametrize(
    ("decode", "path", "words"),
    [
        ({"value": columns(id="bigint", customer="strng")}, "decode.value.schema.columns.customer", "unknown type"),
        ({"value": of_file("avro", "bad.avsc")}, "decode.value.schema", "unknown type `lng`"),
        ({"value": of_file("avro", "null.avsc")}, "decode.value.schema", "which Delta does not have"),
        ({"value": of_file("protobuf", "good.avsc")}, "decode.value.schema", "no Protobuf schema"),
        ({"value": of_file("protobuf", "two.proto")}, "decode.value.message", "A, B"),
        ({"value": of_file("protobuf", "two.proto", message="C")}, "decode.value.message", "no one message C"),
        ({"value": columns(id="bigint"), "expect": {"idd": "not null"}}, "decode.expect.idd", "is no column"),
        ({"value": columns(id="bigint"), "expect": {"id": ">= x"}}, "decode.expect.id", "'x'"),
        ({"value": columns(customer="string", Customer="string")}, "decode.value.rename", "one name to Delta"),
        (
            {"orders": {"value": columns(a="int")}, "payments": {"value": columns(a="innt")}},
            "decode.payments.value.schema.columns.a",
            "unknown type",
        ),
        (
            {"key": of_file("avro", "bad.avsc"), "value": {"format": "avro", "schema": "registry"}},
            "decode.key.schema",
            "unknown type `lng`",
        ),
        (
            {"orders": {"value": columns(a="int")}, "payments": {"value": columns(a="string")}},
            "decode",
            "payments",
        ),
    ],
)
def test_what_would_end_a_run_is_a_fault(folder: Path, decode: dict[str, Any], path: str, words: str) -> None:
    [found] = decode_faults(job(decode))
    assert found.path.startswith(path)
    assert words in found.message


def test_all_faults_are_told_at_once(folder: Path) -> None:
    found = decode_faults(job({"key": of_file("avro", "bad.avsc"), "value": columns(a="innt")}))
    assert [fault.path for fault in found] == ["decode.key.schema", "decode.value.schema.columns.a"]


@pytest.mark.parametrize(
    "decode",
    [
        {"key": {"format": "string"}, "value": columns(id="bigint"), "expect": {"id": ">= 0", "key": "not null"}},
        {"value": of_file("avro", "good.avsc")},
        {"value": of_file("protobuf", "two.proto", message="B")},
    ],
)
def test_a_sound_section_has_none(folder: Path, decode: dict[str, Any]) -> None:
    checked = job(decode)
    assert decode_faults(checked) == ()
    assert decode_warnings(checked) == ()


NESTED = columns(id="bigint", day="date", at="struct<place:string>")


@pytest.mark.parametrize("key", ["partition_by", "cluster_by"])
@pytest.mark.parametrize(
    ("named", "place", "words"),
    [(["nope"], 0, "do not have this"), (["at"], 0, "is not a type to"), (["id", "ID"], 1, "the same name for Delta")],
)
def test_a_layout_by_other_columns_than_those_declared_is_a_fault(
    folder: Path, key: str, named: list[str], place: int, words: str
) -> None:
    sink = {"path": "./lake/orders", key: named, "single_driver": True}
    [found] = decode_faults(job({"value": NESTED}, sink=sink))
    assert found.path == f"sink.{key}[{place}]"
    assert words in found.message


@pytest.mark.parametrize("named", [["_kseg_late"], ["_kseg_run"], ["day"], [{"day": "day", "as": "of"}]])
def test_rows_are_laid_out_by_columns_that_only_landed_rows_have(folder: Path, named: list[Any]) -> None:
    late = {"interval": {"max_wait": "1h"}} if named == ["_kseg_late"] else {}
    checked = job({"value": NESTED}, sink={"path": "./lake/orders", "partition_by": named}, **late)
    assert decode_faults(checked) == ()


def test_a_layout_behind_a_transform_is_not_checked_with_what_is_decoded(folder: Path) -> None:
    sink = {"path": "./lake/orders", "cluster_by": ["made"], "single_driver": True}
    sql = [{"sql": "SELECT *, id + 1 AS made FROM __rows__"}]
    assert decode_faults(job({"value": NESTED}, sink=sink, transform=sql)) == ()


def test_schemas_of_a_registry_are_not_asked_for(folder: Path) -> None:
    checked = job({"value": {"format": "avro", "schema": "registry"}, "expect": {"id": "not null"}})
    assert decode_faults(checked) == ()
    [warning] = decode_warnings(checked)
    assert warning.startswith("decode.value: not checked")
