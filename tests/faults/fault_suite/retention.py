"""Records that are deleted from a topic, as its retention does it."""

from __future__ import annotations

import random

from fault_suite.world import World
from kseg.client.admin.topics import delete_records
from kseg.client.cluster.cluster import Cluster
from kseg.client.config import ClientConfig
from kseg.client.protocol.partition import TopicPartition


def cluster_of(world: World) -> Cluster:
    return Cluster(ClientConfig.from_properties({"bootstrap.servers": world.servers}, client_id="faults"))


def delete_records_of(world: World, choice: random.Random) -> str:
    """Delete a partition's records up to an offset: often such that have landed, else some of those that have not.
    Returns which.

    Raises KafkaException, KafkaError: brokers are away.
    """
    topic = choice.choice(sorted(world.job.topics))
    place = topic, choice.randrange(world.job.topics[topic])
    with cluster_of(world) as cluster:
        landed = world.reader.group_offsets(world.job.group).get(place, 0)
        end = world.reader.ends().get(place, 0)
        cut = choice.randrange(landed + 1) if choice.random() < 0.7 else choice.randrange(landed, end + 1)
        world.reader.read_to({place: cut})  # what is deleted is known to the oracle before
        world.remove(place, cut)
        delete_records(cluster, {TopicPartition(*place): cut}).or_raise()
    return "landed ones" if cut <= landed else "also what has not landed"
