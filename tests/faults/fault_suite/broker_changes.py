"""What a cluster's administrators and its disks do under runs: replicas moved, quotas, partitions added, retention, a
disk that is full."""

from __future__ import annotations

import resource
import threading
import time
from contextlib import suppress
from typing import Any

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from fault_suite.retention import cluster_of, delete_records_of
from fault_suite.schedule import Action
from fault_suite.world import World
from kseg.client.admin.placement import alter_reassignments, list_reassignments
from kseg.client.admin.quotas import alter_quotas, quota_entity
from kseg.client.errors import KafkaError
from kseg.client.protocol.partition import TopicPartition

MOST_PARTITIONS = 6
HIGHEST_REPLICAS = 3


class Changes:
    """embedded: an `EmbeddedKafka` of three nodes. alone: held while partitions are moved or replaced."""

    def __init__(self, embedded: Any, alone: threading.Lock) -> None:
        self._embedded = embedded
        self._alone = alone

    def reassign(self, world: World, action: Action) -> None:
        """A partition's replicas in another order, and its leader with them; often without one of them for a while."""
        choice = world.choose(action)
        topic = choice.choice(sorted(world.job.topics))
        place = TopicPartition(topic, choice.randrange(world.job.topics[topic]))
        order = choice.sample(range(1, HIGHEST_REPLICAS + 1), HIGHEST_REPLICAS)
        steps = [order[:2], order] if choice.random() < 0.7 else [order]
        for replicas in steps:
            with self._alone, suppress(KafkaError), cluster_of(world) as cluster:
                alter_reassignments(cluster, {place: replicas}).or_raise()
                deadline = time.monotonic() + 120
                while list_reassignments(cluster, [place]) and time.monotonic() < deadline:
                    time.sleep(0.5)
                world.injected(f"replicas reassigned ({len(replicas)} replicas)")
            world.over.wait(choice.uniform(0, 3))

    def quota(self, world: World, action: Action) -> None:
        """Clients of every name are throttled: fetching, or all of their requests."""
        choice = world.choose(action)
        limits = choice.choice([{"consumer_byte_rate": 5_000.0}, {"request_percentage": 1.0}])
        entity = quota_entity(client_id=f"kseg-{world.job.name}")
        with suppress(KafkaError), cluster_of(world) as cluster:
            alter_quotas(cluster, {entity: limits}).or_raise()
            world.injected(f"quota: {', '.join(limits)}")
        world.over.wait(choice.uniform(3, 12))
        with cluster_of(world) as cluster:
            alter_quotas(cluster, {entity: dict.fromkeys(limits)}).or_raise()

    def add_partition(self, world: World, action: Action) -> None:
        """One more partition, which producers write to at once."""
        topic = world.choose(action).choice(sorted(world.job.topics))
        count = world.job.topics[topic]
        if count >= MOST_PARTITIONS:
            return
        admin = AdminClient({"bootstrap.servers": world.servers, "log_level": 0})
        with self._alone, suppress(KafkaException):
            admin.create_partitions([NewPartitions(topic, count + 1)], operation_timeout=60)[topic].result(120)
            world.reader.add(topic, count)
            world.job.topics[topic] = count + 1
            world.injected("a partition is added")

    def retention(self, world: World, action: Action) -> None:
        """Records are deleted up to an offset: often such that have landed, else some of those that have not."""
        with self._alone, suppress(KafkaException, KafkaError):
            what = delete_records_of(world, world.choose(action))
            world.injected(f"records are deleted: {what}")

    def disk_full(self, world: World, action: Action) -> None:
        """A node cannot write files larger than they are: its log folders go offline, and it ends. It is started again
        when there is room."""
        choice = world.choose(action)
        node = choice.choice(sorted(self._embedded.pids))
        process = psutil.Process(self._embedded.pids[node])
        hard = process.rlimit(psutil.RLIMIT_FSIZE)[1]
        process.rlimit(psutil.RLIMIT_FSIZE, (4096, hard))
        world.over.wait(choice.uniform(5, 15))
        with suppress(psutil.NoSuchProcess):
            process.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
        if node in self._embedded.pids:
            self._embedded.kill(node)
        self._embedded.restart(node)
        world.injected("disk full, then restarted")
