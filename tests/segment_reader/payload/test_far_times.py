"""Times outside of the years 1 to 9999 in Avro and Protobuf: as they are or an error, or null where the job says so.

JSON's are in json/test_out_of_range_times.py.
"""

from __future__ import annotations

import io
import json
from functools import cache
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kseg.segment_reader.payload.avro.decoder import avro_decoder
from kseg.segment_reader.payload.avro.resolution import Missing
from kseg.segment_reader.payload.avro.schema import parse_schema
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.plain import Nulling
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from kseg.segment_reader.payload.protobuf.decoder import protobuf_decoder
from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors

ENGINES = ("fast", "reference", "nulling")
OF_CONNECT, OF_DEBEZIUM = "org.apache.kafka.connect.data", "io.debezium.time"
#: PostgreSQL's infinities as its JDBC driver has them, in milliseconds; Debezium writes the same numbers as
#: microseconds.
INFINITY, BEFORE_ALL = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
FIRST_MILLI, BEHIND_MILLI = -62_135_596_800_000, 253_402_300_800_000
FIRST_DAY, BEHIND_DAY = -719_162, 2_932_897
MILLIS = (
    [BEHIND_MILLI, FIRST_MILLI - 1, INFINITY, BEFORE_ALL, 2**63 - 1, -(2**63)],
    [FIRST_MILLI, BEHIND_MILLI - 1, 0],
)
MICROS = (
    [BEHIND_MILLI * 1000, FIRST_MILLI * 1000 - 1, INFINITY, BEFORE_ALL, 2**63 - 1, -(2**63)],
    [FIRST_MILLI * 1000, BEHIND_MILLI * 1000 - 1, -1],
)
DAYS = ([BEHIND_DAY, FIRST_DAY - 1, 2**31 - 1, -(2**31)], [FIRST_DAY, BEHIND_DAY - 1, -1])
TEXTS = (
    ["infinity", "+292278994-08-16T23:00:00Z", "10000-01-01 00:00:00Z", "9999-12-31T23:59:59-01:00"],
    ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"],
)


def connect(base: str, name: str) -> dict[str, Any]:
    return {"type": base, "connect.name": name}


def logical(base: str, name: str) -> dict[str, Any]:
    return {"type": base, "logicalType": name}


#: A type, and its values outside and within of the years.
TYPES: dict[str, tuple[dict[str, Any], tuple[list[Any], list[Any]]]] = {
    **{f"{zone}timestamp-millis": (logical("long", f"{zone}timestamp-millis"), MILLIS) for zone in ("", "local-")},
    **{f"{zone}timestamp-micros": (logical("long", f"{zone}timestamp-micros"), MICROS) for zone in ("", "local-")},
    "date": (logical("int", "date"), DAYS),
    "Connect's Timestamp": (connect("long", f"{OF_CONNECT}.Timestamp"), MILLIS),
    "Connect's Date": (connect("int", f"{OF_CONNECT}.Date"), DAYS),
    "Debezium's Date": (connect("int", f"{OF_DEBEZIUM}.Date"), DAYS),
    "Debezium's Timestamp": (connect("long", f"{OF_DEBEZIUM}.Timestamp"), MILLIS),
    "Debezium's MicroTimestamp": (connect("long", f"{OF_DEBEZIUM}.MicroTimestamp"), MICROS),
    "Debezium's ZonedTimestamp": (connect("string", f"{OF_DEBEZIUM}.ZonedTimestamp"), TEXTS),
}


def record(kind: Any) -> dict[str, Any]:
    fields = {
        "t": kind,
        "l": {"type": "array", "items": ["null", kind]},
        "m": {"type": "map", "values": kind},
        "s": ["null", {"type": "record", "name": "Inner", "fields": [{"name": "t", "type": kind}]}],
        "n": "int",
    }
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": own} for name, own in fields.items()]}


