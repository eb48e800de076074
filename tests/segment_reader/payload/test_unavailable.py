"""Debezium's placeholder for values that a connector did not have: in the forms of column types, and in envelopes."""

from __future__ import annotations

import base64
import io
import json
import uuid
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kseg.segment_reader.payload.avro.decoder import avro_decoder
from kseg.segment_reader.payload.avro.schema import parse_schema
from kseg.segment_reader.payload.connect_json import ConnectJsonDecoder
from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.debezium import DebeziumDecoder, envelope_type
from kseg.segment_reader.payload.decoder import PayloadDecoder, Status
from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.shape import JsonOptions
from kseg.segment_reader.payload.unavailable import PLACEHOLDER, Unavailable, marks, nulled, unavailable

RAW = PLACEHOLDER.encode()
BASE64 = base64.b64encode(RAW).decode()
TEXT, BYTES, INTS = pa.string(), pa.binary(), list(RAW)
MADE = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""Java's `UUID.nameUUIDFromBytes` of the placeholder's bytes."""


@pytest.mark.parametrize(
    ("kind", "placeholder", "others"),
    [
        (TEXT, PLACEHOLDER, ["", f"{PLACEHOLDER} ", f"x{PLACEHOLDER}"]),
        (TEXT, json.dumps(PLACEHOLDER), ['""']),
        (TEXT, BASE64, [BASE64[:-1], BASE64.lower()]),
        (TEXT, RAW.hex(), [RAW.hex()[:-1]]),
        (TEXT, f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}', [f'{{"a":"{PLACEHOLDER}"}}']),
        (BYTES, RAW, [b"", RAW + b"\0", b"\xff"]),
        (BYTES, BASE64.encode(), [b"X19k"]),
        (pa.list_(TEXT), [PLACEHOLDER], [[], [None], ["a"], [PLACEHOLDER, PLACEHOLDER], ["a", PLACEHOLDER]]),
        (pa.list_(TEXT), [MADE], [[str(uuid.uuid4())]]),
        (pa.list_(BYTES), [RAW], [[], [None], [RAW, b""]]),
        *(
            (pa.list_(kind), INTS, [[], [None], INTS[:-1], [*INTS, 0], INTS[::-1], [None, *INTS[1:]]])
            for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
        ),
        *(
            (pa.list_(pa.decimal128(*size)), [Decimal(n).scaleb(-size[1]) for n in INTS], [[], [Decimal(1)]])
            for size in ((38, 0), (6, 2), (3, 0))
        ),
        (pa.list_(pa.date32()), [date(1970, 1, 1) + timedelta(n) for n in INTS], [[date(1970, 1, 1)]]),
        (
            pa.map_(TEXT, TEXT),
            [(PLACEHOLDER, PLACEHOLDER)],
            [[], [("a", PLACEHOLDER)], [(PLACEHOLDER, "a")], [(PLACEHOLDER, None)], [("a", "b"), ("c", "d")]],
        ),
    ],
)
def test_the_placeholder_is_found_in_the_form_of_each_type(kind: Any, placeholder: Any, others: list[Any]) -> None:
    values = [None, placeholder, *others, placeholder, None, *others]
    column = pa.array(values, kind)
    expected = [value == placeholder for value in values]
    assert unavailable(column).tolist() == expected
    for start in range(3):
        assert unavailable(column[start:]).tolist() == expected[start:]
    without = nulled(column, unavailable(column))
    without.validate(full=True)
    assert without.type == kind
    assert without.to_pylist() == [None if value == placeholder else value for value in column.to_pylist()]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [95, None]),
        (pa.list_(pa.bool_()), [[True] * len(RAW), None]),
        (pa.list_(pa.decimal128(2, 0)), [[Decimal(95)] * len(RAW), None]),
        (pa.list_(pa.struct([("a", TEXT)])), [[{"a": PLACEHOLDER}], None]),
        (pa.struct([("a", TEXT)]), [{"a": PLACEHOLDER}, None]),
        (pa.map_(pa.int32(), TEXT), [[(95, PLACEHOLDER)], None]),
    ],
)
def test_other_types_have_none(kind: Any, values: list[Any]) -> None:
    assert not unavailable(pa.array(values, kind)).any()


def test_a_batch_without_rows() -> None:
    for kind in (TEXT, BYTES, pa.list_(TEXT), pa.list_(pa.int32()), pa.map_(TEXT, TEXT), pa.int32()):
        assert unavailable(pa.array([], kind)).tolist() == []
    assert marks({}, 0).to_pylist() == []


# ---- In envelopes

COLUMNS = {
    "id": "bigint",
    "bio": "string",
    "photo": "binary",
    "tags": "array<string>",
    "scores": "array<int>",
    "attrs": "map<string,string>",
}
ROW = {"id": 1, "bio": "long", "photo": b"\1", "tags": ["a"], "scores": [1], "attrs": {"a": "b"}}
LACKING = {
    "id": 1,
    "bio": PLACEHOLDER,
    "photo": RAW,
    "tags": [PLACEHOLDER],
    "scores": INTS,
    "attrs": {PLACEHOLDER: PLACEHOLDER},
}
NAMES = ["bio", "photo", "tags", "scores", "attrs"]
AVRO = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {
            "name": "before",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Value",
                    "fields": [
                        {"name": "id", "type": "long"},
                        {"name": "bio", "type": "string"},
                        {"name": "photo", "type": ["null", "bytes"]},
                        {"name": "tags", "type": {"type": "array", "items": "string"}},
                        {"name": "scores", "type": {"type": "array", "items": ["null", "int"]}},
                        {"name": "attrs", "type": ["null", {"type": "map", "values": ["null", "string"]}]},
                    ],
                },
            ],
        },
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
    ],
}


def in_json(document: Any) -> bytes:
    return json.dumps(document, default=lambda raw: base64.b64encode(raw).decode()).encode()


def in_avro(document: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"before": None, "after": None} | document)
    return out.getvalue()


def envelopes() -> pa.StructType:
    return envelope_type(parse_columns(COLUMNS))


FORMATS: dict[str, tuple[Callable[[], PayloadDecoder], Callable[[Any], bytes]]] = {
    "json": (lambda: json_decoder(envelopes(), JsonOptions(unknown_fields="ignore")), in_json),
    "connect_json": (
        lambda: ConnectJsonDecoder(envelopes()),
        lambda found: in_json({"schema": None, "payload": found}),
    ),
    "avro": (lambda: avro_decoder(parse_schema(json.dumps(AVRO))), in_avro),
}


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Any:
    make, encode = FORMATS[request.param]
    return make(), encode


def read(form: Any, unavailable: Unavailable, *documents: Any) -> tuple[list[Status], list[Any], DebeziumDecoder]:
    decoder = DebeziumDecoder(form[0], unavailable=unavailable)
    payloads = [document and form[1](document) for document in documents]
    decoded = decoder.decode(pa.array(payloads, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.type == decoder.type
    own = {"_kseg_op", "_kseg_source_ts", "_kseg_connector_ts"}
    rows = [row and {key: part for key, part in row.items() if key not in own} for row in decoded.rows.to_pylist()]
    for row in rows:
        if row is not None and row["attrs"] is not None:
            row["attrs"] = dict(row["attrs"])
    return [Status(status) for status in decoded.status], rows, decoder


CHANGES = [
    {"op": "u", "after": LACKING},
    {"op": "u", "before": LACKING, "after": ROW},
    {"op": "u", "after": ROW | {"photo": RAW}},
    {"op": "d", "before": LACKING},
    {"op": "t"},
    None,
]
NULL = dict.fromkeys(COLUMNS)
GONE = NULL | {"id": 1}


def test_they_are_null(form: Any) -> None:
    statuses, rows, decoder = read(form, Unavailable("null"), *CHANGES)
    assert rows == [GONE, ROW, ROW | {"photo": None}, GONE, NULL, None]
    assert statuses == [Status.DECODED] * 5 + [Status.NULL]
    assert "_kseg_unavailable" not in decoder.type.names


def test_they_are_null_and_named(form: Any) -> None:
    _, rows, decoder = read(form, Unavailable("mark", {"photo": "picture"}), *CHANGES)
    names = ["attrs", "bio", "picture", "scores", "tags"]
    assert [row and row.pop("_kseg_unavailable") for row in rows] == [names, None, ["picture"], names, None, None]
    assert rows == [GONE, ROW, ROW | {"photo": None}, GONE, NULL, None]
    assert decoder.type[-1] == pa.field("_kseg_unavailable", pa.list_(pa.string()))
    _, (row,), _ = read(form, Unavailable("mark"), CHANGES[1])
    assert row == ROW | {"_kseg_unavailable": None}, "a batch in which nothing lacks"


def test_they_are_text_and_an_error_where_a_column_is_none(form: Any) -> None:
    text = ROW | {"bio": PLACEHOLDER}
    lacking = [ROW | {name: LACKING[name]} for name in NAMES[1:]]
    documents = [{"op": "u", "after": row} for row in (text, *lacking)]
    deletions = [{"op": "d", "before": row} for row in (text, *lacking)]
    statuses, rows, decoder = read(form, Unavailable("text"), *documents, *deletions)
    assert rows == [text, None, None, None, None] * 2
    assert statuses == [Status.DECODED, *[Status.WRONG_TYPE] * 4] * 2
    for state, changes in ("after", documents), ("before", deletions):
        errors = [decoder.explain(form[1](document)) for document in changes[1:]]
        assert [error.path for error in errors] == [f"{state}.{name}" for name in NAMES[1:]]
        assert {error.status for error in errors} == {Status.WRONG_TYPE}
        assert "placeholder of a value that the connector did not have" in errors[0].message


def test_without_a_choice_they_are_as_they_are_written(form: Any) -> None:
    _, rows, _ = read(form, Unavailable(), *CHANGES)
    assert rows == [LACKING, ROW, ROW | {"photo": RAW}, LACKING, NULL, None]


def test_a_column_of_the_marks_name_is_refused() -> None:
    decoder = json_decoder(envelope_type(parse_columns({"_kseg_unavailable": "string"})))
    with pytest.raises(InvalidSchema, match="own columns"):
        DebeziumDecoder(decoder, unavailable=Unavailable("mark"))
