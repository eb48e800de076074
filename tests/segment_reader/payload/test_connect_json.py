"""Kafka Connect's JSON: rows of the payload, the schema beside it checked."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.segment_reader.payload.connect_json import CONNECT_OPTIONS, ConnectJsonDecoder
from kseg.segment_reader.payload.connect_schema import read_connect_schema
from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.decoder import DecodedPayloads, Status
from kseg.segment_reader.payload.json.decoder import Engine
from kseg.segment_reader.payload.json.shape import JsonOptions

FIELDS = [
    {"field": "id", "type": "int64", "optional": False},
    {"field": "amount", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    {"field": "day", "type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1},
    {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
]
SCHEMA = {"type": "struct", "fields": FIELDS, "optional": False, "name": "orders"}
COLUMNS = {"id": "bigint", "amount": "decimal(12,2)", "day": "date", "at": "timestamp"}


def unscaled(number: int) -> str:
    """As Java's BigInteger.toByteArray, in base64."""
    return base64.b64encode(number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)).decode()


def message(payload: Any, schema: Any = SCHEMA) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


def read(
    declared: pa.DataType, *payloads: bytes | None, options: JsonOptions = CONNECT_OPTIONS, skip: int = 0
) -> list[tuple[Status, Any]]:
    results: list[DecodedPayloads] = []
    engines: tuple[Engine, ...] = ("reference", "fast")
    for engine in engines:
        decoder = ConnectJsonDecoder(declared, options, engine=engine)
        decoded = decoder.decode(pa.array(payloads, pa.binary()), skip=skip)
        decoded.rows.validate(full=True)
        assert decoded.rows.type == decoder.type
        assert decoded.rows.is_null().to_pylist() == (decoded.status != Status.DECODED).tolist()
        results.append(decoded)
    assert results[0].rows.equals(results[1].rows)
    assert results[0].status.tolist() == results[1].status.tolist()
    return [(Status(n), row) for n, row in zip(results[1].status, results[1].rows.to_pylist(), strict=True)]


def test_logical_types_have_their_values() -> None:
    row = {"id": 2**53 + 1, "amount": unscaled(-1250), "day": 19782, "at": 1709206200250}
    expected = {
        "id": 2**53 + 1,
        "amount": Decimal("-12.50"),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 11, 30, 0, 250_000, UTC),
    }
    declared = parse_columns(COLUMNS)
    assert read(declared, message(row)) == [(Status.DECODED, expected)]
    by_schema = read_connect_schema(json.dumps(SCHEMA))
    formats = JsonOptions(formats=dict(by_schema.formats()), unknown_fields="ignore")
    assert read(by_schema.type, message(row), options=formats) == [(Status.DECODED, expected)]
    assert read(declared, b"\0\0\0\0\1" + message(row), skip=5) == [(Status.DECODED, expected)]


def test_decimals_are_also_numbers_as_with_decimal_format_numeric() -> None:
    (found,) = read(parse_columns({"amount": "decimal(12,2)"}), message({"amount": 12.5}, None))
    assert found == (Status.DECODED, {"amount": Decimal("12.50")})


def test_a_tombstone_is_one_whether_or_not_it_has_an_envelope() -> None:
    row = {"id": 1}
    found = read(parse_columns(COLUMNS), None, message(None), message(row))
    assert [status for status, _ in found] == [Status.NULL, Status.NULL, Status.DECODED]


def test_a_document_without_an_envelope_is_an_error_that_says_so() -> None:
    decoder = ConnectJsonDecoder(parse_columns({"id": "bigint"}))
    plain = b'{"id": 1}'
    assert read(parse_columns({"id": "bigint"}), plain) == [(Status.MISSING_FIELD, None)]
    error = decoder.explain(plain)
    assert (error.status, error.path) == (Status.MISSING_FIELD, "payload")
    assert "schemas.enable=false" in error.message


def test_a_schema_that_contradicts_the_declared_one_is_an_error_with_its_path() -> None:
    declared = parse_columns({"amount": "decimal(12,4)"})
    good = {**SCHEMA, "fields": [{**FIELDS[1], "parameters": {"scale": "4"}}]}
    row = {"amount": unscaled(1)}
    found = read(declared, message(row), message(row, good), message(row), message(row, None))
    assert [status for status, _ in found] == [
        Status.INCOMPATIBLE_SCHEMA,
        Status.DECODED,
        Status.INCOMPATIBLE_SCHEMA,
        Status.DECODED,
    ]
    error = ConnectJsonDecoder(declared).explain(message(row))
    assert (error.status, error.path) == (Status.INCOMPATIBLE_SCHEMA, "amount")
    assert "decimal128(38, 2)" in error.message


