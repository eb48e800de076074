"""The APIs, and whole frames: header and body, without the four bytes of size in front.

request   header v1 (v2 if the body is flexible), body
response  header v0 (v1 if the body is flexible, except for ApiVersions), body
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from client.protocol import messages as m
from client.protocol.codec import decode, decode_prefix, encode_parts
from client.protocol.errors import DecodeError
from client.protocol.fields import ByteString, Versions
from client.protocol.schema import Request, Response

R = TypeVar("R", bound=Response)
R_co = TypeVar("R_co", bound=Response, covariant=True)

_UNSUPPORTED_VERSION = 35


@dataclass(frozen=True, slots=True)
class Api(Generic[R_co]):
    """One API: what is asked, what is answered, and in which versions (`versions` and `flexible` are closed ranges)."""

    key: int
    name: str
    request: type[Request[R_co]]
    response: type[R_co]
    versions: Versions
    flexible: Versions

    def request_header_version(self, version: int) -> int:
        return 2 if self.flexible.has(version) else 1

    def response_header_version(self, version: int) -> int:
        # The asker of ApiVersions cannot know yet whether the broker speaks flexible versions (KIP-511).
        return 1 if self.flexible.has(version) and self.key != m.ApiVersionsRequest.KEY else 0


def _api(request: type[Request[R]], response: type[R]) -> Api[R]:
    name = request.__name__.removesuffix("Request")
    return Api(request.KEY, name, request, response, request.VERSIONS, request.FLEXIBLE)


_APIS: tuple[Api[Response], ...] = (
    _api(m.ProduceRequest, m.ProduceResponse),
    _api(m.FetchRequest, m.FetchResponse),
    _api(m.ListOffsetsRequest, m.ListOffsetsResponse),
    _api(m.MetadataRequest, m.MetadataResponse),
    _api(m.OffsetCommitRequest, m.OffsetCommitResponse),
    _api(m.OffsetFetchRequest, m.OffsetFetchResponse),
    _api(m.FindCoordinatorRequest, m.FindCoordinatorResponse),
    _api(m.JoinGroupRequest, m.JoinGroupResponse),
    _api(m.HeartbeatRequest, m.HeartbeatResponse),
    _api(m.LeaveGroupRequest, m.LeaveGroupResponse),
    _api(m.SyncGroupRequest, m.SyncGroupResponse),
    _api(m.DescribeGroupsRequest, m.DescribeGroupsResponse),
    _api(m.ListGroupsRequest, m.ListGroupsResponse),
    _api(m.ApiVersionsRequest, m.ApiVersionsResponse),
    _api(m.CreateTopicsRequest, m.CreateTopicsResponse),
    _api(m.DeleteTopicsRequest, m.DeleteTopicsResponse),
    _api(m.DeleteRecordsRequest, m.DeleteRecordsResponse),
    _api(m.InitProducerIdRequest, m.InitProducerIdResponse),
    _api(m.OffsetForLeaderEpochRequest, m.OffsetForLeaderEpochResponse),
    _api(m.AddPartitionsToTxnRequest, m.AddPartitionsToTxnResponse),
    _api(m.AddOffsetsToTxnRequest, m.AddOffsetsToTxnResponse),
    _api(m.EndTxnRequest, m.EndTxnResponse),
    _api(m.TxnOffsetCommitRequest, m.TxnOffsetCommitResponse),
    _api(m.DescribeConfigsRequest, m.DescribeConfigsResponse),
    _api(m.DescribeLogDirsRequest, m.DescribeLogDirsResponse),
    _api(m.ElectLeadersRequest, m.ElectLeadersResponse),
    _api(m.IncrementalAlterConfigsRequest, m.IncrementalAlterConfigsResponse),
    _api(m.AlterPartitionReassignmentsRequest, m.AlterPartitionReassignmentsResponse),
    _api(m.DescribeClusterRequest, m.DescribeClusterResponse),
    _api(m.ConsumerGroupDescribeRequest, m.ConsumerGroupDescribeResponse),
)

API_BY_KEY: Mapping[int, Api[Response]] = MappingProxyType({api.key: api for api in _APIS})
API_BY_NAME: Mapping[str, Api[Response]] = MappingProxyType({api.name: api for api in _APIS})


def api_of(request: Request[R] | type[Request[R]]) -> Api[R]:
    """The API that a request, or a request class, belongs to."""
    return cast("Api[R]", API_BY_KEY[request.KEY])


def encode_request(api_version: int, correlation_id: int, client_id: str | None, request: Request[Any]) -> bytes:
    """A request's frame. Raises `EncodeError` (see `codec.encode`) and `UnsupportedVersionError`."""
    return b"".join(encode_request_parts(api_version, correlation_id, client_id, request))


def encode_request_parts(
    api_version: int, correlation_id: int, client_id: str | None, request: Request[Any]
) -> list[ByteString]:
    """A request's frame in pieces, for senders that can send from many buffers: record sets are not copied."""
    api = api_of(request)
    header = m.RequestHeader(
        request_api_key=api.key,
        request_api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    body = encode_parts(request, api_version)
    return encode_parts(header, api.request_header_version(api_version)) + body


def decode_response(api: Api[R], api_version: int, data: ByteString) -> tuple[int, R]:
    """(correlation id, response) of a response's frame; record sets in it are views of `data`.

    A broker that does not know the ApiVersions version it was asked for answers in version 0, whatever was asked:
    such an answer has `error_code` 35 and the ranges of version 0. Raises `DecodeError` and `UnsupportedVersionError`.
    """
    header, position = decode_prefix(m.ResponseHeader, api.response_header_version(api_version), data)
    if api.key == m.ApiVersionsRequest.KEY and _is_fallback(data, position):
        api_version = 0
    return header.correlation_id, decode(api.response, api_version, data, position)


def _is_fallback(data: ByteString, position: int) -> bool:
    return int.from_bytes(data[position : position + 2], "big") == _UNSUPPORTED_VERSION


def decode_request(data: ByteString) -> tuple[m.RequestHeader, Request[Any]]:
    """Header and body of a request's frame: the broker's side, for tests and tools.

    Raises `DecodeError`, also for an API that has no definition here, and `UnsupportedVersionError`.
    """
    head, _ = decode_prefix(m.RequestHeader, 1, data)
    api = API_BY_KEY.get(head.request_api_key)
    if api is None:
        raise DecodeError(f"API key {head.request_api_key} has no definition", 0, message="RequestHeader")
    version = head.request_api_version
    header, position = decode_prefix(m.RequestHeader, api.request_header_version(version), data)
    return header, decode(api.request, version, data, position)


def encode_response(api_version: int, correlation_id: int, response: Response) -> bytes:
    """A response's frame: the broker's side, for tests and tools. Raises as `encode_request`."""
    api = API_BY_KEY[response.KEY]
    header = m.ResponseHeader(correlation_id=correlation_id)
    body = encode_parts(response, api_version)
    return b"".join(encode_parts(header, api.response_header_version(api_version)) + body)
