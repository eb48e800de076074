"""Our definitions against the ones that the kafka-clients jars carry: any difference fails."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from typing import Any

import pytest

from kseg.client.protocol import embedded, messages
from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.fields import ZERO_UUID
from kseg.client.protocol.registry import API_BY_KEY, API_BY_NAME
from kseg.client.protocol.schema import NEVER, Field, Message, Struct, Versions

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


def present(entry: Definition, version: int) -> tuple[Any, ...]:
    """A field as Kafka defines it for a version that has it."""
    kind = entry["type"]
    element = kind.removeprefix("[]")
    return (
        snake(entry["name"]),
        "array" if kind.startswith("[]") else kind if kind in PRIMITIVES else "struct",
        None if kind in PRIMITIVES else element,
        versions(entry, "nullableVersions").has(version),
        entry.get("tag") if versions(entry, "taggedVersions").has(version) else None,
        default(entry),
        "flexibleVersions" not in entry or versions(entry, "flexibleVersions").has(version),
    )


def ours(field: Field, version: int) -> tuple[Any, ...]:
    """A field as we define it for a version that has it."""
    return (
        field.name,
        field.kind,
        field.of.__name__.lstrip("_") if isinstance(field.of, type) else field.of,
        field.nullable.has(version),
        field.tag if field.tagged.has(version) else None,
        field.default,
        field.flexible is None or field.flexible.has(version),
    )


def existing(entry: Definition) -> Versions:
    """The versions that have the field: a tagged one's may be told by its tag alone."""
    return versions(entry, "versions" if "versions" in entry else "taggedVersions")


def absent(entry: Definition) -> tuple[Any, bool]:
    """What a field is for a version that lacks it: the value that may be there, and whether others are ignored."""
    return default(entry), is_true(entry.get("ignorable", False))


def compare(struct: type[Struct], entries: list[Definition], common: dict[str, list[Definition]], version: int) -> None:
    """Compare a struct's fields in one version, in order, then the structs in them."""
    there = [field for field in struct.FIELDS if field.versions.has(version)]
    known = [entry for entry in entries if existing(entry).has(version)]
    where = f"{struct.__qualname__} v{version}"
    assert [ours(field, version) for field in there] == [present(entry, version) for entry in known], where
    lacking = {snake(entry["name"]): absent(entry) for entry in entries if entry not in known}
    for field in struct.FIELDS:
        if not field.versions.has(version) and field.name in lacking:
            assert (field.default, field.ignorable) == lacking[field.name], f"{where} {field.name}"
    for field, entry in zip(there, known, strict=True):
        if isinstance(field.of, type):
            fields = entry.get("fields") or common[field.of.__name__.lstrip("_")]
            compare(field.of, fields, common, version)


@pytest.mark.rule(2, 58, 92, 96, 178, "186-189", 202, 255, "276-320")
def test_a_message_is_defined_as_in_kafka(message_class: type[Message], definitions: Any, comparisons: Any) -> None:
    """Every version against the newest release that has it; so also those that Kafka 4 dropped."""
    name = message_class.__name__
    assert definitions.versions(name) == message_class.VERSIONS
    for version in range(message_class.VERSIONS.lowest, message_class.VERSIONS.highest + 1):
        definition = definitions.of(name, version)
        assert definition.get("apiKey") == getattr(message_class, "KEY", None)
        assert versions(definition, "flexibleVersions").has(version) == message_class.FLEXIBLE.has(version)
        common = {entry["name"]: entry["fields"] for entry in definition.get("commonStructs", [])}
        compare(message_class, definition["fields"], common, version)
        comparisons.compared("definition", name, version)


def test_no_field_stands_in_no_version(message_class: type[Message]) -> None:
    lowest, highest = message_class.VERSIONS
    for struct in [message_class, *nested(message_class)]:
        for field in struct.FIELDS:
            assert field.versions.lowest <= highest, (struct.__qualname__, field.name)
            assert field.versions.highest >= lowest, (struct.__qualname__, field.name)


@pytest.mark.rule(257)
def test_every_api_of_kafka_is_defined(definitions: Any) -> None:
    """All of today's and those that Kafka 4 dropped, each from its first stable version on."""
    requests = {
        definition["name"]
        for source in (definitions.newest, definitions.old)
        for definition in source.values()
        if definition["type"] == "request"
    }
    renamed = {"ListClientMetricsResourcesRequest"}  # today ListConfigResources v0
    assert {f"{name}Request" for name in API_BY_NAME} == requests - renamed
    early_access = {"ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge"}
    assert {name for name, api in API_BY_NAME.items() if api.versions.lowest > 0} == early_access


def test_every_record_of_internal_topics_is_defined(definitions: Any) -> None:
    kinds = {"coordinator-key", "coordinator-value", "metadata"}
    told = {name for name, definition in definitions.newest.items() if definition["type"] in kinds}
    defined = {
        name
        for module in pkgutil.iter_modules(embedded.__path__, f"{embedded.__name__}.")
        for name, value in vars(importlib.import_module(module.name)).items()
        if isinstance(value, type) and issubclass(value, TypedMessage) and value is not TypedMessage
    }
    assert defined == told
    assert len(told) == 80


@pytest.mark.rule(65)
def test_deprecated_versions_are_those_that_kafka_4_dropped(definitions: Any) -> None:
    for api in API_BY_KEY.values():
        spoken = definitions.stable(definitions.newest, f"{api.name}Request")
        every = range(api.versions.lowest, api.versions.highest + 1)
        assert [v for v in every if api.deprecated.has(v)] == [v for v in every if not spoken.has(v)], api.name


@pytest.mark.rule(5)
def test_who_asks_is_told_by_the_listeners_and_by_java(definitions: Any, java: Callable[..., list[str]]) -> None:
    """Clients ask what brokers answer and needs no right to act for the cluster, or administrators need too."""
    for_administrators = {"WriteTxnMarkers", "DescribeQuorum", "UpdateFeatures"}
    cluster_actions = {line.split()[1] for line in java("ProtocolFacts.java") if line.startswith("cluster-action ")}
    assert len(cluster_actions) > 10
    for api in API_BY_KEY.values():
        definition = definitions.newest[f"{api.name}Request"]
        at_brokers = "broker" in definition.get("listeners", ["broker"])
        dropped = definition["validVersions"] == "none"
        for_clients = api.name in for_administrators or (not dropped and str(api.key) not in cluster_actions)
        expected = "controller" if not at_brokers else "client" if for_clients else "broker"
        assert api.scope == expected, api.name


def test_every_message_is_defined_in_one_module_and_the_package_repeats_none() -> None:
    defined = [
        name
        for module in pkgutil.iter_modules(messages.__path__, f"{messages.__name__}.")
        for name, value in vars(importlib.import_module(module.name)).items()
        if isinstance(value, type) and issubclass(value, Message) and value.__module__ == module.name
    ]
    assert len(defined) == len(set(defined)) == 2 * len(API_BY_KEY) + 2  # and two headers
    assert not [name for name, value in vars(messages).items() if isinstance(value, type)]


def nested(struct: type[Struct]) -> list[type[Struct]]:
    found = [field.of for field in struct.FIELDS if isinstance(field.of, type)]
    return found + [inner for one in found for inner in nested(one)]


def test_nested_structs_are_reached_from_their_message(message_class: type[Message]) -> None:
    for struct in nested(message_class):
        assert getattr(message_class, struct.__name__.lstrip("_")) is struct


@pytest.mark.rule(58)
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
