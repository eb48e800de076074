"""Messages as JSON and back, with the field names of Kafka's definitions.

    type                 JSON
    bool, string, null   the same
    int8 … int64         number
    float64              number; "NaN", "Infinity" and "-Infinity" as text
    uuid                 base64url without padding, as Kafka's tools show topic ids; read also in its hexadecimal form
    bytes, records       base64
    struct               object
    array                array

This is the form of Java's JsonConverters: tagged fields are included only if they differ from their defaults; fields
that the version does not have are left out. With `names` (the default, for people) there are two differences: numbers
that have a name are shown by it (see `enum_names`), and the consumer protocol's subscriptions and assignments in group
messages are objects with a `version` instead of bytes, if the group's protocol type is "consumer".

Reading accepts everything that writing produces, with or without names. Fields that are left out have their defaults.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from kseg.client.protocol.codec import decode, encode
from kseg.client.protocol.embedded.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kseg.client.protocol.embedded.framing import encode_versioned, version_of
from kseg.client.protocol.enum_names import names_of
from kseg.client.protocol.errors import JsonError, ProtocolError, UnsupportedFieldError, UnsupportedVersionError
from kseg.client.protocol.fields import FIXED
from kseg.client.protocol.schema import MAX_VERSION, Field, Message, Struct, Versions

M = TypeVar("M", bound=Message)

_CONSUMER: Final[Mapping[tuple[str, str], type[Message]]] = {
    ("JoinGroupRequest", "metadata"): ConsumerProtocolSubscription,
    ("JoinGroupResponse", "metadata"): ConsumerProtocolSubscription,
    ("SyncGroupRequest", "assignment"): ConsumerProtocolAssignment,
    ("SyncGroupResponse", "assignment"): ConsumerProtocolAssignment,
    ("DescribeGroupsResponse", "member_metadata"): ConsumerProtocolSubscription,
    ("DescribeGroupsResponse", "member_assignment"): ConsumerProtocolAssignment,
}
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def json_name(name: str) -> str:
    """An attribute's name as Kafka's definitions have it in JSON: `error_code` is `errorCode`."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def json_path(path: str) -> str:
    """The path of an `EncodeError` in JSON's names: `topics[0].partition_index` is `topics[0].partitionIndex`."""
    return ".".join(json_name(part) for part in path.split("."))


def to_json(message: Message, version: int, *, names: bool = True) -> dict[str, Any]:
    """The message as JSON values, in this version. Raises `UnsupportedVersionError`."""
    _check_version(type(message), version)
    return _Shown(type(message).__name__, version, names).struct(message, None)


def from_json(cls: type[M], document: Any, version: int) -> M:
    """The message that JSON values describe.

    Raises `JsonError` for an unknown field, a wrong type or a value out of range, `UnsupportedFieldError` for a field
    that this version does not have (both are `EncodeError`s with the JSON path in `field`), and
    `UnsupportedVersionError`.
    """
    _check_version(cls, version)
    message: M = _Read(cls.__name__, version).struct(cls, document, "")
    return message


def _check_version(cls: type[Message], version: int) -> None:
    if not cls.VERSIONS.has(version):
        raise UnsupportedVersionError(
            f"versions {cls.VERSIONS.lowest} to {cls.VERSIONS.highest} are defined",
            message=cls.__name__,
            version=version,
            ours=cls.VERSIONS,
        )


class _Shown:
    """Values to JSON, for one message in one version."""

    def __init__(self, message: str, version: int, names: bool) -> None:
        self.message = message
        self.version = version
        self.names = names

    def struct(self, value: Struct, protocol_type: str | None) -> dict[str, Any]:
        fields = [field for field in value.FIELDS if field.versions.has(self.version)]
        protocol_type = next((getattr(value, f.name) for f in fields if f.name == "protocol_type"), protocol_type)
        shown: dict[str, Any] = {}
        for field in fields:
            held = getattr(value, field.name)
            if not field.tagged.has(self.version) or held != field.fresh_default():
                shown[json_name(field.name)] = self.field(field, held, protocol_type)
        return shown

    def field(self, field: Field, held: Any, protocol_type: str | None) -> Any:
        if held is None:
            return None
        if self.names and protocol_type == PROTOCOL_TYPE and (self.message, field.name) in _CONSUMER:
            return self.consumer(_CONSUMER[self.message, field.name], held)
        if field.kind == "array":
            kind = field.of if isinstance(field.of, str) else "struct"
            return [self.value(field, kind, item, protocol_type) for item in held]
        return self.value(field, field.kind, held, protocol_type)

    def value(self, field: Field, kind: str, held: Any, protocol_type: str | None) -> Any:
        if kind == "struct":
            return self.struct(held, protocol_type)
        if kind == "uuid":
            return base64.urlsafe_b64encode(held.bytes).decode().rstrip("=")
        if kind in ("bytes", "records"):
            return base64.b64encode(held).decode()
        if kind == "float64" and not math.isfinite(held):
            return next(name for name, value in _NOT_FINITE.items() if repr(value) == repr(held))
        table = names_of(self.message, field) if self.names else None
        return held if table is None else table.show(held)

    def consumer(self, cls: type[Message], data: bytes) -> Any:
        """A subscription or an assignment as an object, if the object says all that the bytes do."""
        try:
            version = version_of(data)
            message = decode(cls, version, data, 2)
            if encode_versioned(message, version) == data:
                return {"version": version} | to_json(message, version)
        except ProtocolError:
            pass  # in a member's own format: shown as base64
        return base64.b64encode(data).decode()


