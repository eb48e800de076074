"""Formats with schemas in a registry: growth of the reader's schema, and decoders for each writer's schema.

    avro          the reader's schema is an Avro schema; payloads are resolved to it
    json_schema   the reader's schema is a list of columns (`segment_reader.payload.row_schema`), matched by name
    protobuf      the same, matched by field number; the registry's text is stored as descriptors

Picklable, because workers create their decoders from them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa

from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.errors import IncompatibleSchemas
from kseg.segment_reader.payload.plain import Engine

if TYPE_CHECKING:
    from kseg.etl.decoding.rules import DecodingRules
    from kseg.segment_reader.payload.row_schema import RowType

Uses = Sequence[str] | Mapping[str, str]
"""Texts of the schemas that a schema uses; by name where the format has such names."""

Options = tuple[tuple[str, Any], ...]
"""Those given of a decoder's options, by name."""


class SchemaFormat(Protocol):
    """All methods raise PayloadSchemaError for a schema that is invalid or has no column type."""

    @property
    def indexed(self) -> bool:
        """Whether message indexes follow the schema's id in the payload."""

    def reader(self, text: str) -> Any:
        """A reader's schema from the ledger."""

    def writer(self, text: str, uses: Uses = ()) -> Any: ...

    def parts(self, writer: Any, takes: Callable[[str | None], bool]) -> Iterator[Any]:
        """The writer's schemas of those records that are taken, by name: of a union of records, each is one."""

    def first(self, writer: Any) -> Any:
        """The reader's schema of a table that has this writer's columns."""

    def merged(self, reader: Any, writer: Any, *, add_fields: bool, widen: bool = False) -> Any:
        """The reader's schema with the writer's additional fields; the same object if there are none."""

    def with_lacking(self, writer: Any, reader: Any) -> Any:
        """A reader's schema of the writer's columns, followed by columns that only the reader's schema has."""

    def records(self, writer: Any) -> tuple[str, ...]:
        """Record names (as in RecordNameStrategy) of the schema; () if it has none."""

    def in_union(self, writer: Any) -> bool:
        """Whether the schema is a union of records, and payloads begin with the number of theirs."""

    def record(self, writer: Any, message: tuple[int, ...] = ()) -> str | None:
        """The record name of a payload with this schema (and message, if the format has messages); None if unknown.

        Raises PayloadSchemaError: there is no such message.
        """

    def of_record(self, record: str) -> SchemaFormat:
        """The format for payloads of this record only, if a schema may have several records."""

    def columns(self, writer: Any, reader: Any) -> tuple[str, ...]:
        """The reader's columns in which rows of this writer may have values; () if it has no columns."""

    def unknown(self, writer: Any, reader: Any) -> tuple[str, ...]:
        """Paths of the writer's fields that the reader's schema lacks."""

    def type(self, reader: Any) -> pa.DataType: ...

    def text(self, reader: Any) -> str:
        """The text that the ledger stores."""

    def decoder(
        self, writer: Any, reader: Any, message: tuple[int, ...] = (), *, engine: Engine = "fast"
    ) -> PayloadDecoder:
        """message: message indexes, if the format has messages; the number of the record, if the schema is a union.

        Columns that the decoder's rows lack are null.
        """


class RegistryPayload(Protocol):
    """What `decode.key` or `decode.value` says of payloads whose schemas are in a registry."""

    @property
    def format(self) -> str: ...
    @property
    def unknown(self) -> str | None: ...
    @property
    def timestamp_format(self) -> str | None: ...
    @property
    def date_format(self) -> str | None: ...
    @property
    def time_zone(self) -> str | None: ...
    @property
    def nanoseconds(self) -> Literal["fail", "truncate"]: ...
    @property
    def out_of_range_times(self) -> Literal["fail", "set_null"]: ...
    @property
    def message(self) -> str | None: ...
    @property
    def defaults(self) -> str | None: ...
    @property
    def several(self) -> bool: ...


