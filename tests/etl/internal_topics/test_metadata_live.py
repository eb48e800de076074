"""The metadata log of real brokers as tables, against what the brokers' own administration answered."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kseg.client import ClientConfig, Cluster, TopicPartition
from kseg.client.admin.acls import AclBinding, AclFilter, create_acls, delete_acls, describe_acls
from kseg.client.admin.configs import AlterConfig, AlterOperation, ConfigResource, alter_configs, describe_configs
from kseg.client.admin.credentials import DeleteScram, SetScram, alter_scram_users, describe_scram_users
from kseg.client.admin.describe import describe_topic_partitions, describe_topics
from kseg.client.admin.features import describe_features
from kseg.client.admin.nodes import describe_cluster, describe_quorum
from kseg.client.admin.placement import alter_reassignments, list_reassignments
from kseg.client.admin.quotas import alter_quotas, describe_quotas, quota_entity
from kseg.client.admin.tokens import create_token, describe_tokens, expire_token
from kseg.client.admin.topics import NewTopic, create_partitions, create_topics, delete_topics
from kseg.client.protocol.enums import (
    AclOperation,
    ConfigResourceType,
    PatternType,
    PermissionType,
    ResourceType,
    ScramMechanism,
)
from kseg.client.protocol.record_json import is_sensitive
from kseg.client.transactions.transaction import Transaction
from kseg.etl.internal_topics.locations import LogDirs
from kseg.etl.internal_topics.metadata_log import read_metadata
from kseg.etl.internal_topics.metadata_tables import NAMES, metadata_tables
from kseg.jobs.broker.listeners import Listener, login_module
from kseg.jobs.broker.process import EmbeddedKafka
from kseg.segment_reader.log.files.names import snapshot_file
from skips import full_scale_only

pytestmark = pytest.mark.broker

TOPIC = ConfigResource(ConfigResourceType.TOPIC, "orders")
BROKER = ConfigResource(ConfigResourceType.BROKER, "1")
EVERY_BROKER = ConfigResource(ConfigResourceType.BROKER, "")
GROUP = ConfigResource(ConfigResourceType.GROUP, "billing")


@dataclass
class Remains:
    """A stopped broker's directory, and what its administration answered last."""

    log_dir: Path
    answers: dict[str, Any]


def connect(servers: str, **properties: str) -> Cluster:
    given = {"bootstrap.servers": servers} | {name.replace("_", "."): value for name, value in properties.items()}
    return Cluster(ClientConfig.from_properties(given, client_id="kseg-metadata"))


