"""DescribeConfigs (API key 32): configuration of topics (resource type 2), brokers (4), broker loggers (8) and others.

    v0  whether a value is a default (`is_default`)
    v1  where a value comes from, and what it overrides; the oldest version that 4.0 takes
    v2  throttles after the answer
    v3  types and documentation (KIP-569)
    v4  flexible

A broker's own configuration is known to that broker alone.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeConfigsRequest(Request["DescribeConfigsResponse"], key=32, versions="0-4", flexible="4+", deprecated="0"):
    """Null keys ask for all of a resource's."""

    class DescribeConfigsResource(Struct):
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configuration_keys: list[str] | None = array(string, "0+", nullable="0+")

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, "0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


class DescribeConfigsResponse(Response, key=32, versions="0-4", flexible="4+"):
    """One result a resource."""

    class DescribeConfigsResult(Struct):
        class DescribeConfigsResourceResult(Struct):
            """The value of a sensitive one is null."""

            class DescribeConfigsSynonym(Struct):
                name: str = string("1+")
                value: str | None = string("1+", nullable="0+")
                source: int = int8("1+")

            name: str = string("0+")
            value: str | None = string("0+", nullable="0+")
            read_only: bool = boolean("0+")
            is_default: bool = boolean("0")
            config_source: int = int8("1+", default=-1, ignorable=True)
            is_sensitive: bool = boolean("0+")
            synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", ignorable=True)
            config_type: int = int8("3+", ignorable=True)
            documentation: str | None = string("3+", nullable="0+", ignorable=True)

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, "0+")

    DescribeConfigsSynonym: TypeAlias = DescribeConfigsResult.DescribeConfigsResourceResult.DescribeConfigsSynonym
    DescribeConfigsResourceResult: TypeAlias = DescribeConfigsResult.DescribeConfigsResourceResult

    throttle_time_ms: int = int32("0+")
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, "0+")
