"""A real broker understands every version of our requests, and we its answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from kseg.client.protocol.api import Api, api_of, decode_response, encode_request
from kseg.client.protocol.errors import UnsupportedVersionError
from kseg.client.protocol.messages.configs import DescribeConfigsRequest
from kseg.client.protocol.messages.connection import ApiVersionsRequest
from kseg.client.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from kseg.client.protocol.messages.fetch import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kseg.client.protocol.messages.groups import DescribeGroupsRequest, ListGroupsRequest
from kseg.client.protocol.messages.metadata import DescribeClusterRequest, FindCoordinatorRequest, MetadataRequest
from kseg.client.protocol.messages.placement import DescribeLogDirsRequest
from kseg.client.protocol.schema import Request
from kseg.client.protocol.versions import negotiate

pytestmark = pytest.mark.broker


class Kafka(Protocol):
    bootstrap_servers: str

    def topic(self, partitions: int = 1) -> str: ...


class Wire:
    """One connection, one request at a time."""

    def __init__(self, address: str, comparisons: Any) -> None:
        host, port = address.rsplit(":", 1)
        self.port = int(port)
        self.comparisons = comparisons
        self.socket = socket.create_connection((host, self.port), timeout=30)
        self.file = self.socket.makefile("rb")
        self.ranges: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}

    def ask(self, request: Request[Any], version: int) -> Any:
        frame = encode_request(version, version, "test", request)
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)
        answer = self.file.read(int.from_bytes(self.file.read(4), "big"))
        correlation_id, response = decode_response(api_of(request), version, answer)
        assert correlation_id == version
        self.comparisons.answered(self.port, api_of(request).name, version, response)
        return response

    def versions(self, api: Api[Any]) -> range:
        lowest, highest = self.ranges[api.key]
        return range(max(lowest, api.versions.lowest), min(highest, api.versions.highest) + 1)

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture(scope="module")
def wire(kafka: Kafka, comparisons: Any) -> Iterator[Wire]:
    wire = Wire(kafka.bootstrap_servers.split(",")[0], comparisons)
    answer = wire.ask(ApiVersionsRequest(client_software_name="kseg", client_software_version="0"), 4)
    wire.ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    wire.features = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    yield wire
    wire.close()


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> str:
    return kafka.topic()


@pytest.mark.rule(60, 294)
def test_api_versions_in_every_version_and_one_that_is_too_new(wire: Wire) -> None:
    asked = ApiVersionsRequest(client_software_name="kseg", client_software_version="0")
    for version in range(5):
        answer = wire.ask(asked, version)
        assert answer.error_code == 0
        assert any(api.api_key == MetadataRequest.KEY for api in answer.api_keys)

    frame = bytearray(encode_request(4, 6, "test", asked))
    frame[2:4] = (99).to_bytes(2, "big")
    wire.socket.sendall(len(frame).to_bytes(4, "big") + frame)
    data = wire.file.read(int.from_bytes(wire.file.read(4), "big"))
    correlation_id, refusal = decode_response(api_of(ApiVersionsRequest), 4, data)
    assert (correlation_id, refusal.error_code) == (6, 35)
    assert [api.max_version for api in refusal.api_keys if api.api_key == ApiVersionsRequest.KEY] == [4]


@pytest.mark.rule(279)
def test_metadata_in_every_version(wire: Wire, topic: str) -> None:
    for version in wire.versions(api_of(MetadataRequest)):
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
        (told,) = wire.ask(asked, version).topics
        assert (told.name, told.error_code, [p.partition_index for p in told.partitions]) == (topic, 0, [0])


def test_reading_requests_in_every_version(wire: Wire, topic: str) -> None:
    metadata = wire.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)]), 12)
    topic_id = metadata.topics[0].topic_id
    fetch = FetchRequest.FetchTopic(
        topic=topic,
        topic_id=topic_id,
        partitions=[FetchRequest.FetchPartition(partition_max_bytes=1000)],
    )
    for version in wire.versions(api_of(FetchRequest)):
        (told,) = wire.ask(FetchRequest(topics=[fetch]), version).responses
        assert (told.partitions[0].error_code, bytes(told.partitions[0].records)) == (0, b"")

    offsets = ListOffsetsRequest.ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsRequest.ListOffsetsPartition(timestamp=-1)]
    )
    for version in wire.versions(api_of(ListOffsetsRequest)):
        (told,) = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[offsets]), version).topics
        assert (told.partitions[0].error_code, told.partitions[0].offset) == (0, 0)

    epochs = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
        topic=topic, partitions=[OffsetForLeaderEpochRequest.OffsetForLeaderPartition()]
    )
    for version in wire.versions(api_of(OffsetForLeaderEpochRequest)):
        (told,) = wire.ask(OffsetForLeaderEpochRequest(topics=[epochs]), version).topics
        assert told.partitions[0].error_code == 0


@pytest.mark.rule(251)
@pytest.mark.parametrize(
    "request_of",
    [
        lambda version: DescribeClusterRequest(),
        lambda version: DescribeGroupsRequest(groups=["nobody"]),
        lambda version: ConsumerGroupDescribeRequest(group_ids=["nobody"]),
        lambda version: ListGroupsRequest(),
        lambda version: DescribeLogDirsRequest(topics=None),
        lambda version: DescribeConfigsRequest(
            resources=[DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="nothing")]
        ),
        lambda version: (
            FindCoordinatorRequest(key="nobody") if version < 4 else FindCoordinatorRequest(coordinator_keys=["nobody"])
        ),
    ],
)
def test_describing_requests_in_every_version(wire: Wire, request_of: Any) -> None:
    api = api_of(request_of(0))
    versions = wire.versions(api)
    assert versions
    for version in versions:
        assert isinstance(wire.ask(request_of(version), version), api.response)


def test_negotiation_with_a_broker_of_our_definitions_own_release(wire: Wire) -> None:
    def chosen(api: Api[Any]) -> int:
        return negotiate(api, wire.ranges, finalized_features=wire.features, topic_ids_known=True)

    assert chosen(api_of(MetadataRequest)) == 13
    assert wire.features["transaction.version"] >= 2
    with pytest.raises(UnsupportedVersionError):
        negotiate(api_of(MetadataRequest), {}, finalized_features=wire.features, topic_ids_known=True)
