"""Errors of requests to a Schema Registry.

    SchemaRegistryError
    ├── RegistryUnavailable   no connection, no answer in time, or a server error      retriable
    ├── RegistryRejected      authentication or authorization failed: status 401, 403    if a new token may be accepted
    └── SchemaNotFound        no such id, subject or version: status 404

Error codes: https://docs.confluent.io/platform/current/schema-registry/develop/api.html#errors
"""

from __future__ import annotations

from typing import Any

from kseg.client.errors import KafkaError


class SchemaRegistryError(KafkaError):
    """Any other unsuccessful response. Attributes, if known: `url`, `status`, and the registry's `error_code`."""

    def __init__(
        self,
        message: str,
        *,
        url: str | None = None,
        status: int | None = None,
        error_code: int | None = None,
        **address: Any,
    ) -> None:
        super().__init__(message, **address)
        self.url = url
        self.status = status
        self.error_code = error_code


class RegistryUnavailable(SchemaRegistryError):
    """The registry cannot be reached, does not answer in time, or answers with a server error (5xx, 408, 425, 429)."""

    retriable = True


class RegistryRejected(SchemaRegistryError):
    """The registry rejects the credentials, or requires some, or they lack permissions."""


class SchemaNotFound(SchemaRegistryError):
    """The registry does not have the requested id, subject or version."""
