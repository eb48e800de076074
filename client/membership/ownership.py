"""The partitions that a member owns, and the listeners that are called on every change.

on_revoked   before partitions are given up: the last moment to commit what was read of them
on_lost      partitions that another member owns already: a commit would fail; on_revoked where it is not set
on_assigned  after partitions were gained
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kseg.client.protocol.partition import TopicPartition

Listener = Callable[[frozenset[TopicPartition]], object]


@dataclass(frozen=True, slots=True)
class AssignmentChange:
    """What has changed since the last poll that gave a change, all at once.

    A partition may be in `assigned` and in `revoked`: it was given up for a rebalance and came back (eager
    strategies). `lost` are those that were taken away without being asked. `owned` is what there is now.
    """

    assigned: frozenset[TopicPartition]
    revoked: frozenset[TopicPartition]
    lost: frozenset[TopicPartition]
    owned: frozenset[TopicPartition]


@dataclass(slots=True)
class Ownership:
    """The partitions owned, the user's listeners, and the change that the next poll returns."""

    on_assigned: Listener | None = None
    on_revoked: Listener | None = None
    on_lost: Listener | None = None
    owned: frozenset[TopicPartition] = frozenset()
    _assigned: set[TopicPartition] = field(default_factory=set)
    _revoked: set[TopicPartition] = field(default_factory=set)
    _lost: set[TopicPartition] = field(default_factory=set)

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Give partitions up; whatever a listener raises comes after they are given up."""
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
        """All partitions belong to other members now."""
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
        """The changes since this was asked last; None: none."""
        if not (self._assigned or self._revoked or self._lost):
            return None
        change = AssignmentChange(
            frozenset(self._assigned), frozenset(self._revoked), frozenset(self._lost), self.owned
        )
        self._assigned, self._revoked, self._lost = set(), set(), set()
        return change
