"""Unions of records as a subject's schema: each record is of the kind of its name, as fastavro writes them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kseg.etl.decoding.formats.avro import AvroSchemas
from kseg.etl.decoding.framed import FramedDecoder, FramedSchemas
from kseg.etl.decoding.kinds import Kind
from kseg.segment_reader.payload.decoder import Status


def record(name: str, **fields: Any) -> Any:
    listed = [{"name": one, "type": kind} for one, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": listed}


ORDER, CUSTOMER, REFUND = record("Order", id="long"), record("Customer", id="string"), record("Refund", why="string")
UNION = ["null", ORDER, CUSTOMER, REFUND]
KINDS = (Kind(("shop.Order",), json.dumps(ORDER)), Kind(("shop.Customer",), json.dumps(CUSTOMER)))


def written(value: Any, schema: Any = UNION, key: int = 1) -> bytes:
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return b"\0" + key.to_bytes(4, "big") + payload.getvalue()


def decoder(*kinds: Kind, engine: Any = "fast", **writers: Any) -> FramedDecoder:
    texts = {1: UNION, 2: ORDER, **{int(key[1:]): schema for key, schema in writers.items()}}
    known = tuple((key, (json.dumps(schema), ())) for key, schema in texts.items())
    return FramedDecoder(FramedSchemas("", known, AvroSchemas(several=True), closed=True, kinds=kinds or KINDS), engine)


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_each_record_of_a_union_has_the_columns_of_its_kind(engine: Any) -> None:
    """In a batch with payloads of other schemas, of none, and with what is no payload of the union."""
    payloads = [
        written(("shop.Order", {"id": 1})),
        written(("shop.Customer", {"id": "a"})),
        written({"id": 2}, ORDER, 2),
        None,
        written(None),
        written(("shop.Refund", {"why": "w"})),
        b"\0\0\0\0\1\x0c",  # a branch that there is not
        b"\0\0\0\0\1\x01",
        b"\0\0\0\0\1",
        written(("shop.Order", {"id": 3})),
    ]
    array, own = pa.array(payloads, pa.binary()), decoder(engine=engine)
    found = own.decode(array, None, "value")
    good, null, bad = Status.DECODED, Status.NULL, Status.MALFORMED
    assert found.status.tolist() == [good, good, good, null, null, good, bad, bad, bad, good]
    orders, customers = (
        [row and row[f"id ({kind})"] for row in found.rows.to_pylist()] for kind in ("int64", "string")
    )
    assert orders == [1, None, 2, None, None, None, None, None, None, 3]
    assert [one for one in customers if one] == ["a"]
    assert own.kinds(array, None, "value").tolist() == [0, 1, 0, -1, -1, -1, -1, -1, -1, 0]
    names = own.records(array, None, "value").to_pylist()
    assert names[:6] == ["shop.Order", "shop.Customer", "shop.Order", None, None, "shop.Refund"]
    error = own.explain(payloads[6], None, "value")
    assert (error.status, "branch of the union" in error.message) == (bad, True)


def test_a_batch_of_one_record_and_nulls_of_the_union() -> None:
    payloads = pa.array([written(None), written(("shop.Order", {"id": 1})), None])
    assert decoder().decode(payloads, None, "value").status.tolist() == [Status.NULL, Status.DECODED, Status.NULL]


def test_a_union_of_more_than_64_records() -> None:
    many = [record(f"R{number}", x="int") for number in range(100)]
    kinds = [Kind((f"shop.R{number}",), json.dumps(many[number])) for number in (3, 64, 99)]
    payloads = [written((f"shop.R{number}", {"x": number}), many, 5) for number in (99, 3, 64, 98)]
    own = decoder(*kinds, w5=many)
    array = pa.array(payloads, pa.binary())
    assert own.kinds(array, None, "value").tolist() == [2, 0, 1, -1]
    assert [row["x (int32)"] for row in own.decode(array, None, "value").rows.to_pylist()[:3]] == [99, 3, 64]
