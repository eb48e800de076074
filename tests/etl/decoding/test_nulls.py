"""`on_error: set_null`: only what cannot be decoded is null, at its depth, in every format and by both decoders."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import kseg
from kseg.etl.decoding.bad_records import BadRecords
from kseg.etl.decoding.formats.protobuf import ProtobufSchemas
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.nulls import WHOLE, FieldNulls
from kseg.etl.decoding.payload import PayloadPlan, in_parts
from kseg.etl.transform.decode import DecodeStep
from kseg.segment_reader.payload.decoder import DecodedPayloads, Status, concatenated, with_rows
from kseg.segment_reader.payload.errors import TooLargeForOneBatch
from kseg.segment_reader.payload.protobuf.compiler import compile_text

ENGINES = ("fast", "reference")
IGNORE = (("unknown_fields", "ignore"),)
ROW = pa.struct([("id", pa.int32())])
HEADER = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def records(*values: bytes | None) -> pa.RecordBatch:
    empty = pa.array([None] * len(values), HEADER)
    return pa.record_batch([pa.array(values, pa.binary()), empty], names=["value", "headers"])


def nulled(plan: PayloadPlan, *values: bytes | None) -> tuple[list[Any], dict[str, int], list[Status]]:
    """The rows, the nulls by column, and each payload's status."""
    batch = records(*values)
    found = plan.decode(batch)
    decoded, columns = FieldNulls(plan).of(batch, found, found.status > Status.NULL)
    return decoded.rows.to_pylist(), dict(columns), [Status(int(one)) for one in decoded.status]


# --- JSON

COLUMNS = {
    "id": "bigint",
    "at": "timestamp",
    "items": "array<struct<sku:string,price:decimal(5,2)>>",
    "tags": "map<string,int>",
}
GOOD = {"id": 1, "at": "2026-01-02T03:04:05Z", "items": [{"sku": "a", "price": 1.25}], "tags": {"x": 1}}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize(
    ("change", "expected", "column"),
    [
        ({"id": "one"}, {"id": None}, "id"),
        ({"id": 1.5}, {"id": None}, "id"),
        ({"id": 2**63}, {"id": None}, "id"),
        ({"at": "yesterday"}, {"at": None}, "at"),
        ({"at": {"seconds": 1}}, {"at": None}, "at"),
        ({"items": "none"}, {"items": None}, "items"),
        (
            {"items": [{"sku": "a", "price": "x"}, {"sku": 7, "price": 2}, 8, {"sku": "d"}]},
            {"items": [("a", None), (None, "2.00"), None, ("d", None)]},
            "items[].price",
        ),
        ({"tags": {"x": "one", "y": 2}}, {"tags": [("x", None), ("y", 2)]}, "tags[]"),
        ({"tags": [1]}, {"tags": None}, "tags"),
    ],
)
def test_a_value_of_a_json_document_is_null_and_the_others_land(
    change: dict[str, Any], expected: dict[str, Any], column: str, engine: Any
) -> None:
    plan = PayloadPlan("value", "json", "value", tuple(COLUMNS.items()), engine=engine)
    good, bad = (json.dumps(document).encode() for document in (GOOD, GOOD | change))
    rows, columns, status = nulled(plan, good, bad, None)
    assert status == [Status.DECODED, Status.DECODED, Status.NULL]
    assert columns[column] == 1
    whole = rows[0]
    for name in COLUMNS:
        found = rows[1][name]
        if name not in expected:
            assert found == whole[name], name
        elif name == "items" and expected[name] is not None:
            shown = [None if one is None else (one["sku"], _text(one["price"])) for one in found]
            assert shown == expected[name]
        else:
            assert found == expected[name]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"id": 1} x', b"[1]", b'{"id": 01}', b'{"id": "\xff"}', b'{"at": "\\ud800"}']
)
def test_a_broken_document_nulls_all_columns(text: bytes, engine: Any) -> None:
    plan = PayloadPlan("value", "json", "value", tuple(COLUMNS.items()), engine=engine)
    (row,), columns, (status,) = nulled(plan, text)
    assert (row, columns) == (None, {WHOLE: 1})
    assert status > Status.NULL


def test_a_field_that_is_written_twice_is_null(engine: Any) -> None:
    plan = PayloadPlan("value", "json", "value", tuple(COLUMNS.items()), engine=engine)
    (row,), columns, _ = nulled(plan, b'{"id": 1, "id": 2, "tags": {"x": 1, "x": 2}, "items": []}')
    assert (row["id"], row["tags"], row["items"]) == (None, None, [])
    assert columns == {"id": 1, "tags": 1}


