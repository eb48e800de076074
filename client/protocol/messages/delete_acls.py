"""DeleteAcls (API key 31): removes the access control entries that filters match; goes to the controller.

v1  pattern types (KIP-290); throttles after the answer
v2  flexible
v3  resource type USER (KIP-373)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class DeleteAclsRequest(Request["DeleteAclsResponse"], key=31, versions="0-3", flexible="2+", deprecated="0"):
    """Filters; null matches all names, principals or hosts."""

    class DeleteAclsFilter(Struct):
        resource_type_filter: int = int8("0+")
        resource_name_filter: str | None = string("0+", nullable="0+")
        pattern_type_filter: int = int8("1+", default=3)
        principal_filter: str | None = string("0+", nullable="0+")
        host_filter: str | None = string("0+", nullable="0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter, "0+")


class DeleteAclsResponse(Response, key=31, versions="0-3", flexible="2+"):
    """One result a filter, in the request's order."""

    class DeleteAclsFilterResult(Struct):
        class DeleteAclsMatchingAcl(Struct):
            """An entry that the filter has matched, and whether it is gone."""

            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+")
            resource_type: int = int8("0+")
            resource_name: str = string("0+")
            pattern_type: int = int8("1+", default=3)
            principal: str = string("0+")
            host: str = string("0+")
            operation: int = int8("0+")
            permission_type: int = int8("0+")

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl, "0+")

    DeleteAclsMatchingAcl: TypeAlias = DeleteAclsFilterResult.DeleteAclsMatchingAcl

    throttle_time_ms: int = int32("0+")
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult, "0+")