def schema_format(payload: RegistryPayload, rules: DecodingRules) -> SchemaFormat:
    """The format of a key or value whose schemas are in a registry."""
    rescue = payload.unknown == "rescue"
    of_times = ("nanoseconds", "out_of_range_times")
    times: Options = tuple((name, given) for name in of_times if (given := getattr(payload, name)) != "fail")
    if payload.format == "json_schema":
        names = ("timestamp_format", "date_format", "time_zone")
        options = {name: given for name in names if (given := getattr(payload, name)) is not None}
        return JsonSchemas((*options.items(), *times), rescue, rules.structs_of_choices)
    if payload.format == "protobuf":
        return ProtobufSchemas(payload.message, times, rescue)
    return AvroSchemas(payload.defaults == "fill", payload.several, rescue, rules.connect_logical_types, times)


def kept_text(format: str, text: str, references: Mapping[str, str]) -> tuple[str, Uses]:
    """The text of a registry's schema that the ledger stores. For Protobuf, protoc compiles it to descriptors here.

    Raises PayloadSchemaError.
    """
    if format == "protobuf":
        from kseg.segment_reader.payload.protobuf.registered import registered_descriptors

        return base64.b64encode(registered_descriptors(text, references)).decode(), ()
    return text, references if format == "json_schema" else tuple(references.values())


@dataclass(frozen=True)
class AvroSchemas:
    """fill: fields that the writer lacks get the reader's default, otherwise null. several: records of any name are
    rows of one table, and their names are aliases in the reader's schema. rescue: rows have fields that the reader's
    schema lacks as JSON text. connect: Connect's logical types are recognised. times: options."""

    fill: bool = False
    several: bool = False
    rescue: bool = False
    connect: bool = True
    times: Options = ()
    indexed = False

    def reader(self, text: str) -> Any:
        return self.writer(text)

    def writer(self, text: str, uses: Uses = ()) -> Any:
        from kseg.segment_reader.payload.avro.schema import parse_schema

        return parse_schema(text, tuple(uses), connect=self.connect)

    def parts(self, writer: Any, takes: Callable[[str | None], bool]) -> Iterator[Any]:
        if not self.in_union(writer):
            yield writer
            return
        for branch in writer.branches:
            if hasattr(branch, "fields") and takes(branch.name):
                yield branch

    def first(self, writer: Any) -> Any:
        return writer

    def merged(self, reader: Any, writer: Any, *, add_fields: bool, widen: bool = False) -> Any:
        from kseg.segment_reader.payload.avro.evolution import merged

        return merged(reader, writer, add_fields=add_fields, widen=widen, any_name=self.several)

    def with_lacking(self, writer: Any, reader: Any) -> Any:
        return self.merged(writer, reader, add_fields=True)

    def records(self, writer: Any) -> tuple[str, ...]:
        if self.in_union(writer):
            return tuple(branch.name for branch in writer.branches if hasattr(branch, "fields"))
        name = self.record(writer)
        return () if name is None else (name,)

    def in_union(self, writer: Any) -> bool:
        return any(hasattr(branch, "fields") for branch in getattr(writer, "branches", ()))

    def record(self, writer: Any, message: tuple[int, ...] = ()) -> str | None:
        return getattr(writer.branches[message[0]] if message else writer, "name", None)

    def of_record(self, record: str) -> AvroSchemas:
        return self

    def columns(self, writer: Any, reader: Any) -> tuple[str, ...]:
        from kseg.segment_reader.payload.avro.resolution import narrowed

        made = self.type(reader if self.fill else narrowed(writer, reader))
        return tuple(field.name for field in made) if pa.types.is_struct(made) else ()

    def unknown(self, writer: Any, reader: Any) -> tuple[str, ...]:
        from kseg.segment_reader.payload.avro.types import row_type
        from kseg.segment_reader.payload.rescue import unknown_paths

        return tuple(unknown_paths(row_type(self.merged(reader, writer, add_fields=True)), row_type(reader)))

    def type(self, reader: Any) -> pa.DataType:
        from kseg.segment_reader.payload.avro.types import arrow_type

        return _rows(arrow_type(reader), self.rescue)

    def text(self, reader: Any) -> str:
        from kseg.segment_reader.payload.avro.schema_json import schema_text

        return schema_text(reader)

    def decoder(
        self, writer: Any, reader: Any, message: tuple[int, ...] = (), *, engine: Engine = "fast"
    ) -> PayloadDecoder:
        from kseg.segment_reader.payload.avro.decoder import avro_decoder
        from kseg.segment_reader.payload.avro.resolution import Missing, narrowed
        from kseg.segment_reader.payload.avro.types import row_type

        writer = writer.branches[message[0]] if message else writer
        whole = self.merged(reader, writer, add_fields=True) if self.rescue else reader
        missing = Missing.FILL if self.fill else Missing.NULL
        kept = whole if self.fill else narrowed(writer, whole)
        decoder = avro_decoder(writer, kept, missing=missing, engine=engine, **dict(self.times))
        return _rescuing(decoder, row_type(kept), row_type(reader)) if whole is not reader else decoder


