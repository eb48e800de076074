"""Avro payloads of one writer's schema as rows of a reader's: the door to both decoders.

schema.py       JSON -> types, names resolved         nodes.py        a resolved schema, as a tree
resolution.py   writer's against reader's -> nodes    defaults.py     a field's default -> Avro bytes
types.py        reader's schema -> Arrow              reference.py    nodes and a payload -> Python values
program.py      nodes -> instructions (opcodes.py)    kernel.py       instructions and payloads -> Arrow buffers
compiled.py     buffers around the kernel             numbers.py, slots.py: parts of the kernel
connect.py      Connect's logical types -> Avro's     zoned.py        texts of timestamps -> instants
"""

from __future__ import annotations

from kseg.segment_reader.payload.avro.reference import ReferenceAvroDecoder
from kseg.segment_reader.payload.avro.resolution import Missing, Resolution, resolve
from kseg.segment_reader.payload.avro.schema import Schema
from kseg.segment_reader.payload.avro.types import arrow_type
from kseg.segment_reader.payload.avro.zoned import Nanoseconds, ZonedDecoder
from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.far_times import FarTimesToNull, OutOfRangeTimes
from kseg.segment_reader.payload.late import of_engine
from kseg.segment_reader.payload.plain import Engine


def avro_decoder(
    writer: Schema,
    reader: Schema | None = None,
    *,
    missing: Missing = Missing.NULL,
    nanoseconds: Nanoseconds = "fail",
    out_of_range_times: OutOfRangeTimes = "fail",
    engine: Engine = "fast",
) -> PayloadDecoder:
    """reader: None takes the writer's. missing: what a reader's field is that the writer's schema lacks. nanoseconds:
    what digits below a microsecond are of timestamps that are texts. out_of_range_times: `set_null` makes times outside
    of the years 1 to 9999 null; otherwise texts of such times are errors, and numbers are what they are.

    The compiled decoder takes every schema that has a column type, and compiles nothing for a new one.

    Raises:
        IncompatibleSchemas, UnsupportedSchema, InvalidSchema: see `segment_reader.payload.avro.resolution.resolve`.
    """
    resolution = resolve(writer, reader or writer, missing)
    to_null = out_of_range_times == "set_null"
    decoder = _decoder(resolution, engine, to_null)
    kind = arrow_type(reader or writer)
    if kind != resolution.type:
        decoder = ZonedDecoder(decoder, kind, engine, nanoseconds, out_of_range_times)
    return FarTimesToNull(decoder) if to_null else decoder


def _decoder(resolution: Resolution, engine: Engine, nearest: bool) -> PayloadDecoder:
    def compiled() -> PayloadDecoder:
        from kseg.segment_reader.payload.avro.compiled import CompiledAvroDecoder

        return CompiledAvroDecoder(resolution, nearest=nearest)

    return of_engine(ReferenceAvroDecoder(resolution, nearest=nearest), engine, compiled)
