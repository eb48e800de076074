"""RemoveRaftVoter (API key 81): removes a voter from the metadata quorum (KIP-853)."""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.fields import int16, int32, string, uuid
from kseg.client.protocol.schema import Request, Response


class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"], key=81, versions="0", flexible="0+"):
    """The voter."""

    cluster_id: str | None = string("0+", nullable="0+")
    voter_id: int = int32("0+")
    voter_directory_id: UUID = uuid("0+")


class RemoveRaftVoterResponse(Response, key=81, versions="0", flexible="0+"):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)
