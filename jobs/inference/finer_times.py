"""Sampled documents of a JSON Schema whose times have digits below a microsecond, which no column can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from kseg.client.registry.errors import SchemaNotFound
from kseg.client.registry.registry import SchemaRegistry
from kseg.client.registry.schemas import Schema
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.errors import PayloadSchemaError
from kseg.segment_reader.payload.framing import SchemaKey, frames_of
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.shape import JsonOptions
from kseg.segment_reader.payload.json_schema import JsonSchemaType, read_json_schema


def documents_with_finer_times(
    payloads: Sequence[bytes | None], schemas: Mapping[SchemaKey, Schema], registry: SchemaRegistry
) -> int:
    """How many of these framed documents can be decoded only if such digits are cut off.

    schemas: of the frames. Raises SchemaRegistryError.
    """
    some = pa.array([payload for payload in payloads if payload is not None], pa.binary())
    frames, count = frames_of(some), 0
    for number, key in enumerate(frames.schemas):
        rows = np.flatnonzero(frames.which == number)
        if key in schemas and (read := _read(schemas[key], registry)) is not None:
            count += _finer(read, some.take(pa.array(rows)), int(frames.skip[rows[0]]))
    return count


def _read(schema: Schema, registry: SchemaRegistry) -> JsonSchemaType | None:
    """None: a run says what is wrong with it."""
    try:
        resolved = registry.resolve(schema)
        return read_json_schema(schema.text, {name: used.text for name, used in resolved.references})
    except (SchemaNotFound, PayloadSchemaError):
        return None


def _finer(read: JsonSchemaType, documents: pa.BinaryArray, skip: int) -> int:
    exact, cut = (
        json_decoder(read.type, JsonOptions(formats=read.formats, nanoseconds=how), engine="reference")
        .decode(documents, skip=skip)
        .status
        for how in ("fail", "truncate")
    )
    return int(np.count_nonzero((exact == Status.INEXACT) & (cut == Status.DECODED)))
