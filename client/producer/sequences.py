"""The sequence numbers of one partition, as an idempotent producer counts them (KIP-98, KIP-360, KIP-679).

A leader accepts a batch whose first sequence follows the last one of that producer id and epoch, recognizes duplicates
of the last five batches, and rejects anything else with OUT_OF_ORDER_SEQUENCE_NUMBER. A numbered batch is open until it
is appended or has failed. So:

- A batch keeps its sequence in every retry, and is retried only when no batch before it is open.
- At most five batches are numbered from the first open one on. That one may be in the log already, with its response
  lost: after a sixth, the leader would not recognize the duplicate; it would look like a gap, and be written twice.
- A batch that is rejected while earlier ones are open is retried after these: its rejection follows from theirs.
- A rejection of the *first* open batch means a gap that is never filled: a batch before it has failed (rejected or
  expired), or the leader has lost its state. Then none of the open batches can have been appended, and they restart at
  sequence 0, with the partition's epoch plus one. A transaction cannot do that: it has lost records, and is aborted.

Java bumps one epoch for all partitions; leaders check each partition separately, so here each has its own.
"""

from __future__ import annotations

from typing import Final

from kseg.client.producer.batch import NO_SEQUENCE, ProducerBatch

MAX_EPOCH: Final = 2**15 - 1
#: For how many of a producer's last batches a leader recognizes duplicates.
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
        self.open: list[ProducerBatch] = []

    def assign(self, batch: ProducerBatch) -> None:
        """Number a batch that is about to be sent, if it has no number yet."""
        if batch.sequence == NO_SEQUENCE:
            batch.producer_id, batch.producer_epoch = self.producer_id, self.producer_epoch
            batch.sequence = self.next
            batch.place = self.numbered
            self.next = batch.next_sequence
            self.numbered += 1
            self.open.append(batch)

    @property
    def has_capacity(self) -> bool:
        """Whether the leader would still recognize the first open batch after one more new batch."""
        return not self.open or self.numbered - self.open[0].place < REMEMBERED

    @property
    def known_to_leader(self) -> bool:
        """Whether the leader has a batch of this epoch. One without accepts *any* first sequence: if the first batch
        were rejected while the second is in flight, the second would be written first."""
        return self.acknowledged != NO_SEQUENCE

    def is_first(self, batch: ProducerBatch) -> bool:
        """Whether no batch before it is open."""
        return not self.open or self.open[0] is batch

    def appended(self, batch: ProducerBatch) -> None:
        self._close(batch)
        if batch.sequence != NO_SEQUENCE and batch.producer_epoch == self.producer_epoch:
            self.acknowledged = (batch.next_sequence - 1) % (2**31)
        self.last_offset = max(self.last_offset, batch.base_offset + batch.count - 1)

    def failed_for_good(self, batch: ProducerBatch) -> None:
        """A batch has failed for good. Only the leader knows whether that leaves a gap."""
        self._close(batch)

    def replaced(self, batch: ProducerBatch, halves: tuple[ProducerBatch, ProducerBatch]) -> None:
        """A batch that was too large is now two, with the same sequences."""
        if batch in self.open:
            at = self.open.index(batch)
            self.open[at : at + 1] = halves

    def restart(self, producer_id: int, producer_epoch: int) -> None:
        """Number all open batches again from sequence 0, with these ids. None may be in flight."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.next = 0
        self.acknowledged = NO_SEQUENCE
        for batch in self.open:
            batch.producer_id, batch.producer_epoch = producer_id, producer_epoch
            batch.sequence = self.next
            self.next = batch.next_sequence

    def _close(self, batch: ProducerBatch) -> None:
        if batch in self.open:
            self.open.remove(batch)
