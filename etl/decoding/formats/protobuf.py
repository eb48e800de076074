"""The format `protobuf`: columns are matched by field number, and a registry's text is stored as descriptors."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kseg.etl.decoding.formats.by_columns import OfColumns, aligned
from kseg.etl.decoding.formats.port import DeclaredPayload, Options, RegistryPayload, Uses, times_of
from kseg.etl.decoding.rules import DecodingRules
from kseg.etl.errors import ConfigurationError
from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.errors import IncompatibleSchemas, PayloadSchemaError
from kseg.segment_reader.payload.plain import Engine

if TYPE_CHECKING:
    from kseg.client.registry.schemas import Resolved


def decoder(plan: DeclaredPayload) -> PayloadDecoder:
    """The decoder of payloads of one message of the plan's descriptors.

    Raises:
        PayloadSchemaError: the descriptors are invalid.
        ConfigurationError: they do not have the message.
    """
    from kseg.segment_reader.payload.protobuf.decoder import protobuf_decoder
    from kseg.segment_reader.payload.protobuf.descriptors import parse_base64

    assert plan.schema_text is not None
    schema = parse_base64(plan.schema_text)
    try:
        message = schema.message(plan.message)
    except PayloadSchemaError as error:
        remedy = "write `message:` with the full name of a message in the schema"
        raise ConfigurationError.of(f"{plan.place}.message", str(error), remedy) from None
    return plan.unwrapped(protobuf_decoder(message, engine=plan.engine, **plan.times))


def option_text(text: str) -> str:
    """Descriptors in base64, compiled if `text` is that of a .proto file. Raises ValueError."""
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        from kseg.segment_reader.payload.protobuf.compiler import compile_text

        try:
            return base64.b64encode(compile_text(text)).decode()
        except PayloadSchemaError as error:
            raise ValueError(f"cannot be compiled: {error}") from None
    return "".join(text.split())


def schemas(payload: RegistryPayload, rules: DecodingRules) -> ProtobufSchemas:
    """How the columns of these keys or values grow."""
    return ProtobufSchemas(payload.message, times_of(payload), payload.unknown == "rescue")


def kept(text: str, references: Mapping[str, str]) -> tuple[str, Uses]:
    """The descriptors in base64 that the ledger stores, which protoc compiles. Raises PayloadSchemaError."""
    from kseg.segment_reader.payload.protobuf.registered import registered_descriptors

    return base64.b64encode(registered_descriptors(text, references)).decode(), ()


def registered_type(schema: Resolved, message: tuple[int, ...]) -> pa.DataType:
    """The type of the rows of one message of a registry's schema. Raises PayloadSchemaError."""
    from kseg.segment_reader.payload.protobuf.columns import columns_of
    from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors
    from kseg.segment_reader.payload.protobuf.registered import registered_descriptors

    descriptors = parse_descriptors(registered_descriptors(schema.schema.text, _by_name(schema)))
    return columns_of(descriptors.message_at(message)).type


def registered_decoder(schema: Resolved, message: tuple[int, ...]) -> PayloadDecoder:
    """The decoder of single payloads by their writer's schema alone. Raises PayloadSchemaError."""
    from kseg.segment_reader.payload.protobuf.decoder import registry_decoder

    return registry_decoder(schema.schema.text, _by_name(schema), message, engine="reference")


def _by_name(schema: Resolved) -> dict[str, str]:
    return {name: used.text for name, used in schema.references}


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
class ProtobufSchemas(OfColumns):
    """message: the message whose fields are the columns; None: the schema's only one. Others: as `AvroSchemas`."""

    message: str | None = None
    times: Options = ()
    rescue: bool = False
    indexed = True
    self_describing = False

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
        return aligned(self, decoder, writer, reader)


def _record(message: Any) -> Any:
    """The columns of a Protobuf message, with their fields' numbers."""
    from kseg.segment_reader.payload import row_schema
    from kseg.segment_reader.payload.protobuf.columns import (
        FieldColumn,
        JsonTextColumn,
        MessageColumns,
        columns_of,
        unwritten_text,
    )

    def record(struct: MessageColumns) -> row_schema.RowRecord:
        return row_schema.RowRecord(tuple(map(field, struct.columns)))

    def field(column: FieldColumn) -> row_schema.RowField:
        return row_schema.RowField(column.name, of(column), column.field.number, unwritten_text(column))

    def of(column: FieldColumn) -> row_schema.RowType:
        if not isinstance(column.node, MessageColumns | JsonTextColumn):
            return row_schema.from_arrow(column.type)
        one = record(column.node) if isinstance(column.node, MessageColumns) else row_schema.JsonText()
        if column.key is not None:
            return row_schema.Map(column.type.key_type, one)
        return row_schema.Array(one) if column.field.repeated else one

    return record(columns_of(message))
