"""Delegation tokens: made, told, renewed, expired; and what those without a login hear."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kseg.client import AuthorizationFailed, KafkaError
from kseg.client.admin.tokens import create_token, describe_tokens, expire_token, renew_token
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.security import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)


@pytest.fixture
def as_user(guarded_kafka: Any, connect: Any) -> Any:
    def make(user: str) -> Any:
        properties = {name.replace(".", "_"): value for name, value in guarded_kafka.properties(user).items()}
        return connect(properties.pop("bootstrap_servers"), **properties)

    return make


@pytest.mark.rule(84, 250, "314-317")
def test_every_version_makes_renews_tells_and_expires_a_token(as_user: Any, each_version: Any, until: Any):
    etl = as_user("etl")
    for version in each_version(etl, CreateDelegationTokenRequest):
        before = time.time() * 1000
        token = create_token(etl, renewers=["User:alice"], max_lifetime_ms=3_600_000)
        assert token.owner == token.requester == "User:etl"
        assert before - 5000 < token.issued_ms < before + 60_000
        assert token.issued_ms < token.expires_ms <= token.max_ms == token.issued_ms + 3_600_000
        assert len(token.hmac) == 64
        assert str(token.hmac) not in repr(token)

        for _ in each_version(etl, DescribeDelegationTokenRequest):
            assert until(lambda token=token: token in describe_tokens(etl))
            assert token in describe_tokens(etl, ["User:etl"])
            assert token in describe_tokens(etl, ["User:alice"])  # she may renew it
            assert describe_tokens(etl, ["User:bob"]) == ()
        for _ in each_version(etl, RenewDelegationTokenRequest):
            renewed = renew_token(etl, token.hmac, period_ms=60_000)
            assert abs(renewed - time.time() * 1000 - 60_000) < 30_000
            assert until(lambda renewed=renewed: renewed in {t.expires_ms for t in describe_tokens(etl)})
        for expiring in each_version(etl, ExpireDelegationTokenRequest):
            one = create_token(etl) if expiring else token
            assert until(lambda one=one: one.token_id in {t.token_id for t in describe_tokens(etl)})
            assert expire_token(etl, one.hmac) <= time.time() * 1000 + 30_000
            assert until(lambda one=one: one.token_id not in {t.token_id for t in describe_tokens(etl)})
        if version >= 3:
            with pytest.raises(AuthorizationFailed, match="DELEGATION_TOKEN_AUTHORIZATION_FAILED"):
                create_token(etl, owner="User:alice")


def test_a_token_for_somebody_else_knows_who_asked(as_user: Any, until: Any):
    admin = as_user("admin")
    token = create_token(admin, owner="User:etl")
    assert (token.owner, token.requester) == ("User:etl", "User:admin")
    assert until(lambda: token in describe_tokens(as_user("etl"), ["User:etl"]))
    with pytest.raises(KafkaError, match="OWNER_MISMATCH"):
        expire_token(admin, token.hmac)
    expire_token(as_user("etl"), token.hmac)


@pytest.mark.rule("314-317")
def test_none_is_everybodys_tokens_and_an_empty_collection_nobodys(as_user: Any, until: Any):
    etl = as_user("etl")
    token = create_token(etl)
    assert until(lambda: token in describe_tokens(etl))
    assert describe_tokens(etl, []) == ()
    expire_token(etl, token.hmac)


def test_who_is_not_logged_in_gets_no_token(guarded_kafka: Any, connect: Any):
    with pytest.raises(KafkaError) as caught:
        create_token(connect(guarded_kafka.bootstrap_servers))
    assert caught.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_broker_without_a_secret_key_has_no_tokens(cluster: Any):
    with pytest.raises(KafkaError) as caught:
        describe_tokens(cluster)
    assert caught.value.code in (
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    )


def test_a_token_that_there_is_not_cannot_be_renewed(as_user: Any):
    for act in (renew_token, expire_token):
        with pytest.raises(KafkaError) as caught:
            act(as_user("etl"), b"no such token")
        assert caught.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_principal_is_written_with_its_type(as_user: Any):
    with pytest.raises(ValueError, match="as in User:alice"):
        create_token(as_user("etl"), owner="alice")
