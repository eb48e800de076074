"""AllocateProducerIds (API key 67): a broker asks the controller for a block of producer ids (KIP-730)."""

from __future__ import annotations

from kseg.client.protocol.fields import int16, int32, int64
from kseg.client.protocol.schema import Request, Response


class AllocateProducerIdsRequest(
    Request["AllocateProducerIdsResponse"], key=67, versions="0", flexible="0+", scope="controller"
):
    """The broker and its epoch."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)


class AllocateProducerIdsResponse(Response, key=67, versions="0", flexible="0+"):
    """The first id and how many."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id_start: int = int64("0+")
    producer_id_len: int = int32("0+")
