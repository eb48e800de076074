"""`kseg api list` and `call` on a real broker: each way to find whom to ask, each exit code."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import pytest
from click.testing import CliRunner, Result

from kseg.client.protocol.registry import API_BY_KEY
from kseg.jobs.api.calling import find_api
from kseg.jobs.api.properties import PropertiesFile
from kseg.jobs.cli import cli
from kseg.segment_reader.encode.batches import Record, encode_batch

pytestmark = pytest.mark.broker
ROOT = Path(__file__).parents[3]


class Broker(Protocol):
    bootstrap_servers: str
    log_dirs: tuple[Path, ...]

    def topic(self, partitions: int = 1) -> str: ...


def run(kafka: Broker, *args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["api", *args, "--bootstrap-servers", kafka.bootstrap_servers], input=stdin)


def call(kafka: Broker, api: str, document: Any = None, *args: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer. A coordinator that has only just been made may not know it yet: that is exit 4."""
    deadline = time.monotonic() + 120
    while True:
        result = run(kafka, "call", api, "--json", json.dumps(document or {}), *args)
        if result.exit_code != 4 or time.monotonic() > deadline:
            return result.exit_code, json.loads(result.stdout)
        time.sleep(0.2)


# ---- list


@pytest.mark.rule(65)
def test_the_list_without_a_broker_is_what_this_client_speaks() -> None:
    result = CliRunner().invoke(cli, ["api", "list", "--json"])
    rows = json.loads(result.stdout)["apis"]
    assert {row["key"]: (row["name"], row["lowest"], row["highest"]) for row in rows} == {
        key: (api.name, *api.versions) for key, api in API_BY_KEY.items()
    }
    assert {row["key"]: row["deprecated"] for row in rows} == {
        key: None if api.deprecated.lowest > api.deprecated.highest else list(api.deprecated)
        for key, api in API_BY_KEY.items()
    }
    assert all(row["codec_only"] == (row["scope"] != "client") for row in rows)


def test_the_list_for_people_has_a_line_for_each_api() -> None:
    result = CliRunner().invoke(cli, ["api", "list"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for api in API_BY_KEY.values():
        assert any(line.split()[:2] == [str(api.key), api.name] for line in lines), api.name


@pytest.mark.rule(69)
def test_with_a_broker_the_list_has_its_versions_those_used_and_the_features(kafka: Broker) -> None:
    result = run(kafka, "list", "--json")
    document = json.loads(result.stdout)
    rows = {row["name"]: row for row in document["apis"]}
    assert document["broker"].endswith(f"({kafka.bootstrap_servers})")
    for row in rows.values():
        if row["used"] is not None:
            assert max(row["lowest"], row["broker"]["lowest"]) <= row["used"]
            assert row["used"] <= min(row["highest"], row["broker"]["highest"])
        assert (row["used"] is None) >= row["codec_only"]
    assert rows["Metadata"]["used"] == rows["Metadata"]["highest"]
    assert rows["Fetch"]["used"] == 12
    assert rows["Fetch"]["used_with_topic_ids"] > 12
    assert rows["AddPartitionsToTxn"]["used"] == 3
    features = {row["name"]: row for row in document["features"]}
    assert features["transaction.version"]["supported"][1] >= 2
    assert features["transaction.version"]["finalized"] == 2
    assert document["assumed"] is False
    shown = run(kafka, "list").stdout
    assert "12 (18 by topic id)" in shown
    assert "metadata.version" in shown


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("metadata", "Metadata"),
        ("3", "Metadata"),
        ("ElectPreferredLeaders", "ElectLeaders"),
        ("GroupCoordinator", "FindCoordinator"),
    ],
)
def test_an_api_is_found_by_name_in_any_case_by_key_and_by_its_old_name(given: str, name: str) -> None:
    assert find_api(given).name == name


# ---- whom to ask


def test_any_broker(kafka: Broker) -> None:
    topic = kafka.topic(2)
    code, answer = call(kafka, "metadata", {"topics": [{"name": topic}], "allowAutoTopicCreation": False})
    assert code == 0
    [told] = answer["topics"]
    assert (told["name"], told["errorCode"], len(told["partitions"])) == (topic, "NONE", 2)


