"""A blocking Kafka client: protocol, sockets, routing and retries; record sets go through it as opaque bytes.

config, errors, retry, partition      what everything else names
protocol/                             values to bytes and back
security/                             TLS, SASL, where credentials come from
connection -> transport -> broker     one connection: sans-IO core, the one file with sockets, versions of a broker
metadata, cluster, leaders            many brokers as one: bootstrap, metadata, routing, trying again
offsets, groups, transactions, admin, producer, fetch      what a user calls
membership/                           being a member of a group
"""

from client.admin import (
    NewTopic,
    create_topic,
    create_topics,
    delete_topic,
    delete_topics,
    describe_log_dirs,
    describe_topic_configs,
    finalized_features,
)
from client.cluster import Cluster
from client.config import ClientConfig
from client.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerError,
    BrokerUnavailable,
    ConfigError,
    Fenced,
    GroupError,
    KafkaError,
    LeaderNotAvailable,
    LogTruncated,
    MessageCutShort,
    OffsetCommitFailed,
    OffsetOutOfRange,
    OutcomeUnknown,
    ProtocolFault,
    RequestTimedOut,
    SomeBrokersFailed,
    TopicExists,
    TransactionError,
    UnknownTopic,
    UnsupportedVersion,
)
from client.fetch import AbortedTransaction, FetchedRecords, PartitionReader
from client.fetch_many import ManyReader, fetch_many
from client.group_offsets import CommittedOffset, commit_offsets, committed_offsets
from client.groups import GroupDescription, MemberDescription, describe_group, list_groups
from client.membership import AssignmentChange, GroupMember, MemberSettings
from client.metadata import Broker, ClusterMetadata, PartitionMetadata, TopicMetadata
from client.offsets import EARLIEST, LATEST, EpochEnd, ListedOffset, end_of_epoch, list_offsets
from client.partition import TopicPartition
from client.transactions import Transaction

__all__ = [
    "EARLIEST",
    "LATEST",
    "AbortedTransaction",
    "AssignmentChange",
    "AuthenticationFailed",
    "AuthorizationFailed",
    "Broker",
    "BrokerError",
    "BrokerUnavailable",
    "ClientConfig",
    "Cluster",
    "ClusterMetadata",
    "CommittedOffset",
    "ConfigError",
    "EpochEnd",
    "Fenced",
    "FetchedRecords",
    "GroupDescription",
    "GroupError",
    "GroupMember",
    "KafkaError",
    "LeaderNotAvailable",
    "ListedOffset",
    "LogTruncated",
    "ManyReader",
    "MemberDescription",
    "MemberSettings",
    "MessageCutShort",
    "NewTopic",
    "OffsetCommitFailed",
    "OffsetOutOfRange",
    "OutcomeUnknown",
    "PartitionMetadata",
    "PartitionReader",
    "ProtocolFault",
    "RequestTimedOut",
    "SomeBrokersFailed",
    "TopicExists",
    "TopicMetadata",
    "TopicPartition",
    "Transaction",
    "TransactionError",
    "UnknownTopic",
    "UnsupportedVersion",
    "commit_offsets",
    "committed_offsets",
    "create_topic",
    "create_topics",
    "delete_topic",
    "delete_topics",
    "describe_group",
    "describe_log_dirs",
    "describe_topic_configs",
    "end_of_epoch",
    "fetch_many",
    "finalized_features",
    "list_groups",
    "list_offsets",
]
