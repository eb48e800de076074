"""The cluster's metadata after some records of `__cluster_metadata`: each record changes the image a little.

The rules are those of Kafka's own image (KIP-631, `org.apache.kafka.image` of 4.x), among them:

    PartitionChange      every one raises the partition's epoch; one with a leader raises the leader's epoch too
    replicas that move   keep their directory, new ones have none yet
    ClearElr             changes partitions that have eligible replicas outside of the ISR, as a PartitionChange would
    RemoveTopic          takes the topic's configuration with it

There is a function for every type of record that this release knows; a test goes over the definitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from kseg.client.protocol.embedded import metadata_records as records
from kseg.client.protocol.embedded.framing import TypedMessage

#: Directory ids that mean a state, not a disk (KIP-858).
UNASSIGNED: Final = UUID(int=0)
LOST: Final = UUID(int=1)
MIGRATING: Final = UUID(int=2)
NO_LEADER_CHANGE: Final = -2


class ContradictionError(ValueError):
    """A record that does not fit to what was before it. Internal: the reader adds the address."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition; `leader` is -1 where there is none. `directories` goes with `replicas`."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    directories: tuple[UUID, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]


@dataclass
class Topic:
    """A topic and its partitions by number."""

    name: str
    partitions: dict[int, Partition] = field(default_factory=dict)


#: name, host, port, number of the security protocol.
Endpoint = tuple[str, str, int, int]
#: name, lowest and highest version.
Feature = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker's registration. `cordoned_log_dirs` is None where the broker is too old to have it."""

    epoch: int
    incarnation_id: UUID
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    migrating_from_zookeeper: bool
    endpoints: tuple[Endpoint, ...]
    features: tuple[Feature, ...]
    log_dirs: tuple[UUID, ...]
    cordoned_log_dirs: tuple[UUID, ...] | None

    def has_online(self, directory: UUID) -> bool:
        """Whether a replica in this directory can be online: brokers before 3.7 name no directories at all."""
        if directory in (UNASSIGNED, MIGRATING):
            return True
        return directory != LOST and (not self.log_dirs or directory in self.log_dirs)


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller's registration."""

    incarnation_id: UUID
    zookeeper_migration_ready: bool
    endpoints: tuple[Endpoint, ...]
    features: tuple[Feature, ...]


#: (entity type, its name, None for the default) pairs, in their order.
QuotaEntity = tuple[tuple[str, str | None], ...]


@dataclass
class MetadataImage:
    """The metadata, by whatever names a thing. Records are kept as they are where nothing changes but the whole.

    configs: by (number of the resource's type, its name), values by setting.
    scram: iterations by (user, number of the mechanism): the secrets are not kept.
    """

    topics: dict[UUID, Topic] = field(default_factory=dict)
    brokers: dict[int, RegisteredBroker] = field(default_factory=dict)
    controllers: dict[int, Controller] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    acls: dict[UUID, records.AccessControlEntryRecord] = field(default_factory=dict)
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    scram: dict[tuple[str, int], int] = field(default_factory=dict)
    tokens: dict[str, records.DelegationTokenRecord] = field(default_factory=dict)
    next_producer_id: int | None = None
    zookeeper_migration: int | None = None

    def apply(self, record: TypedMessage) -> None:
        """Raises ContradictionError; KeyError for a message that is no record of the metadata log."""
        APPLY[type(record)](self, record)

    def topic_named(self, name: str) -> tuple[UUID, Topic] | None:
        """A topic and its id, by its name."""
        return next(((key, one) for key, one in self.topics.items() if one.name == name), None)

    def offline_replicas(self, partition: Partition) -> tuple[int, ...]:
        """Replicas on brokers that are fenced or not registered, or in a directory that its broker has lost."""
        placed = zip(partition.replicas, partition.directories, strict=True)
        return tuple(
            replica
            for replica, directory in placed
            if (broker := self.brokers.get(replica)) is None or broker.fenced or not broker.has_online(directory)
        )


def _register_broker(image: MetadataImage, record: records.RegisterBrokerRecord) -> None:
    image.brokers[record.broker_id] = RegisteredBroker(
        record.broker_epoch,
        record.incarnation_id,
        record.rack,
        record.fenced,
        record.in_controlled_shutdown,
        record.is_migrating_zk_broker,
        _endpoints(record.end_points),
        _features(record.features),
        tuple(sorted(record.log_dirs)),
        None if record.cordoned_log_dirs is None else tuple(sorted(record.cordoned_log_dirs)),
    )


