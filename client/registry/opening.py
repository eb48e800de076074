"""Opens the registry that properties describe: one with Confluent's REST API, or AWS Glue's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol, Self

from kseg.client.errors import ConfigError, ConfigFault
from kseg.client.registry.config import RegistryConfig
from kseg.client.registry.glue import GLUE, GlueConfig, GlueRegistry
from kseg.client.registry.registry import SchemaRegistry
from kseg.client.registry.schemas import Resolved, Schema, SchemaId, Version

AnyRegistryConfig = RegistryConfig | GlueConfig


class Registry(AbstractContextManager["Registry"], Protocol):
    """A registry's client, as far as decoding needs it. Requests raise SchemaRegistryError; those for what there is not
    SchemaNotFound.

    key: the property that says which registry it is.
    """

    key: str

    @property
    def url(self) -> str:
        """The registry's address, for messages and the ledger: without credentials."""

    def __enter__(self) -> Self: ...

    def schema(self, key: SchemaId, subject: str = "") -> Schema:
        """The schema that payloads' frames or headers name."""

    def named(self, key: SchemaId, subject: str = "") -> list[tuple[str, int]]:
        """Subject and version of all names that are known of a schema."""

    def versions(self, subject: str) -> list[int]:
        """A subject's versions, ascending."""

    def latest(self, subject: str) -> Version:
        """The newest version, requested each time."""

    def version(self, subject: str, version: int) -> Version:
        """One version of a subject."""

    def resolve(self, schema: Schema) -> Resolved:
        """A schema with all that it references."""


def registry_config(properties: Mapping[str, str]) -> AnyRegistryConfig:
    """The configuration that properties describe. Raises ConfigError with everything that is wrong at once."""
    kind = properties.get("type")
    if kind is None:
        return RegistryConfig.from_properties(properties)
    if kind.strip() == GLUE:
        return GlueConfig.from_properties(properties)
    message = f"{kind!r} is no type of registry"
    raise ConfigError([ConfigFault("type", message, "glue for AWS Glue; leave it out for Confluent's REST API")])


def open_registry(config: AnyRegistryConfig) -> Registry:
    """The registry's client, to be closed. No request is sent. Raises ConfigError: what it needs is not installed."""
    return GlueRegistry(config) if isinstance(config, GlueConfig) else SchemaRegistry(config)