def _rows(kind: pa.DataType, rescue: bool) -> pa.DataType:
    """The row type, with the column of rescued fields if there is one."""
    from kseg.segment_reader.payload.rescue import with_rescued

    return with_rescued(kind) if rescue else kind


def _rescuing(decoder: PayloadDecoder, writer: RowType, reader: RowType) -> PayloadDecoder:
    """The decoder of rows of the writer's type, in which fields that the reader's type lacks are JSON text.

    The reader's type may have fields that the writer's type lacks.
    """
    from kseg.segment_reader.payload.rescue import RescuingDecoder, has_unknown
    from kseg.segment_reader.payload.row_schema import Record

    if not (isinstance(writer, Record) and isinstance(reader, Record) and has_unknown(writer, reader)):
        return decoder
    written = {field.key for field in writer.fields}
    kept = Record(tuple(field for field in reader.fields if field.key in written))
    return RescuingDecoder(decoder, writer, kept)


class _OfColumns:
    """Base of formats without their own schema resolution. A writer has `columns`, a `row_schema.Record`."""

    rescue = False

    def in_union(self, writer: Any) -> bool:
        return False

    def reader(self, text: str) -> Any:
        from kseg.segment_reader.payload.row_schema import parse_schema

        return parse_schema(text)

    def parts(self, writer: Any, takes: Callable[[str | None], bool]) -> Iterator[Any]:
        yield writer

    def first(self, writer: Any) -> Any:
        return writer.columns

    def merged(self, reader: Any, writer: Any, *, add_fields: bool, widen: bool = False) -> Any:
        from kseg.segment_reader.payload.row_schema import merged

        return merged(reader, writer.columns, add_fields=add_fields, widen=widen)

    def with_lacking(self, writer: Any, reader: Any) -> Any:
        from kseg.segment_reader.payload.row_schema import merged

        return merged(writer.columns, reader)

    def columns(self, writer: Any, reader: Any) -> tuple[str, ...]:
        return tuple(field.name for field in self.type(writer.columns))

    def unknown(self, writer: Any, reader: Any) -> tuple[str, ...]:
        from kseg.segment_reader.payload.rescue import unknown_paths

        return tuple(unknown_paths(writer.columns, reader))

    def type(self, reader: Any) -> pa.DataType:
        from kseg.segment_reader.payload.row_schema import to_arrow

        return _rows(to_arrow(reader), self.rescue)

    def text(self, reader: Any) -> str:
        from kseg.segment_reader.payload.row_schema import schema_text

        return schema_text(reader)


@dataclass(frozen=True)
class _Writer:
    """A writer's schema. columns: of its rows. made: the object from which its decoder is created."""

    columns: Any
    made: Any