def _endpoints(given: Any) -> tuple[Endpoint, ...]:
    """Sorted, as features and directories are: the order in which a snapshot has them is chance."""
    return tuple(sorted((one.name, one.host, one.port, one.security_protocol) for one in given))


def _features(given: Any) -> tuple[Feature, ...]:
    return tuple(sorted((one.name, one.min_supported_version, one.max_supported_version) for one in given))


def _unregister_broker(image: MetadataImage, record: records.UnregisterBrokerRecord) -> None:
    image.brokers.pop(record.broker_id, None)


def _broker(image: MetadataImage, broker_id: int, epoch: int) -> RegisteredBroker:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        raise ContradictionError(f"broker {broker_id} is not registered with epoch {epoch}")
    return broker


def _fence(image: MetadataImage, record: records.FenceBrokerRecord) -> None:
    image.brokers[record.id] = replace(_broker(image, record.id, record.epoch), fenced=True)


def _unfence(image: MetadataImage, record: records.UnfenceBrokerRecord) -> None:
    image.brokers[record.id] = replace(_broker(image, record.id, record.epoch), fenced=False)


def _change_broker(image: MetadataImage, record: records.BrokerRegistrationChangeRecord) -> None:
    changed = _broker(image, record.broker_id, record.broker_epoch)
    if record.fenced:
        changed = replace(changed, fenced=record.fenced > 0)
    if record.in_controlled_shutdown:
        changed = replace(changed, in_controlled_shutdown=record.in_controlled_shutdown > 0)
    if record.log_dirs:
        changed = replace(changed, log_dirs=tuple(sorted(record.log_dirs)))
    if record.cordoned_log_dirs is not None:
        changed = replace(changed, cordoned_log_dirs=tuple(sorted(record.cordoned_log_dirs)))
    image.brokers[record.broker_id] = changed


def _register_controller(image: MetadataImage, record: records.RegisterControllerRecord) -> None:
    image.controllers[record.controller_id] = Controller(
        record.incarnation_id, record.zk_migration_ready, _endpoints(record.end_points), _features(record.features)
    )


def _topic(image: MetadataImage, topic_id: UUID) -> Topic:
    topic = image.topics.get(topic_id)
    if topic is None:
        raise ContradictionError(f"there is no topic with id {topic_id}")
    return topic


def _create_topic(image: MetadataImage, record: records.TopicRecord) -> None:
    image.topics[record.topic_id] = Topic(record.name)


def _remove_topic(image: MetadataImage, record: records.RemoveTopicRecord) -> None:
    name = _topic(image, record.topic_id).name
    del image.topics[record.topic_id]
    image.configs.pop((_TOPIC_CONFIG, name), None)


_TOPIC_CONFIG: Final = 2


