"""DeleteGroups (API key 42): deletes groups without members, with their offsets (KIP-229).

Goes to each group's coordinator.

v1  throttles after the answer
v2  flexible
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class DeleteGroupsRequest(Request["DeleteGroupsResponse"], key=42, versions="0-2", flexible="2+"):
    """Groups by id."""

    groups_names: list[str] = array(string, "0+")


class DeleteGroupsResponse(Response, key=42, versions="0-2", flexible="2+"):
    """An error per group."""

    class DeletableGroupResult(Struct):
        group_id: str = string("0+")
        error_code: int = int16("0+")

    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+")
