"""Debezium's envelopes as rows, by all formats that carry them."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kseg.segment_reader.payload.avro.decoder import avro_decoder
from kseg.segment_reader.payload.avro.schema import parse_schema
from kseg.segment_reader.payload.connect_json import ConnectJsonDecoder
from kseg.segment_reader.payload.connect_schema import read_connect_schema
from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.debezium import DebeziumDecoder, envelope_paths, envelope_type
from kseg.segment_reader.payload.decoder import PayloadDecoder, Status
from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.shape import JsonOptions

COLUMNS = {"id": "bigint", "name": "string", "tags": "array<struct<n:int>>"}
ROW = {"id": 1, "name": "ann", "tags": [{"n": 1}, None]}
SOURCE = {
    "version": "3.0.0.Final",
    "connector": "postgresql",
    "ts_ms": 1_700_000_000_123,
    "snapshot": "false",
    "lsn": 5,
}
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "default": None},
    {
        "name": "tags",
        "type": {
            "type": "array",
            "items": ["null", {"type": "record", "name": "Tag", "fields": [{"name": "n", "type": "int"}]}],
        },
    },
]
AVRO = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.orders",
    "fields": [
        {"name": "before", "type": ["null", {"type": "record", "name": "Value", "fields": FIELDS}], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "namespace": "io.debezium.connector.postgresql",
                "fields": [
                    {"name": "version", "type": "string"},
                    {"name": "connector", "type": "string"},
                    {"name": "ts_ms", "type": "long"},
                    {"name": "snapshot", "type": ["null", "string"], "default": None},
                    {"name": "lsn", "type": ["null", "long"], "default": None},
                ],
            },
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}


def envelope(op: Any, before: Any = None, after: Any = None, **changes: Any) -> dict[str, Any]:
    whole = {"before": before, "after": after, "source": SOURCE, "transaction": None, "op": op}
    return whole | {"ts_ms": 1_700_000_000_456} | changes


def plain_json(**options: Any) -> PayloadDecoder:
    return DebeziumDecoder(
        json_decoder(envelope_type(parse_columns(COLUMNS)), JsonOptions(unknown_fields="ignore", **options))
    )


def in_json(document: Any) -> bytes:
    return json.dumps(document).encode()


def in_connect_json(document: Any) -> bytes:
    return json.dumps({"schema": {"type": "struct", "fields": []}, "payload": document}).encode()


def in_avro(document: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), document)
    return out.getvalue()


FORMATS = {
    "json": (plain_json, in_json),
    "connect_json": (
        lambda: DebeziumDecoder(ConnectJsonDecoder(envelope_type(parse_columns(COLUMNS)))),
        in_connect_json,
    ),
    "avro": (lambda: DebeziumDecoder(avro_decoder(parse_schema(json.dumps(AVRO)))), in_avro),
}


@pytest.fixture(params=FORMATS)
def carried(request: pytest.FixtureRequest) -> Any:
    make, encode = FORMATS[request.param]
    return make(), encode


def read(decoder: PayloadDecoder, *payloads: bytes | None) -> list[tuple[Status, Any]]:
    decoded = decoder.decode(pa.array(payloads, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.type == decoder.type
    assert decoded.rows.is_null().to_pylist() == (decoded.status != Status.DECODED).tolist()
    return [(Status(n), row) for n, row in zip(decoded.status, decoded.rows.to_pylist(), strict=True)]


def test_each_operation_gives_the_row_that_it_is_about(carried: Any) -> None:
    decoder, encode = carried
    other = ROW | {"name": "bob", "tags": []}
    documents = [
        envelope("r", None, ROW),
        envelope("c", None, ROW),
        envelope("u", ROW, other),
        envelope("d", other, None),
        envelope("t"),
        envelope("d"),
    ]
    found = read(decoder, *map(encode, documents), None)
    own = {
        "_kseg_source_ts": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC),
        "_kseg_connector_ts": datetime(2023, 11, 14, 22, 13, 20, 456_000, UTC),
    }
    rows = [ROW, ROW, other, other, dict.fromkeys(ROW), dict.fromkeys(ROW)]
    assert found[:-1] == [
        (Status.DECODED, row | {"_kseg_op": op} | own) for row, op in zip(rows, "rcudtd", strict=True)
    ]
    assert found[-1] == (Status.NULL, None)


def test_a_batch_without_deletions_is_the_same(carried: Any) -> None:
    decoder, encode = carried
    ((status, row),) = read(decoder, encode(envelope("u", ROW, ROW | {"id": 2})))
    assert (status, row["id"], row["_kseg_op"]) == (Status.DECODED, 2, "u")


@pytest.mark.parametrize(
    ("document", "status", "path"),
    [
        (envelope("x", None, ROW), Status.UNKNOWN_SYMBOL, "op"),
        (envelope("c"), Status.MISSING_FIELD, "after"),
        (envelope("u", ROW), Status.MISSING_FIELD, "after"),
        (envelope("c", None, ROW, source=SOURCE | {"ts_ms": 2**62}), Status.OUT_OF_RANGE, "source.ts_ms"),
        (envelope("c", None, ROW, ts_ms=-(2**62)), Status.OUT_OF_RANGE, "ts_ms"),
    ],
)
def test_what_is_no_envelope_is_an_error_with_its_path(carried: Any, document: Any, status: Status, path: str) -> None:
    decoder, encode = carried
    found = read(decoder, encode(document), encode(envelope("c", None, ROW)))
    assert [each for each, _ in found] == [status, Status.DECODED]
    error = decoder.explain(encode(document))
    assert (error.status, error.path) == (status, path)


TEXT = ["null", {"type": "string", "connect.version": 1, "connect.name": "io.debezium.data.Json"}]


def documents(*states: str) -> Any:
    """Of MongoDB's connector, in Avro: a schema whose states are JSON text."""
    fields = [{"name": name, "type": TEXT, "default": None} for name in states]
    return AVRO | {"namespace": "shop.orders", "fields": [*fields, *AVRO["fields"][2:]]}


