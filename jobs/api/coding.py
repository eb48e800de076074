"""JSON to hex and back, for a request or a response of one version: the body, or the whole frame without its size."""

from __future__ import annotations

import re
from typing import Any

from client.protocol import DecodeError, EncodeError, UnsupportedVersionError
from client.protocol.api import Api
from client.protocol.codec import decode, decode_prefix, encode
from client.protocol.jsonform import from_json, json_path, to_json
from client.protocol.messages import RequestHeader, ResponseHeader
from client.protocol.schema import Message
from etl.errors import ConfigurationError
from jobs.api import bad_argument
from jobs.api.calling import find_api


def encode_text(name: str, side: str, version: int, document: Any, *, header: bool) -> str:
    """The hex of the message that the JSON describes. Raises ConfigurationError."""
    api = find_api(name)
    try:
        if not header:
            return encode(from_json(_message(api, side), document, version), version).hex()
        if not isinstance(document, dict) or not set(document) <= {"header", "body"}:
            raise ConfigurationError('with a header the JSON is {"header": {…}, "body": {…}}')
        body = encode(from_json(_message(api, side), document.get("body", {}), version), version)
        of_header, header_version = _header(api, side, version)
        head = dict(document.get("header") or {})
        if of_header is RequestHeader:
            for field, value in (("requestApiKey", api.key), ("requestApiVersion", version)):
                if head.setdefault(field, value) not in (value, api.name):
                    raise ConfigurationError(f"header.{field} is {head[field]}, but {name} v{version} is {value}")
        return (encode(from_json(of_header, head, header_version), header_version) + body).hex()
    except EncodeError as fault:
        raise ConfigurationError(
            f"{fault.message} v{fault.version} {json_path(fault.field)}: {fault.reason}", field=json_path(fault.field)
        ) from None
    except UnsupportedVersionError as fault:
        raise bad_argument("--version", str(fault)) from fault


def decode_text(name: str, side: str, version: int, text: str, *, header: bool, names: bool) -> dict[str, Any]:
    """The JSON of the message in hex (blanks, line ends and a leading 0x are let be). Raises ConfigurationError."""
    api = find_api(name)
    digits = re.sub(r"\s", "", text).removeprefix("0x")
    try:
        data = bytes.fromhex(digits)
    except ValueError as fault:
        raise bad_argument("HEX", f"is no hexadecimal: {fault}") from fault
    try:
        if not header:
            return to_json(decode(_message(api, side), version, data), version, names=names)
        of_header, header_version = _header(api, side, version)
        head, position = decode_prefix(of_header, header_version, data)
        body = decode(_message(api, side), version, data, position)
    except DecodeError as fault:
        raise ConfigurationError(f"these bytes are no {name} {side} v{version}: {fault}") from fault
    except UnsupportedVersionError as fault:
        raise bad_argument("--version", str(fault)) from fault
    return {
        "header": to_json(head, header_version, names=names),
        "body": to_json(body, version, names=names),
    }


def _message(api: Api[Any], side: str) -> type[Message]:
    return api.request if side == "request" else api.response


def _header(api: Api[Any], side: str, version: int) -> tuple[type[Message], int]:
    if side == "request":
        return RequestHeader, api.request_header_version(version)
    return ResponseHeader, api.response_header_version(version)
