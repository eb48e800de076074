"""The partitions that a member owns, and the listeners that are called on every change.

on_revoked   before partitions are revoked: the last chance to commit their offsets
on_lost      for partitions that other members may own already: a commit would fail. If it is not set: on_revoked
on_assigned  after partitions were assigned
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kseg.client.protocol.partition import TopicPartition

Listener = Callable[[frozenset[TopicPartition]], object]


@dataclass(frozen=True, slots=True)
class AssignmentChange:
    """All changes since the last poll that returned a change.

    A partition may be both in `assigned` and in `revoked`: an eager rebalance revoked it and assigned it again. `lost`:
    partitions that were taken away without a chance to commit. `owned`: the partitions that the member has now.
    """

    assigned: frozenset[TopicPartition]
    revoked: frozenset[TopicPartition]
    lost: frozenset[TopicPartition]
    owned: frozenset[TopicPartition]


@dataclass(slots=True)
class Ownership:
    """The owned partitions, the user's listeners, and the change that the next poll returns."""

    on_assigned: Listener | None = None
    on_revoked: Listener | None = None
    on_lost: Listener | None = None
    owned: frozenset[TopicPartition] = frozenset()
    _assigned: set[TopicPartition] = field(default_factory=set)
    _revoked: set[TopicPartition] = field(default_factory=set)
    _lost: set[TopicPartition] = field(default_factory=set)

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Revoke partitions. They are revoked even if the listener raises; its exception is passed on."""
        going = self.owned.intersection(partitions)
        if not going:
            return
        try:
            if self.on_revoked is not None:
                self.on_revoked(going)
        finally:
            self.owned -= going
            self._revoked |= going
            self._assigned -= going

    def lose(self) -> None:
        """Drop all partitions: other members may own them now."""
        gone, self.owned = self.owned, frozenset()
        if not gone:
            return
        self._lost |= gone
        self._assigned -= gone
        listener = self.on_lost or self.on_revoked
        if listener is not None:
            listener(gone)

    def gain(self, partitions: Iterable[TopicPartition]) -> None:
        new = frozenset(partitions) - self.owned
        if not new:
            return
        self.owned |= new
        self._assigned |= new
        if self.on_assigned is not None:
            self.on_assigned(new)

    def take_change(self) -> AssignmentChange | None:
        """The changes since the last call; None if there are none."""
        if not (self._assigned or self._revoked or self._lost):
            return None
        change = AssignmentChange(
            frozenset(self._assigned), frozenset(self._revoked), frozenset(self._lost), self.owned
        )
        self._assigned, self._revoked, self._lost = set(), set(), set()
        return change
