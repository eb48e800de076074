"""Values that Debezium's connector did not have, from the job file's section to rows: what lands in their place."""

from __future__ import annotations

import base64
import io
import json
import pickle
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kseg.etl.config.decoding import Decode
from kseg.etl.decoding.errors import UndecodablePayload
from kseg.etl.decoding.formats.avro import AvroSchemas
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.nulls import FieldNulls
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.decoding.rules import FIRST, NEWEST, DecodingRules
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.transform.decode import DecodeStep, decode_step
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.protobuf.compiler import compile_text

ROWS = DecodeOptions(addresses=True).schema
ADDRESS = {"topic": "people", "partition": 1, "offset": 5}
LACK = "__debezium_unavailable_value"
COLUMNS = {"columns": {"id": "bigint", "bio": "string", "photo": "binary"}}
VALUE = {"format": "connect_json", "envelope": "debezium", "schema": COLUMNS}


def step_of(rules: DecodingRules = NEWEST, **value: Any) -> DecodeStep:
    decode = Decode.model_validate({"value": {**VALUE, **value}})
    return pickle.loads(pickle.dumps(decode_step(decode, rules=rules)))


def applied(step: DecodeStep, *payloads: bytes) -> list[dict[str, Any]]:
    rows = [{**ADDRESS, "offset": 5 + number, "value": payload} for number, payload in enumerate(payloads)]
    out = step.apply(pa.RecordBatch.from_pylist(rows, schema=ROWS), ADDRESS)
    assert out.schema == step.output_schema(ROWS)
    out.validate(full=True)
    sink_schema(out.schema, decoded=True)
    return out.to_pylist()


def changed(**row: Any) -> bytes:
    """Of PostgreSQL's connector, by Connect's JsonConverter."""
    after = {name: base64.b64encode(part).decode() if isinstance(part, bytes) else part for name, part in row.items()}
    return json.dumps({"schema": None, "payload": {"op": "u", "before": None, "after": after}}).encode()


def test_the_marks_name_the_table_s_columns() -> None:
    step = step_of(unavailable="mark", rename={"bio": "biography"})
    rows = applied(step, changed(id=1, bio=LACK, photo=LACK.encode()), changed(id=2, bio="b", photo=b"\1"))
    found = [(row["id"], row["biography"], row["photo"], row["_kseg_unavailable"]) for row in rows]
    assert found == [(1, None, None, ["biography", "photo"]), (2, "b", b"\1", None)]


def test_the_marks_of_a_struct_name_its_fields() -> None:
    step = step_of(unavailable="mark", into="struct", **{"as": "row"})
    (row,) = applied(step, changed(id=1, bio=LACK, photo=b"\1"))
    assert (row["row"]["bio"], row["row"]["_kseg_unavailable"]) == (None, ["bio"])


def test_only_marks_have_a_column() -> None:
    for word in ("null", "text"):
        step = step_of(unavailable=word)
        assert "_kseg_unavailable" not in step.output_schema(ROWS).names
        (row,) = applied(step, changed(id=1, bio=LACK, photo=b"\1"))
        assert row["bio"] == (None if word == "null" else LACK)


def test_without_a_choice_new_tables_have_marks_and_others_what_is_written() -> None:
    payload = changed(id=1, bio=LACK, photo=LACK.encode())
    (new,), (old,) = applied(step_of(), payload), applied(step_of(FIRST), payload)
    assert (new["bio"], new["photo"], new["_kseg_unavailable"]) == (None, None, ["bio", "photo"])
    assert (old["bio"], old["photo"], "_kseg_unavailable" in old) == (LACK, LACK.encode(), False)
    (chosen,) = applied(step_of(FIRST, unavailable="mark"), payload)
    assert chosen == new, "what the job file says holds by all rules"


def test_text_in_a_column_that_is_none_is_an_error_with_its_place() -> None:
    with pytest.raises(UndecodablePayload) as caught:
        applied(step_of(unavailable="text"), changed(id=1, bio=LACK, photo=b"\1"), changed(id=2, photo=LACK.encode()))
    assert (caught.value.path, caught.value.address["offset"]) == ("after.photo", 6)
    assert "the column is no text" in str(caught.value)


