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
