"""The decoders of formats that are JSON: plain documents, Kafka Connect's, and those of a JSON Schema.

    json            columns                  the document
    connect_json    columns, or a schema     the document's `payload`
    json_schema     a schema                 the document, with or without a registry's frame before it

With Debezium's envelope, declared columns are those of the row within it, and a schema is that of the whole envelope.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kseg.segment_reader.payload.connect_json import ConnectJsonDecoder
from kseg.segment_reader.payload.connect_schema import read_connect_schema
from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.debezium import (
    AS_WRITTEN,
    DebeziumDecoder,
    Envelope,
    envelope_paths,
    envelope_type,
)
from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.framed import FramedDecoder
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.formats import EPOCH_DAYS
from kseg.segment_reader.payload.json.shape import JsonOptions
from kseg.segment_reader.payload.json_schema import JsonSchemaType, read_json_schema
from kseg.segment_reader.payload.plain import Engine
from kseg.segment_reader.payload.unavailable import Unavailable

_T = TypeVar("_T")

JSON_FORMATS = ("json", "connect_json", "json_schema")
_CONNECT = {"timestamp_format": "epoch_millis", "date_format": EPOCH_DAYS}


def json_format_decoder(
    format: str,
    columns: Mapping[str, str],
    schema_text: str | None,
    options: Mapping[str, Any],
    *,
    debezium: bool,
    unavailable: Unavailable = AS_WRITTEN,
    choices: bool = True,
    engine: Engine = "fast",
) -> PayloadDecoder:
    """columns: DDL types by name, where there is no schema_text. options: of `JsonOptions`, as far as they are given.
    debezium: the documents are its envelopes. unavailable: as of `Envelope`. choices: those of a JSON Schema's objects
    are structs, unless unknown fields are rescued.

    Raises InvalidSchema, UnsupportedSchema."""
    read = _read(format, columns, schema_text, choices and options.get("unknown_fields") == "ignore")
    declared, formats, chosen = read.type, read.formats, read.choices
    own = dict(options.get("formats", {}))
    if debezium:
        if schema_text is not None:
            Envelope(declared, unavailable=unavailable)
            declared = declared.field("after").type
            formats, chosen = _of_after(formats), _of_after(chosen)
        declared, formats = envelope_type(declared), envelope_paths({**formats, **own})
        chosen = envelope_paths(chosen)
    else:
        formats = {**formats, **own}
    usual = _CONNECT if format == "connect_json" else {}
    made = JsonOptions(**{**usual, **options, "formats": formats, "choices": chosen})
    connect = format == "connect_json"
    make = ConnectJsonDecoder if connect else json_decoder
    decoder: PayloadDecoder = make(declared, made, engine=engine)
    if format == "json_schema":
        decoder = FramedDecoder(decoder)
    return DebeziumDecoder(decoder, engine, unavailable) if debezium else decoder


def _of_after(by_path: Mapping[str, _T]) -> dict[str, _T]:
    return {path.removeprefix("after."): each for path, each in by_path.items() if path.startswith("after.")}


def _read(format: str, columns: Mapping[str, str], schema_text: str | None, choices: bool) -> JsonSchemaType:
    if schema_text is None:
        return JsonSchemaType(parse_columns(columns), {})
    if format == "json_schema":
        return read_json_schema(schema_text, choices=choices)
    connect = read_connect_schema(schema_text)
    return JsonSchemaType(connect.type, dict(connect.formats()))
