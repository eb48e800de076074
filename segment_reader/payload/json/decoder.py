"""JSON payloads as rows of a declared type: the door to both decoders.

shape.py       declared type and options, checked    formats.py     how dates and timestamps are written
document.py    RFC 8259: bytes -> a tree             reference.py   a tree -> values; numbers.py: exact numbers

table.py       the shape as integers                 kernel.py      documents -> Arrow buffers, by the table
columns.py     buffers around the kernel             strings.py, grammar.py, scalars.py, names.py, floats.py,
compiled.py    kernel, buffers, and the reference    times.py, rescue.py, words.py: parts of the kernel
               for what the kernel leaves to it

choices.py     which member of a choice it is        choosing.py    types with choices, by a decoder for each member
"""

from __future__ import annotations

import pyarrow as pa

from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.json.reference import JsonReference
from kseg.segment_reader.payload.json.shape import JsonOptions
from kseg.segment_reader.payload.late import of_engine
from kseg.segment_reader.payload.plain import Engine


def json_decoder(
    declared: pa.StructType, options: JsonOptions | None = None, *, engine: Engine = "fast"
) -> PayloadDecoder:
    """declared: the columns (`segment_reader.payload.ddl.parse_columns`). options: None takes the defaults.

    The compiled decoder takes every type that can be declared, and compiles nothing for a new one.

    Raises InvalidSchema.
    """

    def compiled() -> PayloadDecoder:
        from kseg.segment_reader.payload.json.choosing import compiled_decoder

        return compiled_decoder(declared, options or JsonOptions())

    return of_engine(JsonReference(declared, options), engine, compiled)
