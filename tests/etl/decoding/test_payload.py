"""Payloads with a registry's frame and an envelope within: rows of both, and what is wrong with either."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.decoding.schema_formats import JsonSchemas
from kseg.segment_reader.payload.decoder import Status


def text(**row: Any) -> str:
    """The schema that Confluent's JsonSchemaConverter makes of Debezium's envelope."""
    state = {"oneOf": [{"type": "null"}, {"type": "object", "title": "Value", "properties": row}]}
    millis = {"type": "integer", "connect.type": "int64"}
    source = {"type": "object", "properties": {"ts_ms": millis}}
    properties = {"before": state, "after": state, "source": source, "op": {"type": "string"}, "ts_ms": millis}
    return json.dumps({"type": "object", "title": "Envelope", "properties": properties})


INT, TEXT = {"type": "integer", "connect.type": "int32"}, {"type": "string"}
FORM = JsonSchemas()
FIRST, SECOND = text(id=INT), text(id=INT, note=TEXT)
READER = FORM.text(FORM.merged(FORM.first(FORM.writer(FIRST)), FORM.writer(SECOND), add_fields=True))
PLAN = PayloadPlan(
    source="value",
    format="json_schema",
    column="value",
    envelope="debezium",
    framed=FramedSchemas(READER, ((1, (FIRST, ())), (2, (SECOND, ()))), FORM),
)


def batch(*payloads: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(payloads, pa.binary())], names=["value"])


def framed(key: int, **document: Any) -> bytes:
    return b"\0" + key.to_bytes(4, "big") + json.dumps(document).encode()


def test_rows_of_envelopes_of_several_schemas() -> None:
    plan = pickle.loads(pickle.dumps(PLAN))
    records = batch(
        framed(1, op="c", after={"id": 1}, source={"ts_ms": 5}),
        None,
        framed(2, op="u", before={"id": 1}, after={"id": 2, "note": "b"}, ts_ms=6),
        framed(1, op="d", before={"id": 3}, after=None),
    )
    decoded = plan.decode(records)
    assert decoded.rows.type == plan.type
    rows = [row and (row["id"], row["note"], row["_kseg_op"]) for row in decoded.rows.to_pylist()]
    assert rows == [(1, None, "c"), None, (2, "b", "u"), (3, None, "d")]


@pytest.mark.parametrize(
    ("payload", "status", "path"),
    [
        (framed(1, op="x"), Status.UNKNOWN_SYMBOL, "op"),
        (framed(2, op="c", after=None), Status.MISSING_FIELD, "after"),
        (framed(2, op="c", after={"id": "text"}), Status.WRONG_TYPE, "after.id"),
        (b"{}", Status.BAD_FRAME, ""),
    ],
)
def test_why_an_envelope_has_no_row(payload: bytes, status: Status, path: str) -> None:
    records = batch(framed(1, op="c", after={"id": 1}), payload)
    assert PLAN.decode(records).status.tolist() == [Status.DECODED, status]
    error = PLAN.explain(records, 1)
    assert (error.status, error.path) == (status, path)
