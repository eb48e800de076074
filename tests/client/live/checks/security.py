"""SASL, ACLs, delegation tokens, quotas and credentials: granted what was asked for, refused what was not."""

from __future__ import annotations

import hashlib
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kseg.client.protocol.api import decode_response, encode_request
from kseg.client.protocol.messages.configs import AlterClientQuotasRequest, DescribeClientQuotasRequest
from kseg.client.protocol.messages.connection import SaslAuthenticateRequest, SaslHandshakeRequest
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeDelegationTokenRequest,
    DescribeUserScramCredentialsRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kseg.client.protocol.registry import API_BY_KEY

TOPIC, ANY, LITERAL, READ, ALLOW = 2, 1, 3, 3, 3
RIGHT, WRONG = b"\0alice\0alice-secret", b"\0alice\0guessed"


class Line:
    """A bare connection to the SASL listener: frames in, frames out."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream

    def call(self, request: Any, version: int) -> Any:
        frame = self.exchange(encode_request(version, 1, "kseg-live", request))
        return decode_response(API_BY_KEY[request.KEY], version, frame)[1]

    def exchange(self, frame: bytes) -> bytes:
        self.stream.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.stream.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def works(self) -> bool:
        """Whether a Kafka request is answered: only once this connection is authenticated."""
        try:
            return bool(self.call(MetadataRequest(topics=None), 1).brokers)
        except (EOFError, ConnectionError):
            return False


@contextmanager
def line(peer: Any) -> Iterator[Line]:
    host, port = peer.kafka.broker.sasl_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as stream:
        yield Line(stream)


def sasl_handshake(peer: Any, version: int) -> None:
    with line(peer) as stranger:
        refused = stranger.call(SaslHandshakeRequest(mechanism="ROT13"), version)
        assert (refused.error_code, refused.mechanisms) == (33, ["PLAIN"])
        assert not stranger.works()  # it closes then
    with line(peer) as alice:
        taken = alice.call(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (taken.error_code, taken.mechanisms) == (0, ["PLAIN"])
        if version == 0:
            assert alice.exchange(RIGHT) == b""  # raw tokens, with nothing around them but their size
        else:
            assert alice.call(SaslAuthenticateRequest(auth_bytes=RIGHT), 0).error_code == 0
        assert alice.works()
    with line(peer) as mallory:
        mallory.call(SaslHandshakeRequest(mechanism="PLAIN"), version)
        try:
            answer = mallory.exchange(WRONG) if version == 0 else None
        except (EOFError, ConnectionError):
            answer = None  # version 0 has no other way to say no
        assert answer is None
        if version == 1:
            assert mallory.call(SaslAuthenticateRequest(auth_bytes=WRONG), 0).error_code == 58


def sasl_authenticate(peer: Any, version: int) -> None:
    for token, code in ((RIGHT, 0), (WRONG, 58)):
        with line(peer) as somebody:
            somebody.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            answer = somebody.call(SaslAuthenticateRequest(auth_bytes=token), version)
            assert answer.error_code == code
            assert bool(answer.error_message) == (code != 0)
            assert answer.session_lifetime_ms == 0  # no end is configured
            assert somebody.works() == (code == 0)


@contextmanager
def alice(peer: Any) -> Iterator[Line]:
    with line(peer) as opened:
        opened.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert opened.call(SaslAuthenticateRequest(auth_bytes=RIGHT), 0).error_code == 0
        yield opened


def _create_acl(peer: Any, topic: str, version: int) -> None:
    made = CreateAclsRequest.AclCreation(
        resource_type=TOPIC, resource_name=topic, principal="User:bob", host="*", operation=READ, permission_type=ALLOW
    )
    [result] = peer.call(CreateAclsRequest(creations=[made]), version).results
    assert result.error_code == 0, result


def _described(peer: Any, topic: str, version: int) -> list[tuple[str, str, int, int]]:
    request = DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter=topic,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    response = peer.call(request, version)
    assert response.error_code == 0
    found = []
    for resource in response.resources:
        assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (TOPIC, topic, LITERAL)
        found += [(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in resource.acls]
    return found


BOB = ("User:bob", "*", READ, ALLOW)


def _eventually_described(peer: Any, topic: str, wanted: list[Any], version: int | None = None) -> None:
    def look() -> None:
        assert _described(peer, topic, peer.newest("DescribeAcls") if version is None else version) == wanted

    peer.eventually(look)


def _delete_acl(peer: Any, topic: str, version: int) -> None:
    asked = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=TOPIC,
        resource_name_filter=topic,
        principal_filter="User:bob",
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    [result] = peer.call(DeleteAclsRequest(filters=[asked]), version).filter_results
    assert result.error_code == 0
    [gone] = result.matching_acls
    assert (gone.error_code, gone.resource_name, gone.principal, gone.operation) == (0, topic, "User:bob", READ)


def create_acls(peer: Any, version: int) -> None:
    topic = peer.topic()
    _create_acl(peer, topic, version)
    _eventually_described(peer, topic, [BOB])
    _delete_acl(peer, topic, peer.newest("DeleteAcls"))


def describe_acls(peer: Any, version: int) -> None:
    topic = peer.topic()
    assert _described(peer, topic, version) == []
    _create_acl(peer, topic, peer.newest("CreateAcls"))
    _eventually_described(peer, topic, [BOB], version)
    _delete_acl(peer, topic, peer.newest("DeleteAcls"))


def delete_acls(peer: Any, version: int) -> None:
    topic = peer.topic()
    _create_acl(peer, topic, peer.newest("CreateAcls"))
    _eventually_described(peer, topic, [BOB])
    _delete_acl(peer, topic, version)
    _eventually_described(peer, topic, [])


HOUR = 3_600_000


def _token(who: Line, version: int) -> Any:
    renewer = CreateDelegationTokenRequest.CreatableRenewers(principal_type="User", principal_name="carol")
    request = CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=2 * HOUR)
    if version >= 3:
        request.owner_principal_type = request.owner_principal_name = None
    token = who.call(request, version)
    assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "alice"), token
    assert token.max_timestamp_ms - token.issue_timestamp_ms == 2 * HOUR
    assert abs(token.issue_timestamp_ms / 1000 - time.time()) < 600
    assert token.token_id
    assert token.hmac
    if version >= 3:
        assert token.token_requester_principal_name == "alice"
    return token


def _tokens(who: Line, version: int) -> dict[str, Any]:
    owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(principal_type="User", principal_name="alice")
    found: dict[str, Any] = {}
    for owners in (None, [owner]):
        response = who.call(DescribeDelegationTokenRequest(owners=owners), version)
        assert response.error_code == 0
        found = {token.token_id: token for token in response.tokens}
    return found


def create_delegation_token(peer: Any, version: int) -> None:
    with alice(peer) as who:
        _token(who, version)
    # Over a connection without a name there is nobody to own one.
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    if version >= 3:
        request.owner_principal_type = request.owner_principal_name = None
    assert peer.call(request, version).error_code == 64  # DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def describe_delegation_token(peer: Any, version: int) -> None:
    with alice(peer) as who:
        token = _token(who, peer.newest("CreateDelegationToken"))

        def look() -> None:
            assert token.token_id in _tokens(who, version)

        peer.eventually(look)
        found = _tokens(who, version)[token.token_id]
        assert (found.principal_name, bytes(found.hmac)) == ("alice", bytes(token.hmac))
        assert (found.issue_timestamp, found.max_timestamp) == (token.issue_timestamp_ms, token.max_timestamp_ms)
        assert [renewer.principal_name for renewer in found.renewers] == ["carol"]


def renew_delegation_token(peer: Any, version: int) -> None:
    with alice(peer) as who:
        token = _token(who, peer.newest("CreateDelegationToken"))

        def renew() -> Any:
            renewed = who.call(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=HOUR), version)
            assert renewed.error_code == 0, renewed
            return renewed

        renewed = peer.eventually(renew)
        assert abs(renewed.expiry_timestamp_ms / 1000 - time.time() - 3600) < 600
        unknown = who.call(RenewDelegationTokenRequest(hmac=b"nobody's", renew_period_ms=HOUR), version)
        assert unknown.error_code == 62  # DELEGATION_TOKEN_NOT_FOUND


def expire_delegation_token(peer: Any, version: int) -> None:
    with alice(peer) as who:
        token = _token(who, peer.newest("CreateDelegationToken"))

        def expire() -> None:
            ended = who.call(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1), version)
            assert ended.error_code == 0, ended

        peer.eventually(expire)

        def look() -> None:
            assert token.token_id not in _tokens(who, peer.newest("DescribeDelegationToken"))

        peer.eventually(look)


def _alter_quota(peer: Any, user: str, version: int, **fields: Any) -> None:
    entry = AlterClientQuotasRequest.EntryData
    changed = entry(
        entity=[entry.EntityData(entity_type="user", entity_name=user)],
        ops=[entry.OpData(key="consumer_byte_rate", **fields)],
    )
    [result] = peer.call(AlterClientQuotasRequest(entries=[changed]), version).entries
    assert (result.error_code, result.entity[0].entity_name) == (0, user)


def _quotas(peer: Any, user: str, version: int) -> list[dict[str, float]]:
    wanted = DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=0, match=user)
    response = peer.call(DescribeClientQuotasRequest(components=[wanted], strict=True), version)
    assert response.error_code == 0
    return [{value.key: value.value for value in entry.values} for entry in response.entries or []]


def _await_quotas(peer: Any, user: str, wanted: list[Any], version: int) -> None:
    def look() -> None:
        assert _quotas(peer, user, version) == wanted

    peer.eventually(look)


def alter_client_quotas(peer: Any, version: int) -> None:
    user = peer.name("user")
    _alter_quota(peer, user, version, value=12345.0)
    _await_quotas(peer, user, [{"consumer_byte_rate": 12345.0}], peer.newest("DescribeClientQuotas"))
    _alter_quota(peer, user, version, remove=True)
    _await_quotas(peer, user, [], peer.newest("DescribeClientQuotas"))


def describe_client_quotas(peer: Any, version: int) -> None:
    user = peer.name("user")
    assert _quotas(peer, user, version) == []
    _alter_quota(peer, user, peer.newest("AlterClientQuotas"), value=77.0)
    _await_quotas(peer, user, [{"consumer_byte_rate": 77.0}], version)


def _upsert(peer: Any, user: str, version: int) -> None:
    salt = b"0123456789abcdef"
    made = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user,
        mechanism=1,
        iterations=4096,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac("sha256", b"secret", salt, 4096),
    )
    [result] = peer.call(AlterUserScramCredentialsRequest(upsertions=[made]), version).results
    assert (result.user, result.error_code) == (user, 0)


def _mechanisms(peer: Any, user: str, version: int) -> list[tuple[int, int]] | int:
    asked = DescribeUserScramCredentialsRequest.UserName(name=user)
    response = peer.call(DescribeUserScramCredentialsRequest(users=[asked]), version)
    assert response.error_code == 0
    [found] = response.results
    assert found.user == user
    return found.error_code or [(info.mechanism, info.iterations) for info in found.credential_infos]


def describe_user_scram_credentials(peer: Any, version: int) -> None:
    user = peer.name("user")
    assert _mechanisms(peer, user, version) == 91  # RESOURCE_NOT_FOUND
    _upsert(peer, user, peer.newest("AlterUserScramCredentials"))

    def look() -> None:
        assert _mechanisms(peer, user, version) == [(1, 4096)]

    peer.eventually(look)


def alter_user_scram_credentials(peer: Any, version: int) -> None:
    user = peer.name("user")
    newest = peer.newest("DescribeUserScramCredentials")
    _upsert(peer, user, version)

    def there() -> None:
        assert _mechanisms(peer, user, newest) == [(1, 4096)]

    peer.eventually(there)
    gone = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=user, mechanism=1)
    [result] = peer.call(AlterUserScramCredentialsRequest(deletions=[gone]), version).results
    assert result.error_code == 0

    def away() -> None:
        assert _mechanisms(peer, user, newest) == 91

    peer.eventually(away)


CHECKS = {
    "SaslHandshake": sasl_handshake,
    "SaslAuthenticate": sasl_authenticate,
    "CreateAcls": create_acls,
    "DescribeAcls": describe_acls,
    "DeleteAcls": delete_acls,
    "CreateDelegationToken": create_delegation_token,
    "DescribeDelegationToken": describe_delegation_token,
    "RenewDelegationToken": renew_delegation_token,
    "ExpireDelegationToken": expire_delegation_token,
    "AlterClientQuotas": alter_client_quotas,
    "DescribeClientQuotas": describe_client_quotas,
    "AlterUserScramCredentials": alter_user_scram_credentials,
    "DescribeUserScramCredentials": describe_user_scram_credentials,
}
