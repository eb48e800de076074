"""Topics, configurations, users, quotas, the cluster itself. Each API in every version of today, on a real broker.

A function is called as its API in snake case; `conftest` finds it and its versions.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.broker

#: The fixture of `conftest`, whose class cannot be imported from here.
Live = Any


@pytest.mark.rule(251)
def test_an_api_means_what_it_should(live: Live, function: Callable[[Live, int], None], version: int) -> None:
    live.try_out(function, version)


def create_topics(live: Live, version: int) -> None:
    name = live.new("made")
    topic = {
        "name": name,
        "numPartitions": 3,
        "replicationFactor": 1,
        "configs": [{"name": "retention.ms", "value": "9"}],
    }
    document = {"topics": [topic], "timeoutMs": 30_000}
    assert live.ask("CreateTopics", document | {"validateOnly": True}, version)["topics"][0]["name"] == name
    [told] = live.ask("CreateTopics", document, version)["topics"]
    if version >= 5:
        assert told["numPartitions"] == 3
        assert ("retention.ms", "9") in [(config["name"], config["value"]) for config in told["configs"]]
    live.ask("CreateTopics", document, version, fails="TOPIC_ALREADY_EXISTS")


def delete_topics(live: Live, version: int) -> None:
    name = live.kafka.topic()
    names = {"topics": [{"name": name}]} if version >= 6 else {"topicNames": [name]}
    [told] = live.ask("DeleteTopics", names | {"timeoutMs": 30_000}, version)["responses"]
    assert told["name"] == name
    live.ask("DeleteTopics", names | {"timeoutMs": 30_000}, version, fails="UNKNOWN_TOPIC_OR_PARTITION")


def create_partitions(live: Live, version: int) -> None:
    topic = live.kafka.topic()
    document = {
        "topics": [{"name": topic, "count": 3, "assignments": None}],
        "timeoutMs": 30_000,
        "validateOnly": False,
    }
    assert live.ask("CreatePartitions", document, version)["results"][0]["name"] == topic
    live.ask("CreatePartitions", document, version, fails="INVALID_PARTITIONS")


def elect_leaders(live: Live, version: int) -> None:
    document = {"topicPartitions": [{"topic": live.topic, "partitions": [0]}], "timeoutMs": 30_000}
    live.ask("ElectLeaders", document, version, fails="ELECTION_NOT_NEEDED")


def alter_partition_reassignments(live: Live, version: int) -> None:
    for replicas, fails in (([1], ""), (None, "NO_REASSIGNMENT_IN_PROGRESS"), ([7], "INVALID_REPLICA_ASSIGNMENT")):
        topic = {"name": live.topic, "partitions": [{"partitionIndex": 0, "replicas": replicas}]}
        live.ask("AlterPartitionReassignments", {"topics": [topic], "timeoutMs": 30_000}, version, fails=fails)


def list_partition_reassignments(live: Live, version: int) -> None:
    assert live.ask("ListPartitionReassignments", {"topics": None, "timeoutMs": 30_000}, version)["topics"] == []


def config_of(live: Live, topic: str, name: str) -> tuple[str, str]:
    resource = {"resourceType": "TOPIC", "resourceName": topic, "configurationKeys": [name]}
    [told] = live.ask("DescribeConfigs", {"resources": [resource]})["results"]
    return told["configs"][0]["value"], told["configs"][0]["configSource"]


def describe_configs(live: Live, version: int) -> None:
    topic = live.kafka.topic(1, {"retention.ms": "77777777"})
    resource = {"resourceType": "TOPIC", "resourceName": topic, "configurationKeys": ["retention.ms"]}
    [told] = live.ask("DescribeConfigs", {"resources": [resource], "includeSynonyms": True}, version)["results"]
    [config] = told["configs"]
    assert (config["name"], config["value"], config["configSource"]) == (
        "retention.ms",
        "77777777",
        "DYNAMIC_TOPIC_CONFIG",
    )
    assert config["synonyms"][0] == {"name": "retention.ms", "value": "77777777", "source": "DYNAMIC_TOPIC_CONFIG"}
    if version >= 3:
        assert config["configType"] == "LONG"


def alter_configs(live: Live, version: int) -> None:
    topic = live.kafka.topic()
    resource = {"resourceType": "TOPIC", "resourceName": topic, "configs": [{"name": "segment.ms", "value": "77777"}]}
    live.ask("AlterConfigs", {"resources": [resource], "validateOnly": True}, version)
    assert config_of(live, topic, "segment.ms")[1] == "DEFAULT_CONFIG"
    live.ask("AlterConfigs", {"resources": [resource]}, version)
    live.eventually(("77777", "DYNAMIC_TOPIC_CONFIG"), lambda: config_of(live, topic, "segment.ms"))


def incremental_alter_configs(live: Live, version: int) -> None:
    topic = live.kafka.topic()
    for operation, value, found in (("APPEND", "compact", "delete,compact"), ("SUBTRACT", "delete", "compact")):
        change = {"name": "cleanup.policy", "configOperation": operation, "value": value}
        resource = {"resourceType": "TOPIC", "resourceName": topic, "configs": [change]}
        live.ask("IncrementalAlterConfigs", {"resources": [resource]}, version)
        live.eventually((found, "DYNAMIC_TOPIC_CONFIG"), lambda: config_of(live, topic, "cleanup.policy"))


def list_config_resources(live: Live, version: int) -> None:
    group = live.new("configured")
    setting = {"name": "consumer.session.timeout.ms", "value": "50000", "configOperation": "SET"}
    resource = {"resourceType": "GROUP", "resourceName": group, "configs": [setting]}
    live.ask("IncrementalAlterConfigs", {"resources": [resource]})

    def listed() -> list[tuple[str, str]]:
        answer = live.ask("ListConfigResources", {"resourceTypes": ["GROUP"]} if version else {}, version)
        found = [(row["resourceName"], row.get("resourceType")) for row in answer["configResources"]]
        return [one for one in found if version == 0 or one[0] == group]

    live.eventually([] if version == 0 else [(group, "GROUP")], listed)  # v0 is about client metrics alone


def describe_client_quotas(live: Live, version: int) -> None:
    entity = live.new("client")
    change = {"entity": [{"entityType": "client-id", "entityName": entity}],
              "ops": [{"key": "consumer_byte_rate", "value": 1e9, "remove": False}]}  # fmt: skip
    live.ask("AlterClientQuotas", {"entries": [change], "validateOnly": False})
    component = {"entityType": "client-id", "matchType": "EXACT", "match": entity}
    asked = {"components": [component], "strict": True}
    live.eventually(
        [[{"key": "consumer_byte_rate", "value": 1e9}]],
        lambda: [entry["values"] for entry in live.ask("DescribeClientQuotas", asked, version)["entries"]],
    )


def alter_client_quotas(live: Live, version: int) -> None:
    entity = {"entityType": "client-id", "entityName": live.new("client")}
    change = {"entity": [entity], "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}]}
    [told] = live.ask("AlterClientQuotas", {"entries": [change], "validateOnly": True}, version)["entries"]
    assert told["entity"] == [entity]
    change["ops"] = [{"key": "no_such_rate", "value": 1.0, "remove": False}]
    live.ask("AlterClientQuotas", {"entries": [change], "validateOnly": True}, version, fails="INVALID_REQUEST")


def scram_user(live: Live, version: int | None = None) -> str:
    user = live.new("user")
    credential = {"name": user, "mechanism": "SCRAM-SHA-256", "iterations": 4096,
                  "salt": base64.b64encode(os.urandom(16)).decode(),
                  "saltedPassword": base64.b64encode(os.urandom(32)).decode()}  # fmt: skip
    [told] = live.ask("AlterUserScramCredentials", {"deletions": [], "upsertions": [credential]}, version)["results"]
    assert told["user"] == user
    return user


def alter_user_scram_credentials(live: Live, version: int) -> None:
    user = scram_user(live, version)
    gone = {"deletions": [{"name": user, "mechanism": "SCRAM-SHA-256"}], "upsertions": []}
    live.ask("AlterUserScramCredentials", gone, version)
    live.ask("AlterUserScramCredentials", gone, version, fails="RESOURCE_NOT_FOUND")


def describe_user_scram_credentials(live: Live, version: int) -> None:
    user = scram_user(live)

    def told() -> list[Any]:  # a user by name that the broker has not heard of yet would be an error
        users = live.ask("DescribeUserScramCredentials", {"users": None}, version)["results"]
        return [one["credentialInfos"] for one in users if one["user"] == user]

    live.eventually([[{"mechanism": "SCRAM-SHA-256", "iterations": 4096}]], told)
    [named] = live.ask("DescribeUserScramCredentials", {"users": [{"name": user}]}, version)["results"]
    assert [named["credentialInfos"]] == told()


ACL = {"resourceType": "TOPIC", "resourceName": "t", "principal": "User:a", "host": "*", "operation": "READ"}
ANY_ACL = {"resourceTypeFilter": "ANY", "operation": "ANY", "permissionType": "ANY"}


def describe_acls(live: Live, version: int) -> None:
    live.ask("DescribeAcls", ANY_ACL | {"patternTypeFilter": "ANY"}, version, fails="SECURITY_DISABLED")


def create_acls(live: Live, version: int) -> None:
    creation = ACL | {"permissionType": "ALLOW", "resourcePatternType": "LITERAL"}
    live.ask("CreateAcls", {"creations": [creation]}, version, fails="SECURITY_DISABLED")


def delete_acls(live: Live, version: int) -> None:
    live.ask("DeleteAcls", {"filters": [ANY_ACL | {"patternTypeFilter": "ANY"}]}, version, fails="SECURITY_DISABLED")


#: A connection without a login has no principal that could own a token.
NO_TOKENS = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_AUTH_DISABLED"


def create_delegation_token(live: Live, version: int) -> None:
    live.ask("CreateDelegationToken", {"renewers": [], "maxLifetimeMs": -1}, version, fails=NO_TOKENS)


def renew_delegation_token(live: Live, version: int) -> None:
    live.ask("RenewDelegationToken", {"hmac": "AAAA", "renewPeriodMs": -1}, version, fails=NO_TOKENS)


def expire_delegation_token(live: Live, version: int) -> None:
    live.ask("ExpireDelegationToken", {"hmac": "AAAA", "expiryTimePeriodMs": -1}, version, fails=NO_TOKENS)


def describe_delegation_token(live: Live, version: int) -> None:
    live.ask("DescribeDelegationToken", {"owners": None}, version, fails=NO_TOKENS)


def describe_quorum(live: Live, version: int) -> None:
    log = {"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}
    [told] = live.ask("DescribeQuorum", {"topics": [log]}, version)["topics"]
    [partition] = told["partitions"]
    assert partition["leaderId"] == 1
    assert [voter["replicaId"] for voter in partition["currentVoters"]] == [1]


def update_features(live: Live, version: int) -> None:
    change = {"feature": "transaction.version", "maxVersionLevel": 2}
    dry = {"validateOnly": True} if version >= 1 else {}
    live.ask("UpdateFeatures", {"featureUpdates": [change]} | dry, version)
    impossible = {"featureUpdates": [change | {"maxVersionLevel": 999}]} | dry
    live.ask("UpdateFeatures", impossible, version, fails="INVALID_UPDATE_VERSION")


def describe_cluster(live: Live, version: int) -> None:
    answer = live.ask("DescribeCluster", {"includeClusterAuthorizedOperations": True}, version)
    assert [f"{broker['host']}:{broker['port']}" for broker in answer["brokers"]] == [live.kafka.bootstrap_servers]
    assert "CLUSTER_ACTION" in answer["clusterAuthorizedOperations"]


def unregister_broker(live: Live, version: int) -> None:
    live.ask("UnregisterBroker", {"brokerId": 99}, version, fails="BROKER_ID_NOT_REGISTERED")


def add_raft_voter(live: Live, version: int) -> None:
    listener = {"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}
    document = {"clusterId": None, "timeoutMs": 1000, "voterId": 1, "voterDirectoryId": live.new_id()}
    live.ask("AddRaftVoter", document | {"listeners": [listener]}, version, fails="DUPLICATE_VOTER")


def remove_raft_voter(live: Live, version: int) -> None:
    document = {"clusterId": None, "voterId": 99, "voterDirectoryId": live.new_id()}
    live.ask("RemoveRaftVoter", document, version, fails="VOTER_NOT_FOUND")
