"""Configurations, client quotas and features."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import Final, TypeAlias

from kseg.client.protocol.error_policy import CONTROLLER, error_policy
from kseg.client.protocol.fields import array, boolean, float64, int8, int16, int32, string
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, Route
from kseg.client.protocol.schema import Request, Response, Struct

_CONFIGS: Final = (
    f"{CONTROLLER} INVALID_CONFIG TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED "
    "UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION POLICY_VIOLATION"
)


class DescribeConfigsRequest(
    Request["DescribeConfigsResponse"], key=32, versions="0-4", flexible="4+", deprecated="0", client_waits="2+"
):
    """DescribeConfigs (API key 32): configuration of topics (resource type 2), brokers (4), broker loggers (8) and
    others.

        v0  whether a value is a default (`is_default`)
        v1  where a value comes from, and what it overrides; the oldest version that 4.0 takes
        v2  throttles after the response
        v3  types and documentation (KIP-569)
        v4  flexible

    A broker's own configuration is known to that broker alone.

    Null keys request all of a resource's.
    """

    ROUTE = Route(RequestTarget.NAMED_BROKER)
    PERMISSIONS = permissions("DESCRIBE_CONFIGS topic, DESCRIBE_CONFIGS group, DESCRIBE_CONFIGS cluster")
    ERRORS = error_policy(_CONFIGS)

    class DescribeConfigsResource(Struct):
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configuration_keys: list[str] | None = array(string, "0+", nullable="0+")

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, "0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


class DescribeConfigsResponse(Response, answers=DescribeConfigsRequest):
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


class AlterConfigsRequest(Request["AlterConfigsResponse"], key=33, versions="0-2", flexible="2+", client_waits="1+"):
    """AlterConfigs (API key 33): replaces a resource's whole configuration.

    What is not named falls back to its default. IncrementalAlterConfigs changes single
    values, and is what to use where brokers have it (from 2.3).

    v1  throttles after the response
    v2  flexible

    The whole new configuration of each resource.
    """

    ROUTE = Route(RequestTarget.NAMED_BROKER)
    PERMISSIONS = permissions("ALTER_CONFIGS topic, ALTER_CONFIGS group, ALTER_CONFIGS cluster")
    ERRORS = error_policy(_CONFIGS)

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


class AlterConfigsResponse(Response, answers=AlterConfigsRequest):
    """An error per resource."""

    class AlterConfigsResourceResponse(Struct):
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")

    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")


class IncrementalAlterConfigsRequest(
    Request["IncrementalAlterConfigsResponse"], key=44, versions="0-1", flexible="1+", client_waits="0+"
):
    """IncrementalAlterConfigs (API key 44): changes single configuration values (KIP-339).

    Operation 0 sets, 1 deletes, 2 appends to and 3 subtracts from a list.

        v1  flexible

    Changes per resource.
    """

    ROUTE = Route(RequestTarget.NAMED_BROKER)
    PERMISSIONS = permissions("ALTER_CONFIGS topic, ALTER_CONFIGS group, ALTER_CONFIGS cluster")
    ERRORS = error_policy(f"{_CONFIGS} UNKNOWN_SERVER_ERROR")

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


class IncrementalAlterConfigsResponse(Response, answers=IncrementalAlterConfigsRequest):
    """An error per resource."""

    class AlterConfigsResourceResponse(Struct):
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")

    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")


class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"], key=74, versions="0-1", flexible="0+"):
    """ListConfigResources (API key 74): lists resources that have configuration of their own (KIP-1142).

    v0  client metrics subscriptions alone, under the name ListClientMetricsResources (KIP-714)
    v1  other types too

    The types to list; an empty list asks for all of them.
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("DESCRIBE_CONFIGS cluster")
    ERRORS = error_policy("CLUSTER_AUTHORIZATION_FAILED UNSUPPORTED_VERSION")

    resource_types: list[int] = array(int8, "1+")


class ListConfigResourcesResponse(Response, answers=ListConfigResourcesRequest):
    """Names and types; 16 is a client metrics subscription."""

    class ConfigResource(Struct):
        resource_name: str = string("0+")
        resource_type: int = int8("1+", default=16, ignorable=True)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[ConfigResource] = array(ConfigResource, "0+")


