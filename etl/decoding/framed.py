"""Payloads that say which schema they were written with: each group of one schema by its own decoder, in row order.

frames of a batch ──► one (schema, frame size) for all rows: that decoder reads the batch as it is
                 └──► several: rows sorted by it, each part decoded, the parts joined and put back in order
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError, Status
from kseg.segment_reader.payload.errors import PayloadSchemaError
from kseg.segment_reader.payload.framing import (
    KEY_HEADER,
    VALUE_HEADER,
    Frames,
    SchemaKey,
    frames_in_headers,
    frames_of,
)

AvroTexts = tuple[str, tuple[str, ...]]
"""A schema's text, and those of what it uses."""


class UnknownKeys(Exception):
    """Payloads name schemas that are not among the writers. keys: their ids and GUIDs. row: the first such payload."""

    def __init__(self, keys: tuple[SchemaKey, ...], row: int) -> None:
        super().__init__(f"unknown schemas {keys}")
        self.keys = keys
        self.row = row


@dataclass(frozen=True)
class FramedSchemas:
    """The schemas of framed payloads. Picklable.

    reader: the rows'. writers: by id or GUID; None: the registry does not know it. fill: what the writer lacks has the
    reader's default.
    """

    reader: str
    writers: tuple[tuple[SchemaKey, AvroTexts | None], ...] = ()
    fill: bool = False


class FramedDecoder:
    """Decodes framed Avro payloads as rows of one reader's schema. Not picklable."""

    def __init__(self, schemas: FramedSchemas) -> None:
        self._schemas = schemas
        self._writers = dict(schemas.writers)
        self._decoders: dict[SchemaKey, PayloadDecoder | str] = {}

    @cached_property
    def type(self) -> pa.DataType:
        """Raises PayloadSchemaError."""
        from kseg.segment_reader.payload.avro.types import arrow_type

        return arrow_type(self._reader)

    @cached_property
    def _reader(self) -> Any:
        from kseg.segment_reader.payload.avro.schema import parse_schema

        return parse_schema(self._schemas.reader)

    def decode(self, payloads: pa.BinaryArray, headers: pa.ListArray | None, source: str) -> DecodedPayloads:
        """n payloads as n rows, in their order. source: `key` or `value`: whose header may name the schema.

        Raises:
            UnknownKeys: a payload names a schema that is not among the writers.
        """
        frames = _frames(payloads, headers, source)
        met = np.unique(frames.which[frames.which >= 0]).tolist()
        unknown = [number for number in met if frames.schemas[number] not in self._writers]
        if unknown:
            row = int(np.flatnonzero(np.isin(frames.which, unknown))[0])
            raise UnknownKeys(tuple(frames.schemas[number] for number in unknown), row)
        order, starts = _groups(frames)
        framed = [start for start in starts if frames.status[order[start]] == Status.DECODED]
        bare = frames.status[order[: framed[0] if framed else len(order)]]
        if len(framed) == 1 and (bare == Status.NULL).all():
            # A decoder gives null rows for null payloads itself.
            return self._part(payloads, frames, int(order[framed[0]]))
        sorted_payloads = payloads.take(pa.array(order))
        rows = [pa.nulls(len(bare), self.type)]
        statuses = [bare]
        for start, end in pairwise([*framed, len(order)]):
            part = self._part(sorted_payloads.slice(start, end - start), frames, int(order[start]))
            rows.append(part.rows)
            statuses.append(part.status)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return DecodedPayloads(pa.concat_arrays(rows).take(pa.array(back)), np.concatenate(statuses)[back])

    def explain(self, payload: bytes | None, headers: pa.ListArray | None, source: str) -> PayloadError:
        """Why one payload has no row. headers: of its record alone."""
        frames = _frames(pa.array([payload], pa.binary()), headers, source)
        if payload is None or frames.status[0] != Status.DECODED:
            message = (
                "it does not begin with a registry's frame (a byte 0 and a schema's id), and no header names a schema"
            )
            return PayloadError(Status.BAD_FRAME, "", message)
        key = frames.schemas[int(frames.which[0])]
        decoder = self._decoder(key)
        if isinstance(decoder, str):
            return PayloadError(self._why_not(key), "", decoder)
        return decoder.explain(payload, skip=int(frames.skip[0]))

    def _part(self, payloads: pa.BinaryArray, frames: Frames, row: int) -> DecodedPayloads:
        """Payloads with the frame of this row, or null."""
        key = frames.schemas[int(frames.which[row])]
        decoder = self._decoder(key)
        if not isinstance(decoder, str):
            return decoder.decode(payloads, skip=int(frames.skip[row]))
        nulls = np.asarray(payloads.is_null())
        statuses = np.where(nulls, Status.NULL, self._why_not(key)).astype(np.uint8)
        return DecodedPayloads(pa.nulls(len(payloads), self.type), statuses)

    def _why_not(self, key: SchemaKey) -> Status:
        return Status.UNKNOWN_SCHEMA if self._writers[key] is None else Status.INCOMPATIBLE_SCHEMA

    def _decoder(self, key: SchemaKey) -> PayloadDecoder | str:
        """The decoder of a writer's schema, or why there is none."""
        if key not in self._decoders:
            self._decoders[key] = self._made(key)
        return self._decoders[key]

    def _made(self, key: SchemaKey) -> PayloadDecoder | str:
        from kseg.segment_reader.payload.avro.decoder import avro_decoder
        from kseg.segment_reader.payload.avro.resolution import Missing
        from kseg.segment_reader.payload.avro.schema import parse_schema

        texts = self._writers[key]
        if texts is None:
            return f"the registry does not know the schema {key}"
        try:
            missing = Missing.FILL if self._schemas.fill else Missing.NULL
            return avro_decoder(parse_schema(*texts), self._reader, missing=missing)
        except PayloadSchemaError as error:
            return f"schema {key}: {error}"


def schema_key(text: str) -> SchemaKey:
    """An id or a GUID from its text."""
    return int(text) if text.lstrip("-").isdigit() else text


def _frames(payloads: pa.BinaryArray, headers: pa.ListArray | None, source: str) -> Frames:
    if headers is None:
        return frames_of(payloads)
    return frames_in_headers(headers, payloads, KEY_HEADER if source == "key" else VALUE_HEADER)


def _groups(frames: Frames) -> tuple[npt.NDArray[np.int64], list[int]]:
    """Rows sorted by schema and size of the frame, those without a schema first; where each group of them begins."""
    kinds = frames.which.astype(np.int64) * 32 + frames.skip
    kinds[frames.status != Status.DECODED] = -1
    order = np.argsort(kinds, kind="stable")
    changes = np.flatnonzero(np.diff(kinds[order])) + 1
    return order, [0, *changes.tolist()] if len(order) else []
