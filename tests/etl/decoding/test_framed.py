"""Framed payloads of several schemas in one batch: each row by its own schema, in its place."""

from __future__ import annotations

import io
import json
import random
import re
import uuid
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kseg.etl.decoding.formats.json import JsonSchemas
from kseg.etl.decoding.formats.protobuf import ProtobufSchemas
from kseg.etl.decoding.formats.registry import kept_text
from kseg.etl.decoding.framed import FramedDecoder, FramedSchemas, UnknownKeys
from kseg.segment_reader.payload.decoder import Status

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
GUID = "89791762-2336-4186-9674-299b90a802e2"


def text(**fields: Any) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "R", "fields": listed})


READER = text(id="long", a=["null", "string"], b=["null", "int"])
WRITERS = {1: text(id="int", a="string"), 7: text(b="int", id="long"), GUID: text(id="long"), 9: text(id="string")}
DECODER = FramedDecoder(FramedSchemas(READER, (*((key, (one, ())) for key, one in WRITERS.items()), (13, None))))


def encoded(key: Any, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(WRITERS[key])), value)
    return out.getvalue()


def frame(key: Any) -> bytes:
    return b"\0" + key.to_bytes(4, "big") if isinstance(key, int) else b"\1" + uuid.UUID(key).bytes


def random_value(key: Any, number: int) -> dict[str, Any]:
    return {1: {"id": number, "a": f"a{number}"}, 7: {"b": -number, "id": number}, GUID: {"id": number}}[key]


@pytest.mark.parametrize("keys", [[1], [1, 7], [1, 7, GUID], [GUID, None], [1, None], [None], [1, 7, None, "bad"]])
def test_rows_keep_their_places(keys: list[Any]) -> None:
    chooser = random.Random(5)
    payloads: list[bytes | None] = []
    headers: list[list[dict[str, Any]] | None] = []
    expected: list[dict[str, Any] | None] = []
    statuses: list[Status] = []
    for number in range(300):
        key = chooser.choice(keys)
        headers.append([{"key": "other", "value": b"\0"}])
        if key is None or key == "bad":
            payloads.append(None if key is None else b"\2xxxxxxxx")
            expected.append(None)
            statuses.append(Status.NULL if key is None else Status.BAD_FRAME)
            continue
        value = random_value(key, number)
        in_header = number % 3 == 0
        if in_header:
            headers[-1] = [{"key": "__value_schema_id", "value": frame(key)}]
        payloads.append((b"" if in_header else frame(key)) + encoded(key, value))
        expected.append({"id": None, "a": None, "b": None} | value)
        statuses.append(Status.DECODED)
    array = pa.array([None, *payloads], pa.binary()).slice(1)
    decoded = DECODER.decode(array, pa.array([None, *headers], HEADERS).slice(1), "value")
    decoded.rows.validate(full=True)
    assert decoded.rows.to_pylist() == expected
    assert decoded.status.tolist() == statuses


def test_no_payloads_are_no_rows() -> None:
    decoded = DECODER.decode(pa.array([], pa.binary()), None, "value")
    assert (decoded.rows.type, len(decoded.rows), len(decoded.status)) == (DECODER.type, 0, 0)


def test_schemas_that_are_not_known_are_named_with_the_first_row() -> None:
    other = str(uuid.UUID(int=5))
    payloads = [frame(1) + encoded(1, {"id": 1, "a": ""}), None, frame(99) + b"x", frame(98), frame(other)]
    with pytest.raises(UnknownKeys) as caught:
        DECODER.decode(pa.array(payloads, pa.binary()), None, "value")
    assert (caught.value.keys, caught.value.row) == ((98, 99, other), 2)


def test_a_header_names_the_schema_whatever_the_payload_begins_with() -> None:
    payload = b"\0\0\0\0\x63"  # the frame of 99, and an Avro record of schema 7: b = 0, id = 0, then bytes that trail
    headers = pa.array([[{"key": "__value_schema_id", "value": frame(7)}]], HEADERS)
    decoded = DECODER.decode(pa.array([payload[:2]], pa.binary()), headers, "value")
    assert decoded.rows.to_pylist() == [{"id": 0, "a": None, "b": 0}]
    assert DECODER.decode(pa.array([payload], pa.binary()), headers, "value").status.tolist() == [Status.TRAILING_BYTES]


