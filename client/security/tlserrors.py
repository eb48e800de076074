"""OpenSSL's error codes as errors with a remedy.

An invalid certificate and a rejection by the peer are not retriable. A connection that just ends is: the broker may be
shutting down. So is every error after the first bytes from the broker: both sides have accepted each other before.
"""

from __future__ import annotations

import ssl
from typing import Final

from kseg.client.errors import AuthenticationFailed, BrokerUnavailable, KafkaError

# https://docs.openssl.org/3.0/man1/openssl-verification-options/: X509_V_ERR_*
_EXPIRED, _NOT_YET, _HOST, _IP = 10, 9, 62, 64
_UNTRUSTED: Final = frozenset({2, 18, 19, 20, 21, 27})

_NO_CERTIFICATE: Final = (
    "it requires a client certificate: set ssl.keystore.location, or ssl.keystore.key and its chain"
)
_OUR_CERTIFICATE: Final = (
    "it rejects our client certificate: its truststore does not have our CA, or ssl.keystore.* is wrong"
)
#: Alerts that the peer sent (RFC 8446, 6.2), by OpenSSL's name for them.
_ALERTS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _NO_CERTIFICATE,
    "TLSV1_ALERT_UNKNOWN_CA": _OUR_CERTIFICATE,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _OUR_CERTIFICATE,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "our client certificate has expired: renew what ssl.keystore.* names",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "our client certificate is revoked: renew what ssl.keystore.* names",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it cannot use our client certificate: is it for clients (clientAuth)?",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "no cipher suite in common, or it requires a client certificate (ssl.keystore.*)",
    "TLSV1_ALERT_PROTOCOL_VERSION": "no TLS version in common: check ssl.enabled.protocols on both sides",
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": "it requires stronger ciphers: check ssl.cipher.suites",
    "TLSV1_ALERT_ACCESS_DENIED": "it knows our certificate and denies access",
    "TLSV1_UNRECOGNIZED_NAME": "it does not serve this host name",
}
_NOT_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
    | {"UNKNOWN_PROTOCOL", "UNEXPECTED_MESSAGE", "BAD_RECORD_TYPE", "NOT_SSL_RECORD_LAYER"}
)
_ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)


def tls_error(
    error: ssl.SSLError, label: str, *, identified: bool, host: str | None = None, accepted: bool = False
) -> KafkaError:
    """Ours for OpenSSL's. `identified`: we have a client certificate; `host`: what is dialled, during the handshake;
    `accepted`: bytes have come after the handshake.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(f"TLS: {verification_fault(error, host)}", broker=label)
    reason = error.reason or ""
    if isinstance(error, _ENDED) or reason == "UNEXPECTED_EOF_WHILE_READING":
        return BrokerUnavailable("the peer ended the TLS handshake" if host else "the TLS stream ended", broker=label)
    if accepted:
        return BrokerUnavailable(f"the TLS stream is damaged: {_explanation(reason)}", broker=label)
    if reason in _NOT_TLS:
        message = "the peer does not use TLS: is this a PLAINTEXT or SASL_PLAINTEXT listener, or not a broker?"
        return AuthenticationFailed(message, broker=label)
    if reason in ("SSLV3_ALERT_BAD_CERTIFICATE", "TLSV1_ALERT_BAD_CERTIFICATE"):
        message = _OUR_CERTIFICATE if identified else _NO_CERTIFICATE  # Java says the same of one that is missing
        return AuthenticationFailed(f"TLS: the broker rejects the connection: {message}", broker=label)
    if reason in _ALERTS:
        return AuthenticationFailed(f"TLS: the broker rejects the connection: {_ALERTS[reason]}", broker=label)
    if reason in ("UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "WRONG_SSL_VERSION"):
        message = f"TLS: no TLS version in common ({_explanation(reason)}): check ssl.enabled.protocols on both sides"
        return AuthenticationFailed(message, broker=label)
    if host is not None or "ALERT" in reason:
        return AuthenticationFailed(f"TLS: {_explanation(reason) or 'failed'}", broker=label)
    return BrokerUnavailable(f"the TLS stream is damaged: {_explanation(reason)}", broker=label)


def verification_fault(error: ssl.SSLCertVerificationError, host: str | None, whose: str = "the broker's") -> str:
    """The fault of a certificate, and the remedy."""
    code = error.verify_code
    if code in (_HOST, _IP):
        return (
            f"{whose} certificate is not for {host}: connect by a name that it has, have this name added, or "
            "set ssl.endpoint.identification.algorithm to empty and trust only the CA"
        )
    if code == _EXPIRED:
        return f"{whose} certificate, or one above it, has expired: have it renewed, or check this machine's clock"
    if code == _NOT_YET:
        return f"{whose} certificate is not valid yet: check this machine's clock"
    if code in _UNTRUSTED:
        return (
            f"{whose} certificate is not trusted ({error.verify_message}): put the CA that signed it into "
            "ssl.truststore.location"
        )
    return f"{whose} certificate is not valid: {error.verify_message}"


def _explanation(reason: str) -> str:
    return reason.replace("_", " ").lower()
