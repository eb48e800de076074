"""The exchange on the wire with a scripted broker: old ways of SASL, and what a live broker would not do."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from kseg.client import AuthenticationFailed, ClientConfig, Cluster
from kseg.client.errors import BrokerUnavailable, ProtocolFault, RequestTimedOut
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.connection import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.security import kerberos
from kseg.client.security.kerberos import KerberosConfig

Script = Callable[[], Generator[Any, bytes, Any]]
PLAIN = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hunter2"}
SCRAM = PLAIN | {"sasl.mechanism": "SCRAM-SHA-256"}
GSSAPI = {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}


def log_in(fake: Any, properties: dict[str, str], **more: str) -> None:
    """One Metadata over a connection to the scripted broker."""
    base = {"bootstrap.servers": fake.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
    patience = {"default.api.timeout.ms": "60000", "request.timeout.ms": "30000", "retry.backoff.ms": "10"}
    with Cluster(ClientConfig.from_properties(base | patience | properties | more, client_id="c")) as cluster:
        assert list(cluster.metadata([]).brokers) == [1]


def refusal(fake: Any, properties: dict[str, str], **more: str) -> AuthenticationFailed:
    with pytest.raises(AuthenticationFailed) as caught:
        log_in(fake, properties, **more)
    assert "hunter2" not in f"{caught.value!r} {caught.value}"
    assert not caught.value.retriable
    return caught.value


def offering(*mechanisms: str, code: int = 0) -> Callable[[Any], SaslHandshakeResponse]:
    return lambda seen: SaslHandshakeResponse(error_code=code, mechanisms=list(mechanisms))


def server(
    user: bytes = b"u", password: bytes = b"hunter2", *, proves_itself: bool = True
) -> Generator[Any, bytes, Any]:
    """SCRAM's other side."""
    first = yield
    bare = first.removeprefix(b"n,,")
    name, nonce = bare.removeprefix(b"n=").split(b",r=")
    assert name == user
    challenge = b"r=" + nonce + b"server,s=" + base64.b64encode(b"salt") + b",i=4096"
    final = yield challenge
    without_proof, _, proof = final.rpartition(b",p=")
    salted = hashlib.pbkdf2_hmac("sha256", password, b"salt", 4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    message = b",".join([bare, challenge, without_proof])
    expected = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
    assert bytes(a ^ b for a, b in zip(key, expected, strict=True)) == base64.b64decode(proof)
    server_key = hmac.digest(salted, b"Server Key", "sha256") if proves_itself else bytes(32)
    return b"v=" + base64.b64encode(hmac.digest(server_key, message, "sha256"))


def wrapped(script: Script) -> Callable[[Any], SaslAuthenticateResponse]:
    """A generator of tokens behind SaslAuthenticate, begun anew on each connection."""
    running: dict[int, Any] = {}

    def answer(seen: Any) -> SaslAuthenticateResponse:
        if seen.connection not in running:
            running[seen.connection] = script()
            next(running[seen.connection])
        try:
            token = running[seen.connection].send(seen.request.auth_bytes)
        except StopIteration as end:
            token = end.value
        return SaslAuthenticateResponse(auth_bytes=token)

    return answer


def names(fake: Any) -> list[tuple[str, int]]:
    return [(type(seen.request).__name__.removesuffix("Request"), seen.version) for seen in fake.seen]


class TestHandshakeV1:
    @pytest.mark.rule(35, 61, 62, 72)
    def test_the_order_is_versions_handshake_tokens_then_the_rest(self, fake: Any):
        fake.on(SaslHandshakeRequest, offering("SCRAM-SHA-256"))
        fake.on(SaslAuthenticateRequest, wrapped(server))
        log_in(fake, SCRAM)
        order = [name for name, _ in names(fake)]
        assert order == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "SaslAuthenticate", "Metadata"]
        assert dict(names(fake))["SaslHandshake"] == 1
        assert dict(names(fake))["SaslAuthenticate"] == 2

    def test_a_broker_that_does_not_know_the_password_is_not_believed(self, fake: Any):
        fake.on(SaslHandshakeRequest, offering("SCRAM-SHA-256"))
        fake.on(SaslAuthenticateRequest, wrapped(lambda: server(proves_itself=False)))
        assert "signature is wrong" in str(refusal(fake, SCRAM))
        assert not fake.requests(MetadataRequest)

    @pytest.mark.rule(73)
    @pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE])
    def test_a_refused_handshake_sends_no_password(self, fake: Any, code: ErrorCode):
        fake.on(SaslHandshakeRequest, offering("GSSAPI", code=code))
        error = refusal(fake, PLAIN)
        assert error.code == code
        assert not fake.requests(SaslAuthenticateRequest)

    def test_the_brokers_own_words_are_told(self, fake: Any):
        fake.on(SaslHandshakeRequest, offering("PLAIN"))
        answer = SaslAuthenticateResponse(error_code=58, error_message="account locked")
        fake.on(SaslAuthenticateRequest, lambda seen: answer)
        assert "account locked" in str(refusal(fake, PLAIN))

    def test_a_broker_that_is_silent_does_not_hang_us(self, fake: Any, fakes: Any):
        fake.on(SaslHandshakeRequest, offering("PLAIN"))
        fake.on(SaslAuthenticateRequest, lambda seen: fakes.SILENT)
        started = time.monotonic()
        with pytest.raises(RequestTimedOut):
            log_in(fake, PLAIN, **{"default.api.timeout.ms": "600", "request.timeout.ms": "200"})
        assert time.monotonic() - started < 20

    def test_a_connection_that_breaks_during_the_login_is_made_anew(self, fake: Any, fakes: Any):
        fake.on(SaslHandshakeRequest, offering("PLAIN"))
        fake.on(SaslAuthenticateRequest, lambda seen: fakes.CLOSE, lambda seen: SaslAuthenticateResponse())
        log_in(fake, PLAIN)
        assert len(fake.requests(ApiVersionsRequest)) == 2

    def test_plain_that_goes_on_is_no_plain(self, fake: Any):
        fake.on(SaslHandshakeRequest, offering("PLAIN"))
        fake.on(SaslAuthenticateRequest, lambda seen: SaslAuthenticateResponse(auth_bytes=b"more"))
        assert "PLAIN has ended" in str(refusal(fake, PLAIN))

    @pytest.mark.parametrize(("lifetime", "again"), [(0, False), (60_000, False), (1000, True)])
    def test_a_session_with_an_end_is_begun_anew_on_the_same_connection(self, fake: Any, lifetime: int, again: bool):
        fake.on(SaslHandshakeRequest, offering("PLAIN"))
        fake.on(SaslAuthenticateRequest, lambda seen: SaslAuthenticateResponse(session_lifetime_ms=lifetime))
        properties = {"bootstrap.servers": fake.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"} | PLAIN
        with Cluster(ClientConfig.from_properties(properties, client_id="c")) as cluster:
            cluster.metadata([])
            time.sleep(1.0)
            cluster.metadata([], refresh=True)
        assert (len(fake.requests(SaslHandshakeRequest)) > 1) is again
        assert fake.connections == 1


class TestTokens:
    """OAUTHBEARER with a token endpoint that gives t0, t1 …, and a broker that accepts some of them."""

    @pytest.fixture
    def oauth(self, fake: Any, endpoint: Any) -> dict[str, str]:
        self.accepted = {"t0"}

        def authenticate(seen: Any) -> SaslAuthenticateResponse:
            token = seen.request.auth_bytes.split(b"\x01")[1].removeprefix(b"auth=Bearer ").decode()
            if token in self.accepted:
                return SaslAuthenticateResponse()
            return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="revoked")

        fake.on(SaslHandshakeRequest, offering("OAUTHBEARER"))
        fake.on(SaslAuthenticateRequest, authenticate)
        endpoint.answers = [lambda asked: (200, {"access_token": f"t{len(endpoint.asked) - 1}", "expires_in": 3600})]
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
        }

    def test_a_kept_token_that_was_revoked_is_replaced(self, fake: Any, endpoint: Any, oauth: dict[str, str]):
        log_in(fake, oauth)
        self.accepted = {"t1"}
        log_in(fake, oauth)
        log_in(fake, oauth)
        assert len(endpoint.asked) == 2

    def test_a_new_token_that_is_rejected_is_not_replaced(self, fake: Any, endpoint: Any, oauth: dict[str, str]):
        log_in(fake, oauth)
        self.accepted = set()
        assert "revoked" in str(refusal(fake, oauth))
        assert len(endpoint.asked) == 2


