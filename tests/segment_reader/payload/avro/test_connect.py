"""Kafka Connect's and Debezium's logical types in Avro have the columns that they have in Connect's JSON."""

from __future__ import annotations

import base64
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kseg.segment_reader.payload.avro.decoder import avro_decoder
from kseg.segment_reader.payload.avro.evolution import merged
from kseg.segment_reader.payload.avro.schema import parse_schema
from kseg.segment_reader.payload.avro.schema_json import schema_text
from kseg.segment_reader.payload.avro.types import arrow_type
from kseg.segment_reader.payload.connect_json import CONNECT_OPTIONS, ConnectJsonDecoder
from kseg.segment_reader.payload.connect_schema import read_connect_schema
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.shape import JsonOptions
from kseg.segment_reader.payload.plain import Nulling

ENGINES = ("fast", "reference")
OF_CONNECT, OF_DEBEZIUM = "org.apache.kafka.connect.data", "io.debezium.time"
BASES = {"int": "int32", "long": "int64", "string": "string", "bytes": "bytes"}

#: Name, what it rests on, its parameters, what is written, and the column's value.
TYPES: list[tuple[str, str, dict[str, str], Any, Any]] = [
    (f"{OF_CONNECT}.Date", "int", {}, 19700, date(2023, 12, 9)),
    (f"{OF_CONNECT}.Time", "int", {}, 45_000_000, 45_000_000),
    (f"{OF_CONNECT}.Timestamp", "long", {}, 1_700_000_000_123, datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)),
    (f"{OF_DEBEZIUM}.Date", "int", {}, -1, date(1969, 12, 31)),
    (f"{OF_DEBEZIUM}.Time", "int", {}, 1, 1),
    (f"{OF_DEBEZIUM}.MicroTime", "long", {}, 45_000_000_001, 45_000_000_001),
    (f"{OF_DEBEZIUM}.NanoTime", "long", {}, 1, 1),
    (f"{OF_DEBEZIUM}.Timestamp", "long", {}, 1_700_000_000_123, datetime(2023, 11, 14, 22, 13, 20, 123_000)),
    (f"{OF_DEBEZIUM}.MicroTimestamp", "long", {}, 1_700_000_000_123_456, datetime(2023, 11, 14, 22, 13, 20, 123_456)),
    (f"{OF_DEBEZIUM}.NanoTimestamp", "long", {}, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
    (
        f"{OF_DEBEZIUM}.ZonedTimestamp",
        "string",
        {},
        "2024-02-29T12:30:00.123456+01:00",
        datetime(2024, 2, 29, 11, 30, 0, 123_456, UTC),
    ),
    (f"{OF_DEBEZIUM}.ZonedTimestamp", "string", {}, "2024-02-29 12:30Z", datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
    (f"{OF_DEBEZIUM}.Year", "int", {}, 2026, 2026),
    ("io.debezium.data.Uuid", "string", {}, "x", "x"),
    ("io.debezium.data.Json", "string", {}, "{}", "{}"),
    (f"{OF_CONNECT}.Decimal", "bytes", {"scale": "2"}, b"\x04\xd2", Decimal("12.34")),
    (f"{OF_CONNECT}.Decimal", "bytes", {"scale": "0", "connect.decimal.precision": "3"}, b"\x80", Decimal(-128)),
    (f"{OF_CONNECT}.Decimal", "bytes", {"scale": "2", "connect.decimal.precision": "50"}, b"\x04\xd2", b"\x04\xd2"),
    (f"{OF_CONNECT}.Decimal", "bytes", {"scale": "-2"}, b"\x04", b"\x04"),
    (f"{OF_CONNECT}.Decimal", "bytes", {"scale": "40"}, b"\x04", b"\x04"),
]
CASES = pytest.mark.parametrize(("name", "base", "parameters", "written", "value"), TYPES)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def annotated(base: str, name: str, parameters: dict[str, str]) -> dict[str, Any]:
    """A type as Connect's Avro converter writes it."""
    node: dict[str, Any] = {"type": base, "connect.version": 1, "connect.name": name}
    if parameters:
        node["connect.parameters"] = parameters
    if name.endswith("Decimal"):
        scale = int(parameters["scale"])
        precision = int(parameters.get("connect.decimal.precision", 64))
        node |= {"logicalType": "decimal", "scale": scale, "precision": precision}
    return node


def record(kind: Any) -> str:
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": kind}]
    return json.dumps({"type": "record", "name": "Value", "fields": fields})


def written(kind: Any, *values: Any) -> pa.BinaryArray:
    schema, payloads = fastavro.parse_schema(json.loads(record(kind))), []
    for number, value in enumerate(values):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {"id": number, "v": value})
        payloads.append(out.getvalue())
    return pa.array(payloads, pa.binary())


