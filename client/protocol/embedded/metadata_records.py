"""Records of the cluster's metadata log, `__cluster_metadata` (KRaft, KIP-631).

What precedes the message: internal_topics.
"""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.fields import (
    array,
    boolean,
    byte_string,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from kseg.client.protocol.schema import Struct


class RegisterBrokerRecord(TypedMessage, key=0, versions="0-4", flexible="0+"):
    """A broker has registered.

    v1 has controlled shutdown, v2 brokers that migrate from ZooKeeper, v3 log directories, v4 cordoned ones.
    """

    class BrokerEndpoint(Struct):
        name: str = string("0+")
        host: str = string("0+")
        port: int = uint16("0+")
        security_protocol: int = int16("0+")

    class BrokerFeature(Struct):
        name: str = string("0+")
        min_supported_version: int = int16("0+")
        max_supported_version: int = int16("0+")

    broker_id: int = int32("0+")
    is_migrating_zk_broker: bool = boolean("2+")
    incarnation_id: UUID = uuid("0+")
    broker_epoch: int = int64("0+")
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint, "0+")
    features: list[BrokerFeature] = array(BrokerFeature, "0+")
    rack: str | None = string("0+", nullable="0+")
    fenced: bool = boolean("0+", default=True)
    in_controlled_shutdown: bool = boolean("1+")
    log_dirs: list[UUID] = array(uuid, "3+", tag=0)
    cordoned_log_dirs: list[UUID] | None = array(uuid, "4+", nullable="4+", default=None, tag=1)


class UnregisterBrokerRecord(TypedMessage, key=1, versions="0", flexible="0+"):
    """A broker's registration is removed."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+")


class TopicRecord(TypedMessage, key=2, versions="0", flexible="0+"):
    """A topic is created."""

    name: str = string("0+")
    topic_id: UUID = uuid("0+")


class PartitionRecord(TypedMessage, key=3, versions="0-2", flexible="0+"):
    """A partition, its replicas and its leader.

    v1 has the replicas' directories, v2 eligible leader replicas.
    """

    partition_id: int = int32("0+", default=-1)
    topic_id: UUID = uuid("0+")
    replicas: list[int] = array(int32, "0+")
    isr: list[int] = array(int32, "0+")
    removing_replicas: list[int] = array(int32, "0+")
    adding_replicas: list[int] = array(int32, "0+")
    leader: int = int32("0+", default=-1)
    leader_recovery_state: int = int8("0+", tag=0)
    leader_epoch: int = int32("0+", default=-1)
    partition_epoch: int = int32("0+", default=-1)
    directories: list[UUID] = array(uuid, "1+")
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=1)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=2)


class ConfigRecord(TypedMessage, key=4, versions="0", flexible="0+"):
    """A configuration value; null removes it."""

    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class PartitionChangeRecord(TypedMessage, key=5, versions="0-2", flexible="0+"):
    """The changes of a partition; a field with its default value has not changed."""

    partition_id: int = int32("0+", default=-1)
    topic_id: UUID = uuid("0+")
    isr: list[int] | None = array(int32, "0+", nullable="0+", default=None, tag=0)
    leader: int = int32("0+", default=-2, tag=1)
    replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None, tag=2)
    removing_replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None, tag=3)
    adding_replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None, tag=4)
    leader_recovery_state: int = int8("0+", default=-1, tag=5)
    directories: list[UUID] | None = array(uuid, "1+", nullable="1+", default=None, tag=8)
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=6)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=7)


class FenceBrokerRecord(TypedMessage, key=7, versions="0", flexible="0+"):
    """A broker is fenced."""

    id: int = int32("0+")
    epoch: int = int64("0+")


class UnfenceBrokerRecord(TypedMessage, key=8, versions="0", flexible="0+"):
    """A broker is not fenced any more."""

    id: int = int32("0+")
    epoch: int = int64("0+")


class RemoveTopicRecord(TypedMessage, key=9, versions="0", flexible="0+"):
    """A topic is deleted."""

    topic_id: UUID = uuid("0+")


class DelegationTokenRecord(TypedMessage, key=10, versions="0", flexible="0+"):
    """A delegation token, without its secret."""

    owner: str = string("0+")
    requester: str = string("0+")
    renewers: list[str] = array(string, "0+")
    issue_timestamp: int = int64("0+")
    max_timestamp: int = int64("0+")
    expiration_timestamp: int = int64("0+")
    token_id: str = string("0+")


class UserScramCredentialRecord(TypedMessage, key=11, versions="0", flexible="0+"):
    """A user's SCRAM credential: salted keys, never the password."""

    name: str = string("0+")
    mechanism: int = int8("0+")
    salt: bytes = byte_string("0+")
    stored_key: bytes = byte_string("0+")
    server_key: bytes = byte_string("0+")
    iterations: int = int32("0+")


