"""DescribeClientQuotas (API key 48): lists quotas by user, client id and ip (KIP-546).

v1  flexible
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, float64, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"], key=48, versions="0-1", flexible="1+"):
    """Filters that an entry must match: type 0 exactly `match`, 1 the default entry, 2 any with this entity type."""

    class ComponentData(Struct):
        """`match` is null for types 1 and 2."""

        entity_type: str = string("0+")
        match_type: int = int8("0+")
        match: str | None = string("0+", nullable="0+")

    components: list[ComponentData] = array(ComponentData, "0+")
    strict: bool = boolean("0+")


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    """The quotas; null entries where the request failed."""

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
