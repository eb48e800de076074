"""The cluster's metadata as Arrow tables: one for each kind of thing, each row by itself.

    tables = metadata_tables(read_metadata(LogDirs(["/var/lib/kafka/data"])))
    tables["partitions"]                            a pyarrow.Table
    spark.createDataFrame(tables["partitions"])     and in Spark

Ids are in the form of Kafka's tools (base64 for URLs), enum numbers are shown by name, times are UTC. What
there is not (a leader, a rack) is null. Of settings whose names say that they are secrets the value is left out
(`sensitive`), of SCRAM users and delegation tokens whatever could be used to log in.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from kseg.client.protocol.embedded.internal_topics import TOPICS
from kseg.client.protocol.enums import (
    AclOperation,
    ConfigResourceType,
    PatternType,
    PermissionType,
    ResourceType,
    ScramMechanism,
)
from kseg.client.protocol.record_json import is_sensitive
from kseg.etl.internal_topics.metadata_image import Endpoint, Feature
from kseg.etl.internal_topics.metadata_log import ReplayedMetadata

Row = dict[str, Any]

_TIME: Final = pa.timestamp("ms", tz="UTC")
_IDS: Final = pa.list_(pa.int32())
_TEXTS: Final = pa.list_(pa.string())
_ENDPOINTS: Final = pa.list_(
    pa.struct([("name", pa.string()), ("host", pa.string()), ("port", pa.int32()), ("security_protocol", pa.string())])
)
_FEATURES: Final = pa.list_(
    pa.struct([("name", pa.string()), ("min_version", pa.int16()), ("max_version", pa.int16())])
)
_ENTITY: Final = pa.list_(pa.struct([("type", pa.string()), ("name", pa.string())]))
_PROTOCOLS: Final = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
_RECOVERY: Final = {0: "RECOVERED", 1: "RECOVERING"}

SCHEMAS: Final[dict[str, pa.Schema]] = {
    "cluster": pa.schema(
        [
            ("cluster_id", pa.string()),
            ("end_offset", pa.int64()),
            ("epoch", pa.int32()),
            ("timestamp", _TIME),
            ("leader", pa.int32()),
            ("kraft_version", pa.int16()),
            ("zookeeper_migration", pa.int8()),
            ("snapshot", pa.string()),
            ("notes", _TEXTS),
        ]
    ),
    "topics": pa.schema(
        [
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partitions", pa.int32()),
            ("replication_factor", pa.int32()),
            ("internal", pa.bool_()),
        ]
    ),
    "partitions": pa.schema(
        [
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("leader", pa.int32()),
            ("leader_epoch", pa.int32()),
            ("partition_epoch", pa.int32()),
            ("leader_recovery_state", pa.string()),
            ("replicas", _IDS),
            ("isr", _IDS),
            ("elr", _IDS),
            ("last_known_elr", _IDS),
            ("offline_replicas", _IDS),
            ("adding_replicas", _IDS),
            ("removing_replicas", _IDS),
            ("directories", _TEXTS),
        ]
    ),
    "brokers": pa.schema(
        [
            ("broker_id", pa.int32()),
            ("epoch", pa.int64()),
            ("incarnation_id", pa.string()),
            ("rack", pa.string()),
            ("fenced", pa.bool_()),
            ("in_controlled_shutdown", pa.bool_()),
            ("migrating_from_zookeeper", pa.bool_()),
            ("endpoints", _ENDPOINTS),
            ("features", _FEATURES),
            ("log_dirs", _TEXTS),
            ("cordoned_log_dirs", _TEXTS),
        ]
    ),
    "controllers": pa.schema(
        [
            ("controller_id", pa.int32()),
            ("incarnation_id", pa.string()),
            ("zookeeper_migration_ready", pa.bool_()),
            ("endpoints", _ENDPOINTS),
            ("features", _FEATURES),
        ]
    ),
    "voters": pa.schema(
        [
            ("voter_id", pa.int32()),
            ("directory_id", pa.string()),
            ("endpoints", _ENDPOINTS),
            ("min_kraft_version", pa.int16()),
            ("max_kraft_version", pa.int16()),
        ]
    ),
    "features": pa.schema([("feature", pa.string()), ("level", pa.int16())]),
    "configs": pa.schema(
        [
            ("resource_type", pa.string()),
            ("resource_name", pa.string()),
            ("name", pa.string()),
            ("value", pa.string()),
            ("sensitive", pa.bool_()),
        ]
    ),
    "acls": pa.schema(
        [
            ("id", pa.string()),
            ("resource_type", pa.string()),
            ("resource_name", pa.string()),
            ("pattern_type", pa.string()),
            ("principal", pa.string()),
            ("host", pa.string()),
            ("operation", pa.string()),
            ("permission", pa.string()),
        ]
    ),
    "quotas": pa.schema([("entity", _ENTITY), ("key", pa.string()), ("value", pa.float64())]),
    "scram": pa.schema([("user", pa.string()), ("mechanism", pa.string()), ("iterations", pa.int32())]),
    "delegation_tokens": pa.schema(
        [
            ("token_id", pa.string()),
            ("owner", pa.string()),
            ("requester", pa.string()),
            ("renewers", _TEXTS),
            ("issued", _TIME),
            ("expires", _TIME),
            ("max_lifetime", _TIME),
        ]
    ),
    "producer_ids": pa.schema([("next_producer_id", pa.int64())]),
}
NAMES: Final = tuple(SCHEMAS)


def metadata_tables(metadata: ReplayedMetadata, names: Iterable[str] = NAMES) -> dict[str, pa.Table]:
    """The tables of these names (`NAMES`), each sorted by what names its rows. Raises KeyError for another name."""
    return {name: pa.Table.from_pylist(list(_ROWS[name](metadata)), SCHEMAS[name]) for name in names}


def _cluster(metadata: ReplayedMetadata) -> Iterator[Row]:
    yield {
        "cluster_id": metadata.cluster_id,
        "end_offset": metadata.end_offset,
        "epoch": _there(metadata.epoch),
        "timestamp": _there(metadata.timestamp),
        "leader": _there(metadata.leader),
        "kraft_version": metadata.kraft_version,
        "zookeeper_migration": metadata.image.zookeeper_migration,
        "snapshot": metadata.snapshot,
        "notes": metadata.notes,
    }


def _topics(metadata: ReplayedMetadata) -> Iterator[Row]:
    for topic_id, topic in _sorted_topics(metadata):
        first = topic.partitions[min(topic.partitions)] if topic.partitions else None
        yield {
            "topic": topic.name,
            "topic_id": _id(topic_id),
            "partitions": len(topic.partitions),
            "replication_factor": None if first is None else len(first.replicas),
            "internal": topic.name in TOPICS,
        }


def _partitions(metadata: ReplayedMetadata) -> Iterator[Row]:
    for topic_id, topic in _sorted_topics(metadata):
        for number, partition in sorted(topic.partitions.items()):
            yield {
                "topic": topic.name,
                "topic_id": _id(topic_id),
                "partition": number,
                "leader": _there(partition.leader),
                "leader_epoch": partition.leader_epoch,
                "partition_epoch": partition.partition_epoch,
                "leader_recovery_state": _named(_RECOVERY, partition.leader_recovery_state),
                "replicas": partition.replicas,
                "isr": partition.isr,
                "elr": partition.elr,
                "last_known_elr": partition.last_known_elr,
                "offline_replicas": metadata.image.offline_replicas(partition),
                "adding_replicas": partition.adding_replicas,
                "removing_replicas": partition.removing_replicas,
                "directories": [_id(one) for one in partition.directories],
            }


def _sorted_topics(metadata: ReplayedMetadata) -> list[tuple[UUID, Any]]:
    return sorted(metadata.image.topics.items(), key=lambda one: one[1].name)


def _brokers(metadata: ReplayedMetadata) -> Iterator[Row]:
    for number, broker in sorted(metadata.image.brokers.items()):
        cordoned = broker.cordoned_log_dirs
        yield {
            "broker_id": number,
            "epoch": broker.epoch,
            "incarnation_id": _id(broker.incarnation_id),
            "rack": broker.rack,
            "fenced": broker.fenced,
            "in_controlled_shutdown": broker.in_controlled_shutdown,
            "migrating_from_zookeeper": broker.migrating_from_zookeeper,
            "endpoints": _endpoints(broker.endpoints),
            "features": _features(broker.features),
            "log_dirs": [_id(one) for one in broker.log_dirs],
            "cordoned_log_dirs": None if cordoned is None else [_id(one) for one in cordoned],
        }


def _controllers(metadata: ReplayedMetadata) -> Iterator[Row]:
    for number, controller in sorted(metadata.image.controllers.items()):
        yield {
            "controller_id": number,
            "incarnation_id": _id(controller.incarnation_id),
            "zookeeper_migration_ready": controller.zookeeper_migration_ready,
            "endpoints": _endpoints(controller.endpoints),
            "features": _features(controller.features),
        }


def _voters(metadata: ReplayedMetadata) -> Iterator[Row]:
    for voter in sorted(metadata.voters, key=lambda one: one.voter_id):
        versions = voter.k_raft_version_feature
        yield {
            "voter_id": voter.voter_id,
            "directory_id": _id(voter.voter_directory_id),
            "endpoints": [{"name": one.name, "host": one.host, "port": one.port} for one in voter.endpoints],
            "min_kraft_version": versions.min_supported_version,
            "max_kraft_version": versions.max_supported_version,
        }


def _features_of_cluster(metadata: ReplayedMetadata) -> Iterator[Row]:
    levels = metadata.image.features | ({"kraft.version": metadata.kraft_version} if metadata.kraft_version else {})
    for name, level in sorted(levels.items()):
        yield {"feature": name, "level": level}


def _configs(metadata: ReplayedMetadata) -> Iterator[Row]:
    for (kind, resource), settings in sorted(metadata.image.configs.items()):
        for name, value in sorted(settings.items()):
            hidden = is_sensitive(name)
            yield {
                "resource_type": _enum(ConfigResourceType, kind),
                "resource_name": resource,
                "name": name,
                "value": None if hidden else value,
                "sensitive": hidden,
            }


def _acls(metadata: ReplayedMetadata) -> Iterator[Row]:
    rows = (
        {
            "id": _id(one.id),
            "resource_type": _enum(ResourceType, one.resource_type),
            "resource_name": one.resource_name,
            "pattern_type": _enum(PatternType, one.pattern_type),
            "principal": one.principal,
            "host": one.host,
            "operation": _enum(AclOperation, one.operation),
            "permission": _enum(PermissionType, one.permission_type),
        }
        for one in metadata.image.acls.values()
    )
    yield from sorted(rows, key=lambda row: tuple(row.values())[1:])


def _quotas(metadata: ReplayedMetadata) -> Iterator[Row]:
    for entity, values in sorted(metadata.image.quotas.items(), key=lambda one: str(one[0])):
        for key, value in sorted(values.items()):
            yield {"entity": [{"type": kind, "name": name} for kind, name in entity], "key": key, "value": value}


def _scram(metadata: ReplayedMetadata) -> Iterator[Row]:
    for (user, mechanism), iterations in sorted(metadata.image.scram.items()):
        name = _enum(ScramMechanism, mechanism).replace("_", "-")
        yield {"user": user, "mechanism": name, "iterations": iterations}


def _tokens(metadata: ReplayedMetadata) -> Iterator[Row]:
    for token_id, token in sorted(metadata.image.tokens.items()):
        yield {
            "token_id": token_id,
            "owner": token.owner,
            "requester": token.requester,
            "renewers": token.renewers,
            "issued": _there(token.issue_timestamp),
            "expires": _there(token.expiration_timestamp),
            "max_lifetime": _there(token.max_timestamp),
        }


def _producer_ids(metadata: ReplayedMetadata) -> Iterator[Row]:
    if metadata.image.next_producer_id is not None:
        yield {"next_producer_id": metadata.image.next_producer_id}


def _endpoints(given: tuple[Endpoint, ...]) -> list[Row]:
    return [
        {"name": name, "host": host, "port": port, "security_protocol": _named(_PROTOCOLS, protocol)}
        for name, host, port, protocol in given
    ]


def _features(given: tuple[Feature, ...]) -> list[Row]:
    return [{"name": name, "min_version": lowest, "max_version": highest} for name, lowest, highest in given]


def _id(value: UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def _there(number: int) -> int | None:
    return None if number < 0 else number


def _named(names: dict[int, str], number: int) -> str:
    return names.get(number, f"UNKNOWN({number})")


def _enum(kind: Any, number: int) -> str:
    name: str = kind.of(number).name
    return f"UNKNOWN({number})" if name == "UNKNOWN" else name


_ROWS: Final[dict[str, Callable[[ReplayedMetadata], Iterator[Row]]]] = {
    "cluster": _cluster,
    "topics": _topics,
    "partitions": _partitions,
    "brokers": _brokers,
    "controllers": _controllers,
    "voters": _voters,
    "features": _features_of_cluster,
    "configs": _configs,
    "acls": _acls,
    "quotas": _quotas,
    "scram": _scram,
    "delegation_tokens": _tokens,
    "producer_ids": _producer_ids,
}
