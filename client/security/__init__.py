"""TLS, SASL and where credentials come from.

config         the properties by their Java names (property_names) -> SecurityConfig; sslconfig, saslconfig,
               oauthconfig, jaas: its parts
foreign_names  librdkafka's names for all properties of the client; login_classes: Java's classes for logins
tls, stores    TlsConfig -> ssl.SSLContext, from PEM and PKCS12
mechanism      what a SASL mechanism is (bytes in, bytes out), and PLAIN; scram, oauthbearer, kerberos: the others
tokens         OAUTHBEARER's tokens: callback, file, unsecured; endpoint: the client-credentials flow; msk: AWS' IAM
authenticate   a login on a connection, and when to log in again
secret         text that is never shown
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kseg.client.security.config import SecurityConfig
from kseg.client.security.secret import Secret

if TYPE_CHECKING:
    from kseg.client.security.tokens import Token

__all__ = ["Secret", "SecurityConfig", "Token"]


def __getattr__(name: str) -> Any:
    if name == "Token":  # for functions that get tokens: every client imports this package, few log in by a token
        from kseg.client.security.tokens import Token

        return Token
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
