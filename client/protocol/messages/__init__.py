"""All messages, one module an API. A class is called as in Kafka's definitions, an attribute in snake case.

A nested struct stands where it is used and, for short, on its message too: `FetchRequest.FetchTopic.FetchPartition`
is `FetchRequest.FetchPartition`.
"""

from client.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from client.protocol.messages.fetch import FetchRequest, FetchResponse
from client.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from client.protocol.messages.headers import RequestHeader, ResponseHeader
from client.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from client.protocol.messages.metadata import MetadataRequest, MetadataResponse
from client.protocol.messages.produce import ProduceRequest, ProduceResponse

__all__ = [
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "FetchRequest",
    "FetchResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "ProduceRequest",
    "ProduceResponse",
    "RequestHeader",
    "ResponseHeader",
]