def _partition(image: MetadataImage, record: records.PartitionRecord) -> None:
    directories = tuple(record.directories) or (MIGRATING,) * len(record.replicas)
    if len(directories) != len(record.replicas):
        raise ContradictionError(f"{len(record.replicas)} replicas in {len(directories)} directories")
    _topic(image, record.topic_id).partitions[record.partition_id] = Partition(
        tuple(record.replicas),
        tuple(record.isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        record.leader_recovery_state,
        tuple(record.removing_replicas),
        tuple(record.adding_replicas),
        directories,
        tuple(record.eligible_leader_replicas or ()),
        tuple(record.last_known_elr or ()),
    )


def _change_partition(image: MetadataImage, record: records.PartitionChangeRecord) -> None:
    topic = _topic(image, record.topic_id)
    before = topic.partitions.get(record.partition_id)
    if before is None:
        raise ContradictionError(f"there is no partition {topic.name}-{record.partition_id}")
    topic.partitions[record.partition_id] = _merged(before, record)


def _merged(before: Partition, record: records.PartitionChangeRecord) -> Partition:
    def now(given: list[int] | None, otherwise: tuple[int, ...]) -> tuple[int, ...]:
        return otherwise if given is None else tuple(given)

    replicas = now(record.replicas, before.replicas)
    if record.directories:
        directories = tuple(record.directories)
    else:
        known = dict(zip(before.replicas, before.directories, strict=True))
        directories = tuple(known.get(replica, UNASSIGNED) for replica in replicas)
    if len(directories) != len(replicas):
        raise ContradictionError(f"{len(replicas)} replicas in {len(directories)} directories")
    led = record.leader != NO_LEADER_CHANGE
    recovery = record.leader_recovery_state
    return Partition(
        replicas,
        now(record.isr, before.isr),
        record.leader if led else before.leader,
        before.leader_epoch + led,
        before.partition_epoch + 1,
        before.leader_recovery_state if recovery < 0 else recovery,
        now(record.removing_replicas, before.removing_replicas),
        now(record.adding_replicas, before.adding_replicas),
        directories,
        now(record.eligible_leader_replicas, before.elr),
        now(record.last_known_elr, before.last_known_elr),
    )


def _clear_elr(image: MetadataImage, record: records.ClearElrRecord) -> None:
    topics = list(image.topics.items())
    if record.topic_name:
        found = image.topic_named(record.topic_name)
        if found is None:
            raise ContradictionError(f"there is no topic {record.topic_name}")
        topics = [found]
    for topic_id, topic in topics:
        for number, partition in topic.partitions.items():
            if partition.elr or partition.last_known_elr:
                change = records.PartitionChangeRecord(
                    partition_id=number, topic_id=topic_id, eligible_leader_replicas=[], last_known_elr=[]
                )
                topic.partitions[number] = _merged(partition, change)


def _config(image: MetadataImage, record: records.ConfigRecord) -> None:
    resource = record.resource_type, record.resource_name
    if record.value is not None:
        image.configs.setdefault(resource, {})[record.name] = record.value
        return
    settings = image.configs.get(resource, {})
    settings.pop(record.name, None)
    if not settings:
        image.configs.pop(resource, None)


def _feature(image: MetadataImage, record: records.FeatureLevelRecord) -> None:
    if record.feature_level:
        image.features[record.name] = record.feature_level
    else:
        image.features.pop(record.name, None)


def _acl(image: MetadataImage, record: records.AccessControlEntryRecord) -> None:
    image.acls[record.id] = record


def _remove_acl(image: MetadataImage, record: records.RemoveAccessControlEntryRecord) -> None:
    image.acls.pop(record.id, None)


def _scram(image: MetadataImage, record: records.UserScramCredentialRecord) -> None:
    image.scram[record.name, record.mechanism] = record.iterations


def _remove_scram(image: MetadataImage, record: records.RemoveUserScramCredentialRecord) -> None:
    image.scram.pop((record.name, record.mechanism), None)


def _token(image: MetadataImage, record: records.DelegationTokenRecord) -> None:
    image.tokens[record.token_id] = record


def _remove_token(image: MetadataImage, record: records.RemoveDelegationTokenRecord) -> None:
    image.tokens.pop(record.token_id, None)


def _quota(image: MetadataImage, record: records.ClientQuotaRecord) -> None:
    entity = tuple(sorted(((one.entity_type, one.entity_name) for one in record.entity), key=lambda one: one[0]))
    if not record.remove:
        image.quotas.setdefault(entity, {})[record.key] = record.value
        return
    values = image.quotas.get(entity, {})
    values.pop(record.key, None)
    if not values:
        image.quotas.pop(entity, None)


def _producer_ids(image: MetadataImage, record: records.ProducerIdsRecord) -> None:
    image.next_producer_id = record.next_producer_id  # snapshots do not have the owner of the previous block


def _zookeeper(image: MetadataImage, record: records.ZkMigrationStateRecord) -> None:
    image.zookeeper_migration = record.zk_migration_state


def _nothing(_: MetadataImage, __: TypedMessage) -> None:
    """No change: a sign of life; or what begins and ends transactions, which the reader follows."""


APPLY: Final[dict[type[TypedMessage], Callable[[MetadataImage, Any], None]]] = {
    records.RegisterBrokerRecord: _register_broker,
    records.UnregisterBrokerRecord: _unregister_broker,
    records.FenceBrokerRecord: _fence,
    records.UnfenceBrokerRecord: _unfence,
    records.BrokerRegistrationChangeRecord: _change_broker,
    records.RegisterControllerRecord: _register_controller,
    records.TopicRecord: _create_topic,
    records.RemoveTopicRecord: _remove_topic,
    records.PartitionRecord: _partition,
    records.PartitionChangeRecord: _change_partition,
    records.ClearElrRecord: _clear_elr,
    records.ConfigRecord: _config,
    records.FeatureLevelRecord: _feature,
    records.AccessControlEntryRecord: _acl,
    records.RemoveAccessControlEntryRecord: _remove_acl,
    records.UserScramCredentialRecord: _scram,
    records.RemoveUserScramCredentialRecord: _remove_scram,
    records.DelegationTokenRecord: _token,
    records.RemoveDelegationTokenRecord: _remove_token,
    records.ClientQuotaRecord: _quota,
    records.ProducerIdsRecord: _producer_ids,
    records.ZkMigrationStateRecord: _zookeeper,
    records.NoOpRecord: _nothing,
    records.BeginTransactionRecord: _nothing,
    records.EndTransactionRecord: _nothing,
    records.AbortTransactionRecord: _nothing,
}
