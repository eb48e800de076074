"""`out_of_range_times` of a job file, for each format whose times are typed, by a file and by a registry."""

from __future__ import annotations

import io
import json
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from kseg.etl.config.decoding import Decode, Payload
from kseg.etl.decoding.errors import UndecodablePayload
from kseg.etl.decoding.formats.registry import kept_text, schema_format
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.rules import FIRST, NEWEST, DecodingRules
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.transform.decode import decode_step
from kseg.etl.transform.duckdb_sql import DuckdbStep

ROWS = DecodeOptions(addresses=True).schema
ADDRESS = {"topic": "orders", "partition": 1, "offset": 5}
INFINITY = 9_223_372_036_825_200_000  # of PostgreSQL, in milliseconds
FAR_SECONDS, NEAR_SECONDS = 253_402_300_800, 1_700_000_000

AVRO = {"type": "record", "name": "R", "fields": [{"name": "at", "type": {"type": "long"}}]}
AVRO_MILLIS = json.dumps(AVRO).replace('"long"', '"long", "logicalType": "timestamp-millis"')
JSON_SCHEMA = json.dumps({"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}})
PROTO = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp at = 1; }'
#: A schema by its file's name, and by the format's.
SCHEMAS = {
    "avro": ("r.avsc", AVRO_MILLIS),
    "json_schema": ("r.json", JSON_SCHEMA),
    "protobuf": ("r.proto", PROTO),
}
FORMATS = (*SCHEMAS, "json", "connect_json")


@cache
def kept(format: str) -> Any:
    return kept_text(format, SCHEMAS[format][1], {})


def payload_of(format: str, *, far: bool) -> bytes:
    seconds = FAR_SECONDS if far else NEAR_SECONDS
    match format:
        case "avro":
            out = io.BytesIO()
            fastavro.schemaless_writer(out, AVRO, {"at": INFINITY if far else seconds * 1000})
            return out.getvalue()
        case "protobuf":
            time = Timestamp(seconds=seconds).SerializeToString()
            return b"\x0a" + bytes([len(time)]) + time
        case "connect_json":
            return json.dumps({"schema": None, "payload": {"at": seconds * 1000}}).encode()
    return json.dumps({"at": "infinity" if far else "2023-11-14T22:13:20Z"}).encode()


def rows_of(section: dict[str, Any], rules: DecodingRules, schemas: Any, *payloads: bytes, **more: Any) -> Any:
    """The column, in seconds."""
    step = decode_step(Decode.model_validate({"value": section, **more}), "decode", schemas, rules)
    made = [{"topic": "orders", "partition": 1, "offset": n, "value": one} for n, one in enumerate(payloads)]
    out = pickle.loads(pickle.dumps(step)).apply(pa.RecordBatch.from_pylist(made, schema=ROWS), ADDRESS)
    return out.column("at").cast(pa.timestamp("s", tz="UTC")).cast(pa.int64()).to_pylist()


@pytest.mark.parametrize("rules", [FIRST, NEWEST], ids=["version 1", "version 2"])
@pytest.mark.parametrize("on_error", ["fail", "set_null"])
@pytest.mark.parametrize(
    ("format", "by"), [*((format, "file") for format in FORMATS), *((format, "registry") for format in SCHEMAS)]
)
def test_the_key_decides_in_every_format(
    tmp_path: Path, format: str, by: str, on_error: str, rules: DecodingRules
) -> None:
    schemas, frame = {}, b""
    section: dict[str, Any] = {"format": format, "out_of_range_times": "set_null"}
    if by == "file":
        if format in SCHEMAS:
            name, text = SCHEMAS[format]
            (tmp_path / name).write_text(text)
            section["schema"] = {"file": str(tmp_path / name)}
        else:
            section["schema"] = {"columns": {"at": "timestamp"}}
    else:
        section["schema"] = "registry"
        form = schema_format(Payload.model_validate(section), rules)
        reader = form.text(form.first(form.writer(*kept(format))))
        schemas["value"] = FramedSchemas(reader, ((7, kept(format)),), form)
        frame = b"\0\0\0\0\7" + (b"\0" if format == "protobuf" else b"")
    far, near = (frame + payload_of(format, far=far) for far in (True, False))
    assert rows_of(section, rules, schemas, near, far, near, on_error=on_error) == [NEAR_SECONDS, None, NEAR_SECONDS]


@pytest.mark.parametrize("format", ["avro", "protobuf"])
def test_the_payload_can_land_beside_the_null(tmp_path: Path, format: str) -> None:
    name, text = SCHEMAS[format]
    (tmp_path / name).write_text(text)
    value = {"format": format, "schema": {"file": str(tmp_path / name)}, "out_of_range_times": "set_null"}
    step = decode_step(Decode.model_validate({"value": value, "keep": ["value"]}))
    far = payload_of(format, far=True)
    record = {"topic": "orders", "partition": 1, "offset": 0, "value": far}
    (row,) = step.apply(pa.RecordBatch.from_pylist([record], schema=ROWS), ADDRESS).to_pylist()
    assert (row["at"], row["_kseg_value"]) == (None, far)


def test_a_step_makes_numbers_of_times_of_avro(tmp_path: Path) -> None:
    (tmp_path / "r.avsc").write_text(AVRO_MILLIS.replace("millis", "micros"))
    step = decode_step(Decode.model_validate({"value": {"format": "avro", "schema": {"file": f"{tmp_path}/r.avsc"}}}))
    values = [INFINITY, -INFINITY, FAR_SECONDS * 10**6, NEAR_SECONDS * 10**6]
    records = []
    for offset, value in enumerate(values):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, AVRO, {"at": value})
        records.append({"topic": "orders", "partition": 1, "offset": offset, "value": out.getvalue()})
    rows = step.apply(pa.RecordBatch.from_pylist(records, schema=ROWS), ADDRESS)
    query = 'SELECT * EXCLUDE ("at"), epoch_us("at") AS at_us FROM __rows__'
    assert DuckdbStep(query, "transform[0]").apply(rows, ADDRESS).column("at_us").to_pylist() == values


@pytest.mark.parametrize("format", FORMATS)
def test_by_default_the_error_names_the_key(tmp_path: Path, format: str) -> None:
    name, text = SCHEMAS.get(format, ("", ""))
    if name:
        (tmp_path / name).write_text(text)
    schema = {"file": str(tmp_path / name)} if name else {"columns": {"at": "timestamp"}}
    with pytest.raises(UndecodablePayload, match="out_of_range_times: set_null makes it null"):
        rows_of({"format": format, "schema": schema}, NEWEST, {}, payload_of(format, far=True))