def test_numbers_in_strings_agree_with_a_schema_of_strings_or_numbers_and_no_other() -> None:
    columns = {"amount": "decimal(12,2)", "id": "decimal(20,0)", "share": "double"}
    options = replace(CONNECT_OPTIONS, formats=dict.fromkeys(columns, "string"))

    def schema(kind: str) -> dict[str, Any]:
        return {"type": "struct", "fields": [{"field": name, "type": kind, "optional": True} for name in columns]}

    texts = {"amount": "-12.50", "id": "18446744073709551615", "share": "0.1"}
    expected = {"amount": Decimal("-12.50"), "id": Decimal(2**64 - 1), "share": 0.1}
    numbers = {"amount": -12.5, "id": 18446744073709551615, "share": 0.1}
    found = read(
        parse_columns(columns),
        message(texts, schema("string")),
        message(numbers, schema("double")),
        message(texts, None),
        message(texts, schema("boolean")),
        message({"amount": "1250"}, SCHEMA),  # base64 with its schema, a number with the job file
        message({"amount": "NAN"}, schema("string")),
        options=options,
    )
    assert found[:3] == [(Status.DECODED, expected)] * 3
    assert [status for status, _ in found[3:]] == [
        Status.INCOMPATIBLE_SCHEMA,
        Status.INCOMPATIBLE_SCHEMA,
        Status.WRONG_TYPE,
    ]
    (undeclared,) = read(parse_columns(columns), message({"share": None}, schema("string")))
    assert undeclared == (Status.INCOMPATIBLE_SCHEMA, None)


def test_an_error_in_the_payload_has_its_path_in_the_document() -> None:
    decoder = ConnectJsonDecoder(parse_columns(COLUMNS))
    error = decoder.explain(message({"id": "x"}))
    assert (error.status, error.path) == (Status.WRONG_TYPE, "payload.id")
    assert decoder.explain(b"{").status is Status.TRUNCATED


def test_keys_that_are_no_structs_are_values() -> None:
    schema = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}
    kind = read_connect_schema(json.dumps(schema))
    options = JsonOptions(formats=dict(kind.formats()), unknown_fields="ignore")
    found = read(kind.type, message(1000, schema), message("x", schema), message(None, schema), options=options)
    assert found == [
        (Status.DECODED, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (Status.WRONG_TYPE, None),
        (Status.NULL, None),
    ]


def test_times_below_a_microsecond_are_cut_where_the_job_says_so() -> None:
    options = JsonOptions(nanoseconds="truncate", unknown_fields="ignore")
    schema = {"type": "struct", "fields": [{"field": "at", "type": "string"}]}
    document = message({"at": "2024-02-29T12:30:15.1234567Z"}, schema)
    (found,) = read(parse_columns({"at": "timestamp"}), document, options=options)
    assert found == (Status.DECODED, {"at": datetime(2024, 2, 29, 12, 30, 15, 123_456, UTC)})
    (refused,) = read(parse_columns({"at": "timestamp"}), document, options=replace(options, nanoseconds="fail"))
    assert refused == (Status.INEXACT, None)


def test_a_map_with_other_keys_is_no_obstacle_to_other_fields_and_lands_as_text() -> None:
    """As JsonConverter writes it: an array of pairs."""
    by_number = {"field": "by_number", "type": "map", "keys": {"type": "int32"}, "values": {"type": "string"}}
    of_no_scale = {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
    schema = {"type": "struct", "fields": [FIELDS[0], by_number, of_no_scale]}
    document = message({"id": 7, "by_number": [[1, "a"], [2, None]], "price": "AQ=="}, schema)
    assert read(parse_columns({"id": "bigint"}), document) == [(Status.DECODED, {"id": 7})]
    options = replace(CONNECT_OPTIONS, formats={"by_number": "json"})
    found = read(parse_columns({"id": "bigint", "by_number": "string"}), document, options=options)
    assert found == [(Status.DECODED, {"id": 7, "by_number": '[[1, "a"], [2, null]]'})]
    by_schema = read_connect_schema(json.dumps({"type": "struct", "fields": [FIELDS[0], by_number]}))
    options = replace(CONNECT_OPTIONS, formats=dict(by_schema.formats()))
    assert read(by_schema.type, document, options=options) == found


def test_unknown_fields_are_rescued_at_their_place() -> None:
    options = JsonOptions(timestamp_format="epoch_millis", unknown_fields="rescue")
    found = read(
        parse_columns({"id": "bigint"}), message({"id": 1, "x": [1]}, None), message({"id": 1}), options=options
    )
    assert [row["_kseg_rescued"] for _, row in found] == ['{"payload":{"x": [1]}}', None]


def decimal_row(text: str, precision: int = 12) -> tuple[Status, Any]:
    ((status, row),) = read(parse_columns({"d": f"decimal({precision},2)"}), message({"d": text}, None))
    return status, row and row["d"]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", Status.WRONG_TYPE),
        ("A", Status.WRONG_TYPE),
        ("!!!!", Status.WRONG_TYPE),
        (unscaled(10**12), Status.OUT_OF_RANGE),
        (unscaled(-(10**12)), Status.OUT_OF_RANGE),
        (unscaled(10**12 - 1), Status.DECODED),
        (unscaled(2**300), Status.OUT_OF_RANGE),
        (unscaled(-(2**300)), Status.OUT_OF_RANGE),
        (base64.b64encode(b"\0" * 40 + b"\1").decode(), Status.DECODED),
        (base64.b64encode(b"\xff" * 41).decode(), Status.DECODED),
        (base64.b64encode(b"\0" * 4 + b"\xff" * 16).decode(), Status.OUT_OF_RANGE),
    ],
)
def test_decimals_in_base64_are_exact_or_errors(text: str, status: Status) -> None:
    assert decimal_row(text)[0] is status


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(10**38), 10**38), min_size=1, max_size=200))
def test_decimals_of_any_size_are_what_java_writes(numbers: list[int]) -> None:
    found = read(parse_columns({"d": "decimal(38,2)"}), *(message({"d": unscaled(n)}, None) for n in numbers))
    for number, (status, row) in zip(numbers, found, strict=True):
        if abs(number) < 10**38:
            assert (status, row["d"]) == (Status.DECODED, Decimal(f"{number}e-2")), number
        else:
            assert status is Status.OUT_OF_RANGE


