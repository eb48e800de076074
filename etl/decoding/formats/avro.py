"""The format `avro`: the reader's schema is an Avro schema, and payloads are resolved to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kseg.etl.decoding.formats.by_columns import rows_type
from kseg.etl.decoding.formats.port import DeclaredPayload, Options, RegistryPayload, Uses, times_of
from kseg.etl.decoding.rules import DecodingRules
from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.plain import Engine

if TYPE_CHECKING:
    from kseg.client.registry.schemas import Resolved
    from kseg.segment_reader.payload.row_schema import RowType


def decoder(plan: DeclaredPayload) -> PayloadDecoder:
    """The decoder of payloads that the plan's schema wrote. Raises PayloadSchemaError."""
    from kseg.segment_reader.payload.avro.decoder import avro_decoder
    from kseg.segment_reader.payload.avro.schema import parse_schema

    assert plan.schema_text is not None
    schema = parse_schema(plan.schema_text, connect=plan.rules.connect_logical_types)
    return plan.unwrapped(avro_decoder(schema, engine=plan.engine, **plan.times))


def declared_type(text: str, unknown: str, rules: DecodingRules) -> pa.DataType:
    """The type of a schema's rows by these rules. Raises PayloadSchemaError."""
    from kseg.segment_reader.payload.avro.schema import parse_schema
    from kseg.segment_reader.payload.avro.types import arrow_type

    return arrow_type(parse_schema(text, connect=rules.connect_logical_types))


def schemas(payload: RegistryPayload, rules: DecodingRules) -> AvroSchemas:
    """How the reader's schema of these keys or values grows."""
    rescue, connect = payload.unknown == "rescue", rules.connect_logical_types
    return AvroSchemas(payload.defaults == "fill", payload.several, rescue, connect, times_of(payload))


def kept(text: str, references: Mapping[str, str]) -> tuple[str, Uses]:
    """The text that the ledger stores, and those of the schemas that it uses."""
    return text, tuple(references.values())


def registered_type(schema: Resolved, message: tuple[int, ...]) -> pa.DataType:
    """The type of the rows of a registry's schema. Raises PayloadSchemaError."""
    from kseg.segment_reader.payload.avro.types import arrow_type

    return arrow_type(_parsed(schema))


def registered_decoder(schema: Resolved, message: tuple[int, ...]) -> PayloadDecoder:
    """The decoder of single payloads by their writer's schema alone. Raises PayloadSchemaError."""
    from kseg.segment_reader.payload.avro.decoder import avro_decoder

    return avro_decoder(_parsed(schema), engine="reference")


def _parsed(schema: Resolved) -> Any:
    from kseg.segment_reader.payload.avro.schema import parse_schema

    return parse_schema(schema.schema.text, tuple(used.text for _, used in schema.references), connect=True)


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
    self_describing = False

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

        return rows_type(arrow_type(reader), self.rescue)

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


def _rescuing(decoder: PayloadDecoder, writer: RowType, reader: RowType) -> PayloadDecoder:
    """The decoder of rows of the writer's type, in which fields that the reader's type lacks are JSON text.

    The reader's type may have fields that the writer's type lacks.
    """
    from kseg.segment_reader.payload.rescue import RescuingDecoder, has_unknown
    from kseg.segment_reader.payload.row_schema import RowRecord

    if not (isinstance(writer, RowRecord) and isinstance(reader, RowRecord) and has_unknown(writer, reader)):
        return decoder
    written = {field.key for field in writer.fields}
    kept = RowRecord(tuple(field for field in reader.fields if field.key in written))
    return RescuingDecoder(decoder, writer, kept)