def change_things(cluster: Cluster, user: Cluster) -> None:
    topics = [
        NewTopic("orders", 3, 1, {"retention.ms": "1000000", "cleanup.policy": "compact"}),
        NewTopic("gone", 2, 1),
    ]
    create_topics(cluster, topics).or_raise()
    create_partitions(cluster, {"orders": 4}).or_raise()
    changes = {
        TOPIC: [AlterConfig("retention.ms", "2000000"), AlterConfig("cleanup.policy", None, AlterOperation.DELETE)],
        ConfigResource(ConfigResourceType.TOPIC, "gone"): [AlterConfig("retention.ms", "5")],
        BROKER: [AlterConfig("log.cleaner.threads", "2")],
        EVERY_BROKER: [AlterConfig("max.connections", "5000")],
        GROUP: [AlterConfig("consumer.session.timeout.ms", "50000")],
    }
    alter_configs(cluster, changes).or_raise()
    delete_topics(cluster, ["gone"]).or_raise()
    acls = [
        AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.READ),
        AclBinding(ResourceType.GROUP, "bill", "User:alice", AclOperation.ALL, PatternType.PREFIXED),
        AclBinding(
            ResourceType.TOPIC, "*", "User:böse", AclOperation.WRITE, permission=PermissionType.DENY, host="10.0.0.1"
        ),
        AclBinding(ResourceType.TOPIC, "removed", "User:alice", AclOperation.READ),
    ]
    create_acls(cluster, acls).or_raise()
    delete_acls(cluster, [AclFilter(ResourceType.TOPIC, "removed")]).or_raise()
    quotas: dict[Any, Any] = {
        quota_entity(user="alice"): {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2.0},
        quota_entity(user="alice", client_id=None): {"request_percentage": 50.0},
        quota_entity(user=None): {"producer_byte_rate": 9.0},
        quota_entity(ip="127.0.0.1"): {"connection_creation_rate": 100.0},
    }
    alter_quotas(cluster, quotas).or_raise()
    alter_quotas(
        cluster,
        {
            quota_entity(user="alice"): {"consumer_byte_rate": None},
            quota_entity(user=None): {"producer_byte_rate": None},
        },
    ).or_raise()
    sha256, sha512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
    alter_scram_users(cluster, [SetScram("carol", sha256, "pw", 4096), SetScram("dave", sha512, "pw", 9000)]).or_raise()
    alter_scram_users(cluster, [SetScram("carol", sha512, "pw", 5000), DeleteScram("bob", sha256)]).or_raise()
    create_token(user, renewers=["User:alice"], max_lifetime_ms=3_600_000)
    gone = create_token(user)
    until(lambda: gone.token_id in {one.token_id for one in describe_tokens(user)})
    expire_token(user, gone.hmac)
    transaction = Transaction(cluster, "writer", timeout_ms=60_000)  # hands out producer ids
    transaction.begin()
    transaction.abort()


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 120
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def ask(cluster: Cluster, user: Cluster) -> dict[str, Any]:
    users = describe_scram_users(cluster)
    return {
        "topics": describe_topics(cluster).or_raise(),
        "partitions": describe_topic_partitions(cluster, ["orders"]),
        "configs": describe_configs(cluster, [TOPIC, BROKER, GROUP]).or_raise(),
        "acls": describe_acls(cluster),
        "quotas": describe_quotas(cluster, {}),
        "scram": users.or_raise(),
        "tokens": until(lambda: tokens if len(tokens := describe_tokens(user)) == 1 else ()),
        "features": describe_features(cluster),
        "cluster": describe_cluster(cluster),
        "quorum": describe_quorum(cluster),
    }


@pytest.fixture(scope="module")
def remains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remains]:
    """A broker with an authorizer and frequent snapshots, killed after it had answered."""
    login = login_module("PlainLoginModule", user_etl="etl-pw")
    users = {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": login}
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "a key for tests",
        "metadata.log.max.record.bytes.between.snapshots": "1000",
        "broker.rack": "rack-a",
    }
    kafka = EmbeddedKafka(
        tmp_path_factory.mktemp("metadata") / "kafka",
        light=True,
        listeners=[Listener("USERS", "SASL_PLAINTEXT", users)],
        scram={"bob": "pw"},
        config=config,
    )
    with kafka:
        sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        with (
            connect(kafka.bootstrap_servers) as cluster,
            connect(kafka.servers_of("USERS"), **sasl, sasl_username="etl", sasl_password="etl-pw") as user,
        ):
            change_things(cluster, user)
            answers = ask(cluster, user)
            # It is the records behind a snapshot that are interesting too.
            until(lambda: len(list((kafka.log_dirs[0] / "__cluster_metadata-0").glob("*.checkpoint"))) > 3)
        kafka.kill(1)
        yield Remains(kafka.log_dirs[0], answers)


@pytest.fixture(scope="module")
def tables(remains: Remains) -> dict[str, Any]:
    found = metadata_tables(read_metadata(LogDirs([str(remains.log_dir)])))
    return {name: table.to_pylist() for name, table in found.items()}


def text(value: Any) -> str:
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def test_topics_and_partitions(remains: Remains, tables: dict[str, Any]) -> None:
    asked = remains.answers["topics"]
    assert {row["topic"]: (row["topic_id"], row["partitions"], row["internal"]) for row in tables["topics"]} == {
        name: (text(topic.topic_id), len(topic.partitions), topic.is_internal) for name, topic in asked.items()
    }
    assert "orders" in asked
    assert "gone" not in asked
    compare_partitions(tables["partitions"], asked)
    (described,) = remains.answers["partitions"].values()
    ours = [row for row in tables["partitions"] if row["topic"] == "orders"]
    assert [(row["elr"], row["last_known_elr"]) for row in ours] == [
        (list(one.eligible or ()), list(one.last_known_eligible or ())) for one in described.partitions.values()
    ]


