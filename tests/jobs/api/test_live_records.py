"""What is in partitions, and where they are. Each API in every version of today, on a real broker.

A function is called as its API in snake case; `conftest` finds it and its versions.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.broker

#: The fixture of `conftest`, whose class cannot be imported from here.
Live = Any


@pytest.mark.rule(2, 178, "276-278", 299, 310, 311)
def test_an_api_means_what_it_should(live: Live, function: Callable[[Live, int], None], version: int) -> None:
    live.try_out(function, version)


def produce(live: Live, version: int) -> None:
    topic = live.kafka.topic()
    [told] = live.ask("Metadata", {"topics": [{"name": topic}]})["topics"]
    place = {"topicId": told["topicId"]} if version >= 13 else {"name": topic}
    data = {"index": 0, "records": live.records()}
    document = {"acks": -1, "timeoutMs": 5000, "topicData": [place | {"partitionData": [data]}]}
    for offset in range(2):
        [topic_] = live.ask("Produce", document, version)["responses"]
        assert topic_["partitionResponses"][0]["baseOffset"] == offset


def fetch(live: Live, version: int) -> None:
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100_000}
    topic = live.named("Fetch", version, "topic") | {"partitions": [partition]}
    [told] = live.ask("Fetch", {"maxWaitMs": 100, "minBytes": 1, "topics": [topic]}, version)["responses"]
    assert told["partitions"][0]["highWatermark"] == 1
    assert base64.b64decode(told["partitions"][0]["records"]).endswith(b"\x02k\x02v\x00")


def list_offsets(live: Live, version: int) -> None:
    for when, offset in (("LATEST", 1), ("EARLIEST", 0), (1_600_000_000_000, 0)):
        partition = {"partitionIndex": 0, "timestamp": when}
        [told] = live.ask("ListOffsets", {"topics": [{"name": live.topic, "partitions": [partition]}]}, version)[
            "topics"
        ]
        assert told["partitions"][0]["offset"] == offset


def metadata(live: Live, version: int) -> None:
    answer = live.ask("Metadata", {"topics": [{"name": live.topic}]}, version)
    [topic] = answer["topics"]
    assert sorted(partition["partitionIndex"] for partition in topic["partitions"]) == [0, 1]
    assert [broker["nodeId"] for broker in answer["brokers"]] == [1]
    everything = live.ask("Metadata", {"topics": [] if version == 0 else None}, version)["topics"]
    assert live.topic in [topic["name"] for topic in everything]
    if version >= 1:
        assert live.ask("Metadata", {"topics": []}, version)["topics"] == []


def delete_records(live: Live, version: int) -> None:
    topic = live.kafka.topic()
    data = {"index": 0, "records": live.records()}
    live.ask("Produce", {"acks": -1, "timeoutMs": 5000, "topicData": [{"name": topic, "partitionData": [data]}]})
    partitions = [{"partitionIndex": 0, "offset": -1}]  # up to the high watermark
    document = {"topics": [{"name": topic, "partitions": partitions}], "timeoutMs": 5000}
    [told] = live.ask("DeleteRecords", document, version)["topics"]
    assert told["partitions"][0]["lowWatermark"] == 1


def offset_for_leader_epoch(live: Live, version: int) -> None:
    partitions = [{"partition": 0, "currentLeaderEpoch": 0, "leaderEpoch": 0}]
    document = {"topics": [{"topic": live.topic, "partitions": partitions}]}
    [told] = live.ask("OffsetForLeaderEpoch", document, version)["topics"]
    assert (told["partitions"][0]["leaderEpoch"], told["partitions"][0]["endOffset"]) == (0, 1)


def find_coordinator(live: Live, version: int) -> None:
    for kind in ["GROUP", "TRANSACTION"][: 1 if version == 0 else 2]:
        if version >= 4:
            document: dict[str, Any] = {"coordinatorKeys": ["a", "b"], "keyType": kind}
            told = live.ask("FindCoordinator", document, version)["coordinators"]
            assert sorted(coordinator["key"] for coordinator in told) == ["a", "b"]
        else:
            document = {"key": "a"} | ({"keyType": kind} if version else {})
            told = [live.ask("FindCoordinator", document, version)]
        for coordinator in told:
            assert f"{coordinator['host']}:{coordinator['port']}" == live.kafka.bootstrap_servers


def api_versions(live: Live, version: int) -> None:
    names = {"clientSoftwareName": "kseg", "clientSoftwareVersion": "1"} if version >= 3 else {}
    told = {row["apiKey"]: row for row in live.ask("ApiVersions", names, version)["apiKeys"]}
    assert told["ApiVersions"]["minVersion"] <= version <= told["ApiVersions"]["maxVersion"]


def describe_topic_partitions(live: Live, version: int) -> None:
    answer = live.ask(
        "DescribeTopicPartitions", {"topics": [{"name": live.topic}], "responsePartitionLimit": 1}, version
    )
    [topic] = answer["topics"]
    assert [partition["partitionIndex"] for partition in topic["partitions"]] == [0]
    assert answer["nextCursor"] == {"topicName": live.topic, "partitionIndex": 1}
    rest = live.ask(
        "DescribeTopicPartitions", {"topics": [{"name": live.topic}], "cursor": answer["nextCursor"]}, version
    )
    assert [partition["partitionIndex"] for partition in rest["topics"][0]["partitions"]] == [1]


def sasl_handshake(live: Live, version: int) -> None:
    live.ask("SaslHandshake", {"mechanism": "PLAIN"}, version, fails="ILLEGAL_SASL_STATE")


def sasl_authenticate(live: Live, version: int) -> None:
    live.ask("SaslAuthenticate", {"authBytes": ""}, version, fails="ILLEGAL_SASL_STATE")


def log_dir(live: Live, version: int) -> tuple[str, dict[str, Any]]:
    document = {"topics": [{"topic": live.topic, "partitions": [0]}]}
    [told] = live.ask("DescribeLogDirs", document, version, to="broker:1")["results"]
    return told["logDir"], told["topics"][0]


def describe_log_dirs(live: Live, version: int) -> None:
    _, topic = log_dir(live, version)
    [partition] = topic["partitions"]
    assert topic["name"] == live.topic
    assert partition["partitionSize"] > 60
    assert (partition["offsetLag"], partition["isFutureKey"]) == (0, False)


def alter_replica_log_dirs(live: Live, version: int) -> None:
    path, _ = log_dir(live, live.latest("DescribeLogDirs"))
    place = {"path": path, "topics": [{"name": live.topic, "partitions": [0]}]}
    [told] = live.ask("AlterReplicaLogDirs", {"dirs": [place]}, version, to="broker:1")["results"]
    assert told["topicName"] == live.topic
    nowhere = {"dirs": [place | {"path": "/nowhere"}]}
    live.ask("AlterReplicaLogDirs", nowhere, version, to="broker:1", fails="LOG_DIR_NOT_FOUND")


def get_telemetry_subscriptions(live: Live, version: int) -> None:
    answer = live.ask("GetTelemetrySubscriptions", {"clientInstanceId": live.new_id()}, version)
    assert "ZSTD" in answer["acceptedCompressionTypes"]


def push_telemetry(live: Live, version: int) -> None:
    document = {"clientInstanceId": live.new_id(), "subscriptionId": 1, "metrics": ""}
    live.ask("PushTelemetry", document, version, fails="UNKNOWN_SUBSCRIPTION_ID")
