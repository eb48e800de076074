"""Several scripted brokers as one cluster, whose leaders, coordinators and controller move when they are told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

TOPIC_ID = UUID(int=7)


class ScriptedCluster:
    """Brokers 1 to `count`, which all tell the same; `cluster[2]` is broker 2, a `FakeBroker`.

    Nobody hears of a change before he asks for metadata or for a coordinator, as in a real cluster.
    """

    def __init__(self, start: Callable[[], Any], count: int) -> None:
        self._brokers = {number: start() for number in range(1, count + 1)}
        first = self._brokers[1]
        listed = [(number, broker.host, broker.port) for number, broker in self._brokers.items()]
        for number, broker in self._brokers.items():
            broker.node_id = number
            broker.brokers = listed
            broker.topics, broker.coordinators, broker.racks = first.topics, first.coordinators, first.racks
            broker.controller_id = 1

    def __getitem__(self, number: int) -> Any:
        return self._brokers[number]

    def __iter__(self) -> Any:
        return iter(self._brokers.values())

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self)

    def on(self, request: type, *handlers: Callable[[Any], Any]) -> None:
        """The same script for every broker."""
        for broker in self:
            broker.on(request, *handlers)

    def requests(self, kind: type) -> dict[int, int]:
        """How many requests of a kind each broker has seen; those without any are left out."""
        counts = {number: len(broker.requests(kind)) for number, broker in self._brokers.items()}
        return {number: count for number, count in counts.items() if count}

    def add_topic(self, name: str, leaders: list[int], *, topic_id: UUID = TOPIC_ID) -> None:
        """Partition n is led by `leaders[n]` in epoch 0; every broker has a replica."""
        self[1].add_topic(name, leaders, topic_id=topic_id)
        for partition in self[1].topics[name].partitions:
            partition.replica_nodes = partition.isr_nodes = sorted(self._brokers)

    def move_leader(self, topic: str, partition: int, to: int) -> int:
        """Another leader, in the next epoch, which is given; -1 is none."""
        entry = self[1].topics[topic].partitions[partition]
        entry.leader_id, entry.leader_epoch = to, entry.leader_epoch + 1
        return int(entry.leader_epoch)

    def move_coordinator(self, key: str, to: int) -> None:
        """Another coordinator of a group or a transactional id."""
        self[1].coordinators[key] = to

    def move_controller(self, to: int) -> None:
        for broker in self:
            broker.controller_id = to