def of_connect_json(base: str, name: str, parameters: dict[str, str], value: Any) -> tuple[pa.DataType, Any]:
    """Type and value of the same in Connect's JSON."""
    field = {"field": "v", "type": BASES[base], "name": name, "version": 1, "optional": True}
    schema = {"type": "struct", "fields": [field | ({"parameters": parameters} if parameters else {})]}
    read = read_connect_schema(json.dumps(schema))
    options = JsonOptions(**{**vars_of(CONNECT_OPTIONS), "formats": dict(read.formats())})
    text = base64.b64encode(value).decode() if isinstance(value, bytes) else value
    payload = json.dumps({"schema": schema, "payload": {"v": text}}).encode()
    decoded = ConnectJsonDecoder(read.type, options).decode(pa.array([payload], pa.binary()))
    return read.type.field("v").type, decoded.rows[0].as_py()["v"]


def vars_of(options: JsonOptions) -> dict[str, Any]:
    names = ("timestamp_format", "date_format", "unknown_fields")
    return {name: getattr(options, name) for name in names}


@CASES
def test_a_value_is_the_same_as_in_connects_json(
    name: str, base: str, parameters: dict[str, str], written: Any, value: Any, engine: Any
) -> None:
    kind = annotated(base, name, parameters)
    schema = parse_schema(record(["null", kind]), connect=True)
    decoded = avro_decoder(schema, engine=engine).decode(written_of(["null", base], None, written))
    assert decoded.status.tolist() == [Status.DECODED] * 2
    assert [row["v"] for row in decoded.rows.to_pylist()] == [None, value]
    assert (decoded.rows.type.field("v").type, value) == of_connect_json(base, name, parameters, written)


written_of = written


@CASES
def test_the_first_rules_read_what_it_rests_on(
    name: str, base: str, parameters: dict[str, str], written: Any, value: Any
) -> None:
    kind = annotated(base, name, parameters)
    found = arrow_type(parse_schema(record(kind))).field("v").type
    plain = {key: part for key, part in kind.items() if not key.startswith("connect.")}
    assert found == arrow_type(parse_schema(record(plain))).field("v").type


@CASES
def test_a_readers_schema_keeps_the_type_in_the_ledger(
    name: str, base: str, parameters: dict[str, str], written: Any, value: Any
) -> None:
    schema = parse_schema(record(annotated(base, name, parameters)), connect=True)
    assert arrow_type(parse_schema(schema_text(schema), connect=True)) == arrow_type(schema)
    assert merged(schema, parse_schema(record(annotated(base, name, parameters)), connect=True)) is schema


@pytest.mark.parametrize(
    "around",
    [
        lambda kind: {"type": "array", "items": kind},
        lambda kind: {"type": "map", "values": kind},
        lambda kind: ["null", {"type": "record", "name": "Inner", "fields": [{"name": "at", "type": ["null", kind]}]}],
        lambda kind: {"type": "array", "items": ["null", {"type": "map", "values": kind}]},
    ],
)
def test_instants_are_read_at_any_depth(around: Any, engine: Any) -> None:
    kind = around(annotated("string", f"{OF_DEBEZIUM}.ZonedTimestamp", {}))
    text, at = "2024-02-29T12:30:00Z", datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
    values: list[Any] = {
        "array": [[text, text], []],
        "map": [{"k": text}, {}],
    }.get(kind["type"] if isinstance(kind, dict) else "", [{"at": text}, {"at": None}, None])
    if isinstance(kind, dict) and isinstance(kind.get("items"), list):
        values = [[{"k": text}, None], []]
    payloads = written_of(kind, *values)
    decoder = avro_decoder(parse_schema(record(kind), connect=True), engine=engine)
    found = [row["v"] for row in decoder.decode(payloads).rows.to_pylist()]
    assert found == [_replaced(value, text, at) for value in values]
    part = decoder.decode(payloads.slice(1))
    assert [row["v"] for row in part.rows.to_pylist()] == found[1:]


