"""AlterConfigs (API key 33): replaces a resource's whole configuration.

What is not named falls back to its default. IncrementalAlterConfigs changes single
values, and is what to use where brokers have it (from 2.3).

v1  throttles after the answer
v2  flexible
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class AlterConfigsRequest(Request["AlterConfigsResponse"], key=33, versions="0-2", flexible="2+"):
    """The whole new configuration of each resource."""

    class AlterConfigsResource(Struct):
        class AlterableConfig(Struct):
            name: str = string("0+")
            value: str | None = string("0+", nullable="0+")

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[AlterableConfig] = array(AlterableConfig, "0+")

    AlterableConfig: TypeAlias = AlterConfigsResource.AlterableConfig

    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+")
    validate_only: bool = boolean("0+")


class AlterConfigsResponse(Response, key=33, versions="0-2", flexible="2+"):
    """An error per resource."""

    class AlterConfigsResourceResponse(Struct):
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")

    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")