@pytest.mark.parametrize(
    ("payload", "status", "message"),
    [
        (b"x", Status.BAD_FRAME, "does not begin with a registry's frame"),
        (frame(13), Status.UNKNOWN_SCHEMA, "the registry does not know the schema 13"),
        (frame(9) + b"\2x", Status.INCOMPATIBLE_SCHEMA, "schema 9: .*string cannot be read as long"),
        (frame(1) + b"\2", Status.TRUNCATED, ""),
    ],
)
def test_why_a_payload_has_no_row(payload: bytes, status: Status, message: str) -> None:
    good = frame(7) + encoded(7, {"b": 1, "id": 2})
    decoded = DECODER.decode(pa.array([good, payload], pa.binary()), None, "value")
    assert decoded.status.tolist() == [Status.DECODED, status]
    error = DECODER.explain(payload, None, "value")
    assert error.status == status
    assert re.search(message, error.message)


ORDERS = {
    1: "message Order { int64 id = 1; string note = 2; message Line { string sku = 1; } } message Refund {}",
    2: "message Refund { int32 n = 1; } message Order { string remark = 2; int64 id = 1; int32 more = 3; }",
}


def orders() -> FramedDecoder:
    """Of the first schema's orders, with writers of both."""
    kind = ProtobufSchemas("shop.Order")
    texts = {
        key: kept_text("protobuf", f'syntax = "proto3"; package shop; {body}', {})[0] for key, body in ORDERS.items()
    }
    reader = kind.text(kind.first(kind.writer(texts[1])))
    return FramedDecoder(FramedSchemas(reader, tuple((key, (one, ())) for key, one in texts.items()), kind))


ORDER = b"\x08\x05\x12\x01a"  # field 1 is 5, field 2 is "a"
ROW = {"id": 5, "note": "a"}


def test_messages_are_found_by_the_indexes_behind_the_id_or_in_the_header() -> None:
    payloads = [frame(2) + b"\2\2" + ORDER, None, frame(1) + b"\0" + ORDER, b"x", frame(1) + b"\2\0" + ORDER, ORDER]
    headers = [None] * 5 + [[{"key": "__value_schema_id", "value": frame(2) + b"\2\2"}]]
    decoded = orders().decode(pa.array(payloads, pa.binary()), pa.array(headers, HEADERS), "value")
    assert decoded.rows.to_pylist() == [ROW, None, ROW, None, ROW, ROW]
    bad = Status.BAD_FRAME
    assert decoded.status.tolist() == [Status.DECODED, Status.NULL, Status.DECODED, bad, Status.DECODED, Status.DECODED]


@pytest.mark.parametrize(
    ("payload", "header", "status", "message"),
    [
        (frame(1) + b"\2\2\x08\5", None, Status.INCOMPATIBLE_SCHEMA, r"is a shop\.Refund, and .* those of shop\.Order"),
        (frame(1) + b"\4\0\0\x0a\0", None, Status.INCOMPATIBLE_SCHEMA, r"is a shop\.Order\.Line"),
        (frame(1) + b"\2\x12", None, Status.INCOMPATIBLE_SCHEMA, "the schema has no such message"),
        (frame(1), None, Status.BAD_FRAME, "no message indexes"),
        (ORDER, frame(1), Status.BAD_FRAME, "no message indexes"),
        (ORDER, b"", Status.BAD_FRAME, "does not begin with a registry's frame"),
        (frame(1) + b"\0\x08", None, Status.TRUNCATED, ""),
    ],
)
def test_why_a_message_has_no_row(payload: bytes, header: bytes | None, status: Status, message: str) -> None:
    decoder = orders()
    own = [[{"key": "__value_schema_id", "value": header}]] if header is not None else [None]
    headers = pa.array([None, *own], HEADERS)
    decoded = decoder.decode(pa.array([frame(2) + b"\2\2" + ORDER, payload]), headers, "value")
    assert (decoded.status.tolist(), decoded.rows.to_pylist()) == ([Status.DECODED, status], [ROW, None])
    error = decoder.explain(payload, headers.slice(1), "value")
    assert error.status == status
    assert re.search(message, error.message)