def test_columns_are_named_as_they_land(engine: Any) -> None:
    plan = PayloadPlan("value", "json", "value", (("id", "int"),), rename=(("id", "number"),), engine=engine)
    assert nulled(plan, b'{"id": "x"}', b'{"id": true}')[1] == {"number": 2}
    struct = PayloadPlan("value", "json", "doc", (("id", "int"),), into_columns=False, engine=engine)
    assert nulled(struct, b'{"id": "x"}')[1] == {"doc.id": 1}


# --- Connect's JSON, JSON Schema, Debezium


def connect(payload: Any, **types: str) -> bytes:
    fields = [{"field": name, "type": kind, "optional": True} for name, kind in types.items()]
    schema = {"type": "struct", "fields": fields}
    return json.dumps({"schema": schema, "payload": payload}).encode()


def test_values_and_fields_of_connect_json_are_null_one_by_one(engine: Any) -> None:
    plan = PayloadPlan("value", "connect_json", "value", (("id", "int"), ("name", "string")), engine=engine)
    rows, columns, status = nulled(
        plan,
        connect({"id": 1, "name": "a"}, id="int32", name="string"),
        connect({"id": "x", "name": "b"}, id="int32", name="string"),
        connect({"id": True, "name": "c"}, id="boolean", name="string"),  # its schema contradicts
        connect("text", id="int32", name="string"),
        connect(None, id="int32", name="string"),
    )
    whole = [(row["id"], row["name"]) if row else None for row in rows]
    assert whole == [(1, "a"), (None, "b"), (None, "c"), None, None]
    assert status[:3] == [Status.DECODED] * 3
    assert status[3] > Status.NULL, "a record that is not read is no tombstone"
    assert status[4] == Status.NULL
    assert columns == {"id": 2, WHOLE: 1}


def test_values_of_a_json_schemas_documents_are_null(engine: Any) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "day": {"type": "string", "format": "date"}}}
    plan = PayloadPlan("value", "json_schema", "value", schema_text=json.dumps(schema), json=IGNORE, engine=engine)
    (row,), columns, _ = nulled(plan, b'{"id": 5, "day": "tomorrow"}')
    assert (row, columns) == ({"id": 5, "day": None}, {"day": 1})


def test_a_row_in_debeziums_envelope_keeps_its_other_columns(engine: Any) -> None:
    plan = PayloadPlan("value", "json", "value", (("id", "int"), ("n", "int")), envelope="debezium", engine=engine)
    change = {"op": "c", "after": {"id": 1, "n": "x"}, "source": {"ts_ms": 2**60}, "ts_ms": 1_700_000_000_000}
    (row, broken), columns, status = nulled(
        plan, json.dumps(change).encode(), json.dumps(change | {"op": "?"}).encode()
    )
    assert (row["id"], row["n"], row["_kseg_op"], row["_kseg_source_ts"]) == (1, None, "c", None)
    assert row["_kseg_connector_ts"] is not None
    assert broken is None
    assert status[1] > Status.NULL
    assert columns["n"] >= 1


# --- Avro

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": "string"},
        {"name": "day", "type": {"type": "bytes", "logicalType": "decimal", "precision": 2}},
        {"name": "notes", "type": {"type": "array", "items": "string"}},
        {"name": "by", "type": {"type": "map", "values": "string"}},
        {"name": "last", "type": "int"},
    ],
}


def in_avro(**changes: Any) -> bytes:
    """An order; bytes stand where strings do."""
    text = json.dumps(AVRO).replace('"string"', '"bytes"')
    raw = json.loads(text.replace(', "logicalType": "decimal", "precision": 2', ""))
    out = io.BytesIO()
    order = {"id": 1, "note": b"n", "day": b"\x05", "notes": [b"a", b"b"], "by": {"k": b"v"}, "last": 7}
    fastavro.schemaless_writer(out, raw, order | changes)
    return out.getvalue()


@pytest.mark.parametrize(
    ("changes", "expected", "column"),
    [
        ({"note": b"\xff"}, {"note": None}, "note"),
        ({"day": b"\x01\x00"}, {"day": None}, "day"),
        ({"notes": [b"a", b"\xff", b"c"]}, {"notes": ["a", None, "c"]}, "notes[]"),
        ({"by": {"k": b"\xff", "l": b"w"}}, {"by": [("k", None), ("l", "w")]}, "by[]"),
        ({"by": {'a"] b.[c': b"\xff"}}, {"by": [('a"] b.[c', None)]}, "by[]"),
    ],
)
def test_a_value_in_avro_is_null_and_what_follows_it_lands(
    changes: dict[str, Any], expected: dict[str, Any], column: str, engine: Any
) -> None:
    plan = PayloadPlan("value", "avro", "value", schema_text=json.dumps(AVRO), engine=engine)
    rows, columns, status = nulled(plan, in_avro(), in_avro(**changes))
    assert status == [Status.DECODED] * 2
    assert (rows[1], columns) == (rows[0] | expected, {column: 1})