class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"], key=48, versions="0-1", flexible="1+"):
    """DescribeClientQuotas (API key 48): lists quotas by user, client id and ip (KIP-546).

    v1  flexible

    Filters that an entry must match: type 0 exactly `match`, 1 the default entry, 2 any with this entity type.
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("DESCRIBE_CONFIGS cluster")
    ERRORS = error_policy("CLUSTER_AUTHORIZATION_FAILED INVALID_REQUEST")

    class ComponentData(Struct):
        """`match` is null for types 1 and 2."""

        entity_type: str = string("0+")
        match_type: int = int8("0+")
        match: str | None = string("0+", nullable="0+")

    components: list[ComponentData] = array(ComponentData, "0+")
    strict: bool = boolean("0+")


class DescribeClientQuotasResponse(Response, answers=DescribeClientQuotasRequest):
    """The quotas; null entries if the request failed."""

    class EntryData(Struct):
        class EntityData(Struct):
            """A null name is the entity type's default."""

            entity_type: str = string("0+")
            entity_name: str | None = string("0+", nullable="0+")

        class ValueData(Struct):
            key: str = string("0+")
            value: float = float64("0+")

        entity: list[EntityData] = array(EntityData, "0+")
        values: list[ValueData] = array(ValueData, "0+")

    EntityData: TypeAlias = EntryData.EntityData
    ValueData: TypeAlias = EntryData.ValueData

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entries: list[EntryData] | None = array(EntryData, "0+", nullable="0+")


class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"], key=49, versions="0-1", flexible="1+"):
    """AlterClientQuotas (API key 49): sets and removes quotas by user, client id and ip (KIP-546); goes to the
    controller.

    v1  flexible

    Changes per entity.
    """

    ROUTE = Route(RequestTarget.CONTROLLER)
    PERMISSIONS = permissions("ALTER_CONFIGS cluster")
    ERRORS = error_policy(CONTROLLER)

    class EntryData(Struct):
        class EntityData(Struct):
            """A null name is the entity type's default."""

            entity_type: str = string("0+")
            entity_name: str | None = string("0+", nullable="0+")

        class OpData(Struct):
            """With `remove`, the value is ignored."""

            key: str = string("0+")
            value: float = float64("0+")
            remove: bool = boolean("0+")

        entity: list[EntityData] = array(EntityData, "0+")
        ops: list[OpData] = array(OpData, "0+")

    EntityData: TypeAlias = EntryData.EntityData
    OpData: TypeAlias = EntryData.OpData

    entries: list[EntryData] = array(EntryData, "0+")
    validate_only: bool = boolean("0+")


class AlterClientQuotasResponse(Response, answers=AlterClientQuotasRequest):
    """An error per entity."""

    class EntryData(Struct):
        class EntityData(Struct):
            entity_type: str = string("0+")
            entity_name: str | None = string("0+", nullable="0+")

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        entity: list[EntityData] = array(EntityData, "0+")

    EntityData: TypeAlias = EntryData.EntityData

    throttle_time_ms: int = int32("0+")
    entries: list[EntryData] = array(EntryData, "0+")


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"], key=57, versions="0-2", flexible="0+"):
    """UpdateFeatures (API key 57): sets the cluster's finalized feature levels (KIP-584); goes to the controller.

    v1  kinds of change, dry runs
    v2  one response for all: either every change is made or none

    The new levels; kind 1 only raises, 2 lowers if no metadata is lost, 3 lowers in any case. Level 0 removes.
    """

    ROUTE = Route(RequestTarget.CONTROLLER)
    PERMISSIONS = permissions("ALTER cluster")
    ERRORS = error_policy(f"{CONTROLLER} FEATURE_UPDATE_FAILED INVALID_UPDATE_VERSION")

    class FeatureUpdateKey(Struct):
        feature: str = string("0+")
        max_version_level: int = int16("0+")
        allow_downgrade: bool = boolean("0")
        upgrade_type: int = int8("1+", default=1)

    timeout_ms: int = int32("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey, "0+")
    validate_only: bool = boolean("1+")


class UpdateFeaturesResponse(Response, answers=UpdateFeaturesRequest):
    """The result; feature by feature up to v1."""

    class UpdatableFeatureResult(Struct):
        feature: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", ignorable=True)
