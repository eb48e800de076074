"""The places of replicas on the brokers' disks (KIP-113).

describe_log_dirs        DescribeLogDirs (35)        every broker: each returns its own folders
alter_replica_log_dirs   AlterReplicaLogDirs (34)    the broker that holds the replica (or is to hold it)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.results import Results, ask_all_brokers, fixed, outcome, retry_failed_parts
from kseg.client.errors import Code, KafkaError, error_from_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.placement import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kseg.client.protocol.partition import TopicPartition, by_topic
from kseg.client.retry import Deadline


@dataclass(frozen=True, slots=True)
class LogDirPartition:
    """One replica's log: bytes on disk, how far it lags behind, whether it is moving here from another folder."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log folder of one broker. `total_bytes` and `usable_bytes` are -1 on brokers before 3.3."""

    broker: int
    path: str
    error: Code | None
    total_bytes: int
    usable_bytes: int
    partitions: dict[TopicPartition, LogDirPartition]


class Replica(NamedTuple):
    """One broker's copy of a partition."""

    broker: int
    topic: str
    partition: int


def describe_log_dirs(
    cluster: Cluster, partitions: Collection[TopicPartition] | None = None
) -> Results[int, tuple[LogDir, ...]]:
    """Each broker's log folders with these partitions (None: all), by broker. Needs the right to describe the cluster.

    Brokers before 3.0 answer with an empty list where that right is missing.
    """
    request = DescribeLogDirsRequest(topics=None)
    if partitions is not None:
        request.topics = [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[tp.partition for tp in members])
            for topic, members in by_topic(partitions).items()
        ]

    def read(node_id: int, response: DescribeLogDirsResponse) -> tuple[LogDir, ...]:
        return tuple(_log_dir(node_id, result) for result in response.results)

    def check(response: DescribeLogDirsResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "DescribeLogDirs")

    return ask_all_brokers(cluster, request, read, check=check)


def alter_replica_log_dirs(cluster: Cluster, moves: Mapping[Replica, str]) -> Results[Replica, None]:
    """Have each replica's broker move it to another of its folders (absolute paths as `describe_log_dirs` has them).

    The answer comes when the move begins: `is_future` shows it while it goes on. A replica that the broker does not
    have yet (REPLICA_NOT_AVAILABLE) will be made in that folder.
    """

    def ask(waiting: list[Replica], deadline: Deadline) -> dict[Replica, Any]:
        found: dict[Replica, Any] = {}
        for node_id in sorted({replica.broker for replica in waiting}):
            members = [replica for replica in waiting if replica.broker == node_id]
            by_path: dict[str, list[TopicPartition]] = defaultdict(list)
            for replica in members:
                by_path[moves[replica]].append(TopicPartition(replica.topic, replica.partition))
            request = AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                        path=path,
                        topics=[
                            AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(
                                name=topic, partitions=[tp.partition for tp in of_topic]
                            )
                            for topic, of_topic in by_topic(placed).items()
                        ],
                    )
                    for path, placed in by_path.items()
                ]
            )
            try:
                response = cluster.send_now(AlterReplicaLogDirsRequest, fixed(request), deadline, broker=node_id)
            except KafkaError as error:
                found.update(dict.fromkeys(members, error))
                continue
            for topic in response.results:
                for entry in topic.partitions:
                    replica = Replica(node_id, topic.topic_name, entry.partition_index)
                    found[replica] = outcome(
                        entry.error_code,
                        "AlterReplicaLogDirs",
                        None,
                        topic=replica.topic,
                        partition=replica.partition,
                        broker=str(node_id),
                    )
        return found

    return retry_failed_parts(cluster, moves, ask)


def _log_dir(node_id: int, result: DescribeLogDirsResponse.DescribeLogDirsResult) -> LogDir:
    return LogDir(
        broker=node_id,
        path=result.log_dir,
        error=ErrorCode.of(result.error_code) if result.error_code else None,
        total_bytes=result.total_bytes,
        usable_bytes=result.usable_bytes,
        partitions={
            TopicPartition(topic.name, entry.partition_index): LogDirPartition(
                entry.partition_size, entry.offset_lag, entry.is_future_key
            )
            for topic in result.topics
            for entry in topic.partitions
        },
    )
