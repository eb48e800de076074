"""Delegation tokens: a secret that authenticates as its owner for a while, created by a client that is logged in
otherwise.

    create_token      CreateDelegationToken (38)     any broker (forwarded to the controller)
    renew_token       RenewDelegationToken (39)      by the owner or a renewer, by the token's hmac
    expire_token      ExpireDelegationToken (40)     the same
    describe_tokens   DescribeDelegationToken (41)   any broker; owners None: all that one may see

A connection that was itself authenticated with a token, or not at all, is denied all four
(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED). Times are milliseconds since 1970. Source: KIP-48, KIP-373 (other owners).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import UnsupportedVersion, error_from_code
from kseg.client.protocol.messages.security import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

#: As a life time, a renewal or an expiry period: the broker's own (and for an expiry: at once).
BROKERS_OWN: Final = -1
_FIRST_WITH_OWNERS: Final = 3


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. `hmac` is its secret: in SASL/SCRAM its Base64 text is the password, `token_id` the user's name."""

    token_id: str
    owner: str
    requester: str
    issued_ms: int
    expires_ms: int
    max_ms: int
    renewers: tuple[str, ...]
    hmac: bytes = field(repr=False)


def create_token(
    cluster: Cluster,
    *,
    owner: str | None = None,
    renewers: Collection[str] = (),
    max_lifetime_ms: int = BROKERS_OWN,
) -> DelegationToken:
    """A new token for `owner` ("User:alice"; None: the requester), which `renewers` may renew too."""

    def build(version: int) -> CreateDelegationTokenRequest:
        request = CreateDelegationTokenRequest(
            max_lifetime_ms=max_lifetime_ms,
            renewers=[
                CreateDelegationTokenRequest.CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, renewers)
            ],
        )
        if version >= _FIRST_WITH_OWNERS:
            request.owner_principal_type, request.owner_principal_name = _principal(owner) if owner else (None, None)
        elif owner is not None:
            raise UnsupportedVersion("the broker is too old to create tokens for other owners")
        return request

    def check(response: CreateDelegationTokenResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "CreateDelegationToken", resource=f"token of {owner or 'ours'}")

    made = cluster.send_built(CreateDelegationTokenRequest, build, check=check)
    return DelegationToken(
        token_id=made.token_id,
        owner=f"{made.principal_type}:{made.principal_name}",
        requester=_requester(made),
        issued_ms=made.issue_timestamp_ms,
        expires_ms=made.expiry_timestamp_ms,
        max_ms=made.max_timestamp_ms,
        renewers=tuple(renewers),
        hmac=made.hmac,
    )


def renew_token(cluster: Cluster, hmac: bytes, *, period_ms: int = BROKERS_OWN) -> int:
    """Let a token live for `period_ms` from now, never beyond its maximum; gives its new expiry."""

    def check(response: RenewDelegationTokenResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "RenewDelegationToken")

    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    return cluster.send(request, check=check).expiry_timestamp_ms


def expire_token(cluster: Cluster, hmac: bytes, *, period_ms: int = BROKERS_OWN) -> int:
    """Let a token end in `period_ms`, or now (a negative one deletes it); gives its new expiry."""

    def check(response: ExpireDelegationTokenResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "ExpireDelegationToken")

    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return cluster.send(request, check=check).expiry_timestamp_ms


def describe_tokens(cluster: Cluster, owners: Collection[str] | None = None) -> tuple[DelegationToken, ...]:
    """The tokens that these principals own or may renew, as far as the asker may see them (None: everybody's)."""
    asked = (
        None
        if owners is None
        else [
            DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, owners)
        ]
    )

    def check(response: DescribeDelegationTokenResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "DescribeDelegationToken")

    response = cluster.send(DescribeDelegationTokenRequest(owners=asked), check=check)
    return tuple(
        DelegationToken(
            token_id=token.token_id,
            owner=f"{token.principal_type}:{token.principal_name}",
            requester=_requester(token),
            issued_ms=token.issue_timestamp,
            expires_ms=token.expiry_timestamp,
            max_ms=token.max_timestamp,
            renewers=tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers),
            hmac=token.hmac,
        )
        for token in response.tokens
    )


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not a principal: write it with its type, as in User:{text}")
    return kind, name


def _requester(token: Any) -> str:
    """The principal that requested it: known from version 3 on; before, the owner had to request it."""
    if not token.token_requester_principal_name:
        return f"{token.principal_type}:{token.principal_name}"
    return f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
