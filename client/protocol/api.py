"""One API: its request, its response and their versions; and whole frames, without the four bytes of size in front.

request   header v1 (v2 if the body is flexible, v0 for ControlledShutdown v0 alone), body
response  header v0 (v1 if the body is flexible, except for ApiVersions), body

To send a request, only its class is needed. `registry` has all APIs by key and by name.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar, cast

from kseg.client.protocol.codec import decode, decode_prefix, encode_parts
from kseg.client.protocol.fields import ByteString
from kseg.client.protocol.messages.connection import ApiVersionsRequest, RequestHeader, ResponseHeader
from kseg.client.protocol.schema import Request, Response, Scope, Versions

R = TypeVar("R", bound=Response)
R_co = TypeVar("R_co", bound=Response, covariant=True)

_UNSUPPORTED_VERSION = 35


@dataclass(frozen=True, slots=True)
class Api(Generic[R_co]):
    """One API: request, response, and versions (closed ranges).

    `deprecated` are the versions that Kafka 4 has dropped; brokers of older releases still support them. `scope` says
    who sends the request: "client": any client; "broker": a broker to a broker; "controller": a broker or controller to
    a controller.
    """

    key: int
    name: str
    request: type[Request[R_co]]
    response: type[R_co]
    versions: Versions
    flexible: Versions
    deprecated: Versions
    scope: Scope

    def request_header_version(self, version: int) -> int:
        if self.request.WITHOUT_CLIENT_ID.has(version):
            return 0
        return 2 if self.flexible.has(version) else 1

    def response_header_version(self, version: int) -> int:
        # A client that sends ApiVersions does not know yet whether the broker supports flexible versions (KIP-511).
        return 1 if self.flexible.has(version) and self.key != ApiVersionsRequest.KEY else 0


@cache
def _api(request: type[Request[R]]) -> Api[R]:
    name = request.__name__.removesuffix("Request")
    return Api(
        key=request.KEY,
        name=name,
        request=request,
        response=getattr(sys.modules[request.__module__], f"{name}Response"),
        versions=request.VERSIONS,
        flexible=request.FLEXIBLE,
        deprecated=request.DEPRECATED,
        scope=request.SCOPE,
    )


def api_of(request: Request[R] | type[Request[R]]) -> Api[R]:
    """The API that a request, or a request class, belongs to: the response is the class XResponse beside XRequest."""
    return cast("Api[R]", _api(request if isinstance(request, type) else type(request)))


def encode_request(api_version: int, correlation_id: int, client_id: str | None, request: Request[Any]) -> bytes:
    """A request's frame. Raises `EncodeError` (see `codec.encode`) and `UnsupportedVersionError`."""
    api = api_of(request)
    header = RequestHeader(
        request_api_key=api.key,
        request_api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    body = encode_parts(request, api_version)
    return b"".join(encode_parts(header, api.request_header_version(api_version)) + body)


def decode_response(api: Api[R], api_version: int, data: ByteString) -> tuple[int, R]:
    """(correlation id, response) of a response's frame; record sets in it are views of `data`.

    If a broker does not support the version of an ApiVersions request, it responds in version 0, with `error_code` 35
    and the ranges of version 0. Raises `DecodeError` and `UnsupportedVersionError`.
    """
    header, position = decode_prefix(ResponseHeader, api.response_header_version(api_version), data)
    if api.key == ApiVersionsRequest.KEY and _is_fallback(data, position):
        api_version = 0
    return header.correlation_id, decode(api.response, api_version, data, position)


def _is_fallback(data: ByteString, position: int) -> bool:
    return int.from_bytes(data[position : position + 2], "big") == _UNSUPPORTED_VERSION
