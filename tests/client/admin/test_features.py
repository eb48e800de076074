"""Feature levels: told as they are now, moved up and down, refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from kseg.client import UnsupportedVersion
from kseg.client.admin.features import describe_features, finalized_features, update_features
from kseg.client.protocol.enums import UpgradeType
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.configs import UpdateFeaturesRequest


@pytest.mark.rule(69)
def test_finalized_features_are_those_of_the_release(cluster: Any):
    assert finalized_features(cluster)["transaction.version"] == 2
    features = describe_features(cluster)
    assert features.finalized == finalized_features(cluster)
    assert features.epoch >= 0
    for name, level in features.finalized.items():
        lowest, highest = features.supported[name]
        assert lowest <= level <= highest


def test_every_version_moves_a_level_down_and_up(cluster: Any, each_version: Any, until: Any):
    feature = "group.version"  # no other test goes without the consumer protocol while this one runs
    for version in each_version(cluster, UpdateFeaturesRequest):
        before = describe_features(cluster)
        refused = update_features(cluster, {feature: 0}).failed()[feature]
        assert refused.code in (ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FEATURE_UPDATE_FAILED)
        assert refused.resource == f"feature {feature}"
        down = {"upgrade_type": UpgradeType.SAFE_DOWNGRADE}
        if version == 0:
            with pytest.raises(UnsupportedVersion, match="validate"):
                update_features(cluster, {feature: 0}, validate_only=True)
            # KRaft's controllers do not look at the flag of version 0 any more.
            assert update_features(cluster, {feature: 0}, **down).failed()[feature].code == refused.code
            update_features(cluster, {feature: 1}).or_raise()
            continue
        update_features(cluster, {feature: 0}, validate_only=True, **down).or_raise()
        assert describe_features(cluster).finalized == before.finalized
        try:
            update_features(cluster, {feature: 0}, **down).or_raise()
            assert until(lambda: not describe_features(cluster).finalized.get(feature))
        finally:
            update_features(cluster, {feature: 1}).or_raise()
        assert until(lambda: describe_features(cluster).finalized.get(feature) == 1)
        assert describe_features(cluster).epoch > before.epoch


def test_what_no_broker_could_run_is_refused(any_cluster: Any):
    refused = update_features(any_cluster, {"metadata.version": 9999}).failed()["metadata.version"]
    assert "metadata.version" in str(refused)
    assert not refused.retriable
