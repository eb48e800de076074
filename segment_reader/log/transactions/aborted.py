"""Which transactions were aborted, told by their markers: what a broker adds to a Fetch answer, found from files alone.

    headers ──► transactional batch: its producer's transaction is open from there on
            ──► COMMIT or ABORT marker of that producer: closed, and its fate known

Headers are followed from the first batch that is read, ahead of it as far as the transactions in it need: a batch's
records can be handed out when the marker behind them was seen. Where that is far, `shortcuts` may know it sooner: what
it tells of a transaction is held against the marker when that is met.

Markers may lie outside of what the reader decodes and checks, so the checksum of every small batch, and of every batch
that claims to be a marker, is compared here: a flipped bit could else turn a marker into another one, or into data, or
data into a marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from kseg.segment_reader.decode.batch import ABORT_MARKER, COMMIT_MARKER, CONTROL_BIT, TRANSACTIONAL_BIT, frames
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
from kseg.segment_reader.log.scan.kernels import first_wrong
from kseg.segment_reader.log.transactions.index import Marker, Opened

_MAX_CONTROL_BYTES: Final = 1 << 20
_ANY: Final = 1 << 40


Walk = Iterator[tuple[str, Piece | Damage]]
Shortcut = Callable[[Opened, int], Marker | None]
_NO_END: Final = 1 << 63
#: Most transactions end soon: so many bytes of the log are walked before a shortcut is looked for.
AHEAD_BYTES: Final = 4 * 1024 * 1024


class Fates:
    """Follows headers in the log's order; all of them have to be shown, by `look_at` or in reading ahead.

    opened: the first offset of each transaction that is open where following begins, by producer id.
    shortcut: knows of a transaction that is open behind an offset how it ends, or does not (`shortcuts.Shortcuts`).
    ahead_bytes: how far to walk before it is asked.
    past_damage: damage is shown too. What may have hidden a marker ends every transaction that is open there, and so
    does the log's end: how they ended is `undecided`, and no error.
    """

    def __init__(
        self,
        opened: Mapping[int, int] | None = None,
        *,
        past_damage: bool = False,
        shortcut: Shortcut | None = None,
        ahead_bytes: int = AHEAD_BYTES,
    ) -> None:
        #: Frames whose headers were read ahead of what was shown.
        self.read_ahead = 0
        self._path = ""
        self._seen = -1  # the last offset of the last frame that was looked at
        self._open: dict[int, int] = dict(opened or {})
        self._last: dict[int, tuple[int, int]] = {}  # of those: the last offset, and the epoch
        self._known: dict[int, Marker] = {}  # of those: how they will end
        self._asked: set[tuple[int, int]] = set()  # producer id, first offset
        self._shortcut = shortcut
        self._ahead_bytes = ahead_bytes
        self._aborted: list[tuple[int, int, int]] = []  # producer id, first offset, marker's offset
        self._past_damage = past_damage
        self._undecided: list[tuple[int, int, int]] = []  # producer id, first offset, where it went out of sight
        self._ahead: tuple[int, Walk] = (-1, iter(()))  # the last offset that it has given, and how it goes on

    @property
    def open(self) -> Mapping[int, int]:
        """The first offset of each transaction that has no marker yet, by producer id."""
        return self._open

    def look_at(self, path: str, piece: Piece | Damage) -> None:
        """Shows frames that are in memory. Those that were read ahead already are passed over. Raises LogDamaged."""
        if isinstance(piece, Damage):
            if self._seen < piece.first:
                self._interrupt(piece)
            return
        if self._seen >= 0:
            fresh = piece.table[piece.table[:, BASE] > self._seen]
            piece = Piece(fresh, piece.data, piece.start, piece.end)
        if len(piece.table):
            self._follow(path, piece)

    def aborted(self, first: int, last: int, ahead: Callable[[], Walk]) -> list[tuple[int, int]]:
        """(producer id, first offset) of each aborted transaction with batches within offsets [first, last].

        Goes on until every transaction that began at or below `last` has its marker: `ahead` gives the pieces behind
        what was shown last, each with its file's path. Calls have to ascend.
        Raises UndecidedTransaction where the log ends before that, LogDamaged.
        """
        walked = 0
        while self._unknown(last):
            if walked >= self._ahead_bytes and self._shortcut is not None and self._ask(last):
                continue
            given, walk = self._ahead
            if given != self._seen:
                walk = ahead()
            following = next(walk, None)
            if following is None:
                break
            path, piece = following
            if isinstance(piece, Damage):
                self._interrupt(piece)
            else:
                self.read_ahead += len(piece.table)
                walked += piece.end - piece.start
                self._follow(path, piece)
            self._ahead = self._seen, walk
        for producer, began in sorted(self._unknown(last)):
            if not self._past_damage:
                raise UndecidedTransaction(self._path, producer, began)
            self._undecided.append((producer, began, _NO_END))
            del self._open[producer]
        self._aborted = [entry for entry in self._aborted if entry[2] >= first]
        to_be = [(producer, self._open[producer]) for producer, marker in self._known.items() if marker.aborts]
        return [
            (producer, began) for producer, began in (*(entry[:2] for entry in self._aborted), *to_be) if began <= last
        ]

    def _unknown(self, last: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the open transactions that began at or below `last` and may end either way."""
        return [(p, began) for p, began in self._open.items() if began <= last and p not in self._known]

    def _ask(self, last: int) -> bool:
        """Looks for shortcuts that were not looked for yet. True if there was one."""
        found = False
        for producer, began in self._unknown(last):
            if (producer, began) in self._asked or producer not in self._last:
                continue
            self._asked.add((producer, began))
            assert self._shortcut is not None
            marker = self._shortcut(Opened(producer, began, *self._last[producer]), self._seen)
            if marker is not None:
                self._known[producer] = marker
                found = True
        return found

    def undecided(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """(producer id, first offset, end) of the transactions with batches within [first, last] that nobody can
        decide; of what `aborted` was asked for before. Their batches stand below `end`."""
        self._undecided = [entry for entry in self._undecided if entry[2] > first]
        return [entry for entry in self._undecided if entry[1] <= last]

    def _interrupt(self, damage: Damage) -> None:
        if damage.hides_marker:
            self._undecided += [(producer, began, damage.first) for producer, began in self._open.items()]
            self._open.clear()
            self._last.clear()
            self._known.clear()

    def _follow(self, path: str, piece: Piece) -> None:
        table = piece.table
        self._path, self._seen = path, int(table[-1, LAST])
        wrong = first_wrong(as_bytes(piece.data), piece.start, table, SMALL)
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
            if first_wrong(as_bytes(piece.data), piece.start, unchecked, _ANY) >= 0:
                raise LogDamaged(path, int(table[row, POSITION]), Fault.CRC.reason, base)
            marker = self._marker(path, piece, row)
            if marker not in (ABORT_MARKER, COMMIT_MARKER):
                continue  # emptied by compaction: its transaction's data went before it
            self._last.pop(producer, None)
            known = self._known.pop(producer, None)
            if known is not None and known != (base, marker == ABORT_MARKER):
                told = f"the marker of producer {producer} at {base} ends what one at {known.offset} was taken to end"
                raise LogDamaged(path, int(table[row, POSITION]), told, base)
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
