"""AddRaftVoter (API key 80): adds a voter to the metadata quorum (KIP-853).

v1  may answer before the change is committed
"""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int16, int32, string, uint16, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class AddRaftVoterRequest(Request["AddRaftVoterResponse"], key=80, versions="0-1", flexible="0+"):
    """The voter and where it listens."""

    class Listener(Struct):
        name: str = string("0+")
        host: str = string("0+")
        port: int = uint16("0+")

    cluster_id: str | None = string("0+", nullable="0+")
    timeout_ms: int = int32("0+")
    voter_id: int = int32("0+")
    voter_directory_id: UUID = uuid("0+")
    listeners: list[Listener] = array(Listener, "0+")
    ack_when_committed: bool = boolean("1+", default=True)


class AddRaftVoterResponse(Response, key=80, versions="0-1", flexible="0+"):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)
