"""The permissions that a request needs: which operation on which resource an authorization error is about.

An error code names only the type of resource. Which operation was denied follows from the API: each request's class has
its `PERMISSIONS`, from https://kafka.apache.org/documentation/#operations_resources_and_protocols. With the address
that an error carries, that is the ACL to add.

    PERMISSIONS = permissions("READ topic, WRITE transactional id")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from kseg.client.protocol.enums import AclOperation, ResourceType
from kseg.client.protocol.error_codes import ErrorCode

#: The resources that an authorization error may be about, by its code.
RESOURCES: Final[Mapping[int, ResourceType]] = MappingProxyType(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: ResourceType.TOPIC,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: ResourceType.GROUP,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ResourceType.TRANSACTIONAL_ID,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ResourceType.CLUSTER,
    }
)


class Permission(NamedTuple):
    """An operation on a resource; `name` is the resource's, None if it is unknown."""

    operation: AclOperation
    resource_type: ResourceType
    name: str | None

    def __str__(self) -> str:
        resource = self.resource_type.name.lower().replace("_", " ")
        return f"{self.operation.name} on {resource}" + ("" if self.name is None else f" {self.name}")

    @property
    def remedy(self) -> str:
        """The command of Kafka's own tool that grants it."""
        operation = self.operation.name.title().replace("_", "")
        option = f"--{self.resource_type.name.lower().replace('_', '-')}"
        name = "" if self.resource_type == ResourceType.CLUSTER else f" {self.name or '…'}"
        return f"kafka-acls --add --allow-principal User:… --operation {operation} {option}{name}"


@dataclass(frozen=True, slots=True)
class Permissions:
    """The operation that an API needs on each type of resource.

    `otherwise` documents what no authorization error reports: parts that are left out of a response, and tokens.
    """

    operations: Mapping[ResourceType, AclOperation]
    otherwise: str = ""


def permissions(text: str, *, otherwise: str = "") -> Permissions:
    """Read "OPERATION resource type, …". Raises KeyError for a name that Kafka does not have."""
    pairs = (pair.strip().partition(" ") for pair in text.split(",") if pair.strip())
    operations = {
        ResourceType[resource.upper().replace(" ", "_")]: AclOperation[operation] for operation, _, resource in pairs
    }
    return Permissions(MappingProxyType(operations), otherwise)


NONE: Final = Permissions(MappingProxyType({}))