def test_documents_have_what_their_own_schema_declares() -> None:
    kind = JsonSchemas((("time_zone", "+01:00"),))
    at = {"type": "string", "format": "date-time"}
    texts = {
        key: json.dumps({"type": "object", "properties": fields})
        for key, fields in {1: {"at": at}, 2: {"id": {"type": "integer"}, "at": at}}.items()
    }
    reader = kind.text(kind.first(kind.writer(texts[2])))
    decoder = FramedDecoder(FramedSchemas(reader, tuple((key, (one, ())) for key, one in texts.items()), kind))
    document = b'{"at": "2024-01-01T01:00:00", "id": 7, "else": [1]}'
    decoded = decoder.decode(pa.array([frame(1) + document, frame(2) + document, document]), None, "value")
    assert [row and row["id"] for row in decoded.rows.to_pylist()] == [None, 7, None]
    assert str(decoded.rows[0]["at"]) == "2024-01-01 00:00:00+00:00"
    assert decoded.status.tolist() == [Status.DECODED, Status.DECODED, Status.BAD_FRAME]


def test_columns_that_a_writer_lacks_are_not_decoded_and_null() -> None:
    """Of many versions in turn each has a column of its own: a table of a thousand took seconds a batch."""
    versions = {number: text(id="long", **{f"own{number}": ["null", "long"]}) for number in range(30)}
    # The reader knows one column by its alias, and one that no writer has.
    fields = [{"name": f"own{n}", "type": ["null", "long"]} for n in range(29)]
    renamed = {"name": "last", "type": ["null", "long"], "aliases": ["own29"]}
    listed = [{"name": "id", "type": "long"}, *fields, renamed, {"name": "nobody", "type": ["null", "string"]}]
    schemas = FramedSchemas(
        json.dumps({"type": "record", "name": "R", "fields": listed}),
        tuple((key, (one, ())) for key, one in versions.items()),
    )
    form = schemas.format
    for key, one in versions.items():
        decoder = form.decoder(form.writer(one), form.reader(schemas.reader))
        assert decoder.type.names == ["id", f"own{key}" if key < 29 else "last"]

    def payload(key: int, number: int) -> bytes:
        out = io.BytesIO()
        value = {"id": number, f"own{key}": None if number % 5 == 0 else number}
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(versions[key])), value)
        return frame(key) + out.getvalue()

    chooser = random.Random(3)
    keys = [chooser.randrange(30) for _ in range(200)]
    payloads = [payload(key, number) for number, key in enumerate(keys)]
    payloads[7], payloads[100] = payloads[7][:-1], b"no frame"
    for chosen in (slice(None), slice(7, 9), slice(3, 4)):
        decoded = FramedDecoder(schemas).decode(pa.array([*payloads[chosen], None], pa.binary()), None, "value")
        decoded.rows.validate(full=True)
        assert decoded.rows.type.names == [field["name"] for field in listed]
        rows = decoded.rows.to_pylist()
        assert rows.pop() is None
        for number, row in zip(range(200)[chosen], rows, strict=True):
            if number in (7, 100):
                assert row is None
                continue
            name = f"own{keys[number]}" if keys[number] < 29 else "last"
            assert {key: value for key, value in row.items() if value is not None} == (
                {"id": number} if number % 5 == 0 else {"id": number, name: number}
            )


def test_a_writer_without_any_column_of_the_reader_gives_rows_of_nulls() -> None:
    schemas = FramedSchemas(text(a=["null", "string"], b=["null", "int"]), ((1, (text(other="long"), ())),))
    decoded = FramedDecoder(schemas).decode(pa.array([frame(1) + b"\2", frame(1) + b"\2"], pa.binary()), None, "value")
    assert decoded.rows.to_pylist() == [{"a": None, "b": None}] * 2
    assert decoded.status.tolist() == [Status.DECODED] * 2
