"""Client quotas: limits for users, client ids and addresses, by KIP-546.

    describe_quotas   DescribeClientQuotas (48)   any broker
    alter_quotas      AlterClientQuotas (49)      to the controller

An entity is a set of (type, name) pairs, types "user", "client-id", "ip"; the name None is the default entity of that
type. Values are numbers by key: `consumer_byte_rate`, `producer_byte_rate`, `request_percentage`,
`controller_mutation_rate`, `connection_creation_rate`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.results import Results, fixed, outcome, retry_failed_parts
from kseg.client.errors import KafkaError, error_from_code
from kseg.client.protocol.messages.configs import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kseg.client.retry import Deadline

QuotaEntity = frozenset[tuple[str, str | None]]


class Match(Enum):
    """A filter's wildcard in place of a name."""

    DEFAULT = 1
    ANY = 2


def quota_entity(**names: str | None) -> QuotaEntity:
    """`quota_entity(user="alice", client_id=None)`: alice's quota for every client id that has none of its own."""
    return frozenset((kind.replace("_", "-"), name) for kind, name in names.items())


def describe_quotas(
    cluster: Cluster, wanted: Mapping[str, str | Match], *, strict: bool = False
) -> dict[QuotaEntity, dict[str, float]]:
    """The quotas of entities that have all these types, with such a name ({}: every quota of the cluster).

    `strict` leaves out entities that have other types as well.
    """
    components = [
        DescribeClientQuotasRequest.ComponentData(
            entity_type=kind,
            match_type=name.value if isinstance(name, Match) else 0,
            match=None if isinstance(name, Match) else name,
        )
        for kind, name in wanted.items()
    ]

    def check(response: DescribeClientQuotasResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "DescribeClientQuotas", detail=response.error_message)

    response = cluster.send(DescribeClientQuotasRequest(components=components, strict=strict), check=check)
    return {
        _entity(entry.entity): {value.key: value.value for value in entry.values} for entry in response.entries or ()
    }


def alter_quotas(
    cluster: Cluster, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
) -> Results[QuotaEntity, None]:
    """Set each entity's quotas by key; None removes one. Others of the entity stay as they are."""

    def ask(waiting: Collection[QuotaEntity], deadline: Deadline) -> dict[QuotaEntity, KafkaError | None]:
        request = AlterClientQuotasRequest(
            validate_only=validate_only,
            entries=[
                AlterClientQuotasRequest.EntryData(
                    entity=[
                        AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in sorted(entity, key=lambda pair: pair[0])
                    ],
                    ops=[
                        AlterClientQuotasRequest.OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in changes[entity].items()
                    ],
                )
                for entity in waiting
            ],
        )
        response = cluster.send_now(AlterClientQuotasRequest, fixed(request), deadline, controller=True)
        return {
            _entity(entry.entity): outcome(
                entry.error_code,
                "AlterClientQuotas",
                None,
                detail=entry.error_message,
                resource=_text(_entity(entry.entity)),
            )
            for entry in response.entries
        }

    return retry_failed_parts(cluster, changes, ask)


def _entity(parts: Any) -> QuotaEntity:
    return frozenset((part.entity_type, part.entity_name) for part in parts)


def _text(entity: QuotaEntity) -> str:
    return "quota of " + ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in sorted(entity))
