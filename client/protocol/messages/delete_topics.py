"""DeleteTopics (API key 20): deletes topics; goes to the controller.

v1  throttle time; the oldest version that 4.0 takes
v2  throttles after the answer
v3  TOPIC_DELETION_DISABLED
v4  flexible
v5  error messages; THROTTLING_QUOTA_EXCEEDED (KIP-599)
v6  by name or by id (KIP-516): `topics`, where older versions have `topic_names`
"""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class DeleteTopicsRequest(Request["DeleteTopicsResponse"], key=20, versions="0-6", flexible="4+", deprecated="0"):
    """Topics to delete."""

    class DeleteTopicState(Struct):
        """Either a name or, with name null, an id."""

        name: str | None = string("6+", nullable="6+", default=None)
        topic_id: UUID = uuid("6+")

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32("0+")


class DeleteTopicsResponse(Response, key=20, versions="0-6", flexible="4+"):
    """What became of each."""

    class DeletableTopicResult(Struct):
        name: str | None = string("0+", nullable="6+")
        topic_id: UUID = uuid("6+", ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")
