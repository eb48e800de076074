"""Plain: one payload at a time to Python values. Its rules are the kernel's too, which only says the status."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kseg.segment_reader.payload.avro.documents import DocumentTexts
from kseg.segment_reader.payload.avro.resolution import Resolution
from kseg.segment_reader.payload.avro.value_reader import ValueReader
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.plain import BadPayload, PlainDecoder


class ReferenceAvroDecoder(PlainDecoder):
    """See `segment_reader.payload.decoder.PayloadDecoder`. nearest: see `ValueReader`."""

    def __init__(self, resolution: Resolution, *, nearest: bool = False) -> None:
        self._resolution, self._nearest = resolution, nearest
        self._texts = DocumentTexts()

    @property
    def type(self) -> pa.DataType:
        return self._resolution.type

    def row(self, payload: bytes, skip: int = 0) -> Any:
        reader = ValueReader(payload, skip, nearest=self._nearest)
        row = reader.read(self._resolution.node)
        rest = len(payload) - reader.position
        if rest:
            raise BadPayload(Status.TRAILING_BYTES, f"{rest} bytes follow the value")
        return self._texts.within(row) if reader.has_documents else row
