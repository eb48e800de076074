"""Decode record sets to Arrow batches, for one offset range of one partition.

    decoder = RangeDecoder("orders", 0, 100, 5000, isolation_level="read_committed")
    while decoder.next_offset < 5000:
        answer = ...                                   # a Fetch from decoder.next_offset
        yield from decoder.feed(answer.records, answer.aborted)
    yield from decoder.finish()

A range may start and end anywhere, also in the middle of a batch or of a transaction: two adjacent ranges give the same
rows as one range over both. Every offset of the range is counted in exactly one of the counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import pyarrow as pa

from kseg.segment_reader.decode.engine import DecodeCounts, Engine, HeaderNames, Limits, Options
from kseg.segment_reader.errors import Fault


class RangeDecoder:
    """Decodes [start, end) of one partition from the record sets of consecutive Fetch answers.

    isolation_level: under "read_committed" records of aborted transactions are counted as `aborted` and left out; under
        "read_uncommitted" they are data. Control records are counted and left out in both.
    headers, raw_headers, provenance: see schema.arrow_schema. Without `headers` and `raw_headers`, the lengths of
        record headers are checked, and nothing else of them is decoded.
    header_names: "replace" puts U+FFFD in place of what is not UTF-8 in a header's name, as Java's client does;
        "refuse" makes such a record an UnrepresentableRecord. Names of headers that are not decoded are never refused.
    set_refused_aside: an UnrepresentableRecord is not raised; the record is left out, and its offset is in `refused`.
    null_timestamps: a record without a timestamp gets null and timestampType -1. If False, it gets the same values as
        from Spark's own source: one millisecond before 1970, and the timestamp type of the batch.
    check_crcs: verify the checksum of every batch, and of every message of the old formats.
    engine: "fast" is compiled, "reference" plain Python; they agree in everything but speed.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        isolation_level: Literal["read_committed", "read_uncommitted"],
        headers: bool = True,
        raw_headers: bool = False,
        header_names: HeaderNames = "replace",
        set_refused_aside: bool = False,
        provenance: bool = False,
        null_timestamps: bool = True,
        check_crcs: bool = True,
        engine: Literal["fast", "reference"] = "fast",
        limits: Limits | None = None,
    ) -> None:
        if header_names not in ("replace", "refuse"):
            raise ValueError(f"header_names must be replace or refuse, not {header_names!r}")
        if not 0 <= start <= end:
            raise ValueError(f"not a range of offsets: [{start}, {end})")
        if isolation_level not in ("read_committed", "read_uncommitted"):
            raise ValueError(f"isolation_level must be read_committed or read_uncommitted, not {isolation_level!r}")
        options = Options(
            topic=topic,
            partition=partition,
            start=start,
            end=end,
            read_committed=isolation_level == "read_committed",
            headers=headers,
            raw_headers=raw_headers,
            header_names=header_names,
            set_refused_aside=set_refused_aside,
            provenance=provenance,
            null_timestamps=null_timestamps,
            check_crcs=check_crcs,
            limits=limits or Limits(),
        )
        self._end = end
        self._schema = options.schema
        self._engine = _make(engine, options)

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch that feed and finish return."""
        return self._schema

    @property
    def next_offset(self) -> int:
        """The offset at which the next Fetch must start; `end` once the range is complete."""
        return self._engine.next_offset

    @property
    def counts(self) -> DecodeCounts:
        """Counts of all offsets passed so far; up to date after an iterator of `feed` has been read to its end."""
        return self._engine.counts

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Absent offsets seen, as ascending disjoint (first, end) pairs; together they are `counts.absent`."""
        return self._engine.gaps

    @property
    def refused(self) -> list[tuple[int, Fault]]:
        """The records that were left out, by ascending offset, and why; they are `counts.refused`."""
        return self._engine.refused

    def feed(
        self,
        records: bytes | bytearray | memoryview,
        aborted: Sequence[tuple[int, int]] = (),
        *,
        file: str | None = None,
        position: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        """Decodes the record set of one Fetch answer; `aborted` is that answer's list of (producer id, first offset).

        file, position: where the record set is, for the columns of that name.

        Read the iterator to its end before the next call: decoding happens while it is read. Rows that do not fill an
        Arrow batch are kept for the next feed or finish. Batches below `next_offset` and beyond the range are skipped,
        and an incomplete last batch is ignored. The record set may be freed afterwards.

        Raises RecordFormatError; after that, the decoder cannot be used any more.
        """
        return self._engine.feed(memoryview(records), aborted, file, position)

    def skip_to(self, offset: int) -> None:
        """Counts everything from `next_offset` up to `offset` as absent, because the broker says so.

        For offsets that no batch covers: below the log's start, or at an end that compaction has emptied.
        """
        self._engine.skip_to(offset)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The rows that were kept. Raises ValueError if the range has not been read to its end."""
        if self.next_offset < self._end:
            raise ValueError(f"the range ends at offset {self._end}, but only those below {self.next_offset} were read")
        return self._engine.flush()


def _make(engine: str, options: Options) -> Engine:
    if engine == "fast":
        from kseg.segment_reader.decode.compiled import CompiledEngine

        return CompiledEngine(options)
    if engine == "reference":
        from kseg.segment_reader.decode.reference import ReferenceEngine

        return ReferenceEngine(options)
    raise ValueError(f"engine must be fast or reference, not {engine!r}")
