"""A SASL login on a connection, and when it has to be repeated.

    TLS -> ApiVersions -> SaslHandshake v1, SaslAuthenticate …      brokers since 1.0 (KIP-152)
                       -> SaslHandshake v0, int32 size + token …    0.10 and 0.11; a closed connection means: rejected
                       -> int32 size + token …                      0.9, GSSAPI alone

A broker may end sessions (`connections.max.reauth.ms`, or with a token's end). Its response then has the session
lifetime, and the login is repeated on the open connection before that (KIP-368): when 85 to 95 % of it are over, so
that many connections do not all log in at once.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from kseg.client.errors import AuthenticationFailed, BrokerUnavailable, KafkaError, ProtocolFault, error_from_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.connection import SaslAuthenticateRequest, SaslHandshakeRequest
from kseg.client.retry import Deadline
from kseg.client.security.mechanism import Challenged, Mechanism

if TYPE_CHECKING:
    from kseg.client.security.saslconfig import SaslConfig

NEVER: Final = float("inf")
#: Seconds between two logins on one connection; a broker rejects them within one second.
LOGIN_INTERVAL: Final = 1.05
_WINDOW: Final = (0.85, 0.95)
_PROBE_SECONDS: Final = 2.0
_SIZE: Final = struct.Struct(">i")
#: Tokens of Kerberos with many groups have 64 kB; a TLS alert or a web server's text would ask for gigabytes.
_MAX_TOKEN: Final = 1 << 20


class SaslConnection(Protocol):
    """The connection, as far as a login needs it."""

    label: str

    def version_of(self, request: type[Any]) -> int: ...
    def offers(self, request: type[Any], version: int = 0) -> bool: ...
    def call(self, request: Any, version: int, *, deadline: Deadline) -> Any: ...


class Stream(Protocol):
    """The bytes below the connection, for logins without a Kafka frame around the tokens."""

    def send(self, data: bytes, deadline: Deadline) -> None: ...
    def receive_into(self, target: memoryview, deadline: Deadline) -> int: ...


def log_in(sasl: SaslConfig, connection: SaslConnection, transport: Stream, *, host: str, deadline: Deadline) -> float:
    """Log in; returns the session's end in seconds on the monotonic clock, NEVER if it has none.

    Raises AuthenticationFailed: rejected, no mechanism in common, the broker could not prove itself, no token to be
    had.
    """
    offers_handshake = connection.offers(SaslHandshakeRequest)
    if not offers_handshake and sasl.mechanism != "GSSAPI":
        raise AuthenticationFailed(
            f"this broker is older than SaslHandshake (0.9): it supports only SASL GSSAPI, not {sasl.mechanism}",
            broker=connection.label,
        )
    wrapped = connection.offers(SaslHandshakeRequest, 1) and connection.offers(SaslAuthenticateRequest)
    mechanism = _started(sasl, connection, host, deadline)
    if offers_handshake:
        _handshake(sasl, connection, 1 if wrapped else 0, deadline)
    if wrapped:
        return _authenticate(sasl, mechanism, connection, deadline)
    _authenticate_raw(mechanism, connection, transport, deadline)
    return NEVER


def refuse_without_sasl(ask: Callable[[Any, Deadline], Any], protocol: str, label: str, cause: Exception) -> None:
    """A listener with SASL answers ApiVersions before a login, and closes the connection at any other first request.

    A broker that is shutting down closes as well; but only a listener with SASL answers a handshake with its
    mechanisms. `ask` sends one over a connection of its own. Raises AuthenticationFailed if that is how it is.
    """
    try:
        answer = ask(SaslHandshakeRequest(mechanism=""), Deadline.after(_PROBE_SECONDS))
    except KafkaError:
        return
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        better = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
        offered = ", ".join(sorted(answer.mechanisms))
        reason = (
            f"this listener requires SASL: set security.protocol to {better}, and sasl.mechanism to one of {offered}"
        )
        raise AuthenticationFailed(reason, broker=label) from cause


def _started(sasl: SaslConfig, connection: SaslConnection, host: str, deadline: Deadline) -> Mechanism:
    try:
        return sasl.start(host, deadline)
    except AuthenticationFailed as error:
        error.broker = error.broker or connection.label
        raise


def _handshake(sasl: SaslConfig, connection: SaslConnection, version: int, deadline: Deadline) -> None:
    answer = connection.call(SaslHandshakeRequest(mechanism=sasl.mechanism), version, deadline=deadline)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(sorted(answer.mechanisms)) or "none"
        reason = f"the broker does not support SASL {sasl.mechanism} here; it offers {offered}: set sasl.mechanism"
        raise AuthenticationFailed(reason, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, broker=connection.label)
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        reason = "this listener has no SASL: use its SASL port, or set security.protocol to PLAINTEXT or SSL"
        raise AuthenticationFailed(reason, code=ErrorCode.ILLEGAL_SASL_STATE, broker=connection.label)
    if answer.error_code:
        raise error_from_code(answer.error_code, "SaslHandshake", broker=connection.label)


def _authenticate(sasl: SaslConfig, mechanism: Mechanism, connection: SaslConnection, deadline: Deadline) -> float:
    version = connection.version_of(SaslAuthenticateRequest)
    ends = NEVER

    def ask(token: bytes) -> bytes:
        nonlocal ends
        asked = time.monotonic()
        answer = connection.call(SaslAuthenticateRequest(auth_bytes=token), version, deadline=deadline)
        if answer.error_code:
            raise _refused(sasl, mechanism, answer, connection)
        if answer.session_lifetime_ms > 0:
            ends = asked + answer.session_lifetime_ms / 1000 * random.uniform(*_WINDOW)
        return bytes(answer.auth_bytes)

    _exchange(mechanism, ask, connection)
    return ends


def _authenticate_raw(mechanism: Mechanism, connection: SaslConnection, transport: Stream, deadline: Deadline) -> None:
    def ask(token: bytes) -> bytes:
        try:
            transport.send(_SIZE.pack(len(token)) + token, deadline)
            if mechanism.complete and not mechanism.answers_last:
                return b""
            (size,) = _SIZE.unpack(_read(transport, _SIZE.size, deadline))
            if not 0 <= size <= _MAX_TOKEN:
                raise ProtocolFault(f"a SASL token of {size} bytes", broker=connection.label)
            return _read(transport, size, deadline)
        except BrokerUnavailable as error:
            reason = f"SASL {mechanism.name}: the broker closed the connection, which means that authentication failed"
            raise AuthenticationFailed(reason, broker=connection.label) from error

    _exchange(mechanism, ask, connection)


def _read(transport: Stream, size: int, deadline: Deadline) -> bytes:
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        filled += transport.receive_into(view[filled:], deadline)
    return bytes(data)


def _exchange(mechanism: Mechanism, ask: Callable[[bytes], bytes], connection: SaslConnection) -> None:
    """Carry tokens until the mechanism has nothing to say."""
    try:
        token: bytes | None = mechanism.first()
        while token is not None:
            token = mechanism.respond(ask(token))
    except Challenged as challenged:
        raise AuthenticationFailed(f"SASL {mechanism.name}: {challenged}", broker=connection.label) from None
    except AuthenticationFailed as error:
        error.broker = error.broker or connection.label  # a library's error has no broker
        raise
    if not mechanism.complete:
        raise AuthenticationFailed(f"SASL {mechanism.name} ended too early", broker=connection.label)


def _refused(sasl: SaslConfig, mechanism: Mechanism, answer: Any, connection: SaslConnection) -> AuthenticationFailed:
    """The broker's message, and for a token the message that it sent about that before.

    Retriable for a token that was kept from an earlier login, since the next login has a new one: the login service may
    have revoked it or changed its keys meanwhile.
    """
    words = answer.error_message or ErrorCode.of(answer.error_code).message
    retriable = False
    if sasl.tokens is not None:
        from kseg.client.security.oauthbearer import OAuthBearer
        from kseg.client.security.tokens import forget

        assert isinstance(mechanism, OAuthBearer)
        forget(sasl.tokens, mechanism.token)
        words = mechanism.refusal or words
        retriable = mechanism.kept
    reason = f"SASL {mechanism.name}: authentication failed: {words}"
    code = ErrorCode.of(answer.error_code)
    return AuthenticationFailed(reason, code=code, retriable=retriable, broker=connection.label)
