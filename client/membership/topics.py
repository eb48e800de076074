"""The topics that a member of a classic group subscribes to, and the detection of their changes in metadata."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import ClusterMetadata
from kseg.client.errors import KafkaError
from kseg.client.membership.assignor import Racks
from kseg.client.membership.background import now
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Deadline, RetryPolicy


class SubscribedTopics:
    """Topics by name, or all topics whose whole name matches a pattern, except internal ones."""

    def __init__(self, topics: Collection[str], pattern: str | None, max_age: float) -> None:
        self.names = tuple(dict.fromkeys(topics))
        self._pattern = None if pattern is None else re.compile(pattern)
        self._max_age = max_age
        self._next = 0.0
        self._failures = 0

    def current(self, cluster: Cluster) -> tuple[str, ...]:
        """The topics that match now."""
        if self._pattern is None:
            return self.names
        return self._matching(cluster.metadata(refresh=True))

    @property
    def due_in(self) -> float:
        """Seconds until the next check of metadata: `metadata.max.age.ms` after the last one that succeeded.

        After a check that failed, or if topics do not exist (yet), it is `retry.backoff.ms`, as in Java's client.
        """
        return max(0.0, self._next - now())

    def seen(self, retry: RetryPolicy, counts: Mapping[str, int] | None) -> None:
        """The metadata is known. `counts`: as of `changes`."""
        if counts is None or all(counts.values()):
            self._failures = 0
            self._next = now() + self._max_age
        else:
            self._look_again(retry)

    def _look_again(self, retry: RetryPolicy) -> None:
        self._failures += 1
        self._next = now() + min(retry.pause_after(self._failures), self._max_age)

    def changes(self, cluster: Cluster, joined: Collection[str], counts: Mapping[str, int] | None) -> str | None:
        """The reason why the member has to rejoin, or None. Requests metadata, once.

        Raises KafkaError if that fails. `joined`: the topics of its last JoinGroup. `counts`: on the group's leader,
        the partition counts that its assignment is based on (0: no such topic); else None.
        """
        retry = cluster.config.retry
        if self._pattern is None and counts is None:
            self.seen(retry, counts)
            return None
        topics = None if self._pattern is not None else set(joined) | set(counts or ())
        cluster.forget_metadata()
        try:
            metadata = cluster.metadata_now(topics, Deadline.after(cluster.config.request_timeout_ms / 1000))
        except KafkaError as error:
            cluster.learn(error)
            self._look_again(retry)
            raise
        found = None if counts is None else partition_counts(metadata, set(joined) | set(counts))
        self.seen(retry, found)
        if self._pattern is not None:
            changed = set(self._matching(metadata)) ^ set(joined)
            if changed:
                return f"the topics that match have changed: {', '.join(sorted(changed))}"
        if counts is None or found is None or found == counts:
            return None
        changed = {name for name in found.keys() | counts.keys() if found.get(name) != counts.get(name)}
        return f"partitions have changed: {', '.join(sorted(changed))}"

    def _matching(self, metadata: ClusterMetadata) -> tuple[str, ...]:
        assert self._pattern is not None
        return tuple(
            sorted(
                topic.name
                for topic in metadata.topics.values()
                if topic.error is None and not topic.is_internal and self._pattern.fullmatch(topic.name)
            )
        )


def partition_counts(metadata: ClusterMetadata, topics: Iterable[str]) -> dict[str, int]:
    """The partition count of each topic; 0 if it does not exist, or its metadata has an error."""
    found = ((name, metadata.topics.get(name)) for name in topics)
    return {name: len(topic.partitions) if topic and not topic.error else 0 for name, topic in found}


def replica_racks(metadata: ClusterMetadata, topics: Iterable[str]) -> Racks:
    """The racks of each partition's replicas, as far as brokers have a `broker.rack`."""
    racks = {broker.node_id: broker.rack for broker in metadata.brokers.values() if broker.rack}
    return {
        TopicPartition(name, partition.partition): frozenset(racks[r] for r in partition.replicas if r in racks)
        for name in topics
        if name in metadata.topics
        for partition in metadata.topics[name].partitions.values()
    }
