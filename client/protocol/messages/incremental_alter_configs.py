"""IncrementalAlterConfigs (API key 44): changes single configuration values (KIP-339).

Operation 0 sets, 1 deletes, 2 appends to and 3 subtracts from a list.

    v1  flexible
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"], key=44, versions="0-1", flexible="1+"):
    """Changes per resource."""

    class AlterConfigsResource(Struct):
        class AlterableConfig(Struct):
            name: str = string("0+")
            config_operation: int = int8("0+")
            value: str | None = string("0+", nullable="0+")

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[AlterableConfig] = array(AlterableConfig, "0+")

    AlterableConfig: TypeAlias = AlterConfigsResource.AlterableConfig

    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+")
    validate_only: bool = boolean("0+")


class IncrementalAlterConfigsResponse(Response, key=44, versions="0-1", flexible="1+"):
    """An error per resource."""

    class AlterConfigsResourceResponse(Struct):
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")

    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")
