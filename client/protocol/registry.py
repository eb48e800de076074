"""All APIs, by key and by name, and the frames of which only the key is known: the broker's side, for tests and tools.

There is no list of APIs: every module of `messages` is searched for requests and their responses. Importing this module
imports all of them. A client that sends needs only the classes that it sends (`api.api_of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kseg.client.protocol.api import Api, api_of
from kseg.client.protocol.codec import decode, decode_prefix, encode_parts
from kseg.client.protocol.errors import DecodeError
from kseg.client.protocol.fields import ByteString
from kseg.client.protocol.lookup import import_all
from kseg.client.protocol.messages.connection import RequestHeader, ResponseHeader
from kseg.client.protocol.schema import REQUESTS, Request, Response

import_all()
_APIS = sorted(map(api_of, REQUESTS.values()), key=lambda api: api.key)

API_BY_KEY: Mapping[int, Api[Response]] = MappingProxyType({api.key: api for api in _APIS})
API_BY_NAME: Mapping[str, Api[Response]] = MappingProxyType({api.name: api for api in _APIS})


def decode_request(data: ByteString) -> tuple[RequestHeader, Request[Any]]:
    """Header and body of a request's frame.

    Raises `DecodeError`, also for an API that has no definition here, and `UnsupportedVersionError`.
    """
    head, _ = decode_prefix(RequestHeader, 0, data)
    api = API_BY_KEY.get(head.request_api_key)
    if api is None:
        raise DecodeError(f"API key {head.request_api_key} has no definition", 0, message="RequestHeader")
    version = head.request_api_version
    header, position = decode_prefix(RequestHeader, api.request_header_version(version), data)
    return header, decode(api.request, version, data, position)


def encode_response(api_version: int, correlation_id: int, response: Response) -> bytes:
    """A response's frame. Raises `EncodeError` (see `codec.encode`) and `UnsupportedVersionError`."""
    api = API_BY_KEY[response.KEY]
    header = ResponseHeader(correlation_id=correlation_id)
    body = encode_parts(response, api_version)
    return b"".join(encode_parts(header, api.response_header_version(api_version)) + body)
