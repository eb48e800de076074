"""The cluster's features: levels that all brokers could run, and those that the cluster has agreed on (KIP-584).

describe_features    ApiVersions (18)      any broker; requested again, not taken from a connection's negotiation
finalized_features   as of the opening of the connections
update_features      UpdateFeatures (57)   to the controller
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.results import Results, outcome, retry_failed_parts
from kseg.client.errors import KafkaError, UnsupportedVersion, error_from_code
from kseg.client.protocol.enums import UpgradeType
from kseg.client.protocol.messages.configs import UpdateFeaturesRequest
from kseg.client.protocol.messages.connection import ApiVersionsRequest, ApiVersionsResponse
from kseg.client.retry import Deadline

_FIRST_WITH_TYPES: Final = 1


@dataclass(frozen=True, slots=True)
class Features:
    """`supported`: (lowest, highest) level of the broker that answered; `finalized`: the cluster's level.

    `epoch` rises with every change of a finalized level; -1 where the cluster has reported none.
    """

    supported: dict[str, tuple[int, int]]
    finalized: dict[str, int]
    epoch: int


def describe_features(cluster: Cluster) -> Features:
    """The features as a broker reports them now; all empty from brokers before 2.7."""

    def check(response: ApiVersionsResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "ApiVersions")

    request = ApiVersionsRequest(client_software_name="kafka-segment-etl", client_software_version="0")
    response = cluster.send(request, check=check)
    return Features(
        supported={feature.name: (feature.min_version, feature.max_version) for feature in response.supported_features},
        finalized={feature.name: feature.max_version_level for feature in response.finalized_features},
        epoch=response.finalized_features_epoch,
    )


def finalized_features(cluster: Cluster) -> dict[str, int]:
    """The cluster's finalized features and their levels, such as `transaction.version` and `metadata.version`."""
    return cluster.finalized_features()


def update_features(
    cluster: Cluster,
    levels: Mapping[str, int],
    *,
    upgrade_type: UpgradeType = UpgradeType.UPGRADE,
    validate_only: bool = False,
) -> Results[str, None]:
    """Finalize each feature at a level (0: take it away), all of them or, on an error, none.

    From version 2 on the controller answers once for all of them: each of the features has that error then.
    """

    def ask(waiting: list[str], deadline: Deadline) -> dict[str, KafkaError | None]:
        def build(version: int) -> UpdateFeaturesRequest:
            typed = version >= _FIRST_WITH_TYPES
            if validate_only and not typed:
                raise UnsupportedVersion("the broker is too old to validate without updating")
            if upgrade_type == UpgradeType.UNSAFE_DOWNGRADE and not typed:
                raise UnsupportedVersion("the broker is too old for unsafe downgrades")
            request = UpdateFeaturesRequest(
                timeout_ms=cluster.config.request_timeout_ms,
                feature_updates=[
                    UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=levels[name])
                    for name in waiting
                ],
            )
            for update in request.feature_updates:
                if typed:
                    update.upgrade_type = upgrade_type
                else:
                    update.allow_downgrade = upgrade_type != UpgradeType.UPGRADE
            if typed:
                request.validate_only = validate_only
            return request

        response = cluster.send_now(UpdateFeaturesRequest, build, deadline, controller=True)
        if response.error_code or not response.results:
            return {
                name: outcome(
                    response.error_code,
                    "UpdateFeatures",
                    None,
                    detail=response.error_message,
                    resource=f"feature {name}",
                )
                for name in waiting
            }
        return {
            result.feature: outcome(
                result.error_code,
                "UpdateFeatures",
                None,
                detail=result.error_message,
                resource=f"feature {result.feature}",
            )
            for result in response.results
        }

    return retry_failed_parts(cluster, levels, ask)
