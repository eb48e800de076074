"""What the decoder's tests share: both engines, and one call that decodes a whole record set."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import cramjam
import pyarrow as pa
import pytest

from kseg.segment_reader.decode.absent_offsets import AbsentOffsets
from kseg.segment_reader.decode.engine import DecodeCounts
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass
class Decoded:
    """Everything that decoding gives; equal where two ways of decoding agree."""

    rows: list[dict[str, Any]]
    counts: DecodeCounts
    gaps: list[tuple[int, int]]
    sizes: list[int]

    @property
    def offsets(self) -> list[int]:
        return [row["offset"] for row in self.rows]

    @property
    def values(self) -> list[bytes | None]:
        return [row["value"] for row in self.rows]


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    try:
        return table.to_pylist()
    except OverflowError:  # beyond the year 9999, which Python's datetime cannot say
        place = table.schema.get_field_index("timestamp")
        return table.set_column(place, "timestamp", table["timestamp"].cast(pa.int64())).to_pylist()


def _decode(
    records: bytes | Sequence[bytes],
    start: int = 0,
    end: int | None = None,
    *,
    aborted: Sequence[tuple[int, int]] = (),
    isolation_level: Any = "read_committed",
    **options: Any,
) -> Decoded:
    """Decodes one record set, or several answers in turn; `end` defaults to the offset after the last frame."""
    parts = [records] if isinstance(records, bytes) else list(records)
    if end is None:
        from kseg.segment_reader.decode.next_offset import next_offset

        end = max(start, next_offset(b"".join(parts), 0))
    decoder = RangeDecoder("topic", 3, start, end, isolation_level=isolation_level, **options)
    batches: list[pa.RecordBatch] = []
    headers = AbsentOffsets(start, end)
    for part in parts:
        batches += decoder.feed(part, aborted)
        headers.feed(part)
    batches += decoder.finish()
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == decoder.schema
    counts = decoder.counts
    rows = _rows(pa.Table.from_batches(batches, decoder.schema))
    assert counts.data == len(rows)
    assert counts.data + counts.control + counts.aborted + counts.absent + counts.refused == end - start
    assert counts.refused == len(decoder.refused)
    assert sum(stop - first for first, stop in decoder.gaps) == counts.absent
    assert decoder.next_offset >= end
    assert (headers.count(decoder.gaps), headers.next_offset) == (counts.absent, end)
    return Decoded(rows, counts, decoder.gaps, [batch.num_rows for batch in batches])


@pytest.fixture(scope="session", params=["reference", "fast"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def decode_with() -> Callable[..., Decoded]:
    """decode_with(records, start, end, engine=…, **options) -> Decoded, its invariants checked."""
    return _decode


@pytest.fixture(scope="session")
def decode(engine: str) -> Callable[..., Decoded]:
    """The same with the engine of this run."""
    return lambda *args, **options: _decode(*args, engine=engine, **options)


@pytest.fixture(scope="session")
def both() -> Callable[..., Decoded]:
    """The same with both engines, which must agree on everything, batch boundaries too."""

    def run(*args: Any, **options: Any) -> Decoded:
        fast = _decode(*args, engine="fast", **options)
        assert fast == _decode(*args, engine="reference", **options)
        return fast

    return run


@pytest.fixture(scope="session")
def kafka_python() -> SimpleNamespace:
    """kafka-python's record layer: an independent reader and writer of every format, in this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own import of a deprecated function
        from kafka import codec
        from kafka.record.default_records import DefaultRecordBatchBuilder
        from kafka.record.legacy_records import LegacyRecordBatchBuilder
        from kafka.record.memory_records import MemoryRecords
    if codec.snappy is None:  # python-snappy is not installed: its framing code is what is wanted, on another library
        codec.snappy = SimpleNamespace(
            compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
            decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
        )
    return SimpleNamespace(
        codec=codec, records=MemoryRecords, batch=DefaultRecordBatchBuilder, message_set=LegacyRecordBatchBuilder
    )


@pytest.fixture(scope="session")
def row_of() -> Callable[..., dict[str, Any]]:
    """The row that a job gets for a record (without provenance columns)."""

    def make(record: Record, offset: int, timestamp_type: int = 0) -> dict[str, Any]:
        timed = record.timestamp != -1
        headers = [{"key": k if isinstance(k, str) else k.decode(), "value": v} for k, v in record.headers]
        return {
            "key": record.key,
            "value": record.value,
            "topic": "topic",
            "partition": 3,
            "offset": offset,
            "timestamp": EPOCH + dt.timedelta(milliseconds=record.timestamp) if timed else None,
            "timestampType": timestamp_type if timed else -1,
            "headers": headers or None,
        }

    return make