def written(kind: dict[str, Any], values: list[Any]) -> pa.BinaryArray:
    """By fastavro, which sees the type below the logical one."""
    payloads = []
    for value in values:
        out = io.BytesIO()
        row = {"t": value, "l": [None, value, value], "m": {"a": value}, "s": {"t": value}, "n": 7}
        fastavro.schemaless_writer(out, record(kind["type"]), row)
        payloads.append(out.getvalue())
    return pa.array(payloads, pa.binary())


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Any:
    return Nulling() if request.param == "nulling" else request.param


def decoder_of(kind: dict[str, Any], engine: Any, **options: Any) -> Any:
    return avro_decoder(parse_schema(json.dumps(record(kind)), connect=True), engine=engine, **options)


@pytest.mark.parametrize("name", TYPES)
def test_a_time_of_avro_beyond_the_calendar_is_null_where_the_job_says_so(name: str, engine: Any) -> None:
    kind, (far, near) = TYPES[name]
    decoder = decoder_of(kind, engine, out_of_range_times="set_null")
    values = [value for pair in zip(far, near * 3, strict=False) for value in pair]
    decoded = decoder.decode(written(kind, values))
    decoded.rows.validate(full=True)
    assert decoded.rows.type == decoder.type
    assert decoded.status.tolist() == [Status.DECODED] * len(values)
    for value, row in zip(values, decoded.rows.to_pylist(), strict=True):
        at = row["t"]
        assert row == {"t": at, "l": [None, at, at], "m": [("a", at)], "s": {"t": at}, "n": 7}
        assert (at is None) == (value in far), value
    if isinstance(engine, Nulling):
        assert not engine.places, "such nulls are no errors"


@pytest.mark.parametrize("name", TYPES)
def test_without_the_key_times_of_avro_are_the_numbers_that_are_written(name: str, engine: Any) -> None:
    """As far as 64 bits of microseconds hold them; the error of any other value names the key."""
    kind, (far, near) = TYPES[name]
    scale = 1000 if (far, near) == MILLIS else 1
    decoder = decoder_of(kind, "reference" if isinstance(engine, Nulling) else engine)
    payloads = written(kind, [*near, *far])
    decoded = decoder.decode(payloads)
    numbers = decoded.rows.field("t").view(pa.int32() if far == DAYS[0] else pa.int64()).to_pylist()
    for value, status, number, payload in zip(
        [*near, *far], decoded.status.tolist(), numbers, payloads.to_pylist(), strict=True
    ):
        if isinstance(value, str):
            assert (status == Status.DECODED) == (value in near)
        elif abs(value * scale) < 2**63 or value * scale == -(2**63):
            assert (status, number) == (Status.DECODED, value * scale)
        else:
            assert status == Status.OUT_OF_RANGE
        if status == Status.OUT_OF_RANGE:
            assert "out_of_range_times: set_null makes it null" in decoder.explain(payload).message


def test_a_default_that_is_far_is_null_too(engine: Any) -> None:
    at = {"name": "at", "type": logical("long", "timestamp-millis"), "default": INFINITY}
    id = {"name": "id", "type": "int"}
    writer, reader = (
        parse_schema(json.dumps({"type": "record", "name": "R", "fields": own})) for own in ([id], [id, at])
    )
    decoder = avro_decoder(writer, reader, missing=Missing.FILL, engine=engine, out_of_range_times="set_null")
    decoded = decoder.decode(pa.array([b"\2"], pa.binary()))
    assert decoded.rows.to_pylist() == [{"id": 1, "at": None}]


