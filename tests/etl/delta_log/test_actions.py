"""Actions as values: what is used of them, what is passed over, and what the protocol forbids."""

from __future__ import annotations

import json
from typing import Any

import pytest

from delta_logs import add, metadata, protocol, remove, txn, vector
from kseg.etl.delta_log.actions import (
    KINDS,
    AddFile,
    CommitInfo,
    MalformedAction,
    Sidecar,
    TableMetadata,
    TableProtocol,
    parse_line,
    rows_in,
    unique_id,
)

EACH = [
    protocol("domainMetadata", reader=["deletionVectors"]),
    metadata(properties={"delta.appendOnly": "false"}),
    add("a%20b.parquet", vector=vector("x", 1)),
    remove("a.parquet", vector=vector("x", 1)),
    txn("app", 2**62),
    {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    {"sidecar": {"path": "s.parquet", "sizeInBytes": 1}},
    {"checkpointMetadata": {"version": 3}},
]
USED = {
    "protocol": {"minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"},
    "metaData": {"id", "schemaString"},
    "add": {"path", "size", "stats", "deletionVector"},
    "remove": {"path", "deletionVector"},
    "txn": {"appId", "version"},
    "domainMetadata": {"domain", "configuration", "removed"},
    "sidecar": {"path", "sizeInBytes"},
    "checkpointMetadata": {"version"},
}
OPTIONAL = {"readerFeatures", "writerFeatures", "stats", "deletionVector", "removed"}


def test_every_kind_that_says_something_of_a_snapshot_is_known() -> None:
    assert {key for action in EACH for key in action} == set(KINDS) - {"commitInfo"} == set(USED)


@pytest.mark.parametrize("action", EACH, ids=lambda action: next(iter(action)))
def test_fields_that_are_not_used_are_passed_over_and_null_is_absent(action: dict[str, Any]) -> None:
    ((kind, body),) = action.items()
    more = {"ofTheFuture": {"x": [1, None]}, "tags": 3, "lastUpdated": 2**70, "partitionColumns": None}
    nulls = dict.fromkeys(USED[kind] - set(body))
    assert list(parse_line(json.dumps({kind: {**body, **more, **nulls}}))) == list(parse_line(json.dumps(action)))


@pytest.mark.parametrize("action", EACH, ids=lambda action: next(iter(action)))
def test_a_field_of_another_type_or_a_missing_one_is_an_error(action: dict[str, Any]) -> None:
    ((kind, body),) = action.items()
    for field in USED[kind]:
        with pytest.raises(MalformedAction, match=field):
            list(parse_line(json.dumps({kind: {**body, field: [1, {}]}})))
    for field in USED[kind] - OPTIONAL - ({"configuration"} if kind == "domainMetadata" else set()):
        with pytest.raises(MalformedAction, match=field):
            list(parse_line(json.dumps({kind: {**body, field: None}})))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "null",
        '"add"',
        '{"add": 3}',
        '{"add": []}',
        "[" * 100_000,
        '{"txn": {"appId": "a", "version": true}}',
    ]
    + [json.dumps({"txn": {"appId": "a", "version": version}}) for version in (2**63, 1.5, "1")]
    + [json.dumps(add(name)) for name in ("half a pair: \ud800", "\udfff")]
    + [
        json.dumps(add("a", vector={"storageType": "u"})),
        json.dumps(add("a", vector={**vector("x", 1), "offset": "1"})),
    ],
)
def test_a_line_that_is_no_action_is_an_error(line: str) -> None:
    with pytest.raises(MalformedAction):
        list(parse_line(line))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"fields": [1]}', json.dumps({"fields": [{"name": "n", "type": 3}]}), "[" * 100_000]
)
def test_a_schema_is_looked_at_by_those_who_ask_for_it(text: str) -> None:
    (read,) = parse_line(json.dumps(metadata(schemaString=text)))
    assert isinstance(read, TableMetadata)
    with pytest.raises(MalformedAction, match="schemaString"):
        _ = read.schema


def test_unknown_actions_are_ignored() -> None:
    assert list(parse_line('{"ofTheFuture": {"x": 1}}')) == []
    assert list(parse_line("{}")) == []


@pytest.mark.parametrize("info", [{"txnId": 3, "inCommitTimestamp": "x"}, "text", [1], 3])
def test_anything_may_be_in_a_commit_info(info: Any) -> None:
    """("Commit Provenance Information": any valid JSON.)"""
    (read,) = parse_line(json.dumps({"commitInfo": info}))
    assert isinstance(read, CommitInfo)
    assert read.content == (info if isinstance(info, dict) else {})


def test_a_deletion_vector_tells_files_apart() -> None:
    """The examples of the protocol, "Deletion Vectors"."""
    assert unique_id(vector("ab^-aqEH.-t@S}K{vb[*k^", 6, 4)) == "uab^-aqEH.-t@S}K{vb[*k^@4"
    assert unique_id({"storageType": "i", "pathOrInlineDv": "wi5b=", "cardinality": 6}) == "iwi5b="
    (plain,), (hidden,) = (
        parse_line(json.dumps(add("a", 10))),
        parse_line(json.dumps(add("a", 10, vector=vector("x", 4)))),
    )
    assert isinstance(plain, AddFile)
    assert isinstance(hidden, AddFile)
    assert plain.key != hidden.key
    assert (plain.rows, hidden.rows, hidden.stored_rows) == (10, 6, 10)


@pytest.mark.parametrize(
    ("stats", "rows"),
    [(None, None), ("", None), ("{", None), ("[1]", None), ('{"numRecords":3}', 3), ('{"numRecords":"3"}', None)],
)
def test_rows_are_known_where_statistics_have_them(stats: str | None, rows: int | None) -> None:
    assert rows_in(stats) == rows


@pytest.mark.parametrize(
    "path", ["s.parquet", "_delta_log/_sidecars/s.parquet", "s3://b/t/_delta_log/_sidecars/s.parquet"]
)
def test_a_sidecar_lies_in_the_logs_own_folder(path: str) -> None:
    assert Sidecar(path=path, size_in_bytes=1).file == "_sidecars/s.parquet"


def test_actions_cannot_be_changed() -> None:
    read = TableProtocol(min_reader_version=1, min_writer_version=2)
    with pytest.raises(AttributeError):
        read.min_reader_version = 3  # type: ignore[misc]
