"""ApiVersions (API key 18): what a broker can do. Asked first on every connection, for which alone the answer holds.

    v1  tells the throttle time
    v2  throttles after the answer
    v3  flexible (KIP-482); the client names its software (KIP-511); features (KIP-584)
    v4  features whose lowest version is 0 are told too

A broker that does not know the version asked for answers UNSUPPORTED_VERSION in version 0. The answer's header is
version 0 always, since the asker cannot know yet what the broker speaks: see `api`.
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, boolean, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class ApiVersionsRequest(Request["ApiVersionsResponse"], key=18, versions="0-4", flexible="3+"):
    """Asks for the ranges of all APIs."""

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)


class ApiVersionsResponse(Response, key=18, versions="0-4", flexible="3+"):
    """The ranges of all APIs, and the cluster's features."""

    class ApiVersion(Struct):
        """One API and the versions this listener answers."""

        api_key: int = int16("0+")
        min_version: int = int16("0+")
        max_version: int = int16("0+")

    class SupportedFeatureKey(Struct):
        """A feature level range that this broker could run."""

        name: str = string("3+")
        min_version: int = int16("3+")
        max_version: int = int16("3+")

    class FinalizedFeatureKey(Struct):
        """A feature level that the cluster has agreed on, such as transaction.version."""

        name: str = string("3+")
        max_version_level: int = int16("3+")
        min_version_level: int = int16("3+")

    error_code: int = int16("0+")
    api_keys: list[ApiVersion] = array(ApiVersion, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0, ignorable=True)
    finalized_features_epoch: int = int64("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2, ignorable=True)
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)
