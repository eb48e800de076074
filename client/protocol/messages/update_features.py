"""UpdateFeatures (API key 57): sets the cluster's finalized feature levels (KIP-584); goes to the controller.

v1  kinds of change, dry runs
v2  one answer for all: either every change is made or none
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, boolean, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"], key=57, versions="0-2", flexible="0+"):
    """The wished levels; kind 1 only raises, 2 lowers where nothing is lost, 3 lowers in any case. Level 0 removes."""

    class FeatureUpdateKey(Struct):
        feature: str = string("0+")
        max_version_level: int = int16("0+")
        allow_downgrade: bool = boolean("0")
        upgrade_type: int = int8("1+", default=1)

    timeout_ms: int = int32("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey, "0+")
    validate_only: bool = boolean("1+")


class UpdateFeaturesResponse(Response, key=57, versions="0-2", flexible="0+"):
    """What became of it; feature by feature up to v1."""

    class UpdatableFeatureResult(Struct):
        feature: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", ignorable=True)
