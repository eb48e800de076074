"""Rows of several topics: each decoded in its own way, those of one table with one schema."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter

from kseg.etl.config.decoding import AnyDecode
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.kinds import Kind
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.transform.decode_by_topic import decode_step_of
from kseg.etl.transform.topics import rows_by_topic, table_schemas
from kseg.etl.transform.transform import NO_STEPS, BatchSteps

ROWS = DecodeOptions(addresses=True).schema
ADDRESS = ["_kseg_topic", "_kseg_partition", "_kseg_offset"]


def json_of(**columns: str) -> dict[str, Any]:
    return {"value": {"format": "json", "schema": {"columns": columns}}}


def steps_of(decode: dict[str, Any]) -> BatchSteps:
    return BatchSteps((decode_step_of(TypeAdapter(AnyDecode).validate_python(decode)),))


def batch(topic: str, value: bytes) -> pa.RecordBatch:
    record = {"value": value, "topic": topic, "partition": 0, "offset": 7}
    record |= {"_kseg_topic": topic, "_kseg_partition": 0, "_kseg_offset": 7}
    return pa.RecordBatch.from_pylist([record], schema=ROWS)


def test_topics_of_other_tables_have_schemas_of_their_own() -> None:
    steps = steps_of({"orders": json_of(id="bigint"), "*": json_of(id="string")})
    rows = pickle.loads(pickle.dumps(rows_by_topic(steps, ROWS, {"orders": 0, "customers": 1, "clicks": 1})))
    assert rows["orders"].schema.field("id").type == pa.int64()
    assert (
        rows["customers"].schema
        == rows["clicks"].schema
        == pa.schema([("id", pa.string()), *(ROWS.field(name) for name in ADDRESS)])
    )
    out = rows["orders"].apply(batch("orders", b'{"id": 5}'), {"topic": "orders", "partition": 0, "offset": 7})
    assert out.to_pylist() == [{"id": 5, "_kseg_topic": "orders", "_kseg_partition": 0, "_kseg_offset": 7}]


def test_columns_of_kinds_are_the_same_for_topics_by_name_and_type() -> None:
    """The rows of both topics may go to any table, so they have one schema."""

    def avro(name: str, field: str, kind: str) -> str:
        return json.dumps({"type": "record", "name": name, "fields": [{"name": field, "type": kind}]})

    of = {
        "orders": (Kind(("Order",), avro("Order", "id", "long")), Kind(("Paid",), avro("Paid", "ID", "string"))),
        "refunds": (Kind(("Order",), avro("Order", "id", "string")), Kind(("Paid",), avro("Paid", "id", "long"))),
    }
    decode = {topic: {"value": {"format": "avro", "schema": "registry", "subject": ["a", "b"]}} for topic in of}
    schemas = {f"{topic}.value": FramedSchemas("", kinds=kinds) for topic, kinds in of.items()}
    steps = BatchSteps((decode_step_of(TypeAdapter(AnyDecode).validate_python(decode), schemas),))
    rows = rows_by_topic(steps, ROWS, dict.fromkeys(of, ""))
    assert rows["orders"].schema == rows["refunds"].schema
    assert rows["orders"].schema.names == ["id (int64)", "ID (string)", "id (string)", *ADDRESS]


def test_topics_of_one_table_have_the_columns_of_both() -> None:
    steps = steps_of({"orders": json_of(id="bigint", amount="int"), "refunds": json_of(reason="string", id="bigint")})
    tables = {"orders": "t", "refunds": "t"}
    rows = pickle.loads(pickle.dumps(rows_by_topic(steps, ROWS, tables)))
    assert rows["orders"].schema.names == ["id", "amount", "reason", *ADDRESS]
    for topic, value in (("orders", b'{"id": 1, "amount": 2}'), ("refunds", b'{"id": 1, "reason": "x"}')):
        out = rows[topic].apply(batch(topic, value), {"topic": topic, "partition": 0, "offset": 7})
        out.validate(full=True)
        assert out.schema == rows["orders"].schema
        (row,) = out.to_pylist()
        assert row["id"] == 1
        assert (row["amount"], row["reason"]) == ((2, None) if topic == "orders" else (None, "x"))
    assert table_schemas(steps, ROWS, tables, merge=True) == {"t": rows["orders"].schema}
    with pytest.raises(
        ConfigurationError, match="refunds and orders land in one table, and orders has no column reason"
    ) as caught:
        table_schemas(steps, ROWS, tables, merge=False)
    assert "merge_schema" in str(caught.value.faults[0].remedy)


@pytest.mark.parametrize("other", [json_of(id="string"), json_of(ID="bigint"), json_of(id="struct<a:int>")])
def test_topics_of_one_table_do_not_contradict_each_other(other: dict[str, Any]) -> None:
    steps = steps_of({"orders": json_of(id="bigint"), "refunds": other})
    with pytest.raises(ConfigurationError, match="topics orders and refunds land in one table") as caught:
        rows_by_topic(steps, ROWS, {"orders": "t", "refunds": "t"})
    assert "rename" in str(caught.value.faults[0].remedy)


def test_a_topic_that_nothing_is_said_of_is_refused() -> None:
    steps = steps_of({"orders": json_of(id="bigint")})
    with pytest.raises(ConfigurationError, match="says nothing of topic other"):
        rows_by_topic(steps, ROWS, {"orders": 0, "other": 0})


def test_topics_that_are_not_told_apart_share_their_schema() -> None:
    steps = steps_of(json_of(id="bigint"))
    assert (steps.topics, NO_STEPS.topics) == ((), ())
    rows = rows_by_topic(steps, ROWS, {"a": 0, "b": 1})
    assert rows["a"].schema is rows["b"].schema
    assert rows_by_topic(NO_STEPS, ROWS, {"a": 0})["a"].schema == ROWS
