"""What a request needs to be allowed: which operation on which resource an authorization error is about.

An answer only says "not allowed to do this to the topic". Which operation it was follows from the API: the tables here
are those of https://kafka.apache.org/documentation/#operations_resources_and_protocols. With the address that an error
carries, that is the ACL to add.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kseg.client.protocol import ErrorCode
from kseg.client.protocol.enums import AclOperation as Op
from kseg.client.protocol.enums import ResourceType


class Permission(NamedTuple):
    """An operation on a resource; `name` is None where the answer does not tell which one."""

    operation: Op
    resource_type: ResourceType
    name: str | None

    def __str__(self) -> str:
        resource = self.resource_type.name.lower().replace("_", " ")
        return f"{self.operation.name} on {resource}" + ("" if self.name is None else f" {self.name}")

    @property
    def remedy(self) -> str:
        """The arguments of Kafka's own tool that allow it."""
        operation = self.operation.name.title().replace("_", "")
        option = f"--{self.resource_type.name.lower().replace('_', '-')}"
        name = "" if self.resource_type == ResourceType.CLUSTER else f" {self.name or '…'}"
        return f"kafka-acls --add --allow-principal User:… --operation {operation} {option}{name}"


def _table(text: str) -> dict[str, Op]:
    pairs = (line.split(":") for line in text.split("\n") if line.strip())
    return {api: Op[operation.strip()] for operation, apis in pairs for api in apis.split()}


_TABLES: Final[dict[int, tuple[ResourceType, dict[str, Op]]]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        ResourceType.TOPIC,
        _table(
            """
            READ: Fetch OffsetCommit TxnOffsetCommit OffsetDelete DescribeProducers ShareFetch ShareAcknowledge
            READ: AlterShareGroupOffsets DeleteShareGroupOffsets
            WRITE: Produce AddPartitionsToTxn
            CREATE: CreateTopics
            DELETE: DeleteTopics DeleteRecords
            ALTER: CreatePartitions
            DESCRIBE: Metadata ListOffsets OffsetForLeaderEpoch OffsetFetch DescribeTopicPartitions
            DESCRIBE: ConsumerGroupHeartbeat ConsumerGroupDescribe ShareGroupHeartbeat ShareGroupDescribe
            DESCRIBE: StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets
            DESCRIBE_CONFIGS: DescribeConfigs
            ALTER_CONFIGS: AlterConfigs IncrementalAlterConfigs
            """
        ),
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (
        ResourceType.GROUP,
        _table(
            """
            READ: JoinGroup SyncGroup Heartbeat LeaveGroup OffsetCommit AddOffsetsToTxn TxnOffsetCommit
            READ: ConsumerGroupHeartbeat ShareGroupHeartbeat ShareFetch ShareAcknowledge StreamsGroupHeartbeat
            READ: AlterShareGroupOffsets
            DELETE: DeleteGroups OffsetDelete DeleteShareGroupOffsets
            DESCRIBE: FindCoordinator OffsetFetch DescribeGroups ConsumerGroupDescribe ShareGroupDescribe
            DESCRIBE: StreamsGroupDescribe DescribeShareGroupOffsets ListGroups
            DESCRIBE_CONFIGS: DescribeConfigs
            ALTER_CONFIGS: AlterConfigs IncrementalAlterConfigs
            """
        ),
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        ResourceType.TRANSACTIONAL_ID,
        _table(
            """
            WRITE: InitProducerId AddPartitionsToTxn AddOffsetsToTxn TxnOffsetCommit EndTxn Produce
            DESCRIBE: FindCoordinator DescribeTransactions
            """
        ),
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        ResourceType.CLUSTER,
        _table(
            """
            IDEMPOTENT_WRITE: InitProducerId Produce
            CREATE: CreateTopics Metadata
            ALTER: CreateAcls DeleteAcls AlterReplicaLogDirs ElectLeaders AlterPartitionReassignments
            ALTER: AlterUserScramCredentials UpdateFeatures UnregisterBroker AddRaftVoter RemoveRaftVoter
            CLUSTER_ACTION: WriteTxnMarkers
            DESCRIBE: DescribeAcls DescribeLogDirs ListPartitionReassignments DescribeUserScramCredentials
            DESCRIBE: DescribeQuorum DescribeCluster ListGroups
            DESCRIBE_CONFIGS: DescribeConfigs DescribeClientQuotas ListConfigResources
            ALTER_CONFIGS: AlterConfigs IncrementalAlterConfigs AlterClientQuotas
            """
        ),
    ),
}


def permission_lacking(
    code: int, api: str, *, topic: str | None, group: str | None, transactional_id: str | None
) -> Permission | None:
    """What an API's authorization error is about; None for other codes, and for one that an API should not give."""
    if code not in _TABLES:
        return None
    kind, operations = _TABLES[code]
    operation = operations.get(api.partition(" ")[0])  # "Fetch from a follower" is a Fetch
    if operation is None:
        return None
    names = {
        ResourceType.TOPIC: topic,
        ResourceType.GROUP: group,
        ResourceType.TRANSACTIONAL_ID: transactional_id,
    }
    return Permission(operation, kind, names.get(kind))
