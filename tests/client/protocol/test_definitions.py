"""Our definitions against the ones that the kafka-clients jar carries: any difference fails."""

from __future__ import annotations

import re
from typing import Any

import pytest

from client.protocol.api import API_BY_KEY
from client.protocol.fields import NEVER, ZERO_UUID, Field, Versions
from client.protocol.schema import Message, Struct

PRIMITIVES = {"bool", "int8", "int16", "uint16", "int32", "int64", "float64", "uuid", "string", "bytes", "records"}
Definition = dict[str, Any]


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def is_true(value: Any) -> bool:
    return str(value).lower() == "true"


def versions(entry: Definition, key: str) -> Versions:
    return Versions.parse(entry.get(key, "none"))


def default(entry: Definition) -> Any:
    """The default that a definition's entry gives, as our notation says it."""
    given, kind = entry.get("default"), entry["type"]
    if given == "null" or kind == "records":
        return None
    if kind.startswith("[]") or kind not in PRIMITIVES:
        return "empty"
    if kind == "bool":
        return is_true(given)
    if kind == "string":
        return given or ""
    if kind == "bytes":
        return b""
    if kind == "uuid":
        return ZERO_UUID
    if kind == "float64":
        return float(given or 0)
    return int(str(given or 0), 0)


def told(entry: Definition) -> tuple[Any, ...]:
    """One field as Kafka defines it."""
    kind = entry["type"]
    element = kind.removeprefix("[]")
    return (
        snake(entry["name"]),
        "array" if kind.startswith("[]") else kind if kind in PRIMITIVES else "struct",
        None if kind in PRIMITIVES else element,
        versions(entry, "versions"),
        versions(entry, "nullableVersions"),
        entry.get("tag"),
        versions(entry, "taggedVersions"),
        default(entry),
        is_true(entry.get("ignorable", False)),
        versions(entry, "flexibleVersions") if "flexibleVersions" in entry else None,
    )


def ours(field: Field) -> tuple[Any, ...]:
    """One field as we define it."""
    of = field.of.__name__ if isinstance(field.of, type) else field.of
    return (
        field.name,
        field.kind,
        of,
        field.versions,
        field.nullable,
        field.tag,
        field.tagged,
        field.default,
        field.ignorable,
        field.flexible,
    )


def compare(struct: type[Struct], entries: list[Definition], common: dict[str, list[Definition]], last: int) -> None:
    """Compare a struct's fields, in order, then the structs in them. Fields from after `last` are left out."""
    entries = [entry for entry in entries if versions(entry, "versions").lowest <= last]
    assert [ours(field) for field in struct.FIELDS] == [told(entry) for entry in entries], struct.__qualname__
    for field, entry in zip(struct.FIELDS, entries, strict=True):
        if isinstance(field.of, type):
            compare(field.of, entry.get("fields") or common[field.of.__name__], common, last)


def last_stable(definitions: dict[str, Definition], name: str) -> int:
    """The highest version that is not unstable, which the request alone tells, for its response too."""
    request = definitions.get(name.replace("Response", "Request"), definitions[name])
    return versions(request, "validVersions").highest - is_true(request.get("latestVersionUnstable", False))


def test_a_message_is_defined_as_in_kafka(message_class: type[Message], definitions: dict[str, Definition]) -> None:
    name = message_class.__name__
    definition = definitions[name]
    last = last_stable(definitions, name)
    lowest, highest = versions(definition, "validVersions")
    assert (lowest, min(last, highest)) == message_class.VERSIONS
    assert versions(definition, "flexibleVersions") == message_class.FLEXIBLE
    assert definition.get("apiKey") == getattr(message_class, "KEY", None)
    common = {entry["name"]: entry["fields"] for entry in definition.get("commonStructs", [])}
    compare(message_class, definition["fields"], common, last)


def nested(struct: type[Struct]) -> list[type[Struct]]:
    found = [field.of for field in struct.FIELDS if isinstance(field.of, type)]
    return found + [inner for one in found for inner in nested(one)]


def test_nested_structs_are_reached_from_their_message(message_class: type[Message]) -> None:
    for struct in nested(message_class):
        assert getattr(message_class, struct.__name__) is struct


def test_an_api_pairs_a_request_with_its_response() -> None:
    for key, api in API_BY_KEY.items():
        assert api.request.KEY == api.response.KEY == key
        assert (api.request.__name__, api.response.__name__) == (f"{api.name}Request", f"{api.name}Response")
        assert api.request.VERSIONS == api.response.VERSIONS == api.versions
        assert api.request.FLEXIBLE == api.response.FLEXIBLE == api.flexible


def test_tagged_fields_are_tagged_in_flexible_versions_only(message_class: type[Message]) -> None:
    for struct in [message_class, *nested(message_class)]:
        tagged = [field for field in struct.FIELDS if field.tagged != NEVER]
        assert all(field.tagged.lowest >= message_class.FLEXIBLE.lowest for field in tagged)
        assert len({field.tag for field in tagged}) == len(tagged)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0+", (0, 32767)), ("4-12", (4, 12)), ("3", (3, 3)), ("none", (1, 0))],
)
def test_version_ranges_are_read(text: str, expected: tuple[int, int]) -> None:
    assert Versions.parse(text) == expected
