"""Errors of requests to a Schema Registry.

    SchemaRegistryError
    ├── RegistryUnavailable   no connection, no answer in time, or a server error      retriable
    │   └── VersionPending    AWS Glue has not decided yet whether a version is available
    ├── RegistryRejected      authentication or authorization failed: status 401, 403    if a new token may be accepted
    │   └── AwsRejected       AWS rejects the credentials, or there are none
    └── SchemaNotFound        no such id, subject or version: status 404

Error codes: https://docs.confluent.io/platform/current/schema-registry/develop/api.html#errors
"""

from __future__ import annotations

from typing import Any, ClassVar

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


class VersionPending(RegistryUnavailable):
    """A schema version that AWS Glue has accepted for a check and has not made available."""


class RegistryRejected(SchemaRegistryError):
    """The registry rejects the credentials, or requires some, or they lack permissions. to_check: what may be wrong."""

    to_check: ClassVar[str] = "check basic.auth.* or bearer.auth.*"


class AwsRejected(RegistryRejected):
    """AWS rejects the credentials, finds none, or they lack permissions for Glue's schema registry."""

    to_check: ClassVar[str] = (
        "check AWS' credentials: `aws sts get-caller-identity` shows whose they are; they need glue:GetSchemaVersion "
        "and glue:ListSchemaVersions"
    )


class SchemaNotFound(SchemaRegistryError):
    """The registry does not have the requested id, subject or version."""
