"""DescribeAcls (API key 29): lists the access control entries that a filter matches.

v1  pattern types (KIP-290); throttles after the answer
v2  flexible
v3  resource type USER (KIP-373)

Resource types, pattern types, operations and permission types are numbers; 1 stands for any of them.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeAclsRequest(Request["DescribeAclsResponse"], key=29, versions="0-3", flexible="2+", deprecated="0"):
    """One filter; null matches all names, principals or hosts."""

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DescribeAclsResponse(Response, key=29, versions="0-3", flexible="2+"):
    """The entries, by resource."""

    class DescribeAclsResource(Struct):
        """One resource's entries."""

        class AclDescription(Struct):
            principal: str = string("0+")
            host: str = string("0+")
            operation: int = int8("0+")
            permission_type: int = int8("0+")

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        pattern_type: int = int8("1+", default=3)
        acls: list[AclDescription] = array(AclDescription, "0+")

    AclDescription: TypeAlias = DescribeAclsResource.AclDescription

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource, "0+")
