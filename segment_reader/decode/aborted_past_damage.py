"""Finds the aborted transactions that are open in a record set with damage: damage may have hidden the marker that ends
one.

A Fetch answer lists (producer id, first offset) of aborted transactions, without their ends: see
engine.AbortedTransactions. After damage that may have hidden a marker, what follows decides about a transaction that
was open before it:

    data of P ... damage ... data of P ... ABORT of P       aborted: its marker was not in the damage
    data of P ... damage ... data of P ... COMMIT of P      its marker was in the damage, and what follows is committed
    data of P ... damage ... data of P ... more damage, or the record set's end      undecided
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kseg.segment_reader.decode.batch import ABORT_MARKER, COMMIT_MARKER, CONTROL_BIT, TRANSACTIONAL_BIT
from kseg.segment_reader.decode.table import ATTRIBUTES, BASE, LAST, MAGIC, MARKER, PRODUCER

#: The reason of batches whose transaction's outcome is unknown.
UNDECIDED: Final = "undecided: whether its transaction was committed can not be told"

Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]
Entries = list[tuple[int, int]]


class AbortedPastDamage:
    """The (producer id, first offset) of aborted transactions that count at a batch. Batches and damage ascend.

    What has ended is remembered for the next record sets, too: their lists may repeat it.
    """

    def __init__(self) -> None:
        self._ended: dict[int, int] = {}  # producer id: its transactions that began below this offset have ended
        self._listed: Entries = []

    def restart(self, aborted: Sequence[tuple[int, int]]) -> None:
        """Takes the list of a new record set."""
        self._listed = list(aborted)

    def after(self, batches: Table) -> Entries:
        """The entries that count behind these batches, which follow what was passed."""
        return self._without(self._ended | _aborts(batches))

    def pass_batches(self, batches: Table) -> None:
        """Headers of valid batches."""
        self._ended |= _aborts(batches)

    def pass_damage(self, end: int, following: Table) -> list[int]:
        """Damage below offset `end` that may have hidden markers; `following` are the valid batches from there up to
        the next such damage. Returns which of them are undecided, by row."""
        unknown: list[int] = []
        entries = self._without(self._ended)
        for producer in sorted({producer for producer, first in entries if first < end}):
            # From an entry behind the damage on, the list itself says what is aborted.
            until = min((first for one, first in entries if one == producer and first >= end), default=1 << 63)
            own = (following[:, MAGIC] == 2) & (following[:, PRODUCER] == producer) & (following[:, LAST] < until)
            markers = following[own & np.isin(following[:, MARKER], (ABORT_MARKER, COMMIT_MARKER)), MARKER]
            if not len(markers):
                data = following[:, ATTRIBUTES] & (TRANSACTIONAL_BIT | CONTROL_BIT) == TRANSACTIONAL_BIT
                unknown += np.flatnonzero(own & data).tolist()
            elif markers[0] == COMMIT_MARKER:
                self._ended[producer] = end
        return unknown

    def _without(self, ended: dict[int, int]) -> Entries:
        return [(producer, first) for producer, first in self._listed if first >= ended.get(producer, -1)]


def _aborts(batches: Table) -> dict[int, int]:
    """The offset of each producer's last ABORT marker."""
    chosen = (batches[:, MAGIC] == 2) & (batches[:, PRODUCER] >= 0) & (batches[:, MARKER] == ABORT_MARKER)
    return dict(batches[chosen][:, [PRODUCER, BASE]].tolist())
