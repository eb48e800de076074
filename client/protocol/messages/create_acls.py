"""CreateAcls (API key 30): adds access control entries; goes to the controller.

v1  pattern types (KIP-290); throttles after the answer
v2  flexible
v3  resource type USER (KIP-373)
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class CreateAclsRequest(Request["CreateAclsResponse"], key=30, versions="0-3", flexible="2+", deprecated="0"):
    """Entries to add; pattern type 3 is a literal name, 4 a prefix."""

    class AclCreation(Struct):
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        resource_pattern_type: int = int8("1+", default=3)
        principal: str = string("0+")
        host: str = string("0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    creations: list[AclCreation] = array(AclCreation, "0+")


class CreateAclsResponse(Response, key=30, versions="0-3", flexible="2+"):
    """What became of each, in the request's order."""

    class AclCreationResult(Struct):
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[AclCreationResult] = array(AclCreationResult, "0+")
