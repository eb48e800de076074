"""The offsets that a streaming query writes into its checkpoint, with the ids and leader epochs of their logs.

    {"orders": {"0": 23, "1": 7},
     "@kseg": {"cluster": "…", "topics": {"orders": {"id": "…", "epochs": {"0": 4, "1": 4}}},
               "missing": {"bills": {"0": {"offset": 9, "id": "…", "epoch": 4, "since": 1767225600000}}}}}

Topics and offsets are written as by Spark's own Kafka source, so that its checkpoints can be continued. Other fields
are under a name that no topic can have: the cluster, the topics' ids (KIP-516) and the leader epochs (KIP-320), by
which recreated topics and truncated logs are detected. "missing" (only if there are any) has partitions that the query
has read and that the cluster did not list: without failOnDataLoss the query goes on without them, and continues there
if they return. One response without a partition would otherwise make the query read it again from the log's start.
They are forgotten after a week, or topics that are created and deleted each day would make the checkpoint grow.

The rate limit of a micro-batch (`maxOffsetsPerTrigger`) is shared by partitions in proportion to the available offsets.
As in Spark's source, offsets are counted, not records: aborted records, markers and compacted offsets count as well.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused


def take_at_most(
    limit: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The ends of a micro-batch of at most `limit` offsets over all partitions; exactly `limit` if more are available.

    starts: of every partition in `ends`, none above its end. If the limit allows it, each partition with available
    offsets gets at least one, so that no partition starves. The rest is divided in proportion to the available offsets;
    the partitions with the largest remainders get one more.
    """
    waiting = {tp: end - starts[tp] for tp, end in ends.items() if end > starts[tp]}
    if sum(waiting.values()) <= limit:
        return dict(ends)
    first = 1 if limit >= len(waiting) else 0
    more = {tp: length - first for tp, length in waiting.items()}
    total, limit = sum(more.values()), limit - first * len(waiting)
    shares = {tp: first + length * limit // total for tp, length in more.items()}
    left = limit - sum(share - first for share in shares.values())
    for tp in sorted(more, key=lambda tp: (-(more[tp] * limit % total), tp))[:left]:
        shares[tp] += 1
    return {tp: starts[tp] + shares.get(tp, 0) for tp in ends}


_OWN = "@kseg"
_KEPT_MS = 7 * 24 * 3_600_000


class MissingPartition(NamedTuple):
    """The offset at which a missing partition continues, if it returns. topic_id None, epoch -1: unknown.

    since: when it was first missing, in milliseconds since 1970.
    """

    offset: int
    topic_id: UUID | None
    epoch: int
    since: int


@dataclass(frozen=True)
class StreamOffsets:
    """The start or end offsets of a micro-batch.

    pinned: whether this source wrote them; False for `{}` and for those of Spark's own Kafka source.
    ids, epochs: as they were when the offsets were listed; topics and partitions without one are left out.
    missing: partitions that the query has read and that are not in `offsets`, because the cluster did not list them.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    pinned: bool = False
    cluster: str | None = None
    ids: Mapping[str, UUID] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    missing: Mapping[TopicPartition, MissingPartition] = field(default_factory=dict)

    @property
    def is_before_all(self) -> bool:
        """Whether the query has not begun, so that its start offsets are not resolved yet."""
        return not self.pinned and not self.offsets

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> StreamOffsets:
        """Parse offsets from a checkpoint.

        Raises:
            Refused: `checkpoint-unreadable`.
        """
        try:
            own = document.get(_OWN)
            topics = own["topics"] if own is not None else {}
            return cls(
                offsets={
                    TopicPartition(topic, int(partition)): int(offset)
                    for topic, partitions in document.items()
                    if topic != _OWN
                    for partition, offset in partitions.items()
                },
                pinned=own is not None,
                cluster=own["cluster"] if own is not None else None,
                ids={topic: UUID(known["id"]) for topic, known in topics.items() if known["id"] is not None},
                epochs={
                    TopicPartition(topic, int(partition)): int(epoch)
                    for topic, known in topics.items()
                    for partition, epoch in known["epochs"].items()
                },
                missing={
                    TopicPartition(topic, int(partition)): MissingPartition(
                        int(one["offset"]),
                        None if one["id"] is None else UUID(one["id"]),
                        int(one["epoch"]),
                        int(one["since"]),
                    )
                    for topic, partitions in (own or {}).get("missing", {}).items()
                    for partition, one in partitions.items()
                },
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Refused.of("checkpoint-unreadable", {"document": document}) from error

    def document(self) -> dict[str, Any]:
        """The document for a checkpoint; equal offsets always give the same text."""
        found: dict[str, Any] = {}
        for tp in sorted(self.offsets):
            found.setdefault(tp.topic, {})[str(tp.partition)] = self.offsets[tp]
        known = {
            topic: {
                "id": str(self.ids[topic]) if topic in self.ids else None,
                "epochs": {
                    partition: self.epochs[TopicPartition(topic, int(partition))]
                    for partition in partitions
                    if TopicPartition(topic, int(partition)) in self.epochs
                },
            }
            for topic, partitions in found.items()
        }
        found[_OWN] = {"cluster": self.cluster, "topics": known}
        missing: dict[str, Any] = {}
        for tp, one in sorted(self.missing.items()):
            topic_id = None if one.topic_id is None else str(one.topic_id)
            missing.setdefault(tp.topic, {})[str(tp.partition)] = {
                "offset": one.offset,
                "id": topic_id,
                "epoch": one.epoch,
                "since": one.since,
            }
        if missing:
            found[_OWN]["missing"] = missing
        return found

    def has_read(self, topic: str | None, partition: int | None = None) -> bool:
        """Whether the query has read the topic, or this partition of it."""
        return any(tp.topic == topic and partition in (None, tp.partition) for tp in (*self.offsets, *self.missing))

    def resumed(self, now: StreamOffsets) -> StreamOffsets:
        """With the missing partitions that `now` has, unless they are those of another topic by its id."""
        back = {
            tp: one
            for tp, one in self.missing.items()
            if tp in now.offsets and (one.topic_id is None or now.ids.get(tp.topic, one.topic_id) == one.topic_id)
        }
        return replace(
            self,
            offsets={**self.offsets, **{tp: one.offset for tp, one in back.items()}},
            ids={**{tp.topic: one.topic_id for tp, one in back.items() if one.topic_id is not None}, **self.ids},
            epochs={**self.epochs, **{tp: one.epoch for tp, one in back.items() if one.epoch >= 0}},
            missing={tp: one for tp, one in self.missing.items() if tp not in back},
        )

    def missing_from(self, partitions: Container[TopicPartition], now: int) -> dict[TopicPartition, MissingPartition]:
        """All that the query has read, except these partitions and what is missing for too long. now: in ms."""
        read = {
            tp: MissingPartition(offset, self.ids.get(tp.topic), self.epochs.get(tp, -1), now)
            for tp, offset in self.offsets.items()
        }
        recent = {tp: one for tp, one in self.missing.items() if one.since > now - _KEPT_MS}
        return {tp: one for tp, one in {**recent, **read}.items() if tp not in partitions}

    def same_topic(self, other: StreamOffsets, topic: str) -> bool:
        """Whether the name may still be the same topic: the ids are equal, or one is unknown."""
        mine, theirs = self.ids.get(topic), other.ids.get(topic)
        return mine is None or theirs is None or mine == theirs

    def same_id(self, other: StreamOffsets, topic: str) -> bool:
        """Whether both know the topic's id, and it is the same."""
        return topic in self.ids and self.ids[topic] == other.ids.get(topic)
