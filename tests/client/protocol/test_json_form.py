"""Messages as JSON: everything comes back as it was, and what is wrong is told with its place."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.protocol import enum_names
from kseg.client.protocol.codec import decode, encode
from kseg.client.protocol.embedded.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from kseg.client.protocol.errors import EncodeError, JsonError, UnsupportedFieldError, UnsupportedVersionError
from kseg.client.protocol.json_form import from_json, json_path, to_json
from kseg.client.protocol.messages.configs import (
    AlterClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kseg.client.protocol.messages.fetch import FetchRequest, ListOffsetsRequest
from kseg.client.protocol.messages.groups import (
    DescribeGroupsResponse,
    JoinGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kseg.client.protocol.messages.metadata import (
    DescribeClusterResponse,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataResponse,
)
from kseg.client.protocol.messages.produce import ProduceRequest
from kseg.client.protocol.messages.topics import CreateTopicsRequest
from kseg.client.protocol.schema import Message


def test_every_message_in_every_version_comes_back(
    message_class: type[Message],
    any_message: Callable[[random.Random, type[Message], int], Any],
    scale: Callable[[int, int], int],
) -> None:
    rng = random.Random(message_class.__name__)
    for version in range(message_class.VERSIONS.lowest, message_class.VERSIONS.highest + 1):
        for _ in range(scale(2, 100)):
            message = any_message(rng, message_class, version)
            for names in (True, False):
                text = json.dumps(to_json(message, version, names=names), allow_nan=False)
                again = from_json(message_class, json.loads(text), version)
                assert again == message
                assert encode(again, version) == encode(message, version)


@given(st.binary(max_size=60), st.sampled_from(["consumer", "connect", ""]))
def test_embedded_bytes_come_back_whatever_they_are(data: bytes, protocol_type: str) -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=data)
    message = JoinGroupRequest(protocol_type=protocol_type, protocols=[protocol])
    assert from_json(JoinGroupRequest, to_json(message, 9), 9) == message


@pytest.mark.parametrize("version", range(4))
def test_the_metadata_and_assignment_of_consumers_are_told_decoded(version: int) -> None:
    topic = ConsumerProtocolAssignment.TopicPartition(topic="orders", partitions=[0, 1])
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=["orders"], rack_id="a"), version)
    assignment = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[topic]), version)
    member = DescribeGroupsResponse.DescribedGroupMember(member_metadata=subscription, member_assignment=assignment)
    group = DescribeGroupsResponse.DescribedGroup(protocol_type="consumer", members=[member])
    [shown] = to_json(DescribeGroupsResponse(groups=[group]), 6)["groups"]
    [shown] = shown["members"]
    assert shown["memberMetadata"]["version"] == version
    assert shown["memberMetadata"]["topics"] == ["orders"]
    assert shown["memberMetadata"].get("rackId") == ("a" if version == 3 else None)
    assert shown["memberAssignment"]["assignedPartitions"] == [{"topic": "orders", "partitions": [0, 1]}]
    read = from_json(DescribeGroupsResponse, to_json(DescribeGroupsResponse(groups=[group]), 6), 6)
    assert read.groups[0].members[0] == member


@pytest.mark.rule(6)
def test_another_protocol_types_metadata_is_opaque() -> None:
    data = encode_subscription(ConsumerProtocolSubscription(topics=["orders"]))
    member = DescribeGroupsResponse.DescribedGroupMember(member_metadata=data)
    for kind in ("connect", ""):
        group = DescribeGroupsResponse.DescribedGroup(protocol_type=kind, members=[member])
        [shown] = to_json(DescribeGroupsResponse(groups=[group]), 6)["groups"]
        assert isinstance(shown["members"][0]["memberMetadata"], str)


def test_a_subscription_and_an_assignment_are_read_from_objects() -> None:
    document = {
        "groupId": "g",
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": {"topics": ["t"]}}],
    }
    [protocol] = from_json(JoinGroupRequest, document, 9).protocols
    assert protocol.metadata == encode_subscription(ConsumerProtocolSubscription(topics=["t"]))
    place = {"topic": "t", "partitions": [3]}
    document = {"assignments": [{"memberId": "m", "assignment": {"version": 1, "assignedPartitions": [place]}}]}
    [assignment] = from_json(SyncGroupRequest, document, 3).assignments
    topic = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[3])
    assert assignment.assignment == encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[topic]), 1)


def test_faults_inside_of_embedded_objects_have_their_whole_path() -> None:
    document: dict[str, Any] = {"protocols": [{"metadata": {"topics": [7]}}]}
    assert fault(JoinGroupRequest, document, 9).field == "protocols[0].metadata.topics[0]"
    document = {"protocols": [{"metadata": {"version": 9}}]}
    assert fault(JoinGroupRequest, document, 9).field == "protocols[0].metadata.version"


def test_enums_bit_fields_and_error_codes_are_told_by_name() -> None:
    synonym = DescribeConfigsResponse.DescribeConfigsSynonym(name="x", value="1", source=4)
    entry = DescribeConfigsResponse.DescribeConfigsResourceResult(
        name="x", value="1", config_source=1, config_type=3, synonyms=[synonym]
    )
    result = DescribeConfigsResponse.DescribeConfigsResult(error_code=29, resource_type=2, configs=[entry])
    [shown] = to_json(DescribeConfigsResponse(results=[result]), 4)["results"]
    assert (shown["errorCode"], shown["resourceType"]) == ("TOPIC_AUTHORIZATION_FAILED", "TOPIC")
    [config] = shown["configs"]
    assert (config["configSource"], config["configType"]) == ("DYNAMIC_TOPIC_CONFIG", "INT")
    assert config["synonyms"][0]["source"] == "STATIC_BROKER_CONFIG"
    cluster = to_json(DescribeClusterResponse(cluster_authorized_operations=(1 << 8) | (1 << 9)), 1)
    assert cluster["clusterAuthorizedOperations"] == ["DESCRIBE", "CLUSTER_ACTION"]
    assert cluster["endpointType"] == "BROKERS"


@pytest.mark.rule(225)
def test_unknown_numbers_stay_numbers_and_unknown_states_text() -> None:
    topic = MetadataResponse.MetadataResponseTopic(error_code=3333)
    assert to_json(MetadataResponse(topics=[topic]), 12)["topics"][0]["errorCode"] == 3333
    group = DescribeGroupsResponse.DescribedGroup(group_state="Daydreaming")
    assert to_json(DescribeGroupsResponse(groups=[group]), 6)["groups"][0]["groupState"] == "Daydreaming"


def test_names_and_numbers_are_read() -> None:
    by_name = {"resources": [{"resourceType": "broker", "resourceName": "1"}]}
    by_number = {"resources": [{"resourceType": 4, "resourceName": "1"}]}
    assert from_json(DescribeConfigsRequest, by_name, 4) == from_json(DescribeConfigsRequest, by_number, 4)
    assert from_json(FetchRequest, {"isolationLevel": "READ_COMMITTED"}, 12).isolation_level == 1
    assert from_json(FindCoordinatorRequest, {"keyType": "transaction"}, 4).key_type == 1
    place = {"name": "t", "partitions": [{"timestamp": "EARLIEST"}]}
    assert from_json(ListOffsetsRequest, {"topics": [place]}, 7).topics[0].partitions[0].timestamp == -2


def test_what_is_left_out_has_its_default() -> None:
    assert from_json(CreateTopicsRequest, {}, 7) == CreateTopicsRequest()
    topic = from_json(CreateTopicsRequest, {"topics": [{"name": "t"}]}, 7).topics[0]
    assert topic == CreateTopicsRequest.CreatableTopic(name="t")


def test_ids_are_read_as_kafka_shows_them_and_in_hexadecimal() -> None:
    wanted = UUID("0f3a6b52-7b3f-4a58-9b6f-0a1a3fd0c001")
    for text in (str(wanted), wanted.hex, to_json(metadata_by(wanted), 12)["topics"][0]["topicId"]):
        [topic] = from_json(MetadataRequest, {"topics": [{"topicId": text}]}, 12).topics or []
        assert topic.topic_id == wanted


def metadata_by(topic_id: UUID) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(topic_id=topic_id)])


@pytest.mark.rule(92)
def test_null_and_empty_are_two_things() -> None:
    for topics in (None, []):
        data = encode(from_json(MetadataRequest, {"topics": topics}, 9), 9)
        assert decode(MetadataRequest, 9, data).topics == topics
        assert to_json(MetadataRequest(topics=topics), 9)["topics"] == topics


# ---- what is wrong


def fault(cls: type[Message], document: Any, version: int) -> EncodeError:
    with pytest.raises(EncodeError) as raised:
        from_json(cls, document, version)
    return raised.value


def partition(**values: Any) -> dict[str, Any]:
    return {"topics": [{"name": "t", "partitions": [{}, {}, values]}]}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"partitionIndex": "0"}, "not a whole number"),
        ({"partitionIndex": True}, "not a whole number"),
        ({"partitionIndex": 1.0}, "not a whole number"),
        ({"partitionIndex": 1 << 31}, "outside of int32"),
        ({"partitionIndex": -(1 << 31) - 1}, "outside of int32"),
        ({"partitionIndex": None}, "null"),
        ({"partitionIndex": [1]}, "not a whole number"),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_its_path(values: dict[str, Any], reason: str) -> None:
    error = fault(ListOffsetsRequest, partition(**values), 7)
    assert isinstance(error, JsonError)
    assert error.field == "topics[0].partitions[2].partitionIndex"
    assert reason in str(error)
    assert "ListOffsetsRequest v7 topics[0].partitions[2].partitionIndex" in str(error)


@pytest.mark.parametrize(
    ("cls", "version", "document", "path", "reason"),
    [
        (MetadataRequest, 12, [], "", "not an object"),
        (MetadataRequest, 12, None, "", "not an object"),
        (MetadataRequest, 12, {"topics": {}}, "topics", "not an array"),
        (MetadataRequest, 12, {"topics": ["t"]}, "topics[0]", "not an object"),
        (MetadataRequest, 12, {"topics": [{"name": 5}]}, "topics[0].name", "not text"),
        (MetadataRequest, 12, {"topics": [{"name": "\ud800"}]}, "topics[0].name", "Unicode"),
        (MetadataRequest, 12, {"topics": [{"topicId": "abc"}]}, "topics[0].topicId", "not an id"),
        (MetadataRequest, 12, {"allowAutoTopicCreation": 1}, "allowAutoTopicCreation", "neither true nor false"),
        (MetadataRequest, 0, {"topics": None}, "topics", "null"),
        (SyncGroupRequest, 5, {"assignments": [{"assignment": "%"}]}, "assignments[0].assignment", "base64"),
        (SyncGroupResponse, 5, {"assignment": 5}, "assignment", "base64"),
        (FetchRequest, 12, {"isolationLevel": "SOMETIMES"}, "isolationLevel", "READ_UNCOMMITTED, READ_COMMITTED"),
        (ProduceRequest, 9, {"acks": 40_000}, "acks", "outside of int16"),
    ],
)
def test_wrong_types_are_told(cls: type[Message], version: int, document: Any, path: str, reason: str) -> None:
    error = fault(cls, document, version)
    assert isinstance(error, JsonError)
    assert error.field == path
    assert reason in error.reason


@pytest.mark.parametrize("value", [float("inf"), 10**400])
def test_a_number_that_no_float_can_hold_is_refused(value: float) -> None:
    entry = {"ops": [{"key": "k", "value": value}]}
    assert "outside of float64" in fault(AlterClientQuotasRequest, {"entries": [entry]}, 1).reason
    entry["ops"][0]["value"] = "-Infinity"
    [read] = from_json(AlterClientQuotasRequest, {"entries": [entry]}, 1).entries
    assert read.ops[0].value == float("-inf")
    assert to_json(AlterClientQuotasRequest(entries=[read]), 1)["entries"][0]["ops"][0]["value"] == "-Infinity"


def test_an_unknown_field_is_told_with_the_one_that_may_be_meant() -> None:
    error = fault(MetadataRequest, {"topics": [{"nmae": "t"}]}, 12)
    assert error.field == "topics[0].nmae"
    assert "did you mean name?" in error.reason
    assert "topicId, name" in fault(MetadataRequest, {"topics": [{"zzz": "t"}]}, 12).reason


def test_attribute_names_are_no_field_names() -> None:
    assert (
        "did you mean allowAutoTopicCreation?" in fault(MetadataRequest, {"allow_auto_topic_creation": True}, 12).reason
    )


def test_a_field_that_the_version_lacks_is_refused_with_those_that_have_it() -> None:
    error = fault(FindCoordinatorRequest, {"coordinatorKeys": ["g"]}, 3)
    assert isinstance(error, UnsupportedFieldError)
    assert error.field == "coordinatorKeys"
    assert "v4 and later" in error.reason
    assert "v0 to v3" in fault(FindCoordinatorRequest, {"key": "g"}, 4).reason
    assert from_json(FindCoordinatorRequest, {"key": "", "coordinatorKeys": ["g"]}, 4).coordinator_keys == ["g"]


def test_an_ignorable_field_is_taken_and_left_out_of_the_bytes() -> None:
    message = from_json(FetchRequest, {"rackId": "a"}, 7)
    assert encode(message, 7) == encode(from_json(FetchRequest, {}, 7), 7)


def test_a_version_without_a_definition_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="MetadataRequest v99"):
        from_json(MetadataRequest, {}, 99)
    with pytest.raises(UnsupportedVersionError, match="MetadataRequest v99"):
        to_json(MetadataRequest(), 99)


def test_paths_of_the_codecs_errors_are_told_in_jsons_names() -> None:
    assert json_path("topics[0].partitions[2].partition_index") == "topics[0].partitions[2].partitionIndex"
    assert enum_names.ERRORS.show(0) == "NONE"
