"""Three brokers, of which one at a time is killed, suspended or restarted, while runs and producers go on.

Topics have three replicas, of which two must be in sync: what a producer was acknowledged must survive all of this.
Administrators change the cluster meanwhile (`broker_changes.py`).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from fault_suite import drivers, lost_logs
from fault_suite.broker_changes import Changes, cluster_of
from fault_suite.lost_logs import LostLogs
from fault_suite.schedule import Action, Lane
from fault_suite.world import World
from kseg.client.admin.placement import elect_leaders
from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.coordinators import find_coordinator
from kseg.client.config import ClientConfig
from kseg.client.errors import KafkaError
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Deadline

ALLOWED = drivers.ALLOWED | lost_logs.REFUSED | {"try again"}

BROKERS = (
    "kill",
    "pause",
    "restart",
    "rolling restart",
    "elect preferred leaders",
    "disk full",
    "unclean election",
)
ADMINISTRATORS = ("reassign", "quota", "add a partition", "delete records", "compact", "make a topic anew")

LANES = (
    Lane("scheduled", {"ingest": 1}, interrupted=0.2),
    Lane("others", {"backfill": 3, "repeat a backfill": 3, "maintain": 1}, interrupted=0.2),
    Lane(
        "brokers",
        dict.fromkeys(BROKERS, 1),
        in_turn=True,
    ),
    Lane("administrators", dict.fromkeys(ADMINISTRATORS, 1), in_turn=True, pause=4.0),
)


class Brokers:
    """The nodes of a cluster, and what is done to them. embedded: an `EmbeddedKafka` of three nodes."""

    def __init__(self, embedded: Any) -> None:
        self._embedded = embedded
        alone = threading.Lock()
        self._changes = Changes(embedded, alone)
        self._lost = LostLogs(embedded, alone)
        self._admin = AdminClient({"bootstrap.servers": embedded.bootstrap_servers, "log_level": 0})

    @property
    def perform(self) -> dict[str, Any]:
        own = {
            "kill": self.kill,
            "pause": self.pause,
            "restart": self.restart,
            "rolling restart": self.rolling_restart,
            "elect preferred leaders": self.elect,
            "disk full": self.disk_full,
            "reassign": self._changes.reassign,
            "quota": self._changes.quota,
            "add a partition": self._changes.add_partition,
            "delete records": self._changes.retention,
            "compact": self._lost.compaction,
            "make a topic anew": self._lost.recreation,
            "unclean election": self.unclean_election,
        }
        return {**drivers.PERFORM, **own}

    def kill(self, world: World, action: Action) -> None:
        """SIGKILL, and some seconds later a start on what is on its disk."""
        node, role = self._victim(world, action)
        self._embedded.kill(node)
        self._wait(world, action, 8)
        self._embedded.restart(node)
        world.injected(f"broker killed ({role})")
        self._all_in_sync(world)

    def pause(self, world: World, action: Action) -> None:
        """SIGSTOP, for longer than the controller waits or for less: it wakes up as a leader that it is no more."""
        node, role = self._victim(world, action)
        pid = self._embedded.pids[node]
        os.kill(pid, signal.SIGSTOP)
        try:
            self._wait(world, action, 20)
        finally:
            os.kill(pid, signal.SIGCONT)
        world.injected(f"broker suspended ({role})")
        self._all_in_sync(world)

    def restart(self, world: World, action: Action) -> None:
        node, role = self._victim(world, action)
        self._embedded.restart(node)
        world.injected(f"broker restarted ({role})")
        self._all_in_sync(world)

    def rolling_restart(self, world: World, action: Action) -> None:
        for node in self._embedded.nodes:
            self._embedded.restart(node.id)
            self._all_in_sync(world)
        world.injected("rolling restart")

    def elect(self, world: World, action: Action) -> None:
        """Leaders move back to where they were made: without a failure."""
        partitions = [
            TopicPartition(topic, number) for topic, count in world.job.topics.items() for number in range(count)
        ]
        with (
            suppress(KafkaError),
            Cluster(
                ClientConfig.from_properties({"bootstrap.servers": world.job.servers}, client_id="faults")
            ) as cluster,
        ):
            elect_leaders(cluster, "preferred", partitions)
            world.injected("preferred leaders elected")
        self._wait(world, action, 3)

    def disk_full(self, world: World, action: Action) -> None:
        self._changes.disk_full(world, action)
        self._all_in_sync(world)

    def unclean_election(self, world: World, action: Action) -> None:
        self._lost.unclean_election(world, action)
        self._all_in_sync(world)

    def _victim(self, world: World, action: Action) -> tuple[int, str]:
        """A node, by what it is: the leader of a partition, or the coordinator of the job's group or transactions."""
        choice = world.choose(action)
        role = choice.choice(["leader", "leader", "coordinator of the group", "leader of transactions"])
        with suppress(KafkaException, KafkaError):
            if role == "coordinator of the group":
                # librdkafka 2.16 aborts the process where a coordinator answers an administrator too late.
                with cluster_of(world) as cluster:
                    deadline = Deadline.after(20)
                    asked = cluster.any_connection(deadline)
                    return find_coordinator(asked, ("group", world.job.group), deadline).node_id, role
            topic = choice.choice(sorted(world.job.topics)) if role == "leader" else "__transaction_state"
            partitions = self._admin.list_topics(topic, timeout=10).topics[topic].partitions
            leader = choice.choice(sorted(partitions.items()))[1].leader if partitions else -1
            if leader in self._embedded.pids:
                return leader, role
        return choice.choice(sorted(self._embedded.pids)), "any"

    def _wait(self, world: World, action: Action, longest: float) -> None:
        world.over.wait(world.choose(action).uniform(1, longest))

    def _all_in_sync(self, world: World) -> None:
        """Until each partition has all of its replicas: two nodes that lag would stop the producers."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with suppress(KafkaException):
                found = [self._admin.list_topics(topic, timeout=10).topics[topic] for topic in world.job.topics]
                if all(len(one.isrs) == len(one.replicas) for topic in found for one in topic.partitions.values()):
                    return
            time.sleep(0.5)
        raise AssertionError("the replicas are not in sync again")
