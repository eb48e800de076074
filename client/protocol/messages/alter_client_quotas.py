"""AlterClientQuotas (API key 49): sets and removes quotas by user, client id and ip (KIP-546); goes to the controller.

v1  flexible
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, float64, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"], key=49, versions="0-1", flexible="1+"):
    """Changes per entity."""

    class EntryData(Struct):
        class EntityData(Struct):
            """A null name is the entity type's default."""

            entity_type: str = string("0+")
            entity_name: str | None = string("0+", nullable="0+")

        class OpData(Struct):
            """With `remove`, the value does not count."""

            key: str = string("0+")
            value: float = float64("0+")
            remove: bool = boolean("0+")

        entity: list[EntityData] = array(EntityData, "0+")
        ops: list[OpData] = array(OpData, "0+")

    EntityData: TypeAlias = EntryData.EntityData
    OpData: TypeAlias = EntryData.OpData

    entries: list[EntryData] = array(EntryData, "0+")
    validate_only: bool = boolean("0+")


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
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