def test_the_controller_and_error_codes(kafka: Broker) -> None:
    name = f"made-{os.getpid()}"
    document = {"topics": [{"name": name, "numPartitions": 1, "replicationFactor": -1}], "timeoutMs": 30_000}
    code, answer = call(kafka, "CreateTopics", document)
    assert (code, answer["topics"][0]["errorCode"]) == (0, "NONE")
    result = run(kafka, "call", "CreateTopics", "--json", json.dumps(document))
    assert result.exit_code == 1
    assert json.loads(result.stdout)["topics"][0]["errorCode"] == "TOPIC_ALREADY_EXISTS"
    assert "topics[0].errorCode: TOPIC_ALREADY_EXISTS (36)" in result.stderr
    code, answer = call(kafka, "DeleteTopics", {"topics": [{"name": name}], "timeoutMs": 30_000})
    assert (code, answer["responses"][0]["name"]) == (0, name)


def test_a_partitions_leader_by_name_and_by_id(kafka: Broker) -> None:
    topic = kafka.topic()
    records = base64.b64encode(encode_batch([Record(b"k", b"v", timestamp=0)], base_offset=0)).decode()
    data = {"index": 0, "records": records}
    code, answer = call(
        kafka, "Produce", {"acks": -1, "timeoutMs": 5000, "topicData": [{"name": topic, "partitionData": [data]}]}
    )
    assert (code, answer["responses"][0]["partitionResponses"][0]["baseOffset"]) == (0, 0)
    place = {"name": topic, "partitions": [{"partitionIndex": 0, "timestamp": "latest"}]}
    code, answer = call(kafka, "ListOffsets", {"topics": [place]})
    assert (code, answer["topics"][0]["partitions"][0]["offset"]) == (0, 1)
    _, metadata = call(kafka, "Metadata", {"topics": [{"name": topic}]})
    by_id = {"topicId": metadata["topics"][0]["topicId"], "partitions": [{"partition": 0, "partitionMaxBytes": 1000}]}
    code, answer = call(kafka, "Fetch", {"maxWaitMs": 100, "topics": [by_id]})
    [read] = answer["responses"][0]["partitions"]
    assert (code, read["highWatermark"], answer["responses"][0]["topicId"]) == (0, 1, by_id["topicId"])
    assert base64.b64decode(read["records"])[12 + 5 :] == base64.b64decode(records)[12 + 5 :]


def test_a_partition_that_there_is_not_is_retriable(kafka: Broker) -> None:
    place = {"name": kafka.topic(), "partitions": [{"partitionIndex": 9}]}
    result = run(
        kafka, "call", "ListOffsets", "--json", json.dumps({"topics": [place]}), "-X", "default.api.timeout.ms=5000"
    )
    assert result.exit_code == 4
    assert json.loads(result.stdout)["error"]["kind"] == "UnknownTopic"


@pytest.mark.rule(184)
def test_a_groups_coordinator(kafka: Broker) -> None:
    topic = kafka.topic()
    place = {"name": topic, "partitions": [{"partitionIndex": 0, "committedOffset": 7, "committedMetadata": "m"}]}
    group = f"group-{os.getpid()}"
    document = {"groupId": group, "generationIdOrMemberEpoch": -1, "topics": [place]}
    code, answer = call(kafka, "OffsetCommit", document)
    assert (code, answer["topics"][0]["partitions"][0]["errorCode"]) == (0, "NONE")
    code, answer = call(kafka, "OffsetFetch", {"groups": [{"groupId": group, "topics": None}]})
    [told] = answer["groups"][0]["topics"][0]["partitions"]
    assert (code, told["committedOffset"], told["metadata"]) == (0, 7, "m")
    code, answer = call(kafka, "DescribeGroups", {"groups": [group]}, "--to", f"group:{group}")
    assert (code, answer["groups"][0]["groupState"]) == (0, "Empty")


@pytest.mark.rule(215)
def test_a_consumers_subscription_and_assignment_are_told(kafka: Broker) -> None:
    from confluent_kafka import Consumer

    topic, group = kafka.topic(2), f"members-{os.getpid()}"
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + 120
        while not consumer.assignment():
            consumer.poll(0.2)
            assert time.monotonic() < deadline
        code, answer = call(kafka, "DescribeGroups", {"groups": [group], "includeAuthorizedOperations": True})
    finally:
        consumer.close()
    [told] = answer["groups"]
    assert (code, told["groupState"], told["protocolType"]) == (0, "Stable", "consumer")
    assert {"READ", "DESCRIBE", "DELETE"} <= set(told["authorizedOperations"])
    [member] = told["members"]
    assert member["memberMetadata"]["topics"] == [topic]
    assert member["memberAssignment"]["assignedPartitions"] == [{"topic": topic, "partitions": [0, 1]}]


