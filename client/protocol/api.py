"""The APIs, and whole frames: header and body, without the four bytes of size in front.

Every module of `messages` that has a request and its response is an API: there is no list of them.

request   header v1 (v2 if the body is flexible, v0 for ControlledShutdown v0 alone), body
response  header v0 (v1 if the body is flexible, except for ApiVersions), body
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from kseg.client.protocol import messages as m
from kseg.client.protocol.codec import decode, decode_prefix, encode_parts
from kseg.client.protocol.errors import DecodeError
from kseg.client.protocol.fields import ByteString, Versions
from kseg.client.protocol.schema import Request, Response, Scope

R = TypeVar("R", bound=Response)
R_co = TypeVar("R_co", bound=Response, covariant=True)

_UNSUPPORTED_VERSION = 35


@dataclass(frozen=True, slots=True)
class Api(Generic[R_co]):
    """One API: what is asked, what is answered, and in which versions (closed ranges).

    `deprecated` are the versions that Kafka 4 has dropped; brokers of older releases still speak them. `scope` says who
    asks: "client" anybody, "broker" brokers among themselves, "controller" brokers and controllers at a controller.
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
        if version == 0 and self.key == m.ControlledShutdownRequest.KEY:
            return 0
        return 2 if self.flexible.has(version) else 1

    def response_header_version(self, version: int) -> int:
        # The asker of ApiVersions cannot know yet whether the broker speaks flexible versions (KIP-511).
        return 1 if self.flexible.has(version) and self.key != m.ApiVersionsRequest.KEY else 0


def _api(request: type[Request[R]], response: type[R]) -> Api[R]:
    name = request.__name__.removesuffix("Request")
    return Api(
        key=request.KEY,
        name=name,
        request=request,
        response=response,
        versions=request.VERSIONS,
        flexible=request.FLEXIBLE,
        deprecated=request.DEPRECATED,
        scope=request.SCOPE,
    )


def _discover() -> Iterator[Api[Response]]:
    """One API for each pair of classes XRequest and XResponse in the modules of `messages`."""
    for found in pkgutil.iter_modules(m.__path__):
        names = vars(importlib.import_module(f"{m.__name__}.{found.name}"))
        for name, request in names.items():
            if name.endswith("Request") and name != "Request":
                yield _api(request, names[name.removesuffix("Request") + "Response"])


_APIS = sorted(_discover(), key=lambda api: api.key)

API_BY_KEY: Mapping[int, Api[Response]] = MappingProxyType({api.key: api for api in _APIS})
API_BY_NAME: Mapping[str, Api[Response]] = MappingProxyType({api.name: api for api in _APIS})


def api_of(request: Request[R] | type[Request[R]]) -> Api[R]:
    """The API that a request, or a request class, belongs to."""
    return cast("Api[R]", API_BY_KEY[request.KEY])


def is_answered(request: Request[Any]) -> bool:
    """Whether the broker answers at all: to a Produce with acks 0 it does not, whose writing is then all there is."""
    return not (isinstance(request, m.ProduceRequest) and request.acks == 0)


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
    head, _ = decode_prefix(m.RequestHeader, 0, data)
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
