"""ListConfigResources (API key 74): lists resources that have configuration of their own (KIP-1142).

v0  client metrics subscriptions alone, under the name ListClientMetricsResources (KIP-714)
v1  other types too
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"], key=74, versions="0-1", flexible="0+"):
    """The types to list; an empty list asks for all of them."""

    resource_types: list[int] = array(int8, "1+")


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    """Names and types; 16 is a client metrics subscription."""

    class ConfigResource(Struct):
        resource_name: str = string("0+")
        resource_type: int = int8("1+", default=16, ignorable=True)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[ConfigResource] = array(ConfigResource, "0+")
