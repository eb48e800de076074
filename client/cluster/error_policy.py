"""What to do about an error code, by the API that answered it: one table, asked by everything that tries again.

The rule is the code's own word, which is Java's (`client.protocol.error_codes`): refresh the metadata, look the
coordinator up, or just try again. An API may know better; where it does, the table says so by the reaction's name.
Every code that an API is known to answer has its row, so that the table can be read as documentation; a code without a
row is treated by the rule. A code that is newer than this client is never tried again.

Sources: the protocol guides' "possible error codes", the comments of Kafka's message definitions, and the
documentation of Java's response classes; tests hold the table against all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kseg.client.cluster.error_reactions import Reaction, by_code
from kseg.client.protocol import ErrorCode, UnknownErrorCode

#: Not an API of its own: a fetch from a replica that does not lead (KIP-392).
FETCH_FROM_FOLLOWER: Final = "Fetch from a follower"

_Rows = Mapping[ErrorCode, Reaction]


def _rows(codes: str, *but: _Rows) -> _Rows:
    rows = {ErrorCode[name]: by_code(ErrorCode[name]) for name in codes.split()}
    for better in but:
        rows |= better
    return MappingProxyType(rows)


def _but(**codes: str) -> _Rows:
    """Codes by the reaction that this API has to them, whatever the code says in general."""
    return {ErrorCode[name]: Reaction[kind] for kind, names in codes.items() for name in names.split()}


_COORDINATOR: Final = "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS"
_LEADER: Final = (
    "NOT_LEADER_OR_FOLLOWER REPLICA_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION FENCED_LEADER_EPOCH "
    "UNKNOWN_LEADER_EPOCH KAFKA_STORAGE_ERROR UNKNOWN_SERVER_ERROR"
)
_TRANSACTION: Final = (
    f"{_COORDINATOR} INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_EPOCH PRODUCER_FENCED INVALID_TXN_STATE "
    "CONCURRENT_TRANSACTIONS TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
)
_ABORTABLE: Final = _but(ABORT="TRANSACTION_ABORTABLE")
_CONTROLLER: Final = "NOT_CONTROLLER CLUSTER_AUTHORIZATION_FAILED REQUEST_TIMED_OUT INVALID_REQUEST UNSUPPORTED_VERSION"
_TOPIC_CHANGE: Final = (
    f"{_CONTROLLER} INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED POLICY_VIOLATION THROTTLING_QUOTA_EXCEEDED"
)
_CONFIGS: Final = (
    f"{_CONTROLLER} INVALID_CONFIG TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED "
    "UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION POLICY_VIOLATION"
)
_TOKEN: Final = (
    f"{_CONTROLLER} DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_REQUEST_NOT_ALLOWED "
    "DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_EXPIRED "
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED INVALID_PRINCIPAL_TYPE"
)
_GROUP: Final = f"{_COORDINATOR} GROUP_AUTHORIZATION_FAILED INVALID_GROUP_ID"
_DESCRIBED_GROUP: Final = f"{_GROUP} GROUP_ID_NOT_FOUND INVALID_REQUEST TOPIC_AUTHORIZATION_FAILED"
#: What a member of a classic group hears when the group has gone on without it. A static member that was replaced
#: (FENCED_INSTANCE_ID) must not come back: the two would fence each other for ever.
_MEMBER: Final = _but(
    JOIN_AFRESH="UNKNOWN_MEMBER_ID ILLEGAL_GENERATION", REJOIN="REBALANCE_IN_PROGRESS", FAIL="FENCED_INSTANCE_ID"
)
#: The same for members whose coordinator assigns (KIP-848, KIP-932, KIP-1071).
_NEW_MEMBER: Final = _but(JOIN_AFRESH="UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH", FAIL="UNRELEASED_INSTANCE_ID")
_SHARE_SESSION: Final = _but(
    NEW_SESSION="SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH SHARE_SESSION_LIMIT_REACHED"
)
_SHARE: Final = (
    "GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID "
    "NOT_LEADER_OR_FOLLOWER INVALID_RECORD_STATE KAFKA_STORAGE_ERROR INVALID_REQUEST UNKNOWN_SERVER_ERROR"
)
_SHARE_OFFSETS: Final = (
    f"{_GROUP} TOPIC_AUTHORIZATION_FAILED GROUP_ID_NOT_FOUND UNKNOWN_TOPIC_OR_PARTITION NON_EMPTY_GROUP "
    "KAFKA_STORAGE_ERROR INVALID_REQUEST UNKNOWN_SERVER_ERROR"
)
_QUORUM: Final = f"{_CONTROLLER} NOT_LEADER_OR_FOLLOWER INCONSISTENT_CLUSTER_ID INVALID_REQUEST"
#: Fetch sessions that a broker has dropped, or counts differently.
_SESSION: Final = _but(
    NEW_SESSION="FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH FETCH_SESSION_TOPIC_ID_ERROR"
)
_FETCH: Final = (
    f"{_LEADER} TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION UNSUPPORTED_COMPRESSION_TYPE "
    "CORRUPT_MESSAGE UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID OFFSET_NOT_AVAILABLE LISTENER_NOT_FOUND "
    "INVALID_REQUEST"
)

#: API name -> code -> what to do.
TABLE: Final[Mapping[str, _Rows]] = MappingProxyType(
    {
        "Produce": _rows(
            "CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID NOT_LEADER_OR_FOLLOWER "
            "LEADER_NOT_AVAILABLE REQUEST_TIMED_OUT INVALID_TOPIC_EXCEPTION NOT_ENOUGH_REPLICAS "
            "NOT_ENOUGH_REPLICAS_AFTER_APPEND INVALID_REQUIRED_ACKS TOPIC_AUTHORIZATION_FAILED "
            "CLUSTER_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED INVALID_TIMESTAMP "
            "INVALID_RECORD UNSUPPORTED_FOR_MESSAGE_FORMAT UNSUPPORTED_COMPRESSION_TYPE "
            "KAFKA_STORAGE_ERROR INVALID_PRODUCER_ID_MAPPING CONCURRENT_TRANSACTIONS INVALID_REQUEST "
            "UNKNOWN_SERVER_ERROR",
            _but(
                SPLIT="MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE",
                DONE="DUPLICATE_SEQUENCE_NUMBER",
                NEW_PRODUCER="OUT_OF_ORDER_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID",
                # An epoch that lags behind the own one is answered so too (KIP-588).
                ABORT="INVALID_PRODUCER_EPOCH INVALID_TXN_STATE",
            ),
            _ABORTABLE,
        ),
        "Fetch": _rows(_FETCH, _but(RESET_OFFSET="OFFSET_OUT_OF_RANGE"), _SESSION),
        FETCH_FROM_FOLLOWER: _rows(
            "",
            _but(TO_LEADER=f"{_FETCH} OFFSET_OUT_OF_RANGE"),
            _but(FAIL="TOPIC_AUTHORIZATION_FAILED"),
            _SESSION,
        ),
        "ListOffsets": _rows(
            f"{_LEADER} LEADER_NOT_AVAILABLE OFFSET_NOT_AVAILABLE TOPIC_AUTHORIZATION_FAILED "
            "UNSUPPORTED_FOR_MESSAGE_FORMAT INVALID_REQUEST",
        ),
        "Metadata": _rows(
            "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID LEADER_NOT_AVAILABLE LISTENER_NOT_FOUND "
            "INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED REBOOTSTRAP_REQUIRED",
            # Replicas of a partition are down: its leader is told all the same.
            _but(DONE="REPLICA_NOT_AVAILABLE"),
        ),
        "OffsetCommit": _rows(
            f"{_GROUP} UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID REQUEST_TIMED_OUT "
            "OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED "
            "INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE GROUP_ID_NOT_FOUND",
            # The member learns its new epoch with the next heartbeat (KIP-848).
            _but(REJOIN="STALE_MEMBER_EPOCH", JOIN_AFRESH="FENCED_MEMBER_EPOCH"),
            _MEMBER,
        ),
        "OffsetFetch": _rows(
            f"{_GROUP} UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID TOPIC_AUTHORIZATION_FAILED "
            "UNSTABLE_OFFSET_COMMIT GROUP_ID_NOT_FOUND",
            _but(REJOIN="STALE_MEMBER_EPOCH", JOIN_AFRESH="UNKNOWN_MEMBER_ID ILLEGAL_GENERATION"),
        ),
        "FindCoordinator": _rows(
            "COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS GROUP_AUTHORIZATION_FAILED "
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED INVALID_GROUP_ID INVALID_REQUEST",
            _ABORTABLE,
        ),
        "JoinGroup": _rows(
            f"{_GROUP} INCONSISTENT_GROUP_PROTOCOL INVALID_SESSION_TIMEOUT GROUP_MAX_SIZE_REACHED UNSUPPORTED_VERSION",
            _but(REJOIN="MEMBER_ID_REQUIRED"),
            _MEMBER,
        ),
        "SyncGroup": _rows(f"{_GROUP} INCONSISTENT_GROUP_PROTOCOL", _MEMBER),
        "Heartbeat": _rows(_GROUP, _MEMBER),
        "LeaveGroup": _rows(
            f"{_GROUP} FENCED_INSTANCE_ID",
            # Who wanted to leave and is no member any more has left.
            _but(DONE="UNKNOWN_MEMBER_ID"),
        ),
        "DescribeGroups": _rows(f"{_GROUP} GROUP_ID_NOT_FOUND"),
        "ListGroups": _rows(
            "COORDINATOR_LOAD_IN_PROGRESS CLUSTER_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED",
            # Every broker is asked what it coordinates: there is no other to look for.
            _but(AGAIN="COORDINATOR_NOT_AVAILABLE"),
        ),
        "DeleteGroups": _rows(f"{_GROUP} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP"),
        "OffsetDelete": _rows(
            f"{_GROUP} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP GROUP_SUBSCRIBED_TO_TOPIC "
            "TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION",
            _but(FAIL="UNKNOWN_TOPIC_OR_PARTITION"),
        ),
        "ConsumerGroupHeartbeat": _rows(
            f"{_GROUP} INVALID_REQUEST UNSUPPORTED_ASSIGNOR GROUP_MAX_SIZE_REACHED "
            "TOPIC_AUTHORIZATION_FAILED INVALID_REGULAR_EXPRESSION UNSUPPORTED_VERSION",
            _NEW_MEMBER,
        ),
        "ConsumerGroupDescribe": _rows(_DESCRIBED_GROUP),
        "ShareGroupHeartbeat": _rows(
            f"{_GROUP} TOPIC_AUTHORIZATION_FAILED GROUP_MAX_SIZE_REACHED INVALID_REQUEST",
            _NEW_MEMBER,
        ),
        "ShareGroupDescribe": _rows(_DESCRIBED_GROUP),
        "ShareFetch": _rows(f"{_SHARE} CORRUPT_MESSAGE", _SHARE_SESSION),
        "ShareAcknowledge": _rows(_SHARE, _SHARE_SESSION),
        "DescribeShareGroupOffsets": _rows(_SHARE_OFFSETS),
        "AlterShareGroupOffsets": _rows(_SHARE_OFFSETS),
        "DeleteShareGroupOffsets": _rows(_SHARE_OFFSETS),
        "StreamsGroupHeartbeat": _rows(
            f"{_GROUP} GROUP_ID_NOT_FOUND INVALID_REQUEST GROUP_MAX_SIZE_REACHED "
            "TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED STREAMS_INVALID_TOPOLOGY "
            "STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED",
            _NEW_MEMBER,
        ),
        "StreamsGroupDescribe": _rows(_DESCRIBED_GROUP),
        "InitProducerId": _rows(
            f"{_TRANSACTION} CLUSTER_AUTHORIZATION_FAILED INVALID_TRANSACTION_TIMEOUT INVALID_REQUEST",
            _ABORTABLE,
        ),
        "AddPartitionsToTxn": _rows(
            f"{_TRANSACTION} TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION OPERATION_NOT_ATTEMPTED",
            _ABORTABLE,
        ),
        "AddOffsetsToTxn": _rows(f"{_TRANSACTION} GROUP_AUTHORIZATION_FAILED INVALID_GROUP_ID", _ABORTABLE),
        "EndTxn": _rows(_TRANSACTION, _ABORTABLE),
        "TxnOffsetCommit": _rows(
            f"{_TRANSACTION} GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED "
            "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID INVALID_GROUP_ID OFFSET_METADATA_TOO_LARGE "
            "INVALID_COMMIT_OFFSET_SIZE UNSUPPORTED_FOR_MESSAGE_FORMAT REQUEST_TIMED_OUT",
            # The partitions are another member's by now: what was read of them is to be read again.
            _but(ABORT="UNKNOWN_MEMBER_ID ILLEGAL_GENERATION STALE_MEMBER_EPOCH", FAIL="FENCED_INSTANCE_ID"),
            _ABORTABLE,
        ),
        "DescribeTransactions": _rows(
            f"{_COORDINATOR} TRANSACTIONAL_ID_NOT_FOUND TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        ),
        "ListTransactions": _rows(
            "COORDINATOR_LOAD_IN_PROGRESS INVALID_REGULAR_EXPRESSION TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            _but(AGAIN="COORDINATOR_NOT_AVAILABLE"),
        ),
        "DescribeProducers": _rows(
            "NOT_LEADER_OR_FOLLOWER UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION"
        ),
        # Between brokers; here because an administrator ends a hanging transaction with it (KIP-664).
        "WriteTxnMarkers": _rows(
            "CORRUPT_MESSAGE INVALID_PRODUCER_EPOCH UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER "
            "MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND "
            "INVALID_REQUIRED_ACKS TRANSACTION_COORDINATOR_FENCED REQUEST_TIMED_OUT "
            "CLUSTER_AUTHORIZATION_FAILED",
        ),
        "OffsetForLeaderEpoch": _rows(f"{_LEADER} TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED"),
        "ApiVersions": _rows("UNSUPPORTED_VERSION INVALID_REQUEST"),
        "SaslHandshake": _rows("UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE"),
        "SaslAuthenticate": _rows("SASL_AUTHENTICATION_FAILED ILLEGAL_SASL_STATE UNSUPPORTED_SASL_MECHANISM"),
        "CreateTopics": _rows(
            f"{_TOPIC_CHANGE} TOPIC_ALREADY_EXISTS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR "
            "INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG",
        ),
        "DeleteTopics": _rows(
            f"{_TOPIC_CHANGE} TOPIC_DELETION_DISABLED",
            # From the controller: that it is not there is the truth, not a broker's old news.
            _but(FAIL="UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID"),
        ),
        "CreatePartitions": _rows(
            f"{_TOPIC_CHANGE} INVALID_PARTITIONS INVALID_REPLICA_ASSIGNMENT REASSIGNMENT_IN_PROGRESS",
            _but(FAIL="UNKNOWN_TOPIC_OR_PARTITION"),
        ),
        "DeleteRecords": _rows(
            f"{_LEADER} OFFSET_OUT_OF_RANGE TOPIC_AUTHORIZATION_FAILED POLICY_VIOLATION REQUEST_TIMED_OUT"
        ),
        "DescribeConfigs": _rows(_CONFIGS),
        "AlterConfigs": _rows(_CONFIGS),
        "IncrementalAlterConfigs": _rows(f"{_CONFIGS} UNKNOWN_SERVER_ERROR"),
        "ListConfigResources": _rows("CLUSTER_AUTHORIZATION_FAILED UNSUPPORTED_VERSION"),
        "DescribeAcls": _rows("CLUSTER_AUTHORIZATION_FAILED SECURITY_DISABLED INVALID_REQUEST"),
        "CreateAcls": _rows(f"{_CONTROLLER} SECURITY_DISABLED"),
        "DeleteAcls": _rows(f"{_CONTROLLER} SECURITY_DISABLED"),
        "AlterReplicaLogDirs": _rows(
            "LOG_DIR_NOT_FOUND KAFKA_STORAGE_ERROR REPLICA_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION "
            "INVALID_TOPIC_EXCEPTION CLUSTER_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR",
            # The broker has noted the folder for when it gets the replica: that may be never.
            _but(FAIL="REPLICA_NOT_AVAILABLE"),
        ),
        "DescribeLogDirs": _rows(
            "CLUSTER_AUTHORIZATION_FAILED",
            # The folder's own state: told, and not waited for.
            _but(FAIL="KAFKA_STORAGE_ERROR"),
        ),
        "CreateDelegationToken": _rows(_TOKEN),
        "RenewDelegationToken": _rows(_TOKEN),
        "ExpireDelegationToken": _rows(_TOKEN),
        "DescribeDelegationToken": _rows(_TOKEN),
        "ElectLeaders": _rows(
            f"{_CONTROLLER} PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE "
            "UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION",
            # Java calls it retriable, but the partition has the leader that was asked for.
            _but(DONE="ELECTION_NOT_NEEDED"),
            # The controller knows who lives: nobody comes back because somebody asks again.
            _but(FAIL="PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION"),
        ),
        "AlterPartitionReassignments": _rows(
            f"{_CONTROLLER} INVALID_REPLICA_ASSIGNMENT INVALID_REPLICATION_FACTOR "
            "NO_REASSIGNMENT_IN_PROGRESS UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION",
            _but(FAIL="UNKNOWN_TOPIC_OR_PARTITION"),
        ),
        "ListPartitionReassignments": _rows(f"{_CONTROLLER} UNKNOWN_TOPIC_OR_PARTITION"),
        "DescribeClientQuotas": _rows("CLUSTER_AUTHORIZATION_FAILED INVALID_REQUEST"),
        "AlterClientQuotas": _rows(_CONTROLLER),
        "DescribeUserScramCredentials": _rows(
            "CLUSTER_AUTHORIZATION_FAILED RESOURCE_NOT_FOUND DUPLICATE_RESOURCE INVALID_REQUEST"
        ),
        "AlterUserScramCredentials": _rows(
            f"{_CONTROLLER} RESOURCE_NOT_FOUND DUPLICATE_RESOURCE UNSUPPORTED_SASL_MECHANISM UNACCEPTABLE_CREDENTIAL"
        ),
        "UpdateFeatures": _rows(f"{_CONTROLLER} FEATURE_UPDATE_FAILED INVALID_UPDATE_VERSION"),
        "DescribeCluster": _rows(
            "CLUSTER_AUTHORIZATION_FAILED MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE "
            "INVALID_REQUEST UNSUPPORTED_VERSION",
        ),
        "DescribeTopicPartitions": _rows(
            "UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION INVALID_REQUEST"
        ),
        "DescribeQuorum": _rows(f"{_QUORUM} BROKER_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION"),
        "UnregisterBroker": _rows(f"{_CONTROLLER} BROKER_ID_NOT_REGISTERED"),
        "AddRaftVoter": _rows(f"{_QUORUM} DUPLICATE_VOTER"),
        "RemoveRaftVoter": _rows(f"{_QUORUM} VOTER_NOT_FOUND"),
        "UpdateRaftVoter": _rows(f"{_QUORUM} VOTER_NOT_FOUND"),
        "GetTelemetrySubscriptions": _rows("INVALID_REQUEST UNSUPPORTED_VERSION THROTTLING_QUOTA_EXCEEDED"),
        "PushTelemetry": _rows(
            "INVALID_REQUEST INVALID_RECORD UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE "
            "UNSUPPORTED_COMPRESSION_TYPE THROTTLING_QUOTA_EXCEEDED",
        ),
    }
)


def reaction(api: str, code: ErrorCode | UnknownErrorCode | int) -> Reaction:
    """What to do about a code that this API (by its name) has answered."""
    known = ErrorCode.of(int(code))
    if isinstance(known, UnknownErrorCode):
        return Reaction.FAIL
    return TABLE.get(api, {}).get(known, by_code(known))