@pytest.mark.parametrize("engine", ["fast", "reference"])
@pytest.mark.parametrize("states", [("before", "after"), ("after",)])
def test_mongodb_s_documents_are_one_column_of_json_text(engine: Any, states: tuple[str, ...]) -> None:
    schema = documents(*states)

    def encode(document: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), document)
        return out.getvalue()

    decoder = DebeziumDecoder(avro_decoder(parse_schema(json.dumps(schema)), engine=engine))
    assert decoder.type.field(0) == pa.field("document", pa.string())
    old, new = '{"_id": {"$oid": "1"}}', '{"_id": 1, "name": "ann"}'
    events = [envelope("c", None, new), envelope("u", old, new), envelope("u"), envelope("d", old), envelope("d")]
    found = read(decoder, *map(encode, events), None)
    image = old if "before" in states else None
    assert [row and (row["document"], row["_kseg_op"]) for _, row in found] == [
        (new, "c"),
        (new, "u"),
        (None, "u"),
        (image, "d"),
        (None, "d"),
        None,
    ]
    assert read(decoder, encode(envelope("c"))) == [(Status.MISSING_FIELD, None)]
    assert decoder.explain(encode(envelope("c"))).path == "after"


def test_a_document_of_another_kind_has_no_operation() -> None:
    decoder = plain_json()
    assert read(decoder, b'{"id": 1}') == [(Status.MISSING_FIELD, None)]
    assert decoder.explain(b'{"id": 1}').path == "op"
    assert decoder.explain(b'{"op": "c", "after": {"id": "x"}}').path == "after.id"