def compare_partitions(rows: list[dict[str, Any]], asked: Any) -> None:
    assert {
        (row["topic"], row["partition"]): (
            -1 if row["leader"] is None else row["leader"],
            row["leader_epoch"],
            row["replicas"],
            row["isr"],
            sorted(row["offline_replicas"]),
        )
        for row in rows
    } == {
        (name, number): (
            one.leader,
            one.leader_epoch,
            list(one.replicas),
            list(one.in_sync),
            sorted(one.offline),
        )
        for name, topic in asked.items()
        for number, one in topic.partitions.items()
    }


def test_brokers_features_and_the_quorum(remains: Remains, tables: dict[str, Any]) -> None:
    (node,) = remains.answers["cluster"].nodes
    (broker,) = tables["brokers"]
    endpoints = {one["name"]: (one["host"], one["port"]) for one in broker["endpoints"]}
    assert (broker["broker_id"], broker["rack"], broker["fenced"]) == (node.node_id, node.rack, node.fenced)
    assert endpoints["PLAINTEXT"] == (node.host, node.port)
    protocols = {one["name"]: one["security_protocol"] for one in broker["endpoints"]}
    assert protocols == {"PLAINTEXT": "PLAINTEXT", "USERS": "SASL_PLAINTEXT"}
    assert {row["feature"]: row["level"] for row in tables["features"]} == remains.answers["features"].finalized
    (cluster,), quorum = tables["cluster"], remains.answers["quorum"]
    assert (cluster["cluster_id"], cluster["epoch"]) == (remains.answers["cluster"].cluster_id, quorum.leader_epoch)
    assert cluster["end_offset"] >= quorum.high_watermark
    assert cluster["leader"] == quorum.leader_id
    assert cluster["snapshot"] is not None
    assert cluster["notes"] == []
    assert [row["voter_id"] for row in tables["voters"]] == [one.node_id for one in quorum.voters]
    assert [row["directory_id"] for row in tables["voters"]] == [text(one.directory_id) for one in quorum.voters]
    assert [row["controller_id"] for row in tables["controllers"]] == [1]


def test_settings(remains: Remains, tables: dict[str, Any]) -> None:
    ours: dict[tuple[str, str], dict[str, str]] = {}
    for row in tables["configs"]:
        ours.setdefault((row["resource_type"], row["resource_name"]), {})[row["name"]] = row["value"]
    own = {"TOPIC": "topic", "BROKER": "broker-dynamic", "GROUP": "group"}
    for resource, entries in remains.answers["configs"].items():
        source = own[resource.type.name]
        told = {name: entry.value for name, entry in entries.items() if entry.source == source}
        assert ours[resource.type.name, resource.name] == told
        assert told
    assert ours["BROKER", ""]["max.connections"] == "5000"
    assert ("TOPIC", "gone") not in ours  # deleted with its topic


def test_the_settings_that_are_secrets_are_those_that_the_broker_hides(remains: Remains) -> None:
    hidden = {name for name, entry in remains.answers["configs"][BROKER].items() if entry.sensitive}
    unknown = {"super.users"}  # an authorizer's own: a broker hides whatever it has no definition of
    assert {name for name in remains.answers["configs"][BROKER] if is_sensitive(name)} == hidden - unknown
    assert len(hidden) > 5


def test_acls(remains: Remains, tables: dict[str, Any]) -> None:
    names = ("resource_type", "resource_name", "principal", "operation", "pattern_type", "permission", "host")
    assert {tuple(row[name] for name in names) for row in tables["acls"]} == {
        (
            one.resource_type.name,
            one.resource_name,
            one.principal,
            one.operation.name,
            one.pattern_type.name,
            one.permission.name,
            one.host,
        )
        for one in remains.answers["acls"]
    }
    assert len(tables["acls"]) == 3


def test_quotas(remains: Remains, tables: dict[str, Any]) -> None:
    ours: dict[Any, dict[str, float]] = {}
    for row in tables["quotas"]:
        entity = frozenset((one["type"], one["name"]) for one in row["entity"])
        ours.setdefault(entity, {})[row["key"]] = row["value"]
    assert ours == remains.answers["quotas"]
    assert len(ours) == 3


