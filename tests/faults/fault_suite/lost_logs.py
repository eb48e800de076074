"""What clusters remove or replace under runs: compaction, a topic that is deleted and made anew, an unclean election
whose new leader lacks acknowledged records.

Producers wait meanwhile, so that it is known which records are gone; drivers go on. Where offsets have other records
afterwards, the job refuses (`topic-recreated`, `log-truncated`), and the suite follows the refusal's command.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fault_suite.journal import Partition
from fault_suite.retention import cluster_of
from fault_suite.schedule import Action
from fault_suite.settle import await_markers, until_done
from fault_suite.world import World
from kseg.client.admin.configs import AlterConfig, AlterOperation, ConfigResource, ConfigResourceType, alter_configs
from kseg.client.admin.placement import alter_reassignments, elect_leaders, list_reassignments
from kseg.client.errors import KafkaError
from kseg.client.protocol.partition import TopicPartition

PATIENCE = 120
COMPACTION_SECONDS = 45
"""The cleaner looks every 15 seconds, and may find nothing in closed segments."""

REPLICAS = [1, 2, 3]

COMPACTING = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.ms": "1000"}

REFUSED = frozenset(
    f"refused: {code}"
    for code in ("topic-recreated", "log-truncated", "topic-missing", "run-unfinished", "rows-would-be-lost")
)
"""Refusals that these lead to."""


class LostLogs:
    """embedded: an `EmbeddedKafka` of three nodes; of one for `recreation` alone. alone: held while partitions are
    moved or replaced."""

    def __init__(self, embedded: Any, alone: threading.Lock, replication: int = 3) -> None:
        self._embedded = embedded
        self._replication = replication
        self._alone = alone
        self._admin = AdminClient({"bootstrap.servers": embedded.bootstrap_servers, "log_level": 0})

    def compaction(self, world: World, action: Action) -> None:
        """A topic's policy is changed for some seconds: records with later ones of the same key are removed."""
        with self._alone:
            topic = world.choose(action).choice(sorted(world.job.topics))
            self._configure(world, topic, {"segment.ms": COMPACTING["segment.ms"]})
            world.over.wait(3)  # producers begin new segments; the last one is never compacted
            with self._quiet(world):
                places = [(topic, number) for number in range(world.job.topics[topic])]
                world.reader.read_to(world.reader.ends())
                before = {place: world.reader.count(place) for place in places}
                going = {place: world.compact(place) for place in places}
                self._configure(world, topic, COMPACTING)
                removed = self._within(
                    COMPACTION_SECONDS,
                    lambda: any(world.reader.count(place) < before[place] for place in places if going[place]),
                )
                self._configure(world, topic, dict.fromkeys(COMPACTING))
                time.sleep(2)  # what the cleaner has begun
        if removed:
            world.injected("records are compacted")

    def recreation(self, world: World, action: Action) -> None:
        """A topic is deleted and made anew; offsets begin again."""
        with self._alone:
            topic = world.choose(action).choice(sorted(world.job.topics))
            count = world.job.topics[topic]
            cuts = {(topic, number): 0 for number in range(count)}
            with self._quiet(world):
                world.reader.read_to(world.reader.ends())
                world.supersede(cuts)
                self._admin.delete_topics([topic], operation_timeout=60)[topic].result(120)
                self._await(lambda: topic not in self._admin.list_topics(timeout=10).topics)
                self._create(topic, count)
                self._await(lambda: self._leaders(topic) == count)
                world.reader.renew(cuts)
            world.injected("a topic is deleted and made anew")
            self._accept(world, cuts)

    def unclean_election(self, world: World, action: Action) -> None:
        """A partition's only replica in sync dies, and one leads that lacks what was acknowledged last."""
        choice = world.choose(action)
        topic = choice.choice(sorted(world.job.topics))
        # Backfills append to partition 0: which of its records they have read would not be known.
        place = topic, choice.randrange(1, world.job.topics[topic])
        leader, follower = choice.sample(REPLICAS, 2)
        with self._alone:
            self._place(world, place, [leader, follower])
            self._await(lambda: self._partition(place).leader == leader)
            self._configure(world, topic, {"min.insync.replicas": "1"})
            with self._quiet(world):  # no transaction lies on both sides of the cut
                self._await(lambda: len(self._partition(place).isrs) == 2)
                time.sleep(1)
                self._embedded.kill(follower)
            self._await(lambda: self._partition(place).isrs == [leader])
            world.over.wait(choice.uniform(3, 8))
            with self._quiet(world):
                world.reader.read_to(world.reader.ends())
                before = world.reader.ends()[place]
                self._embedded.kill(leader)
                self._embedded.restart(follower)
                self._await(lambda: self._elected(world, place, follower))
                cut = world.reader.ends(stable=False)[place]
                world.supersede({place: cut})
                world.reader.renew({place: cut})
                self._embedded.restart(leader)
                self._configure(world, topic, {"min.insync.replicas": "2"})
                self._place(world, place, choice.sample(REPLICAS, 3))
            if cut < before:
                world.injected("unclean election, the log truncated")
            self._accept(world, {place: cut})

    # --- steps

    @contextmanager
    def _quiet(self, world: World) -> Iterator[None]:
        """No producer writes, and no transaction is open."""
        assert world.load is not None
        with world.load.paused():
            await_markers(world)
            yield

    def _accept(self, world: World, cuts: Mapping[Partition, int]) -> None:
        """A run, and what its refusal names."""
        until_done(world, "after other records: ingest", {"take_over": True})
        world.renewing -= set(cuts)

    def _configure(self, world: World, topic: str, settings: Mapping[str, str | None]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        changes = [
            AlterConfig(name, value, AlterOperation.DELETE if value is None else AlterOperation.SET)
            for name, value in settings.items()
        ]

        def changed() -> bool:
            with cluster_of(world) as cluster:
                alter_configs(cluster, {resource: changes}).or_raise()
            return True

        self._await(changed)

    def _place(self, world: World, place: Partition, replicas: list[int]) -> None:
        at = TopicPartition(*place)

        def begun() -> bool:
            with cluster_of(world) as cluster:
                alter_reassignments(cluster, {at: replicas}).or_raise()
            return True

        def moved() -> bool:
            with cluster_of(world) as cluster:
                return not list_reassignments(cluster, [at])

        self._await(begun)
        self._await(moved)
        with suppress(KafkaError), cluster_of(world) as cluster:
            elect_leaders(cluster, "preferred", [at])

    def _elected(self, world: World, place: Partition, node: int) -> bool:
        with cluster_of(world) as cluster:
            elect_leaders(cluster, "unclean", [TopicPartition(*place)])
        return self._partition(place).leader == node

    def _create(self, topic: str, count: int) -> None:
        config = {"min.insync.replicas": "2"} if self._replication > 1 else {}
        new = NewTopic(topic, count, self._replication, config=config)

        def there() -> bool:
            with suppress(KafkaException):  # one of the three brokers may be away
                self._admin.create_topics([new], operation_timeout=60)[topic].result(120)
            return topic in self._admin.list_topics(timeout=10).topics

        self._await(there)

    def _partition(self, place: Partition) -> Any:
        return self._admin.list_topics(place[0], timeout=10).topics[place[0]].partitions[place[1]]

    def _leaders(self, topic: str) -> int:
        found = self._admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        return sum(one.leader in self._embedded.pids for one in found)

    def _await(self, there: Callable[[], bool]) -> None:
        assert self._within(PATIENCE, there), "the cluster does not come to it"

    def _within(self, seconds: float, there: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with suppress(KafkaException, KafkaError, KeyError):
                if there():
                    return True
            time.sleep(0.5)
        return False