def test_formats_of_a_row_s_fields_count_in_both_states() -> None:
    formats = envelope_paths({"at": "epoch_millis"})
    row = parse_columns({"at": "timestamp"})
    decoder = DebeziumDecoder(json_decoder(envelope_type(row), JsonOptions(formats=formats, unknown_fields="rescue")))
    (first, second) = read(decoder, in_json(envelope("d", {"at": 1000})), in_json({"op": "c", "after": {"at": 1000}}))
    assert first[1]["at"] == second[1]["at"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert json.loads(first[1]["_kseg_rescued"])["source"]["lsn"] == 5
    assert (second[1]["_kseg_rescued"], second[1]["_kseg_source_ts"]) == (None, None)


@pytest.mark.parametrize("engine", ["fast", "reference"])
@pytest.mark.parametrize("by_schema", [True, False])
def test_postgresql_s_infinities_are_nulls_where_the_job_says_so(engine: Any, by_schema: bool) -> None:
    """As `PostgresValueConverter` writes them: numbers of the JDBC driver, and texts of `java.time`."""
    kinds = {"day": ("int32", "Date"), "at": ("int64", "MicroTimestamp"), "zoned": ("string", "ZonedTimestamp")}
    fields = [
        {"field": name, "type": base, "name": f"io.debezium.time.{logical}", "optional": True}
        for name, (base, logical) in kinds.items()
    ]
    states = [{"field": name, "type": "struct", "optional": True, "fields": fields} for name in ("before", "after")]
    schema = {"type": "struct", "fields": [*states, {"field": "op", "type": "string"}], "name": "orders.Envelope"}
    row_schema = read_connect_schema(json.dumps({"type": "struct", "fields": fields}))
    declared, formats = row_schema.type, dict(row_schema.formats())
    if not by_schema:
        declared = parse_columns({"day": "date", "at": "timestamp_ntz", "zoned": "timestamp"})
        formats = {"day": "epoch_days", "at": "epoch_micros", "zoned": "iso8601"}
    options = JsonOptions(formats=envelope_paths(formats), unknown_fields="ignore", out_of_range_times="set_null")
    rows = [
        {"day": -2147472692, "at": 9223372036825200000, "zoned": "+292278994-08-16T23:00:00Z"},
        {"day": 2147483647, "at": -9223372036832400000, "zoned": "-292275055-05-16T23:00:00Z"},
        {"day": 0, "at": 1, "zoned": "1970-01-01T00:00:00Z"},
    ]
    written = [json.dumps({"schema": schema, "payload": envelope("c", None, row)}).encode() for row in rows]
    epoch = datetime(1970, 1, 1)
    ends = {"day": None, "at": None, "zoned": None}
    usual = {"day": epoch.date(), "at": epoch.replace(microsecond=1), "zoned": epoch.replace(tzinfo=UTC)}
    decoder = DebeziumDecoder(ConnectJsonDecoder(envelope_type(declared), options, engine=engine))
    found = [{name: row[name] for name in kinds} for _, row in read(decoder, *written)]
    assert found == [ends, ends, usual]
    strict = replace(options, out_of_range_times="fail")
    decoder = DebeziumDecoder(ConnectJsonDecoder(envelope_type(declared), strict, engine=engine))
    assert [status is Status.DECODED for status, _ in read(decoder, *written)] == [False, False, True]


@pytest.mark.parametrize("engine", ["fast", "reference"])
@pytest.mark.parametrize("connect", [True, False])
def test_decimals_of_decimal_handling_mode_string_are_decimals(engine: Any, connect: bool) -> None:
    """As Debezium writes them: `BigDecimal.toString`, with and without the converter's schemas."""
    fields = [{"field": "id", "type": "int64"}, {"field": "price", "type": "string", "optional": True}]
    states = [{"field": name, "type": "struct", "optional": True, "fields": fields} for name in ("before", "after")]
    schema = {"type": "struct", "fields": [*states, {"field": "op", "type": "string"}], "name": "orders.Envelope"}
    options = JsonOptions(formats=envelope_paths({"price": "string"}), unknown_fields="ignore")
    declared = envelope_type(parse_columns({"id": "bigint", "price": "decimal(12,4)"}))
    make = ConnectJsonDecoder if connect else json_decoder
    decoder = DebeziumDecoder(make(declared, options, engine=engine))
    texts = ["12.5000", "-0.0001", "0E-4", "1E+3", None]
    events = [envelope("c", None, {"id": 1, "price": text}) for text in texts]
    events.append(envelope("d", {"id": 1, "price": "99999999.9999"}))
    written = [json.dumps({"schema": schema, "payload": event} if connect else event).encode() for event in events]
    found = read(decoder, *written)
    assert [row["price"] for _, row in found] == [
        *(Decimal(text) for text in ("12.5000", "-0.0001", "0.0000", "1000.0000")),
        None,
        Decimal("99999999.9999"),
    ]
    refused = envelope("c", None, {"id": 1, "price": "NAN"})
    document = json.dumps({"schema": schema, "payload": refused} if connect else refused).encode()
    assert read(decoder, document) == [(Status.WRONG_TYPE, None)]
    assert "'NAN' is no number: a decimal(12,4) of format string is expected" in str(decoder.explain(document))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": "bigint"}, "no field before"),
        ({"before": "int", "after": "int", "op": "string"}, "not records of one type"),
        ({"before": "struct<a:int>", "after": "struct<a:bigint>", "op": "string"}, "not records of one type"),
        ({"before": "struct<a:int>", "after": "struct<a:int>", "op": "int"}, "`op` is no string"),
        ({"before": "int", "after": "string", "op": "string"}, "not records of one type"),
        ({"after": "struct<a:int>", "op": "string"}, "no field before"),
        ({"before": "struct<_kseg_op:int>", "after": "struct<_kseg_op:int>", "op": "string"}, "own columns"),
    ],
)
def test_a_schema_that_is_no_envelope_is_refused(columns: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidSchema, match=said):
        DebeziumDecoder(json_decoder(parse_columns(columns), JsonOptions(unknown_fields="ignore")))
