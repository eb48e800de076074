"""Options for reading a task's range, and for the columns of its rows: plain values, which drivers make without the
decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from kseg.client.offsets import IsolationLevel
from kseg.etl.source.range_result import MAX_GAPS
from kseg.etl.source.record_chunk import FetchOptions, OnCorruption
from kseg.segment_reader.decode.engine import HeaderNames, Limits
from kseg.segment_reader.decode.schema import arrow_schema

ADDRESS_COLUMNS = ("_kseg_topic", "_kseg_partition", "_kseg_offset")
LATE_COLUMN = "_kseg_late"


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Options for reading ranges, and for the columns of their rows. Picklable.

    headers, raw_headers, header_names, provenance, null_timestamps: the columns; see
        `segment_reader.decode.schema.arrow_schema` and `RangeDecoder`.
    addresses: add `_kseg_topic, _kseg_partition, _kseg_offset`, the record's address once more under names that a
        transform is unlikely to touch.
    marks_late: add `_kseg_late`: whether the record's time lies before `late_before` (ms since 1970). Null for a record
        without a time, and for all where `late_before` is None: nothing says then when they were due.
    engine: `reference` is the slow decoder in plain Python.
    limits: rows and bytes of a batch.
    on_data_loss: `record` goes on behind offsets that are gone, counts them absent and lists them as lost.
    on_corruption: `quarantine` goes on behind damage, counts its offsets unreadable and lists it.
    max_gaps: gaps that a result lists; a replacement needs all of them.
    fetch_ahead: receive the next answer in a thread while one is decoded.
    """

    isolation_level: IsolationLevel = "read_committed"
    headers: bool = True
    raw_headers: bool = False
    header_names: HeaderNames = "replace"
    provenance: bool = False
    null_timestamps: bool = True
    addresses: bool = False
    marks_late: bool = False
    late_before: int | None = None
    check_crcs: bool = True
    engine: Literal["fast", "reference"] = "fast"
    limits: Limits = field(default_factory=Limits)
    on_data_loss: Literal["fail", "record"] = "fail"
    on_corruption: OnCorruption = "fail"
    max_gaps: int = MAX_GAPS
    fetch_ahead: bool = True

    @property
    def fetch(self) -> FetchOptions:
        """The part of it that fetching needs."""
        return FetchOptions(self.isolation_level, self.on_data_loss, self.on_corruption)

    @property
    def schema(self) -> pa.Schema:
        """The rows' schema."""
        rows = arrow_schema(headers=self.headers, provenance=self.provenance, raw_headers=self.raw_headers)
        if self.marks_late:
            rows = rows.append(pa.field(LATE_COLUMN, pa.bool_()))
        if self.addresses:
            for name, source in zip(ADDRESS_COLUMNS, ("topic", "partition", "offset"), strict=True):
                rows = rows.append(rows.field(source).with_name(name))
        return rows
