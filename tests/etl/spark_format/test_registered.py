"""Schemas of a read in Spark: columns of all versions, and versions that do not fit them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from kseg.etl.config.decoding import Payload
from kseg.etl.decoding.framed import FramedDecoder
from kseg.etl.ledger.schemas import SchemaText
from kseg.etl.planning.schemas import FoundSchemas
from kseg.etl.spark_format.registered import _framed
from kseg.segment_reader.payload.decoder import Status


def version(**fields: Any) -> SchemaText:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return SchemaText(json.dumps({"type": "record", "name": "Order", "fields": listed}))


def test_records_of_a_version_that_does_not_fit_are_errors() -> None:
    """Also those whose values the columns could hold: their other fields would be lost."""
    old, new = version(id=["null", "string", "long"], note="string"), version(id=["null", "string"])
    texts = {text.hash: text for text in (old, new)}
    found = FoundSchemas("http://sr", (("version 2", new),), texts, {"1": old.hash, "2": new.hash})
    decoder = FramedDecoder(
        _framed(Payload.model_validate({"format": "avro", "schema": "registry"}), "value", found), engine="reference"
    )
    first = b"\0\0\0\0\1" + b"\x02\x02a" + b"\x08note"
    decoded = decoder.decode(pa.array([first, b"\0\0\0\0\2" + b"\x02\x02b"]), None, "value")
    assert decoded.status.tolist() == [Status.INCOMPATIBLE_SCHEMA, Status.DECODED]
    assert decoded.rows.to_pylist() == [None, {"id": "b"}]
    message = decoder.explain(first, None, "value").message
    assert "schema 1 is not read: it does not fit the table's columns: Order.id" in message
