"""Rows of several kinds of records in one batch: columns by name and type, each row with the values of its kind."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kseg.etl.config.decoding import Decode
from kseg.etl.decoding.columns import check_names
from kseg.etl.decoding.formats.avro import AvroSchemas
from kseg.etl.decoding.formats.json import JsonSchemas
from kseg.etl.decoding.formats.protobuf import ProtobufSchemas
from kseg.etl.decoding.formats.registry import kept_text
from kseg.etl.decoding.framed import FramedDecoder, FramedSchemas
from kseg.etl.decoding.kinds import Kind, RecordColumns, column_name, columns_named, kind_of, plain_name
from kseg.etl.errors import ConfigurationError
from kseg.etl.transform.decode import decode_step
from kseg.segment_reader.payload.decoder import Status


def avro(name: str, **fields: Any) -> str:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return json.dumps({"type": "record", "name": name, "fields": listed})


ORDER, PAYMENT = avro("Order", id="long", note="string"), avro("Payment", note="string", id="string", paid="double")
OTHERS = json.dumps(json.loads(avro("Refund", id="long", why=["null", "string"])) | {"aliases": ["Return"]})
WRITERS = {
    1: avro("Order", id="int", note="string"),
    2: PAYMENT,
    3: avro("Refund", id="long"),
    4: avro("Return", why="string"),
    5: avro("Order", id="boolean"),
}
KINDS = (Kind(("Order",), ORDER), Kind(("Payment", "Paid"), PAYMENT))
ALL = (*KINDS, Kind(("*",), OTHERS))


def schemas(kinds: tuple[Kind, ...], texts: Mapping[int, str] = WRITERS) -> FramedSchemas:
    writers = tuple((key, (text, ())) for key, text in texts.items())
    return FramedSchemas("", writers, AvroSchemas(several=True), kinds=kinds, closed=True)


def payload(key: int, **value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(WRITERS[key])), value)
    return b"\0" + key.to_bytes(4, "big") + out.getvalue()


PAYLOADS = [
    payload(2, note="b", id="p", paid=1.5),
    None,
    payload(1, id=7, note="a"),
    payload(3, id=8),
    payload(1, id=9, note="c"),
    b"no frame",
    payload(4, why="late"),
    payload(5, id=True),
    payload(1, id=10, note="d")[:-1],
]


def decoded(kinds: tuple[Kind, ...], payloads: list[bytes | None]) -> list[tuple[str, dict[str, Any] | None]]:
    """Status and values of each row, without nulls."""
    decoder = FramedDecoder(pickle.loads(pickle.dumps(schemas(kinds))))
    made = decoder.decode(pa.array(payloads, pa.binary()), None, "value")
    assert made.rows.type == decoder.type
    rows = [row and {name: value for name, value in row.items() if value is not None} for row in made.rows.to_pylist()]
    return [(Status(status).name, row) for status, row in zip(made.status, rows, strict=True)]


def test_each_row_has_the_values_of_its_kind() -> None:
    assert decoded(KINDS, PAYLOADS) == [
        ("DECODED", {"note (string)": "b", "id (string)": "p", "paid (double)": 1.5}),
        ("NULL", None),
        ("DECODED", {"id (int64)": 7, "note (string)": "a"}),
        ("DECODED", None),
        ("DECODED", {"id (int64)": 9, "note (string)": "c"}),
        ("BAD_FRAME", None),
        ("DECODED", None),
        ("INCOMPATIBLE_SCHEMA", None),
        ("TRUNCATED", None),
    ]


def test_others_are_one_kind_with_columns_of_their_own() -> None:
    found = decoded(ALL, PAYLOADS)
    assert [found[row] for row in (3, 6)] == [("DECODED", {"id (int64)": 8}), ("DECODED", {"why (string)": "late"})]


@pytest.mark.parametrize("rows", [[0], [2], [2, 4], [3], [1], [3, 1, 6], [7], [], [0, 1]])
def test_batches_of_one_kind_or_none_have_the_same_columns(rows: list[int]) -> None:
    whole = decoded(KINDS, PAYLOADS)
    assert decoded(KINDS, [PAYLOADS[row] for row in rows]) == [whole[row] for row in rows]


def test_a_kind_whose_schemas_are_not_known_has_no_rows() -> None:
    kinds = (Kind(("Order",), None), KINDS[1])
    assert decoded(kinds, PAYLOADS[2:3]) == [("INCOMPATIBLE_SCHEMA", None)]
    error = FramedDecoder(schemas(kinds)).explain(PAYLOADS[2], None, "value")
    assert "has no columns yet" in error.message


def test_kinds_that_share_all_columns_in_another_order() -> None:
    kinds = (
        Kind(("Payment",), avro("Payment", id="string", note="string")),
        Kind(("Order",), avro("Order", note="string")),
    )
    assert decoded(kinds, [payload(1, id=1, note="a"), payload(2, note="b", id="p", paid=1.5)]) == [
        ("DECODED", {"note (string)": "a"}),
        ("DECODED", {"note (string)": "b", "id (string)": "p"}),
    ]


def test_documents_are_told_apart_by_their_titles() -> None:
    def titled(title: str | None, **fields: str) -> str:
        properties = {name: {"type": kind} for name, kind in fields.items()}
        return json.dumps({"type": "object", "properties": properties} | ({"title": title} if title else {}))

    form = JsonSchemas()
    texts = {1: titled("Order", id="integer"), 2: titled("Payment", id="string"), 3: titled(None, id="boolean")}
    readers = [form.text(form.first(form.writer(text))) for text in texts.values()]
    kinds = tuple(Kind((name,), reader) for name, reader in zip(("Order", "Payment", "*"), readers, strict=True))
    writers = tuple((key, (text, ())) for key, text in texts.items())
    decoder = FramedDecoder(FramedSchemas("", writers, form, kinds=kinds))
    values = [b'{"id": 1}', b'{"id": "p"}', b'{"id": true}', b'{"id": "x"}']
    framed = [b"\0\0\0\0" + bytes([key]) + value for key, value in zip((1, 2, 3, 1), values, strict=True)]
    made = decoder.decode(pa.array(framed, pa.binary()), None, "value")
    assert made.rows.to_pylist()[:3] == [
        {"id (int64)": 1, "id (string)": None, "id (bool)": None},
        {"id (int64)": None, "id (string)": "p", "id (bool)": None},
        {"id (int64)": None, "id (string)": None, "id (bool)": True},
    ]
    assert made.status.tolist() == [Status.DECODED] * 3 + [Status.WRONG_TYPE]


PROTO = """
    syntax = "proto3"; package shop;
    message Order { int64 id = 1; message Line { string sku = 1; } }
    message Payment { string id = 1; double paid = 2; }
