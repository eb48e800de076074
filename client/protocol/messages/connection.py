"""Messages that open a connection: frame headers, the versions that a broker speaks, and the login by SASL."""

from __future__ import annotations

from kseg.client.protocol.error_policy import error_policy
from kseg.client.protocol.fields import array, boolean, byte_string, int16, int32, int64, string
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Message, Request, Response, Struct


class RequestHeader(Message, versions="0-2", flexible="2+"):
    """Version 2 goes before flexible bodies, version 1 before all others, version 0 before ControlledShutdown v0 alone.

    `client_id` keeps its two-byte length in both: a broker must be able to read the header of an ApiVersions request
    that is newer than itself.
    """

    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+", flexible="none", ignorable=True)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """Version 1 goes before flexible bodies, version 0 before all others and before every ApiVersions response."""

    correlation_id: int = int32("0+")


class ApiVersionsRequest(Request["ApiVersionsResponse"], key=18, versions="0-4", flexible="3+", client_waits="2+"):
    """ApiVersions (API key 18): what a broker supports. The first request on every connection; its response is valid
    only for this connection.

        v1  has the throttle time
        v2  throttles after the response
        v3  flexible (KIP-482); the client names its software (KIP-511); features (KIP-584)
        v4  features whose lowest version is 0 are listed too

    A broker that does not support the request's version responds with UNSUPPORTED_VERSION in version 0. The response's
    header is always version 0, because the client does not know yet what the broker supports: see `api`.

    Requests the version ranges of all APIs.
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("", otherwise="none: it is sent before authentication")
    ERRORS = error_policy("UNSUPPORTED_VERSION INVALID_REQUEST")

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)


class ApiVersionsResponse(Response, answers=ApiVersionsRequest):
    """The version ranges of all APIs, and the cluster's features."""

    class ApiVersion(Struct):
        """One API and the versions that this listener supports."""

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


class SaslHandshakeRequest(Request["SaslHandshakeResponse"], key=17, versions="0-1"):
    """SaslHandshake (API key 17): agrees on a SASL mechanism; the authentication itself follows.

    v0  what follows are bare frames: a size and the mechanism's own bytes, with no header around them
    v1  what follows is SaslAuthenticate (KIP-152)

    There is no flexible version: old clients would choose a wrong version of this API.

    The mechanism that the client has chosen, such as SCRAM-SHA-512.
    """

    # An interrupted exchange begins again, over a new connection.
    ROUTE = Route(RequestTarget.SAME_CONNECTION, RetrySafety.UNSAFE)
    PERMISSIONS = permissions("", otherwise="none: it is sent before authentication")
    ERRORS = error_policy("UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE")

    mechanism: str = string("0+")


class SaslHandshakeResponse(Response, answers=SaslHandshakeRequest):
    """The mechanisms that the broker offers, also with UNSUPPORTED_SASL_MECHANISM."""

    error_code: int = int16("0+")
    mechanisms: list[str] = array(string, "0+")


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], key=36, versions="0-2", flexible="2+"):
    """SaslAuthenticate (API key 36): carries a SASL exchange, one step a request (KIP-152).

    v1  the response has the lifetime of the session; the client authenticates again before (KIP-368)
    v2  flexible

    The mechanism's own bytes; never log them.
    """

    # An interrupted exchange begins again, over a new connection.
    ROUTE = Route(RequestTarget.SAME_CONNECTION, RetrySafety.UNSAFE)
    PERMISSIONS = permissions("", otherwise="none: it is sent before authentication")
    ERRORS = error_policy("SASL_AUTHENTICATION_FAILED ILLEGAL_SASL_STATE UNSUPPORTED_SASL_MECHANISM")

    auth_bytes: bytes = byte_string("0+")


class SaslAuthenticateResponse(Response, answers=SaslAuthenticateRequest):
    """The mechanism's own bytes. `session_lifetime_ms` is 0 if the session has no end."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = byte_string("0+")
    session_lifetime_ms: int = int64("1+", ignorable=True)
