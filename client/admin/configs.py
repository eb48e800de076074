"""Configuration of topics, brokers, broker loggers, client metrics and groups.

    describe_configs               DescribeConfigs (32)           a broker's resource to this broker, others to any
    alter_configs                  IncrementalAlterConfigs (44)   single values: set, delete, append, subtract
    replace_configs                AlterConfigs (33)              settings that are not named get their defaults
    list_config_resources          ListConfigResources (74)       version 0 has only client metrics

Requests for a broker's resource are sent to this broker, because only it has its static values and its loggers' levels.
The resource BROKER with the name "" is the default of all brokers; any broker returns it.

Sources: KIP-133, KIP-226 (sources, synonyms), KIP-339, KIP-412 (loggers), KIP-569 (types), KIP-714, KIP-848, KIP-1142.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, Final, NamedTuple

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.results import Results, fixed, outcome, retry_failed_parts
from kseg.client.errors import KafkaError, UnsupportedVersion, error_from_code
from kseg.client.protocol.enums import CONFIG_SOURCES, ConfigResourceType, ConfigType
from kseg.client.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kseg.client.retry import Deadline

_FIRST_WITH_SYNONYMS: Final = 1
_FIRST_WITH_DOCUMENTATION: Final = 3
_FIRST_WITH_TYPES: Final = 1
_AT_ITS_BROKER: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)


class ConfigResource(NamedTuple):
    """The owner of a configuration: a topic, a broker (its id as text; "" is the default of all), a group …"""

    type: ConfigResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '(default)'}"


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A setting from which an entry's value may come. Entries list them by precedence; the first one is used."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting and the source of its value. `value` is None for secrets.

    `source` is one of `CONFIG_SOURCES`; brokers before 1.1 return only whether it is the default ("default" or
    "unknown").
    """

    value: str | None
    source: str
    read_only: bool = False
    sensitive: bool = False
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_set(self) -> bool:
        """Whether it was set for this topic."""
        return self.source == "topic"


class AlterOperation(IntEnum):
    """The change of a setting; APPEND and SUBTRACT are only for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterConfig(NamedTuple):
    """One change; `value` is None for DELETE."""

    name: str
    value: str | None
    operation: AlterOperation = AlterOperation.SET


def describe_configs(
    cluster: Cluster,
    resources: Collection[ConfigResource],
    *,
    names: Collection[str] | None = None,
    synonyms: bool = False,
    documentation: bool = False,
) -> Results[ConfigResource, dict[str, ConfigEntry]]:
    """The settings of each resource, including defaults. `names`: only these settings (None: all; empty: none)."""

    def build(members: Sequence[ConfigResource], version: int) -> DescribeConfigsRequest:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.DescribeConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=None if names is None else list(names),
                )
                for resource in members
            ]
        )
        if synonyms and version < _FIRST_WITH_SYNONYMS:
            raise UnsupportedVersion("the broker is too old to return config synonyms")
        request.include_synonyms = synonyms
        # Documentation is for people: without it, an old broker's answer is still right.
        request.include_documentation = documentation and version >= _FIRST_WITH_DOCUMENTATION
        return request

    def ask(waiting: list[ConfigResource], deadline: Deadline) -> dict[ConfigResource, Any]:
        found: dict[ConfigResource, Any] = {}
        for broker, members in _by_broker(waiting):
            try:
                response: DescribeConfigsResponse = cluster.send_now(
                    DescribeConfigsRequest,
                    partial(build, members),
                    deadline,
                    broker=broker,
                    controller=_at_controllers(cluster),
                )
            except KafkaError as error:
                found.update(dict.fromkeys(members, error))
                continue
            for result in response.results:
                resource = ConfigResource(ConfigResourceType.of(result.resource_type), result.resource_name)
                # Brokers take an empty list of names for all.
                entries = {
                    entry.name: config_entry(entry) for entry in result.configs if names is None or entry.name in names
                }
                found[resource] = outcome(
                    result.error_code, "DescribeConfigs", entries, detail=result.error_message, **address(resource)
                )
        return found

    return retry_failed_parts(cluster, resources, ask)


def describe_topic_configs(cluster: Cluster, topics: Collection[str]) -> dict[str, dict[str, ConfigEntry]]:
    """All settings of each topic, including defaults. Raises UnknownTopic, AuthorizationFailed …"""
    found = describe_configs(cluster, [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics])
    return {resource.name: entries for resource, entries in found.or_raise().items()}


def alter_configs(
    cluster: Cluster, changes: Mapping[ConfigResource, Sequence[AlterConfig]], *, validate_only: bool = False
) -> Results[ConfigResource, None]:
    """Change single settings of each resource; after an error, none of the resource's changes. From Kafka 2.3 on."""

    def build(members: Sequence[ConfigResource]) -> IncrementalAlterConfigsRequest:
        return IncrementalAlterConfigsRequest(
            validate_only=validate_only,
            resources=[
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        IncrementalAlterConfigsRequest.AlterableConfig(
                            name=change.name, config_operation=change.operation, value=change.value
                        )
                        for change in changes[resource]
                    ],
                )
                for resource in members
            ],
        )

    return _alter(cluster, changes, IncrementalAlterConfigsRequest, build)