def _replaced(value: Any, text: str, at: datetime) -> Any:
    if isinstance(value, list):
        return [_replaced(one, text, at) for one in value]
    if isinstance(value, dict):
        if "at" in value:
            return {"at": _replaced(value["at"], text, at)}
        return [(key, _replaced(one, text, at)) for key, one in value.items()]
    return at if value == text else value


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("2024-02-30T00:00:00Z", Status.WRONG_TYPE),
        ("yesterday", Status.WRONG_TYPE),
        ("2024-02-29T12:30:00", Status.WRONG_TYPE),
        ("2024-02-29T12:30:00.1234567Z", Status.INEXACT),
    ],
)
def test_a_text_that_is_no_instant_has_its_status_and_place(text: str, status: Status, engine: Any) -> None:
    kind = annotated("string", f"{OF_DEBEZIUM}.ZonedTimestamp", {})
    schema = parse_schema(record({"type": "array", "items": kind}), connect=True)
    payloads = written_of({"type": "array", "items": kind}, ["2024-02-29T12:30:00Z"], ["2024-02-29T12:30:00Z", text])
    decoder = avro_decoder(schema, engine=engine)
    decoded = decoder.decode(payloads)
    assert decoded.status.tolist() == [Status.DECODED, status]
    assert decoded.rows[1].as_py() is None
    error = decoder.explain(payloads[1].as_py())
    assert (error.status, error.path) == (status, "v[]")

    nulling = Nulling()
    nulled = avro_decoder(schema, engine=nulling).decode(payloads)
    assert nulled.status.tolist() == [Status.DECODED] * 2
    assert nulled.rows[1].as_py()["v"] == [datetime(2024, 2, 29, 12, 30, tzinfo=UTC), None]
    assert dict(nulling.places) == {"v[]": 1}


def test_a_column_that_is_there_keeps_its_type() -> None:
    """A reader's schema of the first rules, in a lineage that goes on."""
    before = parse_schema(record("int"))
    now = parse_schema(record(annotated("int", f"{OF_DEBEZIUM}.Date", {})), connect=True)
    assert merged(before, now) is before


AT_THE_EDGES = (
    *("0000-06-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
    *("9999-12-31T23:59:59-01:00", "2024-01-01T00:00:00+17:59", "2024-01-01T00:00:00-18:00"),
    *("2024-01-01T00:00:00-23:59", "2024-01-01T24:00:00Z", "2024-02-30T00:00:00Z", "2024-01-01T00:00:60Z"),
    *("2024-01-01T00:00:00.1234567Z", "2024-01-01T00:00:00.Z", "infinity"),
)


@pytest.mark.parametrize("text", AT_THE_EDGES)
def test_an_instant_is_the_same_whatever_is_decoded_with_it(text: str, engine: Any) -> None:
    schema = parse_schema(record(annotated("string", f"{OF_DEBEZIUM}.ZonedTimestamp", {})), connect=True)
    decoder = avro_decoder(schema, engine=engine)
    alone, beside = decoder.decode(written("string", text)), decoder.decode(written("string", text, "no time"))
    assert alone.status[0] == beside.status[0]
    assert alone.rows.to_pylist()[0] == beside.rows.to_pylist()[0]
    as_json = json_decoder(pa.struct([("v", pa.timestamp("us", tz="UTC"))]), JsonOptions(unknown_fields="ignore"))
    in_json = as_json.decode(pa.array([json.dumps({"v": text}).encode()], pa.binary()))
    assert (alone.status[0] == Status.DECODED) == (in_json.status[0] == Status.DECODED)


def test_a_record_with_several_wrong_instants_at_one_place_is_counted_once() -> None:
    kind = {"type": "array", "items": annotated("string", f"{OF_DEBEZIUM}.ZonedTimestamp", {})}
    nulling = Nulling()
    decoder = avro_decoder(parse_schema(record(kind), connect=True), engine=nulling)
    plain = {"type": "array", "items": "string"}
    decoded = decoder.decode(written(plain, ["x", "2024-01-01T00:00:00Z", "y"], ["z"]))
    assert [row["v"].count(None) for row in decoded.rows.to_pylist()] == [2, 1]
    assert nulling.places == {"v[]": 2}


@pytest.mark.parametrize("beside", ["2024-02-29T12:30:00Z", "2024-02-29 12:30Z"])
def test_digits_below_a_microsecond_are_cut_off_where_the_job_says_so(beside: str, engine: Any) -> None:
    """As of JSON's timestamps: towards the past, before 1970 too. SQL Server's datetimeoffset has 7 digits."""
    kind = {"type": "array", "items": annotated("string", f"{OF_DEBEZIUM}.ZonedTimestamp", {})}
    plain = {"type": "array", "items": "string"}
    decoder = avro_decoder(parse_schema(record(kind), connect=True), nanoseconds="truncate", engine=engine)
    times = ["2024-02-29T12:30:00.1234567Z", "1969-12-31T23:59:59.9999999+00:00", "2024-02-29T12:30:00.123456789-05:00"]
    decoded = decoder.decode(written(plain, [*times, beside], ["2024-02-30T00:00:00.1234567Z"]))
    assert decoded.status.tolist() == [Status.DECODED, Status.WRONG_TYPE]
    assert decoded.rows.to_pylist()[0]["v"] == [
        datetime(2024, 2, 29, 12, 30, 0, 123_456, UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(2024, 2, 29, 17, 30, 0, 123_456, UTC),
        datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
    ]
