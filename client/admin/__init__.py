"""Everything that an administrator asks of a cluster: one function an API, one module a subject.

    topics         create, delete, add partitions, delete records      describe      topics and partitions as they are
    configs        settings of topics, brokers, groups …               features      levels, supported and finalized
    acls           who may do what                                     quotas        how much of it
    credentials    SCRAM users                                         tokens        delegation tokens
    nodes          brokers, controllers, the metadata quorum           log_dirs      where replicas lie on disks
    placement      reassignments and leader elections                  transactions  who writes; ending one that hangs
    groups         delete groups, their offsets, static members        share_groups  offsets of share groups
    telemetry      metrics that the cluster wants of its clients

One convention holds for all requests of many parts (topics, groups, resources, brokers …): the function returns
`client.cluster.results.Results`, a dict from part to its value *or* its error, which is typed and carries its address.

    created = create_topics(cluster, [NewTopic("a"), NewTopic("b")])
    created["a"]            a CreatedTopic, or for example TopicExists
    created.or_raise()      all values, or the first lasting error with the others in its notes
    created.failed()        the errors alone

Such a function raises only when no part has an outcome: no broker answers, or the request as a whole is refused. Parts
that failed for now are tried again by themselves up to `default.api.timeout.ms`. Functions for one thing (as
`create_topic`) raise its error. Where every broker is asked, the parts are the brokers, by id.

Each request goes to the broker that it belongs to: controller, a named broker, a partition's leader, a coordinator, or
any broker.
None of a collection stands for "all" (or for the cluster's own choice), an empty one for none.
"""

from kseg.client.admin.acls import AclBinding, AclFilter, create_acls, delete_acls, describe_acls
from kseg.client.admin.configs import (
    AlterConfig,
    AlterOperation,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    alter_configs,
    describe_configs,
    describe_topic_configs,
    list_config_resources,
    replace_configs,
)
from kseg.client.admin.credentials import DeleteScram, SetScram, alter_scram_users, describe_scram_users
from kseg.client.admin.describe import (
    PartitionDescription,
    TopicDescription,
    describe_topic_partitions,
    describe_topics,
)
from kseg.client.admin.features import Features, describe_features, finalized_features, update_features
from kseg.client.admin.groups import delete_group_offsets, delete_groups, remove_members
from kseg.client.admin.log_dirs import LogDir, LogDirPartition, Replica, alter_replica_log_dirs, describe_log_dirs
from kseg.client.admin.nodes import (
    ClusterDescription,
    Node,
    QuorumDescription,
    QuorumReplica,
    add_voter,
    describe_cluster,
    describe_quorum,
    remove_voter,
    unregister_broker,
)
from kseg.client.admin.placement import Reassignment, alter_reassignments, elect_leaders, list_reassignments
from kseg.client.admin.quotas import Match, QuotaEntity, alter_quotas, describe_quotas, quota_entity
from kseg.client.admin.share_groups import (
    ShareOffset,
    alter_share_offsets,
    delete_share_offsets,
    describe_share_offsets,
)
from kseg.client.admin.telemetry import TelemetrySubscription, push_telemetry, telemetry_subscription
from kseg.client.admin.tokens import DelegationToken, create_token, describe_tokens, expire_token, renew_token
from kseg.client.admin.topics import (
    HIGH_WATERMARK,
    CreatedTopic,
    NewTopic,
    create_partitions,
    create_topic,
    create_topics,
    delete_records,
    delete_topic,
    delete_topics,
)
from kseg.client.admin.transactions import (
    ActiveProducer,
    ListedTransaction,
    TransactionDescription,
    abort_transaction,
    describe_producers,
    describe_transactions,
    fence_producer,
    list_transactions,
)
from kseg.client.cluster.results import Results
from kseg.client.groups.descriptions import describe_group, describe_groups, list_groups

__all__ = [
    "HIGH_WATERMARK",
    "AclBinding",
    "AclFilter",
    "ActiveProducer",
    "AlterConfig",
    "AlterOperation",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "CreatedTopic",
    "DelegationToken",
    "DeleteScram",
    "Features",
    "ListedTransaction",
    "LogDir",
    "LogDirPartition",
    "Match",
    "NewTopic",
    "Node",
    "PartitionDescription",
    "QuorumDescription",
    "QuorumReplica",
    "QuotaEntity",
    "Reassignment",
    "Replica",
    "Results",
    "SetScram",
    "ShareOffset",
    "TelemetrySubscription",
    "TopicDescription",
    "TransactionDescription",
    "abort_transaction",
    "add_voter",
    "alter_configs",
    "alter_quotas",
    "alter_reassignments",
    "alter_replica_log_dirs",
    "alter_scram_users",
    "alter_share_offsets",
    "create_acls",
    "create_partitions",
    "create_token",
    "create_topic",
    "create_topics",
    "delete_acls",
    "delete_group_offsets",
    "delete_groups",
    "delete_records",
    "delete_share_offsets",
    "delete_topic",
    "delete_topics",
    "describe_acls",
    "describe_cluster",
    "describe_configs",
    "describe_features",
    "describe_group",
    "describe_groups",
    "describe_log_dirs",
    "describe_producers",
    "describe_quorum",
    "describe_quotas",
    "describe_scram_users",
    "describe_share_offsets",
    "describe_tokens",
    "describe_topic_configs",
    "describe_topic_partitions",
    "describe_topics",
    "describe_transactions",
    "elect_leaders",
    "expire_token",
    "fence_producer",
    "finalized_features",
    "list_config_resources",
    "list_groups",
    "list_reassignments",
    "list_transactions",
    "push_telemetry",
    "quota_entity",
    "remove_members",
    "remove_voter",
    "renew_token",
    "replace_configs",
    "telemetry_subscription",
    "unregister_broker",
    "update_features",
]