def replace_configs(
    cluster: Cluster, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool = False
) -> Results[ConfigResource, None]:
    """Give each resource these settings *and no others*: settings that are not named get their defaults.

    Brokers before 2.3 support only this; for later brokers use `alter_configs`.
    """

    def build(members: Sequence[ConfigResource]) -> AlterConfigsRequest:
        return AlterConfigsRequest(
            validate_only=validate_only,
            resources=[
                AlterConfigsRequest.AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        AlterConfigsRequest.AlterableConfig(name=name, value=value)
                        for name, value in configs[resource].items()
                    ],
                )
                for resource in members
            ],
        )

    return _alter(cluster, configs, AlterConfigsRequest, build)


def list_config_resources(cluster: Cluster, types: Collection[ConfigResourceType] = ()) -> tuple[ConfigResource, ...]:
    """The resources of these types (none: all types that the broker can list). From Kafka 3.7 on.

    Brokers before 4.1 list only client metrics; for other types this raises UnsupportedVersion.
    """
    only_metrics = set(types) == {ConfigResourceType.CLIENT_METRICS}

    def build(version: int) -> ListConfigResourcesRequest:
        if version >= _FIRST_WITH_TYPES:
            return ListConfigResourcesRequest(resource_types=[int(kind) for kind in types])
        if not only_metrics:
            raise UnsupportedVersion("the broker is too old: it lists only client metrics resources")
        return ListConfigResourcesRequest()

    def check(response: ListConfigResourcesResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "ListConfigResources")

    response = cluster.send_built(ListConfigResourcesRequest, build, check=check)
    return tuple(
        ConfigResource(ConfigResourceType.of(found.resource_type), found.resource_name)
        for found in response.config_resources
    )


def config_entry(entry: Any) -> ConfigEntry:
    """A setting from a DescribeConfigs or CreateTopics response."""
    default = "default" if getattr(entry, "is_default", False) else "unknown"
    return ConfigEntry(
        value=entry.value,
        source=CONFIG_SOURCES.get(entry.config_source, default),
        read_only=entry.read_only,
        sensitive=entry.is_sensitive,
        type=ConfigType.of(getattr(entry, "config_type", 0)),
        documentation=getattr(entry, "documentation", None),
        synonyms=tuple(
            ConfigSynonym(other.name, other.value, CONFIG_SOURCES.get(other.source, "unknown"))
            for other in getattr(entry, "synonyms", ())
        ),
    )


def address(resource: ConfigResource) -> dict[str, str]:
    """The name of a resource in errors."""
    if resource.type == ConfigResourceType.TOPIC:
        return {"topic": resource.name}
    return {"group": resource.name} if resource.type == ConfigResourceType.GROUP else {"resource": str(resource)}


def _at_controllers(cluster: Cluster) -> bool:
    """Whether the client uses controllers; only the active one responds for resources that belong to no node."""
    return bool(cluster.config.bootstrap_controllers)


def _by_broker(resources: Collection[ConfigResource]) -> Iterator[tuple[int | None, list[ConfigResource]]]:
    """Resources by the broker to which the request is sent; None: any broker."""
    groups: dict[int | None, list[ConfigResource]] = defaultdict(list)
    for resource in resources:
        own = resource.type in _AT_ITS_BROKER and resource.name
        groups[int(resource.name) if own else None].append(resource)
    yield from groups.items()


def _alter(
    cluster: Cluster, resources: Collection[ConfigResource], kind: Any, build: Any
) -> Results[ConfigResource, None]:
    def ask(waiting: list[ConfigResource], deadline: Deadline) -> dict[ConfigResource, Any]:
        found: dict[ConfigResource, Any] = {}
        for broker, members in _by_broker(waiting):
            try:
                response: AlterConfigsResponse | IncrementalAlterConfigsResponse = cluster.send_now(
                    kind, fixed(build(members)), deadline, broker=broker, controller=_at_controllers(cluster)
                )
            except KafkaError as error:
                found.update(dict.fromkeys(members, error))
                continue
            for result in response.responses:
                resource = ConfigResource(ConfigResourceType.of(result.resource_type), result.resource_name)
                found[resource] = outcome(
                    result.error_code,
                    kind.__name__.removesuffix("Request"),
                    None,
                    detail=result.error_message,
                    **address(resource),
                )
        return found

    return retry_failed_parts(cluster, resources, ask)
