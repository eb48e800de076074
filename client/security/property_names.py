"""The names of the properties `ssl.*` and `sasl.*` that have a meaning here, Java's and a few of ours.

Apart from the modules that read their values: those are loaded where a client has TLS or a login.
"""

from __future__ import annotations

from typing import Final

TRUSTSTORE_NAMES: Final = (
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
KEYSTORE_NAMES: Final = (
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
)
SSL_NAMES: Final = frozenset(TRUSTSTORE_NAMES + KEYSTORE_NAMES) | {
    "ssl.endpoint.identification.algorithm",
    "ssl.enabled.protocols",
    "ssl.protocol",
    "ssl.cipher.suites",
}

PASSWORD_NAMES: Final = frozenset({"sasl.username", "sasl.password"})
#: Classes of Java: its own are accepted, since they do what this client does.
HANDLER_NAMES: Final = (
    "sasl.login.callback.handler.class",
    "sasl.client.callback.handler.class",
    "sasl.oauthbearer.jwt.retriever.class",
)
OAUTH_NAMES: Final = frozenset(HANDLER_NAMES) | frozenset(
    {
        "sasl.oauthbearer.token.callback",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.header.urlencode",
        "sasl.login.refresh.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.login.retry.backoff.max.ms",
    }
)
KERBEROS_NAMES: Final = frozenset({"sasl.kerberos.service.name"})
SASL_NAMES: Final = frozenset({"sasl.mechanism", "sasl.jaas.config"}) | PASSWORD_NAMES | OAUTH_NAMES | KERBEROS_NAMES


def listed(names: list[str]) -> str:
    """`a has`, `a and b have`, `a, b and c have`: a subject with its verb."""
    if len(names) == 1:
        return f"{names[0]} has"
    return f"{', '.join(names[:-1])} and {names[-1]} have"
