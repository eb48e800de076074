"""Base of both decoders: options, limits, counts, aborted transactions, and their signature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import pyarrow as pa

from kseg.segment_reader.codecs.limits import DEFAULT_LIMIT, MAX_BATCH_BYTES
from kseg.segment_reader.decode.schema import arrow_schema, row_cost
from kseg.segment_reader.errors import BatchAddress, Fault, RecordFormatError

HeaderNames = Literal["replace", "refuse"]
"""What becomes of a header's name that is not UTF-8: U+FFFD in place of the wrong bytes, as in Java's client, or an
UnrepresentableRecord."""


@dataclass(frozen=True)
class Limits:
    """Sizes that bound memory.

    max_rows, max_bytes: where an Arrow batch is cut; a row is never split, so one larger row is a batch of its own.
    group_bytes: how much is decompressed before it is decoded.
    max_batch_bytes: what one compressed batch may decompress to (BatchTooLarge above).
    """

    max_rows: int = 8192
    max_bytes: int = 64 << 20
    group_bytes: int = 1 << 20
    max_batch_bytes: int = DEFAULT_LIMIT

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_bytes", "group_bytes", "max_batch_bytes"):
            value = getattr(self, name)
            if not 1 <= value <= MAX_BATCH_BYTES:
                raise ValueError(f"{name} must be between 1 and {MAX_BATCH_BYTES}, not {value}")


@dataclass
class DecodeCounts:
    """Offsets of the range by kind, and what was read for them.

    data + control + aborted + absent + refused is the number of offsets passed so far. `batches` and `bytes` count the
    frames that the range touches: a frame that two ranges share counts in both.
    """

    data: int = 0
    control: int = 0
    aborted: int = 0
    absent: int = 0
    batches: int = 0
    bytes: int = 0
    refused: int = 0


@dataclass(frozen=True)
class Options:
    """One range of one partition, and how its rows look (see RangeDecoder)."""

    topic: str
    partition: int
    start: int
    end: int
    read_committed: bool
    headers: bool = True
    raw_headers: bool = False
    header_names: HeaderNames = "replace"
    set_refused_aside: bool = False
    provenance: bool = False
    null_timestamps: bool = True
    check_crcs: bool = True
    limits: Limits = field(default_factory=Limits)

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(headers=self.headers, provenance=self.provenance, raw_headers=self.raw_headers)

    @property
    def row_cost(self) -> int:
        return row_cost(self.topic, headers=self.headers, provenance=self.provenance)

    def fault(
        self, fault: Fault, base_offset: int, position: int, *, offset: int | None = None, detail: str = ""
    ) -> RecordFormatError:
        address = BatchAddress(self.topic, self.partition, base_offset, position)
        return fault.error(address, offset=offset, detail=detail)


class Engine(Protocol):
    """The signature that both decoders share. `next_offset`: the first offset not yet passed."""

    @property
    def counts(self) -> DecodeCounts: ...

    @property
    def next_offset(self) -> int: ...

    @property
    def gaps(self) -> list[tuple[int, int]]: ...

    @property
    def refused(self) -> list[tuple[int, Fault]]: ...

    def feed(
        self, records: bytes | memoryview, aborted: Sequence[tuple[int, int]], file: str | None, position: int
    ) -> Iterator[pa.RecordBatch]: ...

    def skip_to(self, offset: int) -> None: ...

    def flush(self) -> Iterator[pa.RecordBatch]: ...


class AbortedTransactions:
    """The producers whose transactions are aborted at the current frame.

    A Fetch answer lists (producer id, first offset) of every aborted transaction that overlaps it. An entry counts from
    its first offset on, until that producer's ABORT marker: nothing else closes it, and the epoch is never compared
    (the marker's may be one above its data's). The list is complete for its answer, so each answer starts afresh; only
    the markers seen are kept, and an entry that began before one of them is closed already.
    """

    def __init__(self) -> None:
        self._closed: dict[int, int] = {}
        self._pending: list[tuple[int, int]] = []
        self._open: set[int] = set()

    def restart(self, aborted: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Takes the list of a new answer; returns what counts of it as (first offset, producer id), ascending."""
        closed = self._closed
        entries = {(first, producer) for producer, first in aborted if first >= closed.get(producer, -1)}
        self._pending = sorted(entries, reverse=True)
        self._open = set()
        return self._pending[::-1]

    def advance(self, last_offset: int) -> None:
        """Opens the entries that begin at or before a frame's last offset."""
        while self._pending and self._pending[-1][0] <= last_offset:
            self._open.add(self._pending.pop()[1])

    def close(self, producer_id: int, marker_offset: int) -> None:
        """An ABORT marker of this producer."""
        self._open.discard(producer_id)
        self._closed[producer_id] = marker_offset

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._open
