"""`kseg api` where there is more than one broker to ask, and where the broker is an old one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kseg.jobs.cli import cli

pytestmark = pytest.mark.broker


def run(kafka: Any, *args: str) -> Result:
    return CliRunner().invoke(cli, ["api", *args, "--bootstrap-servers", kafka.bootstrap_servers])


def call(kafka: Any, api: str, document: Any, *args: str) -> tuple[int, Any]:
    """Exit code and answer; a coordinator that has only just been made may not know it yet: that is exit 4."""
    deadline = time.monotonic() + 120
    while True:
        result = run(kafka, "call", api, "--json", json.dumps(document), *args)
        if result.exit_code != 4 or time.monotonic() > deadline:
            return result.exit_code, json.loads(result.stdout)
        time.sleep(0.2)


def leaders(kafka: Any, topic: str) -> dict[int, int]:
    _, answer = call(kafka, "Metadata", {"topics": [{"name": topic}]})
    return {row["partitionIndex"]: row["leaderId"] for row in answer["topics"][0]["partitions"]}


def list_offsets(topic: str, *partitions: int) -> dict[str, Any]:
    places = [{"partitionIndex": partition, "timestamp": "LATEST"} for partition in partitions]
    return {"topics": [{"name": topic, "partitions": places}]}


def test_each_partition_is_asked_of_its_own_leader(kafka3: Any) -> None:
    topic = kafka3.topic(3)
    led = leaders(kafka3, topic)
    assert len(set(led.values())) > 1
    for partition, leader in led.items():
        result = run(kafka3, "call", "ListOffsets", "--json", json.dumps(list_offsets(topic, partition)), "--trace")
        assert result.exit_code == 0
        assert json.loads(result.stdout)["topics"][0]["partitions"][0]["offset"] == 0
        [sent] = [line for line in result.stderr.splitlines() if " -> " in line and " ListOffsets " in line]
        assert f" -> {leader} (" in sent


def test_partitions_of_two_leaders_are_no_one_request(kafka3: Any) -> None:
    topic = kafka3.topic(3)
    code, answer = call(kafka3, "ListOffsets", list_offsets(topic, 0, 1, 2))
    assert code == 2
    assert f"leader:{topic}:2 at " in answer["error"]["faults"][0]["message"]


def test_a_broker_that_does_not_lead_says_so(kafka3: Any) -> None:
    topic = kafka3.topic()
    [leader] = leaders(kafka3, topic).values()
    other = 1 + leader % 3

    def told() -> tuple[int, str]:
        asked = ("ListOffsets", "--json", json.dumps(list_offsets(topic, 0)), "--to", f"broker:{other}")
        result = run(kafka3, "call", *asked)
        return result.exit_code, json.loads(result.stdout)["topics"][0]["partitions"][0]["errorCode"]

    deadline = time.monotonic() + 120
    while (found := told()) == (4, "UNKNOWN_TOPIC_OR_PARTITION"):  # it hears of the topic a moment later
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert found == (4, "NOT_LEADER_OR_FOLLOWER")  # metadata anew, then again


def test_all_brokers_tell_what_each_alone_knows(kafka3: Any) -> None:
    topic = kafka3.topic(3)
    code, answer = call(kafka3, "DescribeLogDirs", {"topics": [{"topic": topic, "partitions": [0, 1, 2]}]})
    assert code == 0
    assert [row["broker"].split()[0] for row in answer["brokers"]] == ["1", "2", "3"]
    held = [
        (row["broker"].split()[0], partition["partitionIndex"])
        for row in answer["brokers"]
        for folder in row["answer"]["results"]
        for told in folder["topics"]
        for partition in told["partitions"]
    ]
    _, metadata = call(kafka3, "Metadata", {"topics": [{"name": topic}]})
    replicas = [
        (str(node), row["partitionIndex"])
        for row in metadata["topics"][0]["partitions"]
        for node in row["replicaNodes"]
    ]
    assert sorted(held) == sorted(replicas)


def test_a_broker_that_is_away_is_told_beside_the_others_answers(kafka3: Any) -> None:
    kafka3.broker.kill(3)
    quick = ("-X", "default.api.timeout.ms=5000", "-X", "socket.connection.setup.timeout.ms=1000")
    deadline = time.monotonic() + 120
    while True:
        result = run(kafka3, "call", "ListGroups", *quick)
        rows = {row["broker"].split()[0]: row for row in json.loads(result.stdout)["brokers"]}
        assert {"1", "2"} <= set(rows)
        # They take over what the third has led, and say so meanwhile; a busy machine's may be late.
        living = [rows[number].get("answer", rows[number].get("error")) for number in ("1", "2")]
        if [answer.get("errorCode") for answer in living] == ["NONE", "NONE"]:
            break
        assert time.monotonic() < deadline, living
        time.sleep(0.2)
    if "3" in rows:  # a killed broker is listed until its session is over
        assert rows["3"]["error"]["retriable"] is True
        assert result.exit_code == 4
    else:
        assert result.exit_code == 0


def test_a_groups_coordinator_is_found_among_several(kafka3: Any) -> None:
    for group in ("a", "b", "c", "d"):
        code, answer = call(kafka3, "OffsetCommit", {"groupId": group, "topics": []})
        assert (code, answer["topics"]) == (0, [])


def test_a_broker_too_old_to_be_asked_is_listed_as_its_release_is_known(kafka_release: Callable[[str], Any]) -> None:
    old = kafka_release("0.9.0.1")
    fallback = ("-X", "broker.version.fallback=0.9.0.1")
    document = json.loads(run(old, "list", "--json", *fallback).stdout)
    assert document["assumed"] is True
    rows = {row["name"]: row for row in document["apis"]}
    assert rows["Fetch"]["broker"] == {"lowest": 0, "highest": 1}
    assert rows["Fetch"]["used"] == 1
    assert rows["CreateTopics"]["broker"] is None
    topic = old.topic()
    code, answer = call(old, "ListOffsets", list_offsets(topic, 0), "--version", "0", *fallback)
    assert (code, answer["topics"][0]["partitions"][0]["oldStyleOffsets"]) == (0, [0])
    code, answer = call(old, "Metadata", {"topics": [{"name": topic}]}, *fallback)
    assert (code, answer["topics"][0]["name"]) == (0, topic)
