"""BrokerHeartbeat (API key 63): a broker tells that it lives, and what it wants (KIP-500).

v1  log directories that went offline (KIP-858)
v2  cordoned log directories (KIP-1066)
"""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int16, int32, int64, uuid
from kseg.client.protocol.schema import Request, Response


class BrokerHeartbeatRequest(
    Request["BrokerHeartbeatResponse"], key=63, versions="0-2", flexible="0+", scope="controller"
):
    """How far the broker has read the metadata log, and what it wants."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    current_metadata_offset: int = int64("0+")
    want_fence: bool = boolean("0+")
    want_shut_down: bool = boolean("0+")
    offline_log_dirs: list[UUID] = array(uuid, "1+", tag=0)
    cordoned_log_dirs: list[UUID] | None = array(uuid, "2+", nullable="2+", default=None, tag=1)


class BrokerHeartbeatResponse(Response, key=63, versions="0-2", flexible="0+"):
    """What the broker is to do."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    is_caught_up: bool = boolean("0+")
    is_fenced: bool = boolean("0+", default=True)
    should_shut_down: bool = boolean("0+")
