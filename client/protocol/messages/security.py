"""ACLs, SCRAM credentials and delegation tokens."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import Final, TypeAlias

from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import CONTROLLER, error_policy
from kseg.client.protocol.fields import array, byte_string, int8, int16, int32, int64, string
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Request, Response, Struct

_TOKEN: Final = (
    f"{CONTROLLER} DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_REQUEST_NOT_ALLOWED "
    "DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_EXPIRED "
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED INVALID_PRINCIPAL_TYPE"
)


class DescribeAclsRequest(
    Request["DescribeAclsResponse"], key=29, versions="0-3", flexible="2+", deprecated="0", client_waits="1+"
):
    """DescribeAcls (API key 29): lists the access control entries that a filter matches.

    v1  pattern types (KIP-290); throttles after the response
    v2  flexible
    v3  resource type USER (KIP-373)

    Resource types, pattern types, operations and permission types are numbers; 1 means any of them.

    One filter; null matches all names, principals or hosts.
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("DESCRIBE cluster")
    ERRORS = error_policy("CLUSTER_AUTHORIZATION_FAILED SECURITY_DISABLED INVALID_REQUEST")

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DescribeAclsResponse(Response, answers=DescribeAclsRequest):
    """The entries, by resource."""

    class DescribeAclsResource(Struct):
        """One resource's entries."""

        class AclDescription(Struct):
            principal: str = string("0+")
            host: str = string("0+")
            operation: int = int8("0+")
            permission_type: int = int8("0+")

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        pattern_type: int = int8("1+", default=3)
        acls: list[AclDescription] = array(AclDescription, "0+")

    AclDescription: TypeAlias = DescribeAclsResource.AclDescription

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource, "0+")


class CreateAclsRequest(
    Request["CreateAclsResponse"], key=30, versions="0-3", flexible="2+", deprecated="0", client_waits="1+"
):
    """CreateAcls (API key 30): adds access control entries; goes to the controller.

    v1  pattern types (KIP-290); throttles after the response
    v2  flexible
    v3  resource type USER (KIP-373)

    Entries to add; pattern type 3 is a literal name, 4 a prefix.
    """

    ROUTE = Route(RequestTarget.CONTROLLER)
    PERMISSIONS = permissions("ALTER cluster")
    ERRORS = error_policy(f"{CONTROLLER} SECURITY_DISABLED")

    class AclCreation(Struct):
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        resource_pattern_type: int = int8("1+", default=3)
        principal: str = string("0+")
        host: str = string("0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    creations: list[AclCreation] = array(AclCreation, "0+")


class CreateAclsResponse(Response, answers=CreateAclsRequest):
    """The result of each, in the request's order."""

    class AclCreationResult(Struct):
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[AclCreationResult] = array(AclCreationResult, "0+")


class DeleteAclsRequest(
    Request["DeleteAclsResponse"], key=31, versions="0-3", flexible="2+", deprecated="0", client_waits="1+"
):
    """DeleteAcls (API key 31): removes the access control entries that filters match; goes to the controller.

    v1  pattern types (KIP-290); throttles after the response
    v2  flexible
    v3  resource type USER (KIP-373)

    Filters; null matches all names, principals or hosts.
    """

    # The second response lists nothing removed.
    ROUTE = Route(RequestTarget.CONTROLLER, RetrySafety.SAME_EFFECT)
    PERMISSIONS = permissions("ALTER cluster")
    ERRORS = error_policy(f"{CONTROLLER} SECURITY_DISABLED")

    class DeleteAclsFilter(Struct):
        resource_type_filter: int = int8("0+")
        resource_name_filter: str | None = string("0+", nullable="0+")
        pattern_type_filter: int = int8("1+", default=3)
        principal_filter: str | None = string("0+", nullable="0+")
        host_filter: str | None = string("0+", nullable="0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter, "0+")


class DeleteAclsResponse(Response, answers=DeleteAclsRequest):
    """One result a filter, in the request's order."""

    class DeleteAclsFilterResult(Struct):
        class DeleteAclsMatchingAcl(Struct):
            """An entry that the filter has matched, and whether it was removed."""

            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+")
            resource_type: int = int8("0+")
            resource_name: str = string("0+")
            pattern_type: int = int8("1+", default=3)
            principal: str = string("0+")
            host: str = string("0+")
            operation: int = int8("0+")
            permission_type: int = int8("0+")

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl, "0+")

    DeleteAclsMatchingAcl: TypeAlias = DeleteAclsFilterResult.DeleteAclsMatchingAcl

    throttle_time_ms: int = int32("0+")
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult, "0+")


