"""JSON to hex and back, for a request or a response of one version: the body, or the whole frame without its size.

A third side, "data", is for the formats inside of bytes fields: there the header is the int16 version in front.

Formats inside of bytes are the messages of `client.protocol.embedded`, found by their class's name.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from types import ModuleType
from typing import Any

from kseg.client.protocol import embedded
from kseg.client.protocol.api import Api
from kseg.client.protocol.codec import decode, decode_prefix, encode
from kseg.client.protocol.embedded.framing import version_of
from kseg.client.protocol.errors import DecodeError, EncodeError, UnsupportedVersionError
from kseg.client.protocol.json_form import from_json, json_path, to_json
from kseg.client.protocol.messages.connection import RequestHeader, ResponseHeader
from kseg.client.protocol.schema import Message
from kseg.etl.errors import ConfigurationError
from kseg.jobs.api import bad_argument
from kseg.jobs.api.calling import find_api


@cache
def embedded_modules() -> dict[str, ModuleType]:
    """Every module that defines a format, by its name."""
    names = [found.name for found in pkgutil.iter_modules(embedded.__path__)]
    loaded = {name: importlib.import_module(f"{embedded.__name__}.{name}") for name in names}
    return {name: module for name, module in loaded.items() if defined_in(module)}


def defined_in(module: ModuleType) -> list[type[Message]]:
    """The messages of one module, in its own order."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Message)
        and value.__module__ == module.__name__
        and hasattr(value, "VERSIONS")
    ]


@cache
def embedded_messages() -> dict[str, type[Message]]:
    """Every embedded message by its class's name."""
    return {cls.__name__: cls for module in embedded_modules().values() for cls in defined_in(module)}


def encode_text(name: str, side: str, version: int, document: Any, *, header: bool) -> str:
    """The hex of the message that the JSON describes. Raises ConfigurationError."""
    cls, head, head_version = _definitions(name, side, version)
    try:
        if not header:
            return encode(from_json(cls, document, version), version).hex()
        if head is None:
            return (version.to_bytes(2, "big") + encode(from_json(cls, document, version), version)).hex()
        if not isinstance(document, dict) or not set(document) <= {"header", "body"}:
            raise ConfigurationError('with a header the JSON is {"header": {…}, "body": {…}}')
        body = encode(from_json(cls, document.get("body", {}), version), version)
        fields = dict(document.get("header") or {})
        if head is RequestHeader:
            api = find_api(name)
            for field, value in (("requestApiKey", api.key), ("requestApiVersion", version)):
                if fields.setdefault(field, value) not in (value, api.name):
                    raise ConfigurationError(f"header.{field} is {fields[field]}, but {name} v{version} is {value}")
        return (encode(from_json(head, fields, head_version), head_version) + body).hex()
    except EncodeError as fault:
        path = json_path(fault.field)
        raise ConfigurationError(f"{fault.message} v{fault.version} {path}: {fault.reason}", field=path) from None
    except UnsupportedVersionError as fault:
        raise bad_argument("--version", str(fault)) from fault


def decode_text(name: str, side: str, version: int, text: str, *, header: bool, names: bool) -> dict[str, Any]:
    """The JSON of the message in hex (blanks, line ends and a leading 0x are ignored). Raises ConfigurationError."""
    cls, head, head_version = _definitions(name, side, version)
    digits = re.sub(r"\s", "", text).removeprefix("0x")
    try:
        data = bytes.fromhex(digits)
    except ValueError as fault:
        raise bad_argument("HEX", f"is no hexadecimal: {fault}") from fault
    try:
        if header and head is None:
            if version_of(data) != version:
                raise ConfigurationError(f"these bytes say that they are {name} v{version_of(data)}")
            return to_json(decode(cls, version, data, 2), version, names=names)
        if not header or head is None:
            return to_json(decode(cls, version, data), version, names=names)
        fields, position = decode_prefix(head, head_version, data)
        body = decode(cls, version, data, position)
    except DecodeError as fault:
        raise ConfigurationError(f"these bytes are no {name} {side} v{version}: {fault}") from fault
    except UnsupportedVersionError as fault:
        raise bad_argument("--version", str(fault)) from fault
    return {
        "header": to_json(fields, head_version, names=names),
        "body": to_json(body, version, names=names),
    }


def _definitions(name: str, side: str, version: int) -> tuple[type[Message], type[Message] | None, int]:
    """The message's class, its header's and the header's version; data has no header of its own."""
    if side == "data":
        found = {known.casefold(): cls for known, cls in embedded_messages().items()}.get(name.casefold())
        if found is None:
            raise bad_argument("NAME", f"there is no format {name!r} inside of bytes", "`kseg api docs` lists them")
        return found, None, -1
    api: Api[Any] = find_api(name)
    if side == "request":
        return api.request, RequestHeader, api.request_header_version(version)
    return api.response, ResponseHeader, api.response_header_version(version)
