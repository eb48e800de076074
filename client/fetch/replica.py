"""The broker to fetch a partition from: its leader, or the nearby replica that the leader prefers (KIP-392).

A reader sends its rack (`client.rack`). A leader whose brokers have a replica selector then responds without records
and with a preferred replica, which serves the same records up to the high watermark that it knows. When that replica
fails or is behind, the reader returns to the leader, and sends it no rack for `metadata.max.age.ms`, because the leader
would name the same replica again. A replica is behind if it has not got an offset, which it reports as an error, or not
all offsets that are wanted, which only the reader's caller knows (`leave_replica`). A reader also returns to the leader
after it has used a replica for this time, because another replica may be nearer by then.
"""

from __future__ import annotations

import time
from typing import Final
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import Leader
from kseg.client.errors import LeaderNotAvailable, UnknownTopic
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Deadline

NOT_KNOWN: Final = -1
_MIN_STAY_SECONDS: Final = 0.1


class ReplicaSelection:
    """One partition's leader and preferred replica, as far as they are known."""

    def __init__(
        self, cluster: Cluster, tp: TopicPartition, *, topic_id: UUID | None = None, leader_epoch: int | None = None
    ) -> None:
        """`topic_id`, `leader_epoch`: see `PartitionReader`."""
        self.tp = tp
        self.topic_id = topic_id
        self._cluster = cluster
        self._oldest_epoch = NOT_KNOWN if leader_epoch is None else leader_epoch
        self._rack = cluster.config.client_rack
        # With a time of 0, the reader would switch between the leader and the replica endlessly.
        self._max_age = max(cluster.config.metadata_max_age_ms / 1000, _MIN_STAY_SECONDS)
        self._replica: int | None = None
        self._until = 0.0  # when to leave the replica, or when to send the rack to the leader again

    def serves(self, topic_id: UUID | None, leader_epoch: int | None) -> bool:
        """Whether this selection is as strict as a new one with these arguments would be."""
        return topic_id in (None, self.topic_id) and (leader_epoch is None or leader_epoch <= self._oldest_epoch)

    @property
    def replica(self) -> int | None:
        """The broker to fetch from instead of the leader."""
        if self._replica is not None and time.monotonic() >= self._until:
            self._replica = None
        return self._replica

    @property
    def rack(self) -> str:
        """The rack to send to the leader; "" after a replica has failed."""
        staying = self._replica is None and time.monotonic() < self._until
        return "" if staying else self._rack

    def prefer(self, node_id: int) -> None:
        """Fetch from the replica that the leader has named."""
        self._replica = node_id
        self._until = time.monotonic() + self._max_age

    def leave(self) -> None:
        """Fetch from the leader instead of the replica; without a replica, nothing changes."""
        if self.replica is not None:
            self.back_to_leader()

    def back_to_leader(self) -> None:
        """The replica has failed, or does not have the offset."""
        self._replica = None
        self._until = time.monotonic() + self._max_age

    def leader(self, deadline: Deadline) -> Leader:
        """The present leader, for one try.

        Raises UnknownTopic if the topic was recreated, LeaderNotAvailable if the metadata has an older leader epoch
        than was seen before, and what `Cluster.leader` raises.
        """
        leader = self._cluster.leader(self.tp, deadline)
        if self._is_another_topic(leader):
            self._cluster.forget_metadata()  # the cache may still have the earlier topic
            leader = self._cluster.leader(self.tp, deadline)
            if self._is_another_topic(leader):
                raise UnknownTopic(
                    f"the topic was recreated: its id is {leader.topic_id}, not {self.topic_id}",
                    code=ErrorCode.INCONSISTENT_TOPIC_ID,
                    retriable=False,
                )
        if NOT_KNOWN < leader.epoch < self._oldest_epoch:
            raise LeaderNotAvailable(
                f"the cluster's metadata is stale: leader epoch {leader.epoch}, {self._oldest_epoch} was seen before"
            )
        self.topic_id = leader.topic_id
        self._oldest_epoch = max(self._oldest_epoch, leader.epoch)
        return leader

    def _is_another_topic(self, leader: Leader) -> bool:
        return None not in (self.topic_id, leader.topic_id) and self.topic_id != leader.topic_id
