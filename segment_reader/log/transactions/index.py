"""The marker of a transaction that is open for long, without reading all headers up to it.

    P's batches ····· snapshot: open ····· snapshot: open ····· ABORT of P ····· snapshot: closed
                                           └── its marker can only be here ──┘
                                           .txnindex of that segment: (P, first offset, the marker's offset)

A `.snapshot` has a checksum and lists the transactions that were open where a segment begins (brokers since 2.8 keep
one a segment). Two consecutive snapshots, one with P's transaction open and one without, enclose its marker.

A `.txnindex` has no checksum, and a wrong entry may name a marker that ended another transaction of P. So its entry is
used only if all of this holds:

- the batch at its last offset is an ABORT marker of P, with a right checksum and an epoch that P had then,
- its first offset is the transaction's own, as the log or the earlier snapshot has it,
- between the two snapshots P wrote nothing more: the later one still has P's last offset. Then there was no second
  transaction with data that the marker could belong to, and a marker without data has no entry.

Without such an entry the headers between the two snapshots are read, if that saves more than a segment. That is also
the case where the marker has the next epoch, as under KIP-890: a snapshot forgets the offsets of the epoch before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Final, NamedTuple

import numpy as np

from kseg.segment_reader.decode.batch import ABORT_MARKER, COMMIT_MARKER, CONTROL_BIT, TRANSACTIONAL_BIT
from kseg.segment_reader.decode.checksums import first_bad_checksum
from kseg.segment_reader.decode.scan import SMALL
from kseg.segment_reader.decode.table import ATTRIBUTES, BASE, EPOCH, MAGIC, MARKER, PRODUCER, as_bytes
from kseg.segment_reader.log.errors import CorruptIndex, CorruptSnapshot, LogDamaged, SegmentGone
from kseg.segment_reader.log.files.index_entries import IndexFile
from kseg.segment_reader.log.files.indexes import AbortedEntry, aborted_transactions
from kseg.segment_reader.log.files.preallocation import open_segment
from kseg.segment_reader.log.files.producer_snapshots import ProducerState, producer_snapshot
from kseg.segment_reader.log.files.segments import PartitionLog, Segment
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.headers import Piece, pieces
from kseg.segment_reader.log.scan.lookup import first_batch

_KEPT: Final = 4
_WORTH_A_SCAN: Final = 2
_NO_END: Final = 1 << 63
_ANY_SIZE: Final = 1 << 40


class OngoingTransaction(NamedTuple):
    """An open transaction as far as it was read: its producer, first and last offset, and the producer's epoch."""

    producer_id: int
    first: int
    last: int
    epoch: int


class Marker(NamedTuple):
    """The marker that ends a transaction: its offset, and whether it is an ABORT."""

    offset: int
    aborts: bool