class FeatureLevelRecord(TypedMessage, key=12, versions="0", flexible="0+"):
    """The level that a feature is finalized at; 0 removes it."""

    name: str = string("0+")
    feature_level: int = int16("0+")


class ClientQuotaRecord(TypedMessage, key=14, versions="0", flexible="0+"):
    """A quota; with `remove` it is removed."""

    class EntityData(Struct):
        entity_type: str = string("0+")
        entity_name: str | None = string("0+", nullable="0+")

    entity: list[EntityData] = array(EntityData, "0+")
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class ProducerIdsRecord(TypedMessage, key=15, versions="0", flexible="0+"):
    """The first producer id that is not allocated yet."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    next_producer_id: int = int64("0+")


class BrokerRegistrationChangeRecord(TypedMessage, key=17, versions="0-3", flexible="0+"):
    """The changes of a broker's registration: 1 yes, -1 no, 0 unchanged."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+")
    fenced: int = int8("0+", tag=0)
    in_controlled_shutdown: int = int8("1+", tag=1)
    log_dirs: list[UUID] = array(uuid, "2+", tag=2)
    cordoned_log_dirs: list[UUID] | None = array(uuid, "3+", nullable="3+", default=None, tag=3)


class AccessControlEntryRecord(TypedMessage, key=18, versions="0", flexible="0+"):
    """An access control entry."""

    id: UUID = uuid("0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("0+")
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class RemoveAccessControlEntryRecord(TypedMessage, key=19, versions="0", flexible="0+"):
    """An access control entry is removed."""

    id: UUID = uuid("0+")


class NoOpRecord(TypedMessage, key=20, versions="0", flexible="0+"):
    """No change; shows that the controller is alive."""


class ZkMigrationStateRecord(TypedMessage, key=21, versions="0", flexible="0+"):
    """The state of the migration from ZooKeeper."""

    zk_migration_state: int = int8("0+")


class RemoveUserScramCredentialRecord(TypedMessage, key=22, versions="0", flexible="0+"):
    """A SCRAM credential is removed."""

    name: str = string("0+")
    mechanism: int = int8("0+")


class BeginTransactionRecord(TypedMessage, key=23, versions="0", flexible="0+"):
    """Begins a transaction of metadata records, which apply together or not at all (KIP-868)."""

    name: str | None = string("0+", nullable="0+", default=None, tag=0)


class EndTransactionRecord(TypedMessage, key=24, versions="0", flexible="0+"):
    """Ends a transaction: its records apply."""


class AbortTransactionRecord(TypedMessage, key=25, versions="0", flexible="0+"):
    """Aborts a transaction: its records do not apply."""

    reason: str | None = string("0+", nullable="0+", default=None, tag=0)


class RemoveDelegationTokenRecord(TypedMessage, key=26, versions="0", flexible="0+"):
    """A delegation token is removed."""

    token_id: str = string("0+")


class RegisterControllerRecord(TypedMessage, key=27, versions="0", flexible="0+"):
    """A controller has registered."""

    class ControllerEndpoint(Struct):
        name: str = string("0+")
        host: str = string("0+")
        port: int = uint16("0+")
        security_protocol: int = int16("0+")

    class ControllerFeature(Struct):
        name: str = string("0+")
        min_supported_version: int = int16("0+")
        max_supported_version: int = int16("0+")

    controller_id: int = int32("0+")
    incarnation_id: UUID = uuid("0+")
    zk_migration_ready: bool = boolean("0+")
    end_points: list[ControllerEndpoint] = array(ControllerEndpoint, "0+")
    features: list[ControllerFeature] = array(ControllerFeature, "0+")


class ClearElrRecord(TypedMessage, key=28, versions="0", flexible="0+"):
    """The eligible leader replicas are cleared, of one topic or of all."""

    topic_name: str = string("0+")
