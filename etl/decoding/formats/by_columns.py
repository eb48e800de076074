"""Base of formats whose reader's schema is a list of columns (`segment_reader.payload.row_schema`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pyarrow as pa

from kseg.segment_reader.payload.decoder import PayloadDecoder


def rows_type(kind: pa.DataType, rescue: bool) -> pa.DataType:
    """The row type, with the column of rescued fields if there is one."""
    from kseg.segment_reader.payload.rescue import with_rescued

    return with_rescued(kind) if rescue else kind


class OfColumns:
    """Base of formats without their own schema resolution. A writer has `columns`, a `row_schema.RowRecord`."""

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

        return rows_type(to_arrow(reader), self.rescue)

    def text(self, reader: Any) -> str:
        from kseg.segment_reader.payload.row_schema import schema_text

        return schema_text(reader)


class HasColumns(Protocol):
    """A writer's schema. columns: of its rows, a `row_schema.RowRecord`."""

    @property
    def columns(self) -> Any: ...


def aligned(format: OfColumns, decoder: PayloadDecoder, writer: HasColumns, reader: Any) -> PayloadDecoder:
    from kseg.etl.decoding.aligned_rows import AlignedDecoder
    from kseg.segment_reader.payload.rescue import RescuingDecoder, has_unknown

    format.merged(reader, writer, add_fields=False)  # or it does not fit
    if format.rescue and has_unknown(writer.columns, reader):
        return RescuingDecoder(decoder, writer.columns, reader)
    return decoder if writer.columns == reader else AlignedDecoder(decoder, writer.columns, reader)
