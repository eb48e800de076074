"""Access control lists: who may do what.

    describe_acls    DescribeAcls (29)   any broker
    create_acls      CreateAcls (30)     to the controller
    delete_acls      DeleteAcls (31)     to the controller

A binding is for one resource pattern: LITERAL (the very name, "*" for all) or PREFIXED (all names that begin so). A
filter's fields are conditions, None or ANY for none; its pattern type MATCH finds whatever applies to a name: its own
literal, the prefixes of it, and "*". Version 0 (brokers before 2.0) knows literal patterns alone.

Sources: KIP-11, KIP-140, KIP-290. Which of them a job needs: docs/reference/acls.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.results import Results, outcome, retry_failed_parts
from kseg.client.errors import KafkaError, UnsupportedVersion, error_from_code
from kseg.client.protocol.enums import AclOperation, PatternType, PermissionType, ResourceType
from kseg.client.protocol.messages.security import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kseg.client.retry import Deadline

_FIRST_WITH_PATTERNS: Final = 1
#: The name of the one cluster resource.
CLUSTER: Final = "kafka-cluster"


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One rule: this principal ("User:alice"), from this host ("*": any), may (or may not) do this to the resource."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    pattern_type: PatternType = PatternType.LITERAL
    permission: PermissionType = PermissionType.ALLOW
    host: str = "*"

    def __str__(self) -> str:
        pattern = "" if self.pattern_type == PatternType.LITERAL else f" {self.pattern_type.name.lower()}"
        return (
            f"{self.permission.name.lower()} {self.principal} from {self.host} to {self.operation.name.lower()} "
            f"{self.resource_type.name.lower()}{pattern} {self.resource_name}"
        )


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Conditions on bindings; the default fits all of them."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    pattern_type: PatternType = PatternType.ANY
    permission: PermissionType = PermissionType.ANY
    host: str | None = None


def describe_acls(cluster: Cluster, filter_: AclFilter = AclFilter()) -> frozenset[AclBinding]:
    """The bindings that the filter fits. Raises AuthorizationFailed; SECURITY_DISABLED without an authorizer."""

    def build(version: int) -> DescribeAclsRequest:
        return DescribeAclsRequest(**_conditions(filter_, version))

    def check(response: DescribeAclsResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "DescribeAcls", detail=response.error_message)

    response = cluster.send_built(DescribeAclsRequest, build, check=check)
    return frozenset(
        AclBinding(
            resource_type=ResourceType.of(resource.resource_type),
            resource_name=resource.resource_name,
            principal=acl.principal,
            operation=AclOperation.of(acl.operation),
            pattern_type=PatternType.of(resource.pattern_type),
            permission=PermissionType.of(acl.permission_type),
            host=acl.host,
        )
        for resource in response.resources
        for acl in resource.acls
    )


def create_acls(cluster: Cluster, bindings: Sequence[AclBinding]) -> Results[AclBinding, None]:
    """Add bindings; one that is there already stays as it is. Brokers other than the controller learn of it later."""

    def ask(waiting: list[AclBinding], deadline: Deadline) -> dict[AclBinding, KafkaError | None]:
        def build(version: int) -> CreateAclsRequest:
            return CreateAclsRequest(creations=[_creation(binding, version) for binding in waiting])

        response = cluster.send_now(CreateAclsRequest, build, deadline, controller=True)
        return {  # the answer names nothing: its order is that of the request
            binding: outcome(result.error_code, "CreateAcls", None, detail=result.error_message, resource=str(binding))
            for binding, result in zip(waiting, response.results, strict=False)
        }

    return retry_failed_parts(cluster, bindings, ask)


def delete_acls(cluster: Cluster, filters: Sequence[AclFilter]) -> Results[AclFilter, frozenset[AclBinding]]:
    """Delete what the filters fit; each filter's outcome are the bindings it has deleted.

    A filter is an error too if one of the bindings it fits could not be deleted.
    """

    def ask(waiting: list[AclFilter], deadline: Deadline) -> dict[AclFilter, Any]:
        def build(version: int) -> DeleteAclsRequest:
            return DeleteAclsRequest(
                filters=[DeleteAclsRequest.DeleteAclsFilter(**_conditions(filter_, version)) for filter_ in waiting]
            )

        response = cluster.send_now(DeleteAclsRequest, build, deadline, controller=True)
        found: dict[AclFilter, Any] = {}
        for filter_, result in zip(waiting, response.filter_results, strict=False):
            deleted, failure = set(), outcome(result.error_code, "DeleteAcls", None, detail=result.error_message)
            for acl in result.matching_acls:
                binding = AclBinding(
                    resource_type=ResourceType.of(acl.resource_type),
                    resource_name=acl.resource_name,
                    principal=acl.principal,
                    operation=AclOperation.of(acl.operation),
                    pattern_type=PatternType.of(acl.pattern_type),
                    permission=PermissionType.of(acl.permission_type),
                    host=acl.host,
                )
                deleted.add(binding)
                failure = failure or outcome(
                    acl.error_code, "DeleteAcls", None, detail=acl.error_message, resource=str(binding)
                )
            found[filter_] = failure or frozenset(deleted)
        return found

    return retry_failed_parts(cluster, filters, ask)


def _creation(binding: AclBinding, version: int) -> CreateAclsRequest.AclCreation:
    creation = CreateAclsRequest.AclCreation(
        resource_type=binding.resource_type,
        resource_name=binding.resource_name,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )
    if version >= _FIRST_WITH_PATTERNS:
        creation.resource_pattern_type = binding.pattern_type
    elif binding.pattern_type != PatternType.LITERAL:
        raise UnsupportedVersion(f"the broker is too old: it supports only literal patterns, not: {binding}")
    return creation


def _conditions(filter_: AclFilter, version: int) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "resource_type_filter": filter_.resource_type,
        "resource_name_filter": filter_.resource_name,
        "principal_filter": filter_.principal,
        "host_filter": filter_.host,
        "operation": filter_.operation,
        "permission_type": filter_.permission,
    }
    if version >= _FIRST_WITH_PATTERNS:
        fields["pattern_type_filter"] = filter_.pattern_type
    elif filter_.pattern_type not in (PatternType.LITERAL, PatternType.ANY):
        raise UnsupportedVersion(f"the broker is too old: it supports only literal patterns, not {filter_}")
    return fields
