"""CreateTopics (API key 19): creates topics; goes to the controller.

v1  error messages, dry runs
v2  throttle time; the oldest version that 4.0 takes
v3  throttles after the answer
v4  -1 partitions or replicas stand for the broker's default (KIP-464)
v5  flexible; the answer tells the topic's configuration (KIP-525)
v6  THROTTLING_QUOTA_EXCEEDED (KIP-599)
v7  topic ids (KIP-516)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int8, int16, int32, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class CreateTopicsRequest(Request["CreateTopicsResponse"], key=19, versions="0-7", flexible="5+", deprecated="0-1"):
    """Topics to create."""

    class CreatableTopic(Struct):
        """With `assignments`, `num_partitions` and `replication_factor` are -1."""

        class CreatableReplicaAssignment(Struct):
            """The first broker is the preferred leader."""

            partition_index: int = int32("0+")
            broker_ids: list[int] = array(int32, "0+")

        class CreatableTopicConfig(Struct):
            name: str = string("0+")
            value: str | None = string("0+", nullable="0+")

        name: str = string("0+")
        num_partitions: int = int32("0+")
        replication_factor: int = int16("0+")
        assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+")
        configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+")

    CreatableReplicaAssignment: TypeAlias = CreatableTopic.CreatableReplicaAssignment
    CreatableTopicConfig: TypeAlias = CreatableTopic.CreatableTopicConfig

    topics: list[CreatableTopic] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")


class CreateTopicsResponse(Response, key=19, versions="0-7", flexible="5+"):
    """What became of each."""

    class CreatableTopicResult(Struct):
        """`topic_config_error_code` is set where the configuration may not be seen."""

        class CreatableTopicConfigs(Struct):
            name: str = string("5+")
            value: str | None = string("5+", nullable="5+")
            read_only: bool = boolean("5+")
            config_source: int = int8("5+", default=-1, ignorable=True)
            is_sensitive: bool = boolean("5+")

        name: str = string("0+")
        topic_id: UUID = uuid("7+", ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = string("1+", nullable="0+", ignorable=True)
        topic_config_error_code: int = int16("5+", tag=0, ignorable=True)
        num_partitions: int = int32("5+", default=-1, ignorable=True)
        replication_factor: int = int16("5+", default=-1, ignorable=True)
        configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+", ignorable=True)

    CreatableTopicConfigs: TypeAlias = CreatableTopicResult.CreatableTopicConfigs

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+")
