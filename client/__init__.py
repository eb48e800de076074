"""A blocking Kafka client: protocol, sockets, routing and retries; record sets go through it as opaque bytes.

config, errors, retry                   what everything else names
protocol/                               values to bytes and back
security/                               TLS, SASL, where credentials come from
wire/                                   one connection: sans-IO core, the one file with sockets, versions of a broker
cluster/                                many brokers as one: bootstrap, metadata, routing, retries, the error policy
fetch/ offsets groups/ transactions/    what a user calls
producer/ membership/ admin/ registry/  the same, imported by their own names

    used by                        folders
    -----------------------------  ------------------------------------------------------------------------------------
    a task, which reads records    protocol, security, wire, cluster, fetch, offsets
    the driver of a job            the same, groups, transactions; registry, if schemas are in one; of admin the topics'
                                   settings and the sizes of logs (configs, log_dirs); for `kseg check`, describe
    a query that writes to Kafka   producer, too (`etl/kafka_writer`)
    no job, but other programs     membership, and the rest of admin (`kseg topics` and `kseg produce` use topics)

`kseg api` can call every API of `protocol`.
Importing this package loads none of them: a name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kseg.client.cluster.cluster import Cluster
    from kseg.client.cluster.metadata import Broker, ClusterMetadata, PartitionMetadata, TopicMetadata
    from kseg.client.config import ClientConfig
    from kseg.client.errors import (
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
    from kseg.client.fetch.many_reader import ManyReader, fetch_many
    from kseg.client.fetch.messages import AbortedTransaction, FetchedRecords
    from kseg.client.fetch.partition_reader import PartitionReader
    from kseg.client.groups.descriptions import GroupDescription, MemberDescription, describe_group, list_groups
    from kseg.client.groups.offsets import CommittedOffset, commit_offsets, committed_offsets
    from kseg.client.offsets import (
        EARLIEST,
        LATEST,
        EpochEnd,
        ListedOffset,
        SpecialTimestamp,
        end_of_epoch,
        list_offsets,
    )
    from kseg.client.protocol.partition import TopicPartition
    from kseg.client.transactions.transaction import Transaction

__all__ = [
    "EARLIEST",
    "LATEST",
    "AbortedTransaction",
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
    "KafkaError",
    "LeaderNotAvailable",
    "ListedOffset",
    "LogTruncated",
    "ManyReader",
    "MemberDescription",
    "MessageCutShort",
    "OffsetCommitFailed",
    "OffsetOutOfRange",
    "OutcomeUnknown",
    "PartitionMetadata",
    "PartitionReader",
    "ProtocolFault",
    "RequestTimedOut",
    "SomeBrokersFailed",
    "SpecialTimestamp",
    "TopicExists",
    "TopicMetadata",
    "TopicPartition",
    "Transaction",
    "TransactionError",
    "UnknownTopic",
    "UnsupportedVersion",
    "commit_offsets",
    "committed_offsets",
    "describe_group",
    "end_of_epoch",
    "fetch_many",
    "list_groups",
    "list_offsets",
]

_HOMES = {
    "cluster.cluster": "Cluster",
    "cluster.metadata": "Broker ClusterMetadata PartitionMetadata TopicMetadata",
    "config": "ClientConfig",
    "errors": """
        AuthenticationFailed AuthorizationFailed BrokerError BrokerUnavailable ConfigError Fenced GroupError
        KafkaError LeaderNotAvailable LogTruncated MessageCutShort OffsetCommitFailed OffsetOutOfRange
        OutcomeUnknown ProtocolFault RequestTimedOut SomeBrokersFailed TopicExists TransactionError
        UnknownTopic UnsupportedVersion
    """,
    "fetch.many_reader": "ManyReader fetch_many",
    "fetch.messages": "AbortedTransaction FetchedRecords",
    "fetch.partition_reader": "PartitionReader",
    "groups.descriptions": "GroupDescription MemberDescription describe_group list_groups",
    "groups.offsets": "CommittedOffset commit_offsets committed_offsets",
    "offsets": "EARLIEST EpochEnd LATEST ListedOffset SpecialTimestamp end_of_epoch list_offsets",
    "protocol.partition": "TopicPartition",
    "transactions.transaction": "Transaction",
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