class MarkerIndex:
    """Finds markers in one partition's files. The last few snapshots that were read are kept."""

    def __init__(self, storage: Storage, log: PartitionLog) -> None:
        self._storage = storage
        self._log = log
        self._snapshots = sorted(log.snapshots)
        self._states: dict[str, dict[int, ProducerState]] = {}

    def find_marker(self, opened: OngoingTransaction, seen: int) -> Marker | None:
        """The marker that ends a transaction that is open behind offset `seen`; None without a quick way to it."""
        later = [snapshot for snapshot in self._snapshots if snapshot[0] > seen + 1]
        try:
            closed = self._first_without(opened, later)
            if not later:
                return None
            before = self._at(later[closed - 1])[opened.producer_id] if closed else None
            since = later[closed - 1][0] if closed else seen + 1
            until = later[closed][0] if closed < len(later) else _NO_END
            last = opened.last if before is None else before.last_offset
            first = opened.first if before is None else before.current_txn_first_offset
            after = self._at(later[closed]).get(opened.producer_id) if closed < len(later) else None
            if after is not None and after.last_offset == last:
                marker = self._indexed(opened._replace(first=first), since, until)
                if marker is not None:
                    return marker
            if self._log.segment_at(since) - self._log.segment_at(seen + 1) >= _WORTH_A_SCAN:
                return self._scanned(opened.producer_id, since, until)
        except (CorruptSnapshot, SegmentGone, LogDamaged):
            pass  # reading all headers finds the error, if it matters
        return None

    def _first_without(self, opened: OngoingTransaction, later: list[tuple[int, str]]) -> int:
        """The number of the first snapshot in which the transaction is not open any more."""
        low, high = 0, len(later)
        while low < high:
            middle = (low + high) // 2
            state = self._at(later[middle]).get(opened.producer_id)
            if state is not None and 0 <= state.current_txn_first_offset <= opened.first:
                low = middle + 1
            else:
                high = middle
        return low

    def _at(self, snapshot: tuple[int, str]) -> dict[int, ProducerState]:
        _, path = snapshot
        if path not in self._states:
            states = {state.producer_id: state for state in producer_snapshot(self._storage.read_all(path), path)}
            if len(self._states) >= _KEPT:
                del self._states[next(iter(self._states))]
            self._states[path] = states
        return self._states[path]

    def _indexed(self, opened: OngoingTransaction, since: int, until: int) -> Marker | None:
        found = {
            (segment, entry.last_offset)
            for segment in self._between(since, until)
            for entry in self._entries(segment)
            if (entry.producer_id, entry.first_offset) == (opened.producer_id, opened.first)
            and since <= entry.last_offset < until
        }
        if len(found) != 1:
            return None
        segment, offset = found.pop()
        return Marker(offset, aborts=True) if self._is_abort(segment, offset, opened) else None

    def _entries(self, number: int) -> list[AbortedEntry]:
        path = self._log.segments[number].others.get("txnindex")
        if path is None:
            return []
        found: list[AbortedEntry] = []
        with suppress(CorruptIndex):  # entries before the error are valid
            found.extend(aborted_transactions(self._storage.read_all(path), path))
        return found

    def _is_abort(self, number: int, offset: int, opened: OngoingTransaction) -> bool:
        for piece in self._pieces(number, offset):
            row = piece.table[0]
            return bool(
                row[BASE] == offset
                and row[MAGIC] == 2
                and row[PRODUCER] == opened.producer_id
                and opened.epoch <= row[EPOCH] <= opened.epoch + 1  # fencing, and KIP-890, end it with the next one
                and row[ATTRIBUTES] & TRANSACTIONAL_BIT
                and row[ATTRIBUTES] & CONTROL_BIT
                and row[MARKER] == ABORT_MARKER
                and first_bad_checksum(as_bytes(piece.data), piece.start, piece.table[:1], _ANY_SIZE) < 0
            )
        return False

    def _scanned(self, producer: int, since: int, until: int) -> Marker | None:
        """The first marker of a producer within offsets [since, until)."""
        for number in self._between(since, until):
            for piece in self._pieces(number, since):
                table = piece.table
                of_one = (table[:, PRODUCER] == producer) & (table[:, BASE] >= since) & (table[:, MAGIC] == 2)
                of_one &= table[:, ATTRIBUTES] & TRANSACTIONAL_BIT != 0
                of_one &= table[:, ATTRIBUTES] & CONTROL_BIT != 0
                for row in np.flatnonzero(of_one).tolist():
                    if table[row, BASE] >= until or table[row, MARKER] not in (ABORT_MARKER, COMMIT_MARKER):
                        return None
                    data = as_bytes(piece.data)
                    if first_bad_checksum(data, piece.start, table[:row], SMALL) >= 0:
                        return None
                    if first_bad_checksum(data, piece.start, table[row : row + 1], _ANY_SIZE) >= 0:
                        return None
                    return Marker(int(table[row, BASE]), aborts=bool(table[row, MARKER] == ABORT_MARKER))
                # A marker with a flipped bit may look like something else: then all headers have to be read.
                if first_bad_checksum(as_bytes(piece.data), piece.start, table, SMALL) >= 0:
                    return None
        return None

    def _pieces(self, number: int, offset: int) -> Iterator[Piece]:
        """Headers of a segment from the batch on that holds an offset, or is the next one."""
        segment: Segment = self._log.segments[number]
        with closing(open_segment(self._storage, segment)) as file, closing(IndexFile(self._storage, segment)) as index:
            position = first_batch(segment, file, index, offset).position if offset > segment.base_offset else 0
            yield from pieces(file, position)

    def _between(self, since: int, until: int) -> list[int]:
        """The numbers of the segments with offsets [since, until)."""
        segments = self._log.segments
        first = self._log.segment_at(since)
        return [number for number in range(first, len(segments)) if segments[number].base_offset < until]