def test_a_transactions_coordinator(kafka: Broker) -> None:
    document = {"transactionalId": f"api-call-{os.getpid()}", "transactionTimeoutMs": 10_000}
    code, answer = call(kafka, "InitProducerId", document)
    assert (code, answer["producerEpoch"]) == (0, 0)
    assert answer["producerId"] >= 0
    code, answer = call(kafka, "InitProducerId", document)
    assert (code, answer["producerEpoch"]) == (0, 1)


@pytest.mark.rule(311)
def test_all_brokers_each_with_its_own_answer(kafka: Broker) -> None:
    code, answer = call(kafka, "DescribeLogDirs", {"topics": None})
    [told] = answer["brokers"]
    assert code == 0
    assert told["broker"] == f"1 ({kafka.bootstrap_servers})"
    assert told["answer"]["results"][0]["logDir"]
    code, answer = call(kafka, "ListGroups", {}, "--to", "any")
    assert code == 0
    assert "groups" in answer


def test_a_named_broker(kafka: Broker) -> None:
    resource = {"resourceType": "BROKER", "resourceName": "1", "configurationKeys": ["node.id"]}
    code, answer = call(kafka, "DescribeConfigs", {"resources": [resource]})
    [config] = answer["results"][0]["configs"]
    assert (code, config["value"], config["configSource"]) == (0, "1", "STATIC_BROKER_CONFIG")
    result = run(kafka, "call", "DescribeCluster", "--to", "broker:9")
    assert result.exit_code == 2
    assert "broker 9" in said(json.loads(result.stdout))
    code, answer = call(kafka, "DescribeCluster", {"includeClusterAuthorizedOperations": True}, "--to", "broker:1")
    assert (code, answer["endpointType"], answer["brokers"][0]["brokerId"]) == (0, "BROKERS", 1)
    assert "ALTER_CONFIGS" in answer["clusterAuthorizedOperations"]


def test_controllers_instead_of_brokers(kafka: Broker) -> None:
    settings = PropertiesFile.read(str(kafka.log_dirs[0].parent / "server.properties")).values
    controllers = ["--bootstrap-controllers", settings["controller.quorum.bootstrap.servers"]]
    log = {"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}
    result = CliRunner().invoke(
        cli, ["api", "call", "DescribeQuorum", *controllers, "--json", json.dumps({"topics": [log]})]
    )
    assert result.exit_code == 0
    assert json.loads(result.stdout)["topics"][0]["partitions"][0]["leaderId"] == 1
    listed = json.loads(CliRunner().invoke(cli, ["api", "list", *controllers, "--json"]).stdout)
    assert listed["broker"].endswith(f"({controllers[1]})")
    assert {row["name"]: row["broker"] for row in listed["apis"]}["Produce"] is None
    refused = CliRunner().invoke(cli, ["api", "call", "Metadata", *controllers])
    assert refused.exit_code == 1
    assert "Metadata: the broker does not offer this API" in json.loads(refused.stdout)["error"]["message"]


# ---- versions


def test_a_version_that_the_broker_does_not_offer_is_never_sent(kafka: Broker) -> None:
    result = run(kafka, "call", "Fetch", "--version", "99", "--to", "any", "--trace")
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "UnsupportedVersion"
    assert "Fetch v99: the broker offers versions 4 to 18" in error["message"]
    assert " -> " in result.stderr
    assert "Fetch" not in result.stderr


def test_a_version_asked_for_is_the_one_that_is_sent(kafka: Broker) -> None:
    result = run(kafka, "call", "FindCoordinator", "--version", "2", "--json", '{"key": "g"}', "--trace")
    assert result.exit_code in (0, 4)
    assert " FindCoordinator v2 " in result.stderr
    assert set(json.loads(result.stdout)) == {"throttleTimeMs", "errorCode", "errorMessage", "nodeId", "host", "port"}


def test_the_newest_version_that_can_carry_the_request_is_taken(kafka: Broker) -> None:
    """FindCoordinator has one key up to v3, and a list of them from v4 on."""
    for document, version in (({"key": "g"}, 3), ({"coordinatorKeys": ["g"]}, API_BY_KEY[10].versions.highest)):
        result = run(kafka, "call", "FindCoordinator", "--json", json.dumps(document), "--trace")
        assert f" FindCoordinator v{version} " in result.stderr


def test_a_topic_is_never_lost_on_the_way(kafka: Broker) -> None:
    """From v13 on Fetch has topics by id, before by name; either is left out silently where the other belongs."""
    by_name = {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    refused = run(kafka, "call", "Fetch", "--json", json.dumps(by_name), "--version", "13", "--to", "any")
    assert refused.exit_code == 2
    assert "topics[0].topic: v13 names topics only by id" in json.loads(refused.stdout)["error"]["message"]
    by_id = {"topics": [{"topicId": "BOAtzkZ_TPCMipnOr4Sa2A", "partitions": [{"partition": 0}]}]}
    refused = run(kafka, "call", "Fetch", "--json", json.dumps(by_id), "--version", "12", "--to", "any")
    assert refused.exit_code == 2
    assert "topics[0].topicId: v12 names topics only by name" in json.loads(refused.stdout)["error"]["message"]


def test_no_version_can_carry_two_things_at_once(kafka: Broker) -> None:
    result = run(kafka, "call", "FindCoordinator", "--json", '{"key": "g", "coordinatorKeys": ["g"]}')
    assert result.exit_code == 2
    assert "key: v" in json.loads(result.stdout)["error"]["message"]


# ---- what goes wrong


def said(document: dict[str, Any]) -> str:
    """The error's message, with the arguments that are wrong."""
    faults = document["error"].get("faults", ())
    return "\n".join([document["error"]["message"], *(f"{fault['path']}: {fault['message']}" for fault in faults)])


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("Metadata", "--json", "{"), "not JSON"),
        (("Metadata", "--json", '{"topics": [{"nmae": "t"}]}'), "topics[0].nmae"),
        (("Metadata", "--json", "@nowhere.json"), "nowhere.json"),
        (("Metdata",), "no API 'Metdata'"),
        (("Metadata", "--to", "nobody"), "is not a destination"),
        (("Fetch",), "names no partition"),
        (("Produce", "--json", '{"acks": 2}'), "none of -1, 0 and 1"),
        (("Fetch", "--json", '{"replicaId": 1}'), "broker's own replica"),
        (("Metadata", "-X", "no.such=1"), "no.such"),
    ],
)
def test_a_wrong_request_is_told_and_not_sent(kafka: Broker, args: tuple[str, ...], told: str) -> None:
    result = run(kafka, "call", *args)
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document["exit_code"] == 2
    assert told in said(document)


