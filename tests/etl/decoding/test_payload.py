"""Payloads with a registry's frame and an envelope within: rows of both, and what is wrong with either."""

from __future__ import annotations

import base64
import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kseg.etl.decoding.formats.json import JsonSchemas
from kseg.etl.decoding.formats.protobuf import ProtobufSchemas
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.payload import PayloadPlan, in_parts
from kseg.segment_reader.payload.avro import compiled as avro
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.errors import TooLargeForOneBatch
from kseg.segment_reader.payload.json import columns
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.protobuf import buffers
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from kseg.segment_reader.payload.protobuf.decoder import protobuf_decoder
from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors


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


# ---- Protobuf

PROTO = """
syntax = "proto3";
package shop.orders;
message Value { int64 id = 1; optional string note = 2; }
message Source { string connector = 1; int64 ts_ms = 2; }
message Envelope { Value before = 1; Value after = 2; Source source = 3; string op = 4; optional int64 ts_ms = 5; }
message Key { int64 id = 1; }
"""


def protobuf_plans() -> tuple[PayloadPlan, PayloadPlan, Any]:
    """By a file, by a registry, and the class of the message."""
    descriptors = compile_text(PROTO)
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.orders.Envelope"))
    text = base64.b64encode(descriptors).decode()
    named: dict[str, Any] = {"message": "shop.orders.Envelope", "envelope": "debezium", "column": "value"}
    form = ProtobufSchemas("shop.orders.Envelope")
    schemas = FramedSchemas(form.text(form.first(form.writer(text))), ((7, (text, ())),), form)
    return (
        PayloadPlan("value", "protobuf", schema_text=text, **named),
        PayloadPlan("value", "protobuf", framed=schemas, **named),
        made,
    )


def test_envelopes_of_protobuf() -> None:
    by_file, by_registry, envelope = protobuf_plans()
    payloads = [
        envelope(op="c", after={"id": 1}, source={"ts_ms": 5}).SerializeToString(),
        None,
        envelope(op="u", before={"id": 1}, after={"id": 2, "note": "b"}, ts_ms=6).SerializeToString(),
        envelope(op="d", before={"id": 3}).SerializeToString(),
        envelope(op="c").SerializeToString(),
        envelope(op="x").SerializeToString(),
    ]
    records = {by_file: payloads, by_registry: [p and b"\0\0\0\0\7\2\4" + p for p in payloads]}
    for plan, own in records.items():
        plan = pickle.loads(pickle.dumps(plan))
        decoded = plan.decode(batch(*own))
        assert plan.type.names == ["id", "note", "_kseg_op", "_kseg_source_ts", "_kseg_connector_ts"]
        rows = [row and (row["id"], row["note"], row["_kseg_op"]) for row in decoded.rows.to_pylist()]
        assert rows == [(1, None, "c"), None, (2, "b", "u"), (3, None, "d"), None, None]
        assert decoded.status.tolist()[4:] == [Status.MISSING_FIELD, Status.UNKNOWN_SYMBOL]
        assert plan.explain(batch(*own), 4).path == "after"


def avro_plan() -> PayloadPlan:
    """Rows with two bytes of text for each payload of two bytes; the compiled decoder's columns have room for 64."""
    return PayloadPlan(source="value", format="avro", column="value", schema_text=TEXTS)


TEXTS = json.dumps({"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]})


def test_rows_that_do_not_fit_into_one_array_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error ended the job, at the same batch for ever."""
    monkeypatch.setattr(avro, "MAX_OFFSET", 64)
    texts = ["x" * 30, "y" * 20, None, "z" * 30, "u" * 60]
    records = batch(*(text and avro_text(text) for text in texts))
    with pytest.raises(TooLargeForOneBatch, match="5 payloads decode to more than 2 GiB"):
        avro_plan().decode(records)
    parts = list(in_parts(records, avro_plan().decode))
    assert len(parts) > 1
    assert [row and row["s"] for part in parts for row in part.rows.to_pylist()] == texts


def test_a_row_that_does_not_fit_into_an_array_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "MAX_OFFSET", 64)
    records = batch(*map(avro_text, ("a", "x" * 65, "b")))
    decoded = list(in_parts(records, avro_plan().decode))
    assert [status for part in decoded for status in part.status] == [Status.DECODED, Status.TOO_LARGE, Status.DECODED]
    assert [row and row["s"] for part in decoded for row in part.rows.to_pylist()] == ["a", None, "b"]
    error = avro_plan().explain(records, 1, Status.TOO_LARGE)
    assert (error.status, error.message) == (
        Status.TOO_LARGE,
        "it decodes to more than 2 GiB, or 2^31 elements, of one column",
    )


def avro_text(text: str) -> bytes:
    size = 2 * len(text)
    return (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + text.encode()


def test_the_other_formats_refuse_such_rows_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "MAX_OFFSET", 64)
    monkeypatch.setattr(columns, "MOST", 64)
    proto = parse_descriptors(compile_text('syntax = "proto3"; message M { string s = 1; }')).message("M")
    many = [json.dumps({"s": 20 * "x"}).encode(), b"\x0a\x14" + 20 * b"x"]
    decoders = [json_decoder(pa.struct({"s": pa.string()})), protobuf_decoder(proto)]
    for decoder, payload in zip(decoders, many, strict=True):
        payloads = pa.array([payload] * 1000, pa.binary())
        with pytest.raises(TooLargeForOneBatch, match="1,000 payloads"):
            decoder.decode(payloads)
