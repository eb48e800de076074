"""Quotas, from the client's side: how long a broker asks us to send nothing (how much it was in all:
`client.wire.trace`).

In older versions of an API a broker waits first and answers then; in newer ones it answers at once and expects the
client to wait (KIP-219). `CLIENT_WAITS_FROM` says from which version on; a client that waits after an older one
would wait twice. What has to wait is every request to that broker, over whichever of our connections: the quota is the
client's, not the connection's.
"""

from __future__ import annotations

import time
from typing import Any, Final

#: Read from Java's `AbstractResponse.shouldClientThrottle`; a test asks the Java client for each API and version. Every
#: version of an API that is not here is answered after the wait.
CLIENT_WAITS_FROM: Final = {
    "Produce": 6,
    "Fetch": 8,
    "ListOffsets": 3,
    "Metadata": 6,
    "OffsetCommit": 4,
    "OffsetFetch": 4,
    "FindCoordinator": 2,
    "JoinGroup": 3,
    "Heartbeat": 2,
    "LeaveGroup": 2,
    "SyncGroup": 2,
    "DescribeGroups": 2,
    "ListGroups": 2,
    "ApiVersions": 2,
    "CreateTopics": 3,
    "DeleteTopics": 2,
    "DeleteRecords": 1,
    "InitProducerId": 1,
    "AddPartitionsToTxn": 1,
    "AddOffsetsToTxn": 1,
    "EndTxn": 1,
    "TxnOffsetCommit": 1,
    "DescribeAcls": 1,
    "CreateAcls": 1,
    "DeleteAcls": 1,
    "DescribeConfigs": 2,
    "AlterConfigs": 1,
    "AlterReplicaLogDirs": 1,
    "DescribeLogDirs": 1,
    "CreatePartitions": 1,
    "CreateDelegationToken": 1,
    "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1,
    "DescribeDelegationToken": 1,
    "DeleteGroups": 1,
    "ElectLeaders": 0,
    "IncrementalAlterConfigs": 0,
    "AlterPartitionReassignments": 0,
    "ListPartitionReassignments": 0,
    "OffsetDelete": 0,
    "DescribeUserScramCredentials": 0,
    "AlterUserScramCredentials": 0,
    "BrokerRegistration": 0,
    "BrokerHeartbeat": 0,
    "UnregisterBroker": 0,
    "DescribeTopicPartitions": 0,
}


def client_waits(api: str, version: int) -> bool:
    """Whether a throttled answer of this API and version is one that the client is to wait after."""
    first = CLIENT_WAITS_FROM.get(api)
    return first is not None and version >= first


class Throttle:
    """One broker's word to this client; shared by all connections to that broker."""

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def remaining(self) -> float:
        """Seconds for which nothing is to be sent to the broker."""
        return max(0.0, self._until - time.monotonic())

    def note(self, api: str, version: int, response: Any) -> None:
        """Take from an answer what it says about throttling. A shorter wait never shortens a longer one."""
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0 and client_waits(api, version):
            self._until = max(self._until, time.monotonic() + throttle_ms / 1000)

    def take_over(self, other: Throttle) -> None:
        """`other` turned out to be the same broker: a bootstrap server, whose id was not known at first."""
        self._until = max(self._until, other._until)
