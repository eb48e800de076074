"""Finds aborted transactions by their markers: the list that a broker adds to a Fetch response, from files alone.

    headers ──► transactional batch: the transaction of its producer is open from there on
            ──► COMMIT or ABORT marker of that producer: the transaction is closed, and its outcome is known

Headers are read in order, and ahead of the batches that are returned as far as open transactions need it: records can
be returned once the marker behind them has been read. Where that is far away, `MarkerIndex` may find the marker sooner;
its result is compared with the marker once that is reached.

Markers may lie outside of the range that the reader decodes and checks, so the checksum of every small batch, and of
every batch that claims to be a marker, is verified here: otherwise a flipped bit could turn a marker into another one,
or into data, or data into a marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from kseg.segment_reader.decode.batch import ABORT_MARKER, COMMIT_MARKER, CONTROL_BIT, TRANSACTIONAL_BIT, frames
from kseg.segment_reader.decode.checksums import first_bad_checksum
from kseg.segment_reader.decode.reference import control_type
from kseg.segment_reader.decode.scan import SMALL
from kseg.segment_reader.decode.table import (
    ATTRIBUTES,
    BASE,
    EPOCH,
    LAST,
    MAGIC,
    MARKER,
    PACKED_MARKER,
    POSITION,
    PRODUCER,
    SIZE,
    as_bytes,
)
from kseg.segment_reader.errors import Fault
from kseg.segment_reader.log.damage.damage import Damage
from kseg.segment_reader.log.errors import LogDamaged, UndecidedTransaction
from kseg.segment_reader.log.scan.headers import Piece
from kseg.segment_reader.log.transactions.index import Marker, OngoingTransaction

_MAX_CONTROL_BYTES: Final = 1 << 20
_ANY: Final = 1 << 40


HeaderPieces = Iterator[tuple[str, Piece | Damage]]
MarkerLookup = Callable[[OngoingTransaction, int], Marker | None]
_NO_END: Final = 1 << 63
#: Most transactions end soon: so many bytes of headers are read before the index is asked.
READ_AHEAD_BYTES: Final = 4 * 1024 * 1024


class TransactionTracker:
    """The open and aborted transactions of a log, from all its headers in order: by `observe`, or by reading ahead.

    opened: the first offset of each transaction that is open at the first header, by producer id.
    marker_lookup: finds the marker of an open transaction, or None (`index.MarkerIndex`).
    read_ahead_bytes: how many bytes of headers are read before it is called.
    past_damage: damage is observed too. Damage that may have hidden a marker ends every transaction that is open there,
        and so does the log's end: their outcome is `undecided`, and that is no error.
    """

    def __init__(
        self,
        opened: Mapping[int, int] | None = None,
        *,
        past_damage: bool = False,
        marker_lookup: MarkerLookup | None = None,
        read_ahead_bytes: int = READ_AHEAD_BYTES,
    ) -> None:
        #: Frames whose headers were read ahead of the observed ones.
        self.read_ahead = 0
        self._path = ""
        self._seen = -1  # the last offset of the last frame that was read
        self._open: dict[int, int] = dict(opened or {})
        self._last: dict[int, tuple[int, int]] = {}  # of those: the last offset, and the epoch
        self._known: dict[int, Marker] = {}  # of those: the marker that will end them
        self._asked: set[tuple[int, int]] = set()  # producer id, first offset
        self._marker_lookup = marker_lookup
        self._read_ahead_bytes = read_ahead_bytes
        self._aborted: list[tuple[int, int, int]] = []  # producer id, first offset, marker's offset
        self._past_damage = past_damage
        self._undecided: list[tuple[int, int, int]] = []  # producer id, first offset, offset of the damage
        self._ahead: tuple[int, HeaderPieces] = (-1, iter(()))  # the last offset that was read ahead, and the iterator

    @property
    def open(self) -> Mapping[int, int]:
        """The first offset of each transaction that has no marker yet, by producer id."""
        return self._open

    def observe(self, path: str, piece: Piece | Damage) -> None:
        """Takes frames that are in memory, without those that were read ahead already. Raises LogDamaged."""
        if isinstance(piece, Damage):
            if self._seen < piece.first:
                self._drop_open(piece)
            return
        if self._seen >= 0:
            fresh = piece.table[piece.table[:, BASE] > self._seen]
            piece = Piece(fresh, piece.data, piece.start, piece.end)
        if len(piece.table):
            self._follow(path, piece)

    def aborted(self, first: int, last: int, ahead: Callable[[], HeaderPieces]) -> list[tuple[int, int]]:
        """(producer id, first offset) of each aborted transaction with batches within offsets [first, last].

        Reads on until every transaction that began at or below `last` has its marker: `ahead` gives the pieces behind
        the last observed one, each with its file's path. Calls have to ascend.
        Raises UndecidedTransaction where the log ends before that, LogDamaged.
        """
        read = 0
        while self._undetermined(last):
            if read >= self._read_ahead_bytes and self._marker_lookup is not None and self._ask_index(last):
                continue
            given, following_pieces = self._ahead
            if given != self._seen:
                following_pieces = ahead()
            following = next(following_pieces, None)
            if following is None:
                break
            path, piece = following
            if isinstance(piece, Damage):
                self._drop_open(piece)
            else:
                self.read_ahead += len(piece.table)
                read += piece.end - piece.start
                self._follow(path, piece)
            self._ahead = self._seen, following_pieces
        for producer, began in sorted(self._undetermined(last)):
            if not self._past_damage:
                raise UndecidedTransaction(self._path, producer, began)
            self._undecided.append((producer, began, _NO_END))
            del self._open[producer]
        self._aborted = [entry for entry in self._aborted if entry[2] >= first]
        to_be = [(producer, self._open[producer]) for producer, marker in self._known.items() if marker.aborts]
        return [
            (producer, began) for producer, began in (*(entry[:2] for entry in self._aborted), *to_be) if began <= last
        ]

    def _undetermined(self, last: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of open transactions that began at or below `last`, without a known marker."""
        return [(p, began) for p, began in self._open.items() if began <= last and p not in self._known]

    def _ask_index(self, last: int) -> bool:
        """Looks up the markers that were not looked up before. True if one was found."""
        found = False
        for producer, began in self._undetermined(last):
            if (producer, began) in self._asked or producer not in self._last:
                continue
            self._asked.add((producer, began))
            assert self._marker_lookup is not None
            marker = self._marker_lookup(OngoingTransaction(producer, began, *self._last[producer]), self._seen)
            if marker is not None:
                self._known[producer] = marker
                found = True
        return found

    def undecided(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """(producer id, first offset, end) of the transactions with batches within [first, last] whose outcome is
        unknown, after a call of `aborted` for them. Their batches lie below `end`."""
        self._undecided = [entry for entry in self._undecided if entry[2] > first]
        return [entry for entry in self._undecided if entry[1] <= last]

    def _drop_open(self, damage: Damage) -> None:
        if damage.hides_marker:
            self._undecided += [(producer, began, damage.first) for producer, began in self._open.items()]
            self._open.clear()
            self._last.clear()
            self._known.clear()

    def _follow(self, path: str, piece: Piece) -> None:
        table = piece.table
        self._path, self._seen = path, int(table[-1, LAST])
        wrong = first_bad_checksum(as_bytes(piece.data), piece.start, table, SMALL)
        if wrong >= 0:
            raise LogDamaged(path, int(table[wrong, POSITION]), Fault.CRC.reason, int(table[wrong, BASE]))
        chosen = (table[:, MAGIC] == 2) & (table[:, PRODUCER] >= 0) & (table[:, ATTRIBUTES] & TRANSACTIONAL_BIT != 0)
        for row in np.flatnonzero(chosen).tolist():
            producer, base = int(table[row, PRODUCER]), int(table[row, BASE])
            if not table[row, ATTRIBUTES] & CONTROL_BIT:
                self._open.setdefault(producer, base)
                self._last[producer] = int(table[row, LAST]), int(table[row, EPOCH])
                continue
            unchecked = table[row : row + 1] if table[row, SIZE] > SMALL else table[:0]
            if first_bad_checksum(as_bytes(piece.data), piece.start, unchecked, _ANY) >= 0:
                raise LogDamaged(path, int(table[row, POSITION]), Fault.CRC.reason, base)
            marker = self._marker(path, piece, row)
            if marker not in (ABORT_MARKER, COMMIT_MARKER):
                continue  # emptied by compaction: its transaction's data went before it
            self._last.pop(producer, None)
            known = self._known.pop(producer, None)
            if known is not None and known != (base, marker == ABORT_MARKER):
                reason = f"the marker of producer {producer} at {base} ends what one at {known.offset} was taken to end"
                raise LogDamaged(path, int(table[row, POSITION]), reason, base)
            began = self._open.pop(producer, None)
            if began is not None and marker == ABORT_MARKER:
                self._aborted.append((producer, began, base))

    def _marker(self, path: str, piece: Piece, row: int) -> int | None:
        marker = int(piece.table[row, MARKER])
        if marker != PACKED_MARKER:
            return marker
        data = piece.frame(row)
        if data is None:
            reason = "a control batch of impossible size"
            raise LogDamaged(path, int(piece.table[row, POSITION]), reason, int(piece.table[row, BASE]))
        return control_type(data, next(frames(data)), _MAX_CONTROL_BYTES)