class _Read:
    """JSON to values, for one message in one version."""

    def __init__(self, message: str, version: int) -> None:
        self.message = message
        self.version = version

    def struct(self, cls: type[Struct], given: Any, path: str) -> Any:
        if not isinstance(given, dict):
            raise self.wrong("is not an object", path, given)
        fields = {json_name(field.name): field for field in cls.FIELDS}
        values: dict[str, Any] = {}
        for name, value in given.items():
            where = f"{path}.{name}" if path else name
            field = fields.get(name)
            if field is None:
                raise JsonError(
                    f"there is no such field{_hint(name, fields)}",
                    field=where,
                    message=self.message,
                    version=self.version,
                )
            values[field.name] = self.field(field, value, where)
            if not field.versions.has(self.version) and not field.ignorable:
                self.refuse_unless_default(field, values[field.name], where)
        return cls(**values)

    def refuse_unless_default(self, field: Field, value: Any, path: str) -> None:
        if value != field.fresh_default():
            reason = f"v{self.version} does not have it ({_in_words(field.versions)} has)"
            raise UnsupportedFieldError(reason, field=path, message=self.message, version=self.version)

    def field(self, field: Field, given: Any, path: str) -> Any:
        if given is None:
            # If this version does not have the field, null is allowed where it is the default.
            if field.nullable.has(self.version) or (field.default is None and not field.versions.has(self.version)):
                return None
            raise self.wrong("must not be null in this version", path)
        if isinstance(given, dict) and (self.message, field.name) in _CONSUMER:
            return self.consumer(_CONSUMER[self.message, field.name], given, path)
        if field.kind != "array":
            return self.value(field, field.kind, given, path)
        if not isinstance(given, list):
            raise self.wrong("is not an array", path, given)
        kind = field.of if isinstance(field.of, str) else "struct"
        return [self.value(field, kind, item, f"{path}[{index}]") for index, item in enumerate(given)]

    def value(self, field: Field, kind: str, given: Any, path: str) -> Any:
        if kind == "struct":
            assert isinstance(field.of, type)
            return self.struct(field.of, given, path)
        if kind == "bool":
            if not isinstance(given, bool):
                raise self.wrong("is neither true nor false", path, given)
            return given
        if kind == "string":
            return self.string(given, path)
        if kind == "uuid":
            return self.uuid(given, path)
        if kind in ("bytes", "records"):
            return self.octets(given, path)
        if kind == "float64":
            return self.float(given, path)
        return self.integer(field, kind, given, path)

    def integer(self, field: Field, kind: str, given: Any, path: str) -> int:
        table = names_of(self.message, field)
        if isinstance(given, bool) or not isinstance(given, int):
            if table is None:
                raise self.wrong("is not a whole number", path, given)
            try:
                return table.read(given)
            except ValueError as fault:
                raise self.wrong(str(fault), path) from None
        bits = 8 * FIXED[kind][1]
        lowest, highest = (0, (1 << bits) - 1) if kind.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)
        if not lowest <= given <= highest:
            raise self.wrong(f"{given} is outside of {kind} ({lowest} to {highest})", path)
        return given

    def float(self, given: Any, path: str) -> float:
        if isinstance(given, str) and given in _NOT_FINITE:
            return _NOT_FINITE[given]
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise self.wrong("is not a number", path, given)
        try:
            number = float(given)
        except OverflowError:
            number = math.inf
        if math.isinf(number):
            raise self.wrong("is outside of float64", path)
        return number

    def string(self, given: Any, path: str) -> str:
        if not isinstance(given, str):
            raise self.wrong("is not text", path, given)
        try:
            given.encode()
        except UnicodeEncodeError as fault:
            raise self.wrong(f"is not Unicode text: {fault.reason} at {fault.start}", path) from None
        return given

    def uuid(self, given: Any, path: str) -> UUID:
        if isinstance(given, str):
            try:
                if len(given) in (32, 36):
                    return UUID(given)
                return UUID(bytes=base64.b64decode(given + "==", altchars="-_", validate=True))
            except ValueError:
                pass
        raise self.wrong("is not an id (22 characters of base64url, or hexadecimal)", path, given)

    def octets(self, given: Any, path: str) -> bytes:
        if not isinstance(given, str):
            raise self.wrong("is not base64", path, given)
        try:
            return base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError) as fault:
            raise self.wrong(f"is not base64: {str(fault).lower()}", path) from None

    def consumer(self, cls: type[Message], given: dict[str, Any], path: str) -> bytes:
        """An object with a `version` (the newest if it is left out) to bytes. Errors have the full path."""
        body = dict(given)
        version = body.pop("version", cls.VERSIONS.highest)
        if isinstance(version, bool) or not isinstance(version, int) or not cls.VERSIONS.has(version):
            lowest, highest = cls.VERSIONS
            raise self.wrong(
                f"{version!r} is not a version of {cls.__name__} ({lowest} to {highest})", f"{path}.version"
            )
        message = _Read(cls.__name__, version).struct(cls, body, path)
        return version.to_bytes(2, "big") + encode(message, version)

    def wrong(self, reason: str, path: str, *given: Any) -> JsonError:
        shown = f": {_short(given[0])}" if given else ""
        return JsonError(reason + shown, field=path, message=self.message, version=self.version)


def _hint(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; its fields are {', '.join(known)}" if known else "; it has no fields"


def _in_words(versions: Versions) -> str:
    lowest, highest = versions
    if highest == MAX_VERSION:
        return f"v{lowest} and later"
    return f"v{lowest}" if lowest == highest else f"v{lowest} to v{highest}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
