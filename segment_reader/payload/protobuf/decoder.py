"""Protobuf payloads of one message as rows: the door to both decoders.

compiler.py      .proto text -> descriptors (protoc)     descriptors.py   descriptors -> schema.py: messages, features
columns.py       message -> columns, Arrow types         reference.py     columns and a payload -> Python values
wire.py          the wire format, plain                  known.py         well-known types' values
program.py       columns -> tables (opcodes.py)          kernel.py        tables and payloads -> Arrow buffers
compiled.py      kernel, buffers.py, and the reference   fields.py, slots.py, varints.py: parts of the kernel
                 for what the kernel leaves to it        framing.py, registered.py: frames and schemas of registries
"""

from __future__ import annotations

from collections.abc import Mapping

from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.far_times import OutOfRangeTimes
from kseg.segment_reader.payload.late import of_engine
from kseg.segment_reader.payload.plain import Engine
from kseg.segment_reader.payload.protobuf.columns import Nanoseconds, TimeOptions, columns_of
from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors
from kseg.segment_reader.payload.protobuf.reference import ReferenceProtobufDecoder
from kseg.segment_reader.payload.protobuf.registered import registered_descriptors
from kseg.segment_reader.payload.protobuf.schema import MessageType


def protobuf_decoder(
    message: MessageType,
    *,
    nanoseconds: Nanoseconds = "fail",
    out_of_range_times: OutOfRangeTimes = "fail",
    engine: Engine = "fast",
) -> PayloadDecoder:
    """message: of `descriptors.parse_descriptors(…)`. nanoseconds: what times below a microsecond are.
    out_of_range_times: what Timestamps are outside of the years 1 to 9999.

    The compiled decoder takes every message that has a column type, and compiles nothing for a new one.

    Raises UnsupportedSchema.
    """
    columns = columns_of(message, TimeOptions(nanoseconds, out_of_range_times))

    def compiled() -> PayloadDecoder:
        from kseg.segment_reader.payload.protobuf.compiled import CompiledProtobufDecoder

        return CompiledProtobufDecoder(columns)

    return of_engine(ReferenceProtobufDecoder(columns), engine, compiled)


def registry_decoder(
    text: str,
    references: Mapping[str, str],
    indexes: tuple[int, ...],
    *,
    nanoseconds: Nanoseconds = "fail",
    engine: Engine = "fast",
) -> PayloadDecoder:
    """The decoder of what a registry serves. It runs protoc: for workers take the descriptors (`registered`).

    text: the schema, `.proto` or a descriptor in base64. references: the schemas that it imports, by the name in the
    `import`, those of the references' references too. indexes: the message, as frames name it
    (`framing.message_indexes`).

    Raises InvalidSchema, UnsupportedSchema.
    """
    schema = parse_descriptors(registered_descriptors(text, references))
    return protobuf_decoder(schema.message_at(indexes), nanoseconds=nanoseconds, engine=engine)