def test_set_null_nulls_and_counts_it() -> None:
    plan = PayloadPlan(
        "value", "connect_json", "value", tuple(COLUMNS["columns"].items()), envelope="debezium", unavailable="text"
    )
    batch = pa.record_batch([pa.array([changed(id=1, bio=LACK, photo=LACK.encode())], pa.binary())], names=["value"])
    found = plan.decode(batch)
    decoded, columns = FieldNulls(plan).of(batch, found, found.status > Status.NULL)
    (row,) = decoded.rows.to_pylist()
    assert (row["id"], row["bio"], row["photo"]) == (1, LACK, None)
    assert (decoded.status.tolist(), columns) == ([Status.DECODED], {"photo": 1})


def test_the_marks_name_is_taken() -> None:
    own = {"columns": {"id": "bigint", "_kseg_unavailable": "string"}}
    with pytest.raises(ConfigurationError, match="own columns"):
        step_of(schema=own, unavailable="mark").output_schema(ROWS)


# ---- Avro, by a file and by a registry

AVRO = json.dumps(
    {
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
                            {"name": "bio", "type": ["null", "string"]},
                            {"name": "photo", "type": ["null", "bytes"]},
                            {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
                        ],
                    },
                ],
            },
            {"name": "after", "type": ["null", "Value"]},
            {"name": "op", "type": "string"},
        ],
    }
)
LACKING = {"id": 1, "bio": LACK, "photo": LACK.encode(), "tags": [LACK]}
WHOLE = {"id": 2, "bio": "b", "photo": b"\1", "tags": ["a", None]}


def in_avro(**document: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(json.loads(AVRO)), {"before": None, "after": None, **document}
    )
    return out.getvalue()


@pytest.mark.parametrize("by_registry", [False, True])
@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_marks_in_avro(by_registry: bool, engine: Any) -> None:
    form = AvroSchemas()
    text = form.text(form.first(form.writer(AVRO)))
    schemas = {"framed": FramedSchemas(text, ((7, (AVRO, ())),), form)} if by_registry else {"schema_text": AVRO}
    common: dict[str, Any] = {"envelope": "debezium", "unavailable": "mark", "engine": engine, **schemas}
    plan: PayloadPlan = pickle.loads(pickle.dumps(PayloadPlan("value", "avro", "value", **common)))
    frame = b"\0\0\0\0\7" if by_registry else b""
    payloads = [in_avro(op="u", after=LACKING), in_avro(op="c", after=WHOLE), in_avro(op="d", before=LACKING)]
    batch = pa.record_batch([pa.array([frame + payload for payload in payloads], pa.binary())], names=["value"])
    rows = plan.decode(batch).rows
    assert rows.type == plan.type
    names, none = ["bio", "photo", "tags"], {"bio": None, "photo": None, "tags": None}
    assert [{key: part for key, part in row.items() if not key.startswith("_")} for row in rows.to_pylist()] == [
        {"id": 1, **none},
        WHOLE,
        {"id": 1, **none},
    ]
    assert [row["_kseg_unavailable"] for row in rows.to_pylist()] == [names, None, names]


# ---- Protobuf

PROTO = """
syntax = "proto3";
message Value { int64 id = 1; optional string bio = 2; bytes photo = 3; repeated string tags = 4; }
message Envelope { Value before = 1; Value after = 2; string op = 3; }
"""


def test_marks_in_protobuf(tmp_path: Path) -> None:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compile_text(PROTO)).file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("Envelope"))
    schema = tmp_path / "people.proto"
    schema.write_text(PROTO)
    step = step_of(format="protobuf", message="Envelope", schema={"file": str(schema)}, unavailable="mark")
    rows = applied(step, *(made(op="u", after=row).SerializeToString() for row in (LACKING, {"id": 2, "bio": "b"})))
    assert [(row["id"], row["bio"], row["_kseg_unavailable"]) for row in rows] == [
        (1, None, ["bio", "photo", "tags"]),
        (2, "b", None),
    ]
