"""The sequence numbers of one partition, as an idempotent producer counts them (KIP-98, KIP-360, KIP-679).

A leader takes a batch whose first sequence follows the last one it has from that producer id and epoch, knows the last
five again, and rejects anything else with OUT_OF_ORDER_SEQUENCE_NUMBER. So:

- A batch keeps its sequence over every retry, and is sent again only when none before it is open.
- No more than five batches are numbered from the first open one on. That one may be in the log already, its answer
  lost: with a sixth behind it the leader would not know it again, it would be taken for a gap, and be written twice.
- A batch that is rejected while earlier ones are open is sent again after these: its rejection follows from theirs.
- A rejection of the *first* open batch means a gap that is never filled: a batch before it was given up (rejected
  for good, or expired), or the leader has lost what it had. None of the open ones can have been appended then, and
  they start again: at sequence 0 of an epoch of the partition that is one higher. A transaction cannot: it has lost
  records, and is aborted.

Java bumps one epoch for all partitions; leaders check each partition by itself, so here each has its own.
"""

from __future__ import annotations

from typing import Final

from kseg.client.producer.batch import NO_SEQUENCE, Batch

MAX_EPOCH: Final = 2**15 - 1
#: How many of a producer's last batches a leader knows again.
REMEMBERED: Final = 5


class Sequences:
    """The sequence numbers of a partition's next batches. Used by the I/O thread alone."""

    __slots__ = ("acknowledged", "last_offset", "next", "numbered", "open", "producer_epoch", "producer_id")

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.next = 0
        self.numbered = 0
        self.acknowledged = NO_SEQUENCE
        self.last_offset = -1
        self.open: list[Batch] = []

    def assign(self, batch: Batch) -> None:
        """A batch is about to be sent: number it, if it is not numbered yet."""
        if batch.sequence == NO_SEQUENCE:
            batch.producer_id, batch.producer_epoch = self.producer_id, self.producer_epoch
            batch.sequence = self.next
            batch.place = self.numbered
            self.next = batch.next_sequence
            self.numbered += 1
            self.open.append(batch)

    @property
    def has_capacity(self) -> bool:
        """Whether the leader would still know the first open batch again with one more new batch behind it."""
        return not self.open or self.numbered - self.open[0].place < REMEMBERED

    @property
    def known_to_leader(self) -> bool:
        """Whether the leader has a batch of this epoch. One that has none takes *any* first sequence: were the first
        batch rejected and the second in flight with it, the second would be written first."""
        return self.acknowledged != NO_SEQUENCE

    def is_first(self, batch: Batch) -> bool:
        """Whether no batch before it is open."""
        return not self.open or self.open[0] is batch

    def appended(self, batch: Batch) -> None:
        self._close(batch)
        if batch.sequence != NO_SEQUENCE and batch.producer_epoch == self.producer_epoch:
            self.acknowledged = (batch.next_sequence - 1) % (2**31)
        self.last_offset = max(self.last_offset, batch.base_offset + batch.count - 1)

    def failed_for_good(self, batch: Batch) -> None:
        """It failed for good. Whether that leaves a gap is known to the leader only."""
        self._close(batch)

    def replaced(self, batch: Batch, halves: tuple[Batch, Batch]) -> None:
        """A batch that was too large is now two, with the same sequences."""
        if batch in self.open:
            at = self.open.index(batch)
            self.open[at : at + 1] = halves

    def restart(self, producer_id: int, producer_epoch: int) -> None:
        """All open batches from sequence 0 on, under these ids; responses to those still in flight are ignored."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.next = 0
        self.acknowledged = NO_SEQUENCE
        for batch in self.open:
            batch.producer_id, batch.producer_epoch = producer_id, producer_epoch
            batch.sequence = self.next
            self.next = batch.next_sequence

    def _close(self, batch: Batch) -> None:
        if batch in self.open:
            self.open.remove(batch)