@pytest.mark.parametrize("spelling", ["--bootstrap-servers", "--bootstrap-server", "--bootstrap-controller"])
def test_a_broker_that_is_away_is_exit_4(spelling: str) -> None:
    """Under the client property's name, or the one that Kafka's own tools have."""
    args = ["api", "call", "Metadata", spelling, "127.0.0.1:1", "-X", "default.api.timeout.ms=300"]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 4
    assert json.loads(result.stdout)["error"]["retriable"] is True


def test_raw_answers_have_numbers(kafka: Broker) -> None:
    _, answer = call(kafka, "Metadata", {"topics": []}, "--raw")
    assert answer["errorCode"] == 0


def test_a_produce_without_acks_is_done_when_it_is_written(kafka: Broker) -> None:
    topic = kafka.topic()
    records = base64.b64encode(encode_batch([Record(b"k", b"v", timestamp=0)], base_offset=0)).decode()
    data = {"topicData": [{"name": topic, "partitionData": [{"index": 0, "records": records}]}]}
    code, answer = call(kafka, "Produce", {"acks": 0, "timeoutMs": 1000} | data)
    assert (code, answer) == (0, {"written": True})
    place = {"name": topic, "partitions": [{"partitionIndex": 0, "timestamp": "LATEST"}]}
    deadline = time.monotonic() + 60
    while call(kafka, "ListOffsets", {"topics": [place]})[1]["topics"][0]["partitions"][0]["offset"] != 1:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_request_comes_from_stdin_and_from_a_file(kafka: Broker, tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"topics": []}')
    for given, stdin in ((f"@{file}", None), ("-", '{"topics": []}')):
        result = run(kafka, "call", "Metadata", "--json", given, stdin=stdin)
        assert (result.exit_code, json.loads(result.stdout)["topics"]) == (0, [])


def test_the_process_prints_one_json_object_and_leaves_with_the_exit_code(kafka: Broker) -> None:
    command = [
        sys.executable,
        "-m",
        "kseg.jobs.cli",
        "api",
        "call",
        "--bootstrap-servers",
        kafka.bootstrap_servers,
        "--trace",
    ]
    done = subprocess.run(
        [*command, "Metadata", "--json", '{"topics": [{"name": "no-such"}], "allowAutoTopicCreation": false}'],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 4  # a topic that is unknown may only be new
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout)["topics"][0]["errorCode"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert "-> " in done.stderr
    assert "error=UNKNOWN_TOPIC_OR_PARTITION" in done.stderr
