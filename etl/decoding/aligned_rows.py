"""Rows as their writer's schema has them -> rows as the table has them."""

from __future__ import annotations

import pyarrow as pa

from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError
from kseg.segment_reader.payload.rescue import with_rescued
from kseg.segment_reader.payload.row_schema import RowRecord, aligned, to_arrow


class AlignedDecoder:
    """See `segment_reader.payload.decoder.PayloadDecoder`. own: decodes to rows of the writer's type.

    rescue: its rows have one more column, of rescued fields, which stays as it is.
    """

    def __init__(self, own: PayloadDecoder, writer: RowRecord, reader: RowRecord, *, rescue: bool = False) -> None:
        self._own, self._writer, self._reader, self._rescue = own, writer, reader, rescue
        kind = to_arrow(reader)
        self.type = with_rescued(kind) if rescue else kind

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        decoded = self._own.decode(payloads, skip=skip)
        if not self._rescue:
            return DecodedPayloads(aligned(decoded.rows, self._writer, self._reader), decoded.status)
        *columns, rescued = decoded.rows.flatten()
        nulls = decoded.rows.is_null()
        written = pa.StructArray.from_arrays(columns, fields=list(to_arrow(self._writer)), mask=nulls)
        columns = [*aligned(written, self._writer, self._reader).flatten(), rescued]
        return DecodedPayloads(pa.StructArray.from_arrays(columns, fields=list(self.type), mask=nulls), decoded.status)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        return self._own.explain(payload, skip=skip)
