"""FindCoordinator (API key 10): which broker keeps a group's offsets, or a transactional id's transactions.

v1  key types: 0 group, 1 transaction
v2  throttles after the answer
v3  flexible
v4  many keys at once (KIP-699)
v5  TRANSACTION_ABORTABLE (KIP-890)
v6  key type 2, share groups: "group:topic id:partition" (KIP-932)
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class FindCoordinatorRequest(Request["FindCoordinatorResponse"], key=10, versions="0-6", flexible="3+"):
    """One key up to v3, many from v4."""

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+"):
    """One coordinator up to v3, one per key from v4."""

    class Coordinator(Struct):
        """`node_id` is -1 and `error_code` says why where there is none."""

        key: str = string("4+")
        node_id: int = int32("4+")
        host: str = string("4+")
        port: int = int32("4+")
        error_code: int = int16("4+")
        error_message: str | None = string("4+", nullable="4+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