"""


def test_messages_of_one_schema_are_told_apart_by_their_indexes() -> None:
    text, _ = kept_text("protobuf", PROTO, {})
    form = ProtobufSchemas()

    def reader(record: str) -> str:
        own = form.of_record(record)
        return own.text(own.first(own.writer(text)))

    assert form.records(form.writer(text)) == ("shop.Order", "shop.Order.Line", "shop.Payment")
    kinds = tuple(Kind((name,), reader(name)) for name in ("shop.Order", "shop.Payment"))
    decoder = FramedDecoder(FramedSchemas("", ((1, (text, ())),), form, kinds=kinds, closed=True))
    frame = b"\0\0\0\0\1"
    framed = [
        frame + b"\0" + b"\x08\x07",  # an order: [0] is written as 0
        frame + b"\2\2" + b"\x0a\1p",  # [1]
        frame + b"\4\0\0" + b"\x0a\1s",  # [0, 0], a line of an order
        frame + b"\2\x10" + b"\x0a\1p",  # [8], which the schema does not have
        None,
        b"\0\0\0\0\2\0",
        frame + b"\2\2" + b"\x08\7",
    ]
    payloads = pa.array(framed, pa.binary())
    made = decoder.decode(payloads, None, "value")
    rows = [row and {name: value for name, value in row.items() if value is not None} for row in made.rows.to_pylist()]
    assert rows == [
        {"id (int64)": 7},
        {"id (string)": "p", "paid (double)": 0.0},
        None,
        None,
        None,
        None,
        {"id (string)": "", "paid (double)": 0.0},
    ]
    names = ["DECODED", "DECODED", "DECODED", "INCOMPATIBLE_SCHEMA", "NULL", "UNKNOWN_SCHEMA", "DECODED"]
    assert [Status(status).name for status in made.status] == names
    records = ["shop.Order", "shop.Payment", "shop.Order.Line", None, None, None, "shop.Payment"]
    assert decoder.records(payloads, None, "value").to_pylist() == records
    assert decoder.kinds(payloads, None, "value").tolist() == [0, 1, -1, -1, -1, -1, 1]


def step_of(kinds: tuple[Kind, ...] = KINDS, *, key: str | None = None, **options: Any) -> Any:
    value = {"format": "avro", "schema": "registry", **options.pop("value", {})}
    given = {"value": value, **({"key": {"format": "string", "as": key}} if key else {}), **options}
    return decode_step(Decode.model_validate(given), schemas={"value": schemas(kinds)})


OFFSET = "_kseg_offset"
ADDRESS = {"topic": "t", "partition": 0}
RECORD = pa.schema(
    [
        *(("key", pa.binary()), ("value", pa.binary()), (OFFSET, pa.int64())),
        *(("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())),
    ]
)


def records(*payloads: bytes | None) -> pa.RecordBatch:
    rows = [{**ADDRESS, "value": one, "offset": number, OFFSET: number} for number, one in enumerate(payloads)]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD)


def test_fields_of_any_kind_are_renamed() -> None:
    step = step_of(value={"rename": {"id": "nr", "paid": "amount"}})
    names = [column for column in step.output_schema(RECORD).names if not column.startswith("_kseg_")]
    assert names == ["nr (int64)", "note (string)", "nr (string)", "amount (double)"]
    with pytest.raises(ConfigurationError, match="names the field no_such"):
        step_of(value={"rename": {"no_such": "x"}}).output_schema(RECORD)


def test_names_are_those_of_one_table() -> None:
    """Kinds may differ in the case of a name; a key and a field of any kind may not share one."""
    upper = (KINDS[0], Kind(("Payment",), avro("Payment", ID="string", NOTE="string")))
    step_of(upper).output_schema(RECORD)
    with pytest.raises(ConfigurationError) as refused:
        step_of(key="paid").output_schema(RECORD)
    assert [fault.message for fault in refused.value.faults] == ["columns paid and paid are one name to Delta"]
    with pytest.raises(ConfigurationError) as refused:
        step_of(key="Note").output_schema(RECORD)
    assert [fault.message for fault in refused.value.faults] == ["columns Note and note are one name to Delta"]
    spaced = (KINDS[0], Kind(("Payment",), avro("Payment", id="string", _kseg_x="int")))
    with pytest.raises(ConfigurationError, match="_kseg_x: names that begin with _kseg_ are Kafka's own"):
        check_names([(spaced_plan, []) for spaced_plan in step_of(spaced).payloads])


def test_expectations_are_of_kinds_that_have_the_column() -> None:
    batch = records(*PAYLOADS[:5], payload(2, note="e", id="", paid=-1.0))
    step = step_of(ALL, expect={"paid": "> 0", "note": ["a", "b", "e"]}, on_error="dead_letter")
    step.output_schema(RECORD)
    out = step.apply(batch, {"topic": "t"})
    assert out.column(OFFSET).to_pylist() == [0, 1, 2, 3]
    given = step_of(ALL, expect={"why": "not null"}, on_error="dead_letter")
    given.output_schema(RECORD)
    assert given.apply(batch, {"topic": "t"}).column(OFFSET).to_pylist() == [0, 1, 2, 4, 5]
    with pytest.raises(ConfigurationError, match=r"expect\.id"):
        step_of(expect={"id": "> x"}).output_schema(RECORD)
    with pytest.raises(ConfigurationError) as refused:
        step_of(expect={"no_such": "not null"}).output_schema(RECORD)
    assert refused.value.faults[0].remedy == "one of id, note, paid"


def test_names_of_columns() -> None:
    kind = pa.struct([("a b (c)", pa.list_(pa.decimal128(9, 2)))])
    assert plain_name(column_name("id", kind)) == "id"
    assert columns_named(["id (int64)", "id", "ids (int64)", "id (string)"], "id") == [
        "id (int64)",
        "id",
        "id (string)",
    ]


def test_a_record_is_of_the_kind_that_names_it() -> None:
    kinds = [("a", "b"), ("*",), ("c",)]
    assert [kind_of(record, kinds) for record in ("b", "c", "d", None)] == [0, 2, 1, 1]
    assert [kind_of(record, kinds[2:]) for record in ("c", "d", None)] == [0, None, None]


def test_topics_agree_on_the_columns_of_a_record() -> None:
    one, other = (RecordColumns({"Order": {"id": f"id ({kind})"}}, of_kinds=True) for kind in ("int64", "string"))
    assert one.beside(one) == one
    with pytest.raises(ConfigurationError, match=r"Order: id \(int64\), id \(string\)"):
        one.beside(other)