class DescribeUserScramCredentialsRequest(
    Request["DescribeUserScramCredentialsResponse"], key=50, versions="0", flexible="0+", client_waits="0+"
):
    """DescribeUserScramCredentials (API key 50): returns users' SCRAM mechanisms (KIP-554).

    The credentials themselves are never returned.

    Null or an empty list asks for all users.
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("DESCRIBE cluster")
    ERRORS = error_policy("CLUSTER_AUTHORIZATION_FAILED RESOURCE_NOT_FOUND DUPLICATE_RESOURCE INVALID_REQUEST")

    class UserName(Struct):
        name: str = string("0+")

    users: list[UserName] | None = array(UserName, "0+", nullable="0+")


class DescribeUserScramCredentialsResponse(Response, answers=DescribeUserScramCredentialsRequest):
    """An error or the mechanisms per user: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    class DescribeUserScramCredentialsResult(Struct):
        class CredentialInfo(Struct):
            mechanism: int = int8("0+")
            iterations: int = int32("0+")

        user: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+")

    CredentialInfo: TypeAlias = DescribeUserScramCredentialsResult.CredentialInfo

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult, "0+")


class AlterUserScramCredentialsRequest(
    Request["AlterUserScramCredentialsResponse"], key=51, versions="0", flexible="0+", client_waits="0+"
):
    """AlterUserScramCredentials (API key 51): sets and removes users' SCRAM credentials (KIP-554).

    Goes to the controller.

    What to remove and what to set. A password is salted on the client's side and never sent.
    """

    ROUTE = Route(RequestTarget.CONTROLLER, RetrySafety.SAME_EFFECT, done_already=(ErrorCode.RESOURCE_NOT_FOUND,))
    PERMISSIONS = permissions("ALTER cluster")
    ERRORS = error_policy(
        f"{CONTROLLER} RESOURCE_NOT_FOUND DUPLICATE_RESOURCE UNSUPPORTED_SASL_MECHANISM UNACCEPTABLE_CREDENTIAL"
    )

    class ScramCredentialDeletion(Struct):
        name: str = string("0+")
        mechanism: int = int8("0+")

    class ScramCredentialUpsertion(Struct):
        """Mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

        name: str = string("0+")
        mechanism: int = int8("0+")
        iterations: int = int32("0+")
        salt: bytes = byte_string("0+")
        salted_password: bytes = byte_string("0+")

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+")
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+")


class AlterUserScramCredentialsResponse(Response, answers=AlterUserScramCredentialsRequest):
    """An error per user."""

    class AlterUserScramCredentialsResult(Struct):
        user: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, "0+")


class CreateDelegationTokenRequest(
    Request["CreateDelegationTokenResponse"], key=38, versions="0-3", flexible="2+", deprecated="0", client_waits="1+"
):
    """CreateDelegationToken (API key 38): creates a delegation token for the requesting principal (KIP-48).

    v1  throttles after the response
    v2  flexible
    v3  an owner other than the requester (KIP-373)

    The owner (null: the requester), who may renew it, and its maximum lifetime in ms (-1: the broker's own limit).
    """

    # There would be two tokens, and nobody would expire the first.
    ROUTE = Route(RequestTarget.CONTROLLER, RetrySafety.VERIFY_FIRST, verify_with="DescribeDelegationToken")
    PERMISSIONS = permissions("", otherwise="CREATE_TOKENS on user, for another one's token")
    ERRORS = error_policy(_TOKEN)

    class CreatableRenewers(Struct):
        """A principal that may renew the token."""

        principal_type: str = string("0+")
        principal_name: str = string("0+")

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers, "0+")
    max_lifetime_ms: int = int64("0+")


class CreateDelegationTokenResponse(Response, answers=CreateDelegationTokenRequest):
    """The token; `hmac` is its secret. Times are ms since 1970."""

    error_code: int = int16("0+")
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64("0+")
    expiry_timestamp_ms: int = int64("0+")
    max_timestamp_ms: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = byte_string("0+")
    throttle_time_ms: int = int32("0+")


class RenewDelegationTokenRequest(
    Request["RenewDelegationTokenResponse"], key=39, versions="0-2", flexible="2+", deprecated="0", client_waits="1+"
):
    """RenewDelegationToken (API key 39): extends the lifetime of a delegation token (KIP-48).

    v1  throttles after the response
    v2  flexible

    The token by its secret, and its new lifetime in ms from now.
    """

    ROUTE = Route(RequestTarget.CONTROLLER)
    PERMISSIONS = permissions("", otherwise="to own the token, or to be one of its renewers")
    ERRORS = error_policy(_TOKEN)

    hmac: bytes = byte_string("0+")
    renew_period_ms: int = int64("0+")


class RenewDelegationTokenResponse(Response, answers=RenewDelegationTokenRequest):
    """The token's new expiry time, in ms since 1970."""

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")


class ExpireDelegationTokenRequest(
    Request["ExpireDelegationTokenResponse"], key=40, versions="0-2", flexible="2+", deprecated="0", client_waits="1+"
):
    """ExpireDelegationToken (API key 40): changes when a delegation token expires, or ends it at once (KIP-48).

    v1  throttles after the response
    v2  flexible

    The token by its secret; a negative period ends it at once.
    """

    ROUTE = Route(
        RequestTarget.CONTROLLER,
        RetrySafety.SAME_EFFECT,
        done_already=(
            ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
            ErrorCode.DELEGATION_TOKEN_EXPIRED,
        ),
    )
    PERMISSIONS = permissions("", otherwise="to own the token, or to be one of its renewers")
    ERRORS = error_policy(_TOKEN)

    hmac: bytes = byte_string("0+")
    expiry_time_period_ms: int = int64("0+")


class ExpireDelegationTokenResponse(Response, answers=ExpireDelegationTokenRequest):
    """The token's new expiry time, in ms since 1970."""

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")


class DescribeDelegationTokenRequest(
    Request["DescribeDelegationTokenResponse"], key=41, versions="0-3", flexible="2+", deprecated="0", client_waits="1+"
):
    """DescribeDelegationToken (API key 41): lists delegation tokens (KIP-48).

    v1  throttles after the response
    v2  flexible
    v3  the requester of each (KIP-373)

    Null requests the tokens of all owners that the requester may see.
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("", otherwise="to own the token, DESCRIBE on it, or DESCRIBE_TOKENS on user")
    ERRORS = error_policy(_TOKEN)

    class DescribeDelegationTokenOwner(Struct):
        principal_type: str = string("0+")
        principal_name: str = string("0+")

    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, "0+", nullable="0+")


class DescribeDelegationTokenResponse(Response, answers=DescribeDelegationTokenRequest):
    """The tokens with their secrets."""

    class DescribedDelegationToken(Struct):
        class DescribedDelegationTokenRenewer(Struct):
            principal_type: str = string("0+")
            principal_name: str = string("0+")

        principal_type: str = string("0+")
        principal_name: str = string("0+")
        token_requester_principal_type: str = string("3+")
        token_requester_principal_name: str = string("3+")
        issue_timestamp: int = int64("0+")
        expiry_timestamp: int = int64("0+")
        max_timestamp: int = int64("0+")
        token_id: str = string("0+")
        hmac: bytes = byte_string("0+")
        renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer, "0+")

    DescribedDelegationTokenRenewer: TypeAlias = DescribedDelegationToken.DescribedDelegationTokenRenewer

    error_code: int = int16("0+")
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken, "0+")
    throttle_time_ms: int = int32("0+")
