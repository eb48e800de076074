"""Formats that are JSON: plain documents, Kafka Connect's, and those of a JSON Schema.

    json            columns                  the document
    connect_json    columns, or a schema     the document's `payload`
    json_schema     a schema                 the document, with or without a registry's frame before it

With Debezium's envelope, declared columns are those of the row within it, and a schema is that of the whole envelope.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pyarrow as pa

from kseg.etl.decoding.formats.by_columns import OfColumns, aligned
from kseg.etl.decoding.formats.documents import Fraction, Members, Whole
from kseg.etl.decoding.formats.port import DeclaredPayload, Options, RegistryPayload, Uses, times_of
from kseg.etl.decoding.rules import DecodingRules
from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.plain import Engine

if TYPE_CHECKING:
    from kseg.client.registry.schemas import Resolved
    from kseg.segment_reader.payload.json.shape import JsonOptions
    from kseg.segment_reader.payload.json_schema import JsonSchemaType

_T = TypeVar("_T")


def decoder(plan: DeclaredPayload) -> PayloadDecoder:
    """The decoder of documents whose columns are declared. Raises InvalidSchema, UnsupportedSchema."""
    from kseg.segment_reader.payload.json.decoder import json_decoder

    declared, options = _declared(plan, _columns(plan))
    return plan.unwrapped(json_decoder(declared, options, engine=plan.engine))


def connect_decoder(plan: DeclaredPayload) -> PayloadDecoder:
    """The decoder of Kafka Connect's documents. Raises InvalidSchema, UnsupportedSchema."""
    from kseg.segment_reader.payload.connect_json import ConnectJsonDecoder
    from kseg.segment_reader.payload.connect_schema import read_connect_schema
    from kseg.segment_reader.payload.json.formats import EPOCH_DAYS
    from kseg.segment_reader.payload.json_schema import JsonSchemaType

    own = _columns(plan)
    if plan.schema_text is not None:
        schema = read_connect_schema(plan.schema_text)
        own = JsonSchemaType(schema.type, dict(schema.formats()))
    declared, options = _declared(plan, own, {"timestamp_format": "epoch_millis", "date_format": EPOCH_DAYS})
    return plan.unwrapped(ConnectJsonDecoder(declared, options, engine=plan.engine))


def schema_decoder(plan: DeclaredPayload) -> PayloadDecoder:
    """The decoder of documents of a JSON Schema, behind a registry's frame or without it. Choices of objects are
    structs, unless unknown fields are rescued.

    Raises InvalidSchema, UnsupportedSchema.
    """
    from kseg.segment_reader.payload.framed import PlainFramedDecoder
    from kseg.segment_reader.payload.json.decoder import json_decoder
    from kseg.segment_reader.payload.json_schema import read_json_schema

    assert plan.schema_text is not None
    choices = plan.rules.structs_of_choices and dict(plan.json).get("unknown_fields") == "ignore"
    declared, options = _declared(plan, read_json_schema(plan.schema_text, choices=choices))
    return plan.unwrapped(PlainFramedDecoder(json_decoder(declared, options, engine=plan.engine)))


def declared_type(text: str, unknown: str, rules: DecodingRules) -> pa.DataType | None:
    """The type of the rows of a JSON Schema by these rules; None where they have none for it: documents that are a
    choice. Raises InvalidSchema."""
    from kseg.segment_reader.payload.errors import UnsupportedSchema
    from kseg.segment_reader.payload.json_schema import read_json_schema

    try:
        return read_json_schema(text, choices=rules.structs_of_choices and unknown != "rescue").type
    except UnsupportedSchema:
        return None


def _columns(plan: DeclaredPayload) -> JsonSchemaType:
    from kseg.segment_reader.payload.ddl import parse_columns
    from kseg.segment_reader.payload.json_schema import JsonSchemaType

    return JsonSchemaType(parse_columns(dict(plan.columns)), {})


def _declared(
    plan: DeclaredPayload, own: JsonSchemaType, usual: Mapping[str, Any] | None = None
) -> tuple[pa.DataType, JsonOptions]:
    """The type of the documents, in their envelope if they have one, and the decoder's options.

    own: of the schema or the columns. usual: options that the job file may overwrite.
    """
    from kseg.segment_reader.payload.debezium import Envelope, envelope_paths, envelope_type
    from kseg.segment_reader.payload.json.shape import JsonOptions

    declared, formats, chosen = own.type, own.formats, own.choices
    options = dict(plan.json)
    given = dict(options.get("formats", {}))
    if plan.envelope == "debezium":
        if plan.schema_text is not None:
            Envelope(declared, unavailable=plan.unavailable_values)
            declared = declared.field("after").type
            formats, chosen = _of_after(formats), _of_after(chosen)
        declared, formats = envelope_type(declared), envelope_paths({**formats, **given})
        chosen = envelope_paths(chosen)
    else:
        formats = {**formats, **given}
    return declared, JsonOptions(**{**(usual or {}), **options, "formats": formats, "choices": chosen})


