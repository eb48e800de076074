"""ControlledShutdown (API key 7): asks the controller to move leaders away from a broker that is about to stop.

Goes to the controller of a ZooKeeper cluster; under KRaft the broker's heartbeat says so.

v0  the request's header has no client id: see `api`
v2  broker epoch (KIP-380)
v3  flexible
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class ControlledShutdownRequest(
    Request["ControlledShutdownResponse"], key=7, versions="0-3", flexible="3+", scope="broker", deprecated="0-3"
):
    """The broker that wants to stop."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class ControlledShutdownResponse(Response, key=7, versions="0-3", flexible="3+"):
    """The partitions that this broker still leads; none are left when it may stop."""

    class RemainingPartition(Struct):
        """A partition without another leader yet."""

        topic_name: str = string("0+")
        partition_index: int = int32("0+")

    error_code: int = int16("0+")
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition, "0+")