def test_slices_of_lists_and_rows_of_nulls_keep_their_places() -> None:
    """The second step goes over whole columns, whose items are of several rows."""
    kind = {"type": "array", "items": {"type": "array", "items": logical("long", "timestamp-micros")}}
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": ["null", kind]}]}
    rows = [[[1, INFINITY], []], None, [], [[INFINITY], [2, 3]]]
    plain = {"type": "array", "items": {"type": "array", "items": "long"}}
    payloads: list[bytes | None] = []
    for row in rows:
        out = io.BytesIO()
        fields = [{"name": "v", "type": ["null", plain]}]
        fastavro.schemaless_writer(out, {"type": "record", "name": "R", "fields": fields}, {"v": row})
        payloads.append(out.getvalue())
    decoder = avro_decoder(parse_schema(json.dumps(schema)), out_of_range_times="set_null")
    decoded = decoder.decode(pa.array([*payloads, None, b"\x04"], pa.binary()))
    numbers = decoded.rows.cast(pa.struct([("v", pa.list_(pa.list_(pa.int64())))])).to_pylist()
    assert [row and row["v"] for row in numbers] == [[[1, None], []], None, [], [[None], [2, 3]], None, None]
    assert decoded.status.tolist() == [*[Status.DECODED] * 4, Status.NULL, Status.MALFORMED]


# -- Protobuf

PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
message M {
  google.protobuf.Timestamp t = 1;
  repeated google.protobuf.Timestamp l = 2;
  map<string, google.protobuf.Timestamp> m = 3;
  oneof one { google.protobuf.Timestamp o = 4; int32 n = 5; }
  google.protobuf.Duration d = 6;
  M again = 7;
}
"""
FIRST_SECOND, BEHIND_SECOND = -62_135_596_800, 253_402_300_800


@cache
def protobuf() -> Any:
    """The message, and the class of Google's library for it."""
    descriptors = compile_text(PROTO)
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))
    return parse_descriptors(descriptors).message("M"), made


def message_with(seconds: int, nanos: int = 0) -> bytes:
    made = protobuf()[1]()
    for time in (made.t, made.l.add(), made.m["a"], made.o, made.again.t):
        time.seconds, time.nanos = seconds, nanos
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("seconds", [BEHIND_SECOND, FIRST_SECOND - 1, 2**63 - 1, -(2**63)])
def test_a_timestamp_of_protobuf_beyond_the_calendar_is_an_error_or_null(seconds: int, engine: Any) -> None:
    far, near = message_with(seconds, 5000), message_with(BEHIND_SECOND - 1)
    payloads = pa.array([near, far, near], pa.binary())
    decoder = protobuf_decoder(protobuf()[0], engine=engine, out_of_range_times="set_null")
    decoded = decoder.decode(payloads)
    decoded.rows.validate(full=True)
    assert decoded.status.tolist() == [Status.DECODED] * 3
    within, beyond, _ = decoded.rows.to_pylist()
    assert None not in (within["t"], within["l"][0], within["m"][0][1], within["o"])
    assert beyond == {
        "t": None,
        "l": [None],
        "m": [("a", None)],
        "o": None,
        "n": None,
        "d": None,
        "again": beyond["again"],
    }
    assert beyond["again"] == '{"t":null}'
    if isinstance(engine, Nulling):
        assert not engine.places
        return
    strict = protobuf_decoder(protobuf()[0], engine=engine)
    assert strict.decode(payloads).status.tolist() == [Status.DECODED, Status.OUT_OF_RANGE, Status.DECODED]
    assert "out_of_range_times: set_null makes it null" in strict.explain(far).message


def test_what_is_no_time_of_protobuf_is_an_error_all_the_same(engine: Any) -> None:
    """Nanoseconds of more than a second, and Durations, which are no times of a calendar."""
    decoder = protobuf_decoder(protobuf()[0], engine=engine, out_of_range_times="set_null")
    long = protobuf()[1]()
    long.d.seconds = 315_576_000_001
    payloads = [message_with(BEHIND_SECOND, -1), message_with(0, 10**9), long.SerializeToString()]
    found = decoder.decode(pa.array(payloads, pa.binary()))
    if isinstance(engine, Nulling):
        assert {"t", "l[]", "m[]", "o", "again.t", "d"} <= set(engine.places)
    else:
        assert found.status.tolist() == [Status.OUT_OF_RANGE] * 3
