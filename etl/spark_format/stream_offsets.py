"""The offsets that a streaming query writes into its checkpoint, with the ids and leader epochs of their logs.

    {"orders": {"0": 23, "1": 7},
     "@kseg": {"cluster": "…", "topics": {"orders": {"id": "…", "epochs": {"0": 4, "1": 4}}}}}

Topics and offsets are written as by Spark's own Kafka source, so that its checkpoints can be continued. Other fields
are under a name that no topic can have: the cluster, the topics' ids (KIP-516) and the leader epochs (KIP-320), by
which recreated topics and truncated logs are detected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused

_OWN = "@kseg"


@dataclass(frozen=True)
class StreamOffsets:
    """The start or end offsets of a micro-batch.

    pinned: whether this source wrote them; False for `{}` and for those of Spark's own Kafka source.
    ids, epochs: as they were when the offsets were listed; topics and partitions without one are left out.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    pinned: bool = False
    cluster: str | None = None
    ids: Mapping[str, UUID] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

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
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Refused(
                "checkpoint-unreadable",
                f"the query's checkpoint holds offsets in a form that this source does not know: {document!r:.300}",
                remedy="only checkpoints of format('kseg') and of Spark's own format('kafka') are supported",
            ) from error

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
        return found

    def same_topic(self, other: StreamOffsets, topic: str) -> bool:
        """Whether the name may still be the same topic: the ids are equal, or one is unknown."""
        mine, theirs = self.ids.get(topic), other.ids.get(topic)
        return mine is None or theirs is None or mine == theirs

    def same_id(self, other: StreamOffsets, topic: str) -> bool:
        """Whether both know the topic's id, and it is the same."""
        return topic in self.ids and self.ids[topic] == other.ids.get(topic)