class TestHandshakeV0:
    """0.10 and 0.11: bare frames after the handshake."""

    @pytest.fixture
    def old(self, fake: Any) -> Any:
        fake.ranges[SaslHandshakeRequest.KEY] = (0, 0)
        del fake.ranges[SaslAuthenticateRequest.KEY]
        fake.on(SaslHandshakeRequest, offering("PLAIN", "SCRAM-SHA-256", "GSSAPI"))
        return fake

    @pytest.mark.rule(74, 293)
    def test_plain(self, old: Any):
        tokens = []

        def script() -> Generator[Any, bytes, Any]:
            tokens.append((yield))
            return b""

        old.tokens = script
        log_in(old, PLAIN)
        assert tokens == [b"\0u\0hunter2"]
        assert [name for name, _ in names(old)] == ["ApiVersions", "SaslHandshake", "Metadata"]
        assert dict(names(old))["SaslHandshake"] == 0

    @pytest.mark.rule(74)
    def test_scram(self, old: Any):
        old.tokens = server
        log_in(old, SCRAM)

    @pytest.mark.rule(75)
    def test_a_closed_connection_means_refused(self, old: Any, fakes: Any):
        def script() -> Generator[Any, bytes, Any]:
            yield
            return fakes.CLOSE

        old.tokens = script
        assert "closed the connection, which means that authentication failed" in str(refusal(old, PLAIN))

    @pytest.mark.rule(74)
    @pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
    def test_a_size_that_is_none_allocates_nothing(self, old: Any, size: bytes, fakes: Any):
        def answer(seen: Any) -> Any:
            return fakes.framed(struct.pack(">ihi", seen.correlation_id, 0, 0)) + size

        def nothing() -> Generator[Any, bytes, Any]:
            yield
            return fakes.SILENT

        old.tokens = nothing
        old.on(SaslHandshakeRequest, answer)
        with pytest.raises(ProtocolFault, match="SASL token of"):
            log_in(old, PLAIN)