@dataclass(frozen=True)
class JsonSchemas(_OfColumns):
    """options: the given fields of `JsonOptions`. rescue: rows have fields that the reader's schema lacks as they are
    written, even if the writer's schema does not declare them. choices: of objects are structs, but for rescue."""

    options: Options = ()
    rescue: bool = False
    choices: bool = True
    indexed = False

    def writer(self, text: str, uses: Uses = ()) -> Any:
        from kseg.segment_reader.payload.json_schema import read_json_schema

        by_name = uses if isinstance(uses, Mapping) else None
        read = read_json_schema(text, by_name, choices=self.choices and not self.rescue)
        return _Writer(read.columns, read)

    def records(self, writer: Any) -> tuple[str, ...]:
        return () if (name := self.record(writer)) is None else (name,)

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
            return _aligned(self, json_decoder(made.type, options, engine=engine), writer, reader)
        self.merged(reader, writer, add_fields=False)  # or it does not fit
        known = narrowed(writer.columns, reader)
        kind = to_arrow(known)
        options = JsonOptions(formats=formats_of(kind, writer.made.formats), **dict(self.options))
        return AlignedDecoder(json_decoder(kind, options, engine=engine), known, reader, rescue=True)


@dataclass(frozen=True)
class _MessageWriter:
    """A Protobuf schema and one of its messages. made: the object from which its decoder is created."""

    made: Any
    message: str | None

    @cached_property
    def columns(self) -> Any:
        """The columns of its rows. Raises PayloadSchemaError if the message is unknown."""
        return _record(self.made.message(self.message))


@dataclass(frozen=True)
class ProtobufSchemas(_OfColumns):
    """message: the message whose fields are the columns; None: the schema's only one. Others: as `AvroSchemas`."""

    message: str | None = None
    times: Options = ()
    rescue: bool = False
    indexed = True

    def writer(self, text: str, uses: Uses = ()) -> Any:
        from kseg.segment_reader.payload.protobuf.descriptors import parse_base64

        return _MessageWriter(parse_base64(text), self.message)

    def records(self, writer: Any) -> tuple[str, ...]:
        def all_of(messages: Iterable[Any]) -> Iterator[str]:
            for message in messages:
                if not message.map_entry:
                    yield message.name
                    yield from all_of(message.nested)

        return tuple(all_of(writer.made.top))

    def record(self, writer: Any, message: tuple[int, ...] = ()) -> str | None:
        return writer.made.message_at(message).name if message else None

    def of_record(self, record: str) -> ProtobufSchemas:
        return replace(self, message=record)

    def decoder(
        self, writer: Any, reader: Any, message: tuple[int, ...] = (), *, engine: Engine = "fast"
    ) -> PayloadDecoder:
        from kseg.segment_reader.payload.protobuf.decoder import protobuf_decoder

        wanted = writer.made.message(self.message)
        named = writer.made.message_at(message) if message else wanted
        if named is not wanted:
            reason = f"the payload is a {named.name}, and the columns are those of {wanted.name}"
            raise IncompatibleSchemas("", "", reason)
        decoder = protobuf_decoder(wanted, engine=engine, **dict(self.times))
        return _aligned(self, decoder, writer, reader)


def _record(message: Any) -> Any:
    """The columns of a Protobuf message, with their fields' numbers."""
    from kseg.segment_reader.payload import row_schema
    from kseg.segment_reader.payload.protobuf.columns import Column, Document, Struct, columns_of, unwritten_text

    def record(struct: Struct) -> row_schema.Record:
        return row_schema.Record(tuple(map(field, struct.columns)))

    def field(column: Column) -> row_schema.Field:
        return row_schema.Field(column.name, of(column), column.field.number, unwritten_text(column))

    def of(column: Column) -> row_schema.RowType:
        if not isinstance(column.node, Struct | Document):
            return row_schema.from_arrow(column.type)
        one = record(column.node) if isinstance(column.node, Struct) else row_schema.JsonText()
        if column.key is not None:
            return row_schema.Map(column.type.key_type, one)
        return row_schema.Array(one) if column.field.repeated else one

    return record(columns_of(message))


def _aligned(
    format: _OfColumns, decoder: PayloadDecoder, writer: _Writer | _MessageWriter, reader: Any
) -> PayloadDecoder:
    from kseg.etl.decoding.aligned_rows import AlignedDecoder
    from kseg.segment_reader.payload.rescue import RescuingDecoder, has_unknown

    format.merged(reader, writer, add_fields=False)  # or it does not fit
    if format.rescue and has_unknown(writer.columns, reader):
        return RescuingDecoder(decoder, writer.columns, reader)
    return decoder if writer.columns == reader else AlignedDecoder(decoder, writer.columns, reader)