def _of_after(by_path: Mapping[str, _T]) -> dict[str, _T]:
    return {path.removeprefix("after."): each for path, each in by_path.items() if path.startswith("after.")}


def sampled_document(payload: bytes) -> Members | None:
    """The JSON object in a sampled payload, with numbers as they are written; None: it is none."""
    if payload.lstrip()[:1] != b"{":
        return None
    try:
        document: Members = json.loads(
            payload.decode(),
            parse_int=Whole,
            parse_float=Fraction,
            parse_constant=_no_constant,
            object_pairs_hook=Members,
        )
    except (ValueError, RecursionError):
        return None
    return document


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def schemas(payload: RegistryPayload, rules: DecodingRules) -> JsonSchemas:
    """How the columns of these keys or values grow."""
    names = ("timestamp_format", "date_format", "time_zone")
    options = {name: given for name in names if (given := getattr(payload, name)) is not None}
    return JsonSchemas((*options.items(), *times_of(payload)), payload.unknown == "rescue", rules.structs_of_choices)


def kept(text: str, references: Mapping[str, str]) -> tuple[str, Uses]:
    """The text that the ledger stores, and those of the schemas that it uses, by name."""
    return text, references


def registered_type(schema: Resolved, message: tuple[int, ...]) -> pa.DataType:
    """The type of the rows of a registry's schema. Raises PayloadSchemaError."""
    from kseg.segment_reader.payload.json_schema import read_json_schema

    return read_json_schema(schema.schema.text, _by_name(schema)).type


def registered_decoder(schema: Resolved, message: tuple[int, ...]) -> PayloadDecoder:
    """The decoder of single payloads by their writer's schema alone. Raises PayloadSchemaError."""
    from kseg.segment_reader.payload.json.decoder import json_decoder
    from kseg.segment_reader.payload.json.shape import JsonOptions
    from kseg.segment_reader.payload.json_schema import read_json_schema

    read = read_json_schema(schema.schema.text, _by_name(schema))
    options = JsonOptions(formats=read.formats, choices=read.choices)
    return json_decoder(read.type, options, engine="reference")


def _by_name(schema: Resolved) -> dict[str, str]:
    return {name: used.text for name, used in schema.references}


@dataclass(frozen=True)
class _Writer:
    """A writer's schema. columns: of its rows. made: the object from which its decoder is created."""

    columns: Any
    made: Any


@dataclass(frozen=True)
class JsonSchemas(OfColumns):
    """options: the given fields of `JsonOptions`. rescue: rows have fields that the reader's schema lacks as they are
    written, even if the writer's schema does not declare them. choices: of objects are structs, but for rescue."""

    options: Options = ()
    rescue: bool = False
    choices: bool = True
    indexed = False
    self_describing = True

    def writer(self, text: str, uses: Uses = ()) -> Any:
        from kseg.segment_reader.payload.json_schema import read_json_schema

        by_name = uses if isinstance(uses, Mapping) else None
        read = read_json_schema(text, by_name, choices=self.choices and not self.rescue)
        return _Writer(read.columns, read)

    def records(self, writer: Any) -> tuple[str, ...]:
        name = self.record(writer)
        return () if name is None else (name,)

    def record(self, writer: Any, message: tuple[int, ...] = ()) -> str | None:
        title: str | None = writer.made.title
        return title

    def of_record(self, record: str) -> JsonSchemas:
        return self

    def decoder(
        self, writer: Any, reader: Any, message: tuple[int, ...] = (), *, engine: Engine = "fast"
    ) -> PayloadDecoder:
        from kseg.etl.decoding.aligned_rows import AlignedDecoder
        from kseg.segment_reader.payload.json.decoder import json_decoder
        from kseg.segment_reader.payload.json.shape import JsonOptions, formats_of
        from kseg.segment_reader.payload.row_schema import narrowed, to_arrow

        if not self.rescue:
            made, given = writer.made, dict(self.options)
            options = JsonOptions(formats=made.formats, choices=made.choices, unknown_fields="ignore", **given)
            return aligned(self, json_decoder(made.type, options, engine=engine), writer, reader)
        self.merged(reader, writer, add_fields=False)  # or it does not fit
        known = narrowed(writer.columns, reader)
        kind = to_arrow(known)
        options = JsonOptions(formats=formats_of(kind, writer.made.formats), **dict(self.options))
        return AlignedDecoder(json_decoder(kind, options, engine=engine), known, reader, rescue=True)