class Context:
    """The other side's half of a GSS-API context: three tokens, then messages are wrapped by reversing them."""

    def __init__(self, config: KerberosConfig, host: str) -> None:
        self.asked_for = (config.service_name, host)
        self.complete = False

    def step(self, token: bytes | None) -> bytes | None:
        if token is None:
            return b"token-1"
        assert token == b"challenge-1"
        self.complete = True
        return None

    def wrap(self, message: bytes) -> bytes:
        return message[::-1]

    unwrap = wrap


def kerberos_server(offer: bytes = b"\x07\x00\x10\x00", *, last: Any) -> Script:
    def script() -> Generator[Any, bytes, Any]:
        assert (yield) == b"token-1"
        assert (yield b"challenge-1") == b""
        assert (yield offer[::-1]) == b"\x01\x00\x00\x00"[::-1]
        return last

    return script


class TestGssapi:
    @pytest.fixture(autouse=True)
    def _context(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kerberos, "library_context", Context)

    @pytest.mark.rule(76)
    def test_behind_sasl_authenticate(self, fake: Any):
        fake.on(SaslHandshakeRequest, offering("GSSAPI"))
        fake.on(SaslAuthenticateRequest, wrapped(kerberos_server(last=b"")))
        log_in(fake, GSSAPI)

    def test_after_a_handshake_v0_the_last_token_has_no_answer(self, fake: Any, fakes: Any):
        fake.ranges[SaslHandshakeRequest.KEY] = (0, 0)
        fake.on(SaslHandshakeRequest, offering("GSSAPI"))
        fake.tokens = kerberos_server(last=fakes.SILENT)
        log_in(fake, GSSAPI)

    @pytest.mark.rule(77)
    def test_a_broker_of_0_9_gets_its_tokens_without_a_handshake(self, fake: Any, fakes: Any):
        # It does not answer ApiVersions; the second connection begins with a token.
        fake.on(ApiVersionsRequest, lambda seen: fakes.CLOSE)
        fake.tokens = kerberos_server(last=fakes.SILENT)
        fake.tokens_first = {1, 2, 3}
        log_in(fake, GSSAPI, **{"broker.version.fallback": "0.9.0"})
        assert not fake.requests(SaslHandshakeRequest)
        assert fake.requests(MetadataRequest)

    @pytest.mark.rule(77)
    def test_other_mechanisms_are_not_tried_on_a_broker_of_0_9(self, fake: Any, fakes: Any):
        fake.on(ApiVersionsRequest, lambda seen: fakes.CLOSE)
        assert "0.9" in str(refusal(fake, PLAIN, **{"broker.version.fallback": "0.9.0"}))

    @pytest.mark.rule(81)
    def test_a_broker_that_wants_a_security_layer_is_refused(self, fake: Any):
        fake.on(SaslHandshakeRequest, offering("GSSAPI"))
        fake.on(SaslAuthenticateRequest, wrapped(kerberos_server(b"\x04\x00\x10\x00", last=b"")))
        assert "security layer" in str(refusal(fake, GSSAPI))


@pytest.mark.rule(81)
def test_without_the_library_gssapi_is_refused_clearly(fake: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gssapi", None)
    fake.on(SaslHandshakeRequest, offering("GSSAPI"))
    assert "pip install 'kafka-segment-etl[gssapi]'" in str(refusal(fake, GSSAPI))


@pytest.mark.parametrize("answer", ["no SASL", "silence", "closed"])
def test_a_broker_that_closes_although_it_has_no_sasl_may_come_back(fake: Any, fakes: Any, answer: str):
    said = {"no SASL": offering(code=ErrorCode.ILLEGAL_SASL_STATE), "silence": lambda seen: fakes.SILENT}
    fake.on(SaslHandshakeRequest, said.get(answer, lambda seen: fakes.CLOSE))
    fake.on(MetadataRequest, lambda seen: fakes.CLOSE)
    started = time.monotonic()
    with pytest.raises((BrokerUnavailable, RequestTimedOut)):
        log_in(fake, {"security.protocol": "PLAINTEXT"}, **{"default.api.timeout.ms": "500"})
    assert time.monotonic() - started < 10
    fake.on(MetadataRequest, lambda seen: fakes.CLOSE, fake.metadata)
    log_in(fake, {"security.protocol": "PLAINTEXT"})
