"""TLS, SASL and where credentials come from.

config         the properties by their Java names -> SecurityConfig; sslconfig, saslconfig, oauthconfig, jaas: its parts
tls, stores    TlsConfig -> ssl.SSLContext, from PEM and PKCS12
mechanism      what a SASL mechanism is (bytes in, bytes out), and PLAIN; scram, oauthbearer, kerberos: the others
tokens         OAUTHBEARER's tokens: callback, file, unsecured; endpoint: the client-credentials flow
authenticate   a login on a connection, and when to log in again
secret         text that is never shown
"""

from kseg.client.security.config import SecurityConfig
from kseg.client.security.secret import Secret
from kseg.client.security.tokens import Token

__all__ = ["Secret", "SecurityConfig", "Token"]