@pytest.mark.parametrize("cut", [1, 3, 8])
def test_avro_that_is_cut_off_or_too_long_nulls_all(cut: int, engine: Any) -> None:
    plan = PayloadPlan("value", "avro", "value", schema_text=json.dumps(AVRO), engine=engine)
    for data in (in_avro()[:-cut], in_avro() + b"\0" * cut):
        (row,), columns, _ = nulled(plan, data)
        assert (row, columns) == (None, {WHOLE: 1})


def test_a_branch_that_the_table_cannot_take_is_null_and_what_follows_it_lands(engine: Any) -> None:
    def union(*branches: Any) -> str:
        fields = [{"name": "v", "type": [*branches]}, {"name": "last", "type": "int"}]
        return json.dumps({"type": "record", "name": "R", "fields": fields})

    writer, reader = union("long", {"type": "array", "items": "string"}), union("long")
    plan = PayloadPlan("value", "avro", "value", framed=FramedSchemas(reader, ((1, (writer, ())),)), engine=engine)
    values = [b"\0\0\0\0\1" + body for body in (b"\0\x08\x0e", b"\x02\x02\x02x\0\x0e")]
    rows, columns, _ = nulled(plan, *values)
    assert rows == [{"v": 4, "last": 7}, {"v": None, "last": 7}]
    assert columns == {"v": 1}


# --- Protobuf

PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  message Item { string sku = 1; int32 n = 2; }
  int64 id = 1;
  string note = 2;
  google.protobuf.Timestamp at = 3;
  repeated Item items = 4;
  map<string, string> by = 5;
  int32 last = 6;
}
"""
RAW = (
    PROTO.replace("string sku", "bytes sku")
    .replace("string note", "bytes note")
    .replace("string, string", "string, bytes")
    .replace("int32 n ", "int64 n ")
)


def message(text: str) -> Any:
    files = descriptor_pb2.FileDescriptorSet.FromString(compile_text(text))
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


def in_protobuf(**changes: Any) -> bytes:
    given = {
        "id": 1,
        "note": b"n",
        "at": {"seconds": 5},
        "items": [{"sku": b"a", "n": 1}],
        "by": {"k": b"v"},
        "last": 7,
    }
    given |= changes
    order = message(RAW)(id=given["id"], note=given["note"], last=given["last"])
    order.at.seconds, order.at.nanos = given["at"].get("seconds", 0), given["at"].get("nanos", 0)
    for item in given["items"]:
        order.items.add(**item)
    for key, value in given["by"].items():
        order.by[key] = value
    return order.SerializeToString()


@pytest.mark.parametrize(
    ("changes", "expected", "column"),
    [
        ({"note": b"\xff"}, {"note": None}, "note"),
        ({"at": {"seconds": 5, "nanos": 1}}, {"at": None}, "at"),
        ({"at": {"seconds": 2**40}}, {"at": None}, "at"),
        (
            {"items": [{"sku": b"\xff", "n": 1}, {"sku": b"b", "n": 2**40}, {"sku": b"c", "n": 3}]},
            {"items": [{"sku": None, "n": 1}, {"sku": "b", "n": None}, {"sku": "c", "n": 3}]},
            "items[].sku",
        ),
        ({"by": {"k": b"\xff", "l": b"w"}}, {"by": [("k", None), ("l", "w")]}, "by[]"),
        ({"by": {'a"] b.[c': b"\xff"}}, {"by": [('a"] b.[c', None)]}, "by[]"),
    ],
)
def test_a_value_in_protobuf_is_null_and_the_others_land(
    changes: dict[str, Any], expected: dict[str, Any], column: str, engine: Any
) -> None:
    text = base64.b64encode(compile_text(PROTO)).decode()
    plan = PayloadPlan("value", "protobuf", "value", schema_text=text, message="Order", engine=engine)
    rows, columns, status = nulled(plan, in_protobuf(), in_protobuf(**changes), in_protobuf()[:-1])
    assert status[:2] == [Status.DECODED] * 2
    rows[1]["by"].sort()
    assert rows[1] == rows[0] | expected
    assert columns[column] == 1
    assert (rows[2], columns[WHOLE]) == (None, 1)


def test_frames_of_a_registry_are_read_for_nulls_as_well(engine: Any) -> None:
    text = base64.b64encode(compile_text(PROTO)).decode()
    form = ProtobufSchemas("Order")
    reader = form.text(form.first(form.writer(text)))
    framed = FramedSchemas(reader, ((1, (text, ())),), form)
    plan = PayloadPlan("value", "protobuf", "value", framed=framed, engine=engine)
    (row,), columns, _ = nulled(plan, b"\0\0\0\0\1\0" + in_protobuf(note=b"\xff"))
    assert (row["note"], row["last"], columns) == (None, 7, {"note": 1})


# --- rows that do not fit into one array


def texts(size: int) -> pa.Array:
    """Rows of one text of so many bytes, which take no memory before somebody reads them."""
    offsets = pa.py_buffer(np.array([0, size], np.int32))
    text = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(np.zeros(size, np.uint8))])
    return pa.StructArray.from_arrays([text], ["note"])


def test_rows_with_nulls_that_do_not_fit_into_one_array_are_decoded_in_parts() -> None:
    """`ArrowInvalid` ended the run, at the same batch for ever."""
    none = np.array([], np.int64)
    with pytest.raises(TooLargeForOneBatch, match="1 payloads decode to more than 2 GiB"):
        with_rows(texts(5 << 28), none, texts(5 << 28), none)
    replaced = with_rows(pa.array([1, None, 3]), np.array([1]), pa.array([7, 8]), np.array([1]))
    assert replaced.to_pylist() == [1, 8, 3]


def test_rows_of_several_parts_that_do_not_fit_into_one_array_are_decoded_in_parts() -> None:
    with pytest.raises(TooLargeForOneBatch, match="2 payloads decode to more than 2 GiB"):
        concatenated([texts(5 << 28), texts(5 << 28)])
    assert concatenated([pa.array([1]), pa.array([None, 3])]).to_pylist() == [1, None, 3]


@pytest.mark.parametrize("folder", ["etl/decoding", "segment_reader/payload"])
def test_no_decoder_joins_rows_in_another_way(folder: str) -> None:
    """The error of Arrow has no address, and is not decoded in parts. Masks and rows of nulls take a bit each."""
    joins = [
        (file.name, line.strip())
        for file in Path(kseg.__file__).parent.joinpath(folder).rglob("*.py")
        for line in file.read_text().splitlines()
        if "pa.concat_arrays(" in line and "is_null()" not in line
    ]
    own = ["return pa.concat_arrays(parts)", "return pa.concat_arrays([rows, others]).take(pa.array(order))"]
    assert joins == ([("decoder.py", line) for line in own] if folder == "segment_reader/payload" else [])


def test_two_places_of_one_column_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    nulls = FieldNulls(PayloadPlan("value", "connect_json", "value", (("id", "int"),)))

    class Noted:
        def decode(self, records: pa.RecordBatch) -> DecodedPayloads:
            nulls._nulling.places.update({"payload.id": 2, "id": 1})
            return DecodedPayloads(pa.nulls(records.num_rows, ROW), np.zeros(records.num_rows, np.uint8))

    monkeypatch.setattr(nulls, "_decoder", Noted())
    failed = DecodedPayloads(pa.nulls(3, ROW), np.full(3, Status.WRONG_TYPE, np.uint8))
    _, columns = nulls.of(records(b"", b"", b""), failed, np.ones(3, np.bool_))
    assert columns == {"id": 3}


def test_a_batch_that_is_decoded_in_parts_shows_each_null_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Key and value are decoded together: what the key's nulls are was noted before the value was too large."""
    plans = [
        PayloadPlan(source, "json", source, (("id", "bigint"),), json=IGNORE, into_columns=False)
        for source in ("key", "value")
    ]
    step = DecodeStep(tuple(plans), on_error="set_null")
    real = FieldNulls.of

    def once(self: FieldNulls, batch: pa.RecordBatch, *rest: Any) -> Any:
        if self._plan.source == "value" and len(batch) > 1:
            raise TooLargeForOneBatch(len(batch))
        return real(self, batch, *rest)

    monkeypatch.setattr(FieldNulls, "of", once)
    bad = BadRecords()
    wrong = pa.array([b'{"id": "a"}', b'{"id": "b"}'], pa.binary())
    count = pa.array([0, 0], pa.int32())
    batch = pa.record_batch(
        {"key": wrong, "value": wrong, "topic": pa.array(["t", "t"]), "partition": count, "offset": pa.array([5, 6])}
    )
    rows = [row for part in in_parts(batch, lambda part: step.apply(part, {}, bad)) for row in part.to_pylist()]
    assert [(row["key"]["id"], row["value"]["id"]) for row in rows] == [(None, None)] * 2
    assert bad.counts.nulled == 2
    assert [line.partition(":")[0] for line in bad.nulled_examples] == ["t-0 offset 5", "t-0 offset 6"]