def test_users_and_tokens_without_their_secrets(remains: Remains, tables: dict[str, Any]) -> None:
    assert {(row["user"], row["mechanism"]): row["iterations"] for row in tables["scram"]} == {
        (user, mechanism.name.replace("_", "-")): iterations
        for user, mechanisms in remains.answers["scram"].items()
        for mechanism, iterations in mechanisms.items()
    }
    (token,) = tables["delegation_tokens"]
    (asked,) = remains.answers["tokens"]
    assert (token["token_id"], token["owner"], token["requester"]) == (asked.token_id, asked.owner, asked.requester)
    assert token["renewers"] == ["User:alice"]
    assert [round(token[name].timestamp() * 1000) for name in ("issued", "expires", "max_lifetime")] == [
        asked.issued_ms,
        asked.expires_ms,
        asked.max_ms,
    ]
    assert tables["producer_ids"][0]["next_producer_id"] == 1000
    assert not any(
        "hmac" in name or "salt" in name or "_key" in name for table in tables.values() for row in table for name in row
    )


def test_the_log_leads_to_what_kafka_s_own_snapshots_hold(remains: Remains, tmp_path: Path) -> None:
    folder = remains.log_dir / "__cluster_metadata-0"
    bare = tmp_path / folder.name
    bare.mkdir()
    for path in folder.iterdir():
        if snapshot_file(path.name) is None:
            (bare / path.name).write_bytes(path.read_bytes())
    ends = sorted(found.end_offset for path in folder.iterdir() if (found := snapshot_file(path.name)) is not None)
    assert len(ends) > 3
    assert ends.pop(0) == 0  # what the log begins with: the quorum alone, which it repeats
    for end in ends:
        loaded = read_metadata(LogDirs([str(remains.log_dir)]), end)
        replayed = read_metadata(LogDirs([str(tmp_path)]), end)
        assert (loaded.snapshot is not None, replayed.snapshot) == (True, None)
        assert (loaded.image, loaded.kraft_version) == (replayed.image, replayed.kraft_version)
        assert (loaded.voters, loaded.epoch) == (replayed.voters, replayed.epoch)
    last = read_metadata(LogDirs([str(remains.log_dir)]))
    assert last.image == read_metadata(LogDirs([str(tmp_path)])).image


@full_scale_only
def test_three_nodes_with_moves_and_a_dead_one(kafka3: Any) -> None:
    name = f"moved-{time.time_ns()}"
    with connect(kafka3.bootstrap_servers) as cluster:
        create_topics(cluster, [NewTopic(name, assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])]).or_raise()
        moves = {TopicPartition(name, 0): [3, 1], TopicPartition(name, 1): [1, 2]}
        alter_reassignments(cluster, moves).or_raise()
        until(lambda: not list_reassignments(cluster, list(moves)))
        kafka3.broker.kill(2)

        def dead() -> Any:
            """What is told once the controller has noticed, and nothing moves any more."""
            found = describe_topics(cluster, [name]).or_raise()
            parts = found[name].partitions
            settled = parts[1].leader == 1 and not any(2 in one.in_sync for one in parts.values())
            return found if settled and 2 in parts[1].offline and 2 in parts[2].offline else None

        asked = until(dead)
        described = describe_topic_partitions(cluster, [name])
        found = read_metadata(LogDirs([str(path) for path in kafka3.log_dirs]))
    tables = {table: rows.to_pylist() for table, rows in metadata_tables(found).items()}
    rows = [row for row in tables["partitions"] if row["topic"] == name]
    compare_partitions(rows, asked)
    (topic,) = described.values()
    assert [(row["elr"], row["last_known_elr"]) for row in rows] == [
        (list(one.eligible or ()), list(one.last_known_eligible or ())) for one in topic.partitions.values()
    ]
    assert [row["offline_replicas"] for row in rows] == [[], [2], [2]]
    assert [row["replicas"] for row in rows] == [[3, 1], [1, 2], [3, 1, 2]]
    brokers = {row["broker_id"]: (row["rack"], row["fenced"], len(row["log_dirs"])) for row in tables["brokers"]}
    assert brokers == {1: ("rack-1", False, 2), 2: ("rack-2", True, 2), 3: ("rack-3", False, 2)}
    assert [row["controller_id"] for row in tables["controllers"]] == [1, 2, 3]
    assert set(tables) == set(NAMES)