# ---- documents that begin alike


@pytest.mark.parametrize("engine", ["reference", "fast"])
def test_payloads_after_the_first_batch_are_what_they_were_in_it(engine: Engine) -> None:
    """The second batch is decoded by the first one's start, those that differ as before."""
    declared = parse_columns({**COLUMNS, "note": "string"})
    other = {**SCHEMA, "version": 2}
    rows = [{"id": n, "amount": unscaled(n), "day": n, "at": n, "unknown": [n]} for n in range(4)]
    documents = [
        message(rows[0]),
        message(rows[1]),
        None,
        message(rows[2], other),
        message(None),
        message(rows[3]).replace(b'"id": 3', b'"id": "3"'),
        message(rows[3])[:-1] + b', "schema": {}}',
        message(rows[3])[:-1] + b', "payload": {}}',
        message(rows[3]) + b" x",
        message(rows[3])[:-3],
        message({"id": 2}, {**SCHEMA, "fields": [{"field": "id", "type": "string"}]}),
        message(rows[3])[:-1] + b', "source": {"deep": [1]}}',
        b'{"id": 1}',
    ]
    payloads = pa.array(documents, pa.binary())
    for options in (CONNECT_OPTIONS, replace(CONNECT_OPTIONS, unknown_fields="rescue")):
        fresh = [
            ConnectJsonDecoder(declared, options, engine=engine).decode(payloads.slice(n, 1))
            for n in range(len(payloads))
        ]
        decoder = ConnectJsonDecoder(declared, options, engine=engine)
        decoder.decode(payloads)
        again = decoder.decode(payloads)
        again.rows.validate(full=True)
        assert again.status.tolist() == [int(one.status[0]) for one in fresh]
        assert again.rows.to_pylist() == [one.rows[0].as_py() for one in fresh]


def test_a_known_start_leaves_the_schema_unparsed(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = parse_columns(COLUMNS)
    decoder = ConnectJsonDecoder(declared)
    batch = pa.array([message({"id": n}) for n in range(3)], pa.binary())
    expected = decoder.decode(batch).rows
    monkeypatch.setattr(decoder, "_decode", lambda *_: pytest.fail("parsed the schema again"))
    assert decoder.decode(batch).rows.equals(expected)
    assert decoder.decode(batch.slice(1)).rows.equals(expected.slice(1))


def test_a_frame_before_a_known_start_is_part_of_it() -> None:
    decoder = ConnectJsonDecoder(parse_columns({"id": "bigint"}))
    frames = [b"\0\0\0\0\1", b"\0\0\0\0\2", b"\0\0\0\0\1"]
    batch = pa.array([frame + message({"id": n}) for n, frame in enumerate(frames)], pa.binary())
    for _ in range(2):
        decoded = decoder.decode(batch, skip=5)
        assert decoded.rows.to_pylist() == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert decoder.decode(pa.array([message({"id": 9})], pa.binary())).rows.to_pylist() == [{"id": 9}]
