"""UpdateRaftVoter (API key 82): a voter tells the quorum's leader where it listens and what it can do (KIP-853)."""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, string, struct, uint16, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class UpdateRaftVoterRequest(
    Request["UpdateRaftVoterResponse"], key=82, versions="0", flexible="0+", scope="controller"
):
    """The voter as it is now."""

    class Listener(Struct):
        name: str = string("0+")
        host: str = string("0+")
        port: int = uint16("0+")

    class KRaftVersionFeature(Struct):
        min_supported_version: int = int16("0+")
        max_supported_version: int = int16("0+")

    cluster_id: str | None = string("0+", nullable="0+")
    current_leader_epoch: int = int32("0+")
    voter_id: int = int32("0+")
    voter_directory_id: UUID = uuid("0+")
    listeners: list[Listener] = array(Listener, "0+")
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature, "0+")


class UpdateRaftVoterResponse(Response, key=82, versions="0", flexible="0+"):
    """Whether it worked; who leads otherwise."""

    class CurrentLeader(Struct):
        leader_id: int = int32("0+", default=-1)
        leader_epoch: int = int32("0+", default=-1)
        host: str = string("0+")
        port: int = int32("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    current_leader: CurrentLeader = struct(CurrentLeader, "0+", tag=0)
