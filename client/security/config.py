"""`security.protocol`, `ssl.*` and `sasl.*` by their Java names, as one frozen value that travels to workers.

    PLAINTEXT        neither            SASL_PLAINTEXT   SASL alone
    SSL              TLS alone          SASL_SSL         SASL inside of TLS

The value holds passwords, each in a `Secret`; files are named and read where the connection is made. A property without
effect under the chosen protocol is rejected: setting `ssl.truststore.location` must not look like encryption. No
fault's text quotes a value that may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kseg.client.errors import ConfigFault
from kseg.client.security.property_names import SASL_NAMES, SSL_NAMES

if TYPE_CHECKING:
    from kseg.client.security.saslconfig import SaslConfig
    from kseg.client.security.tls import TlsConfig

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
NAMES: Final = frozenset({"security.protocol"}) | SSL_NAMES | SASL_NAMES
_PREFIXES: Final = ("ssl.", "sasl.", "security.", "enable.ssl.", "enable.sasl.")

#: Names of librdkafka and of brokers, and what to write instead.
_INSTEAD: Final = {
    "ssl.ca.location": "ssl.truststore.location, with ssl.truststore.type=PEM",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location, with key and chain in one PEM file",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location, with key and chain in one PEM file",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.curves.list": "nothing: OpenSSL chooses",
    "ssl.sigalgs.list": "nothing: OpenSSL chooses",
    "enable.ssl.certificate.verification": "ssl.truststore.location: certificates are always verified",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.method": "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.extensions": "extension_NAME options in sasl.jaas.config",
    "sasl.kerberos.keytab": "keyTab in sasl.jaas.config",
    "sasl.kerberos.principal": "principal in sasl.jaas.config",
    "sasl.login.callback.handler.class": "sasl.oauthbearer.token.callback=module:function",
    "sasl.client.callback.handler.class": "sasl.oauthbearer.token.callback=module:function",
    "sasl.oauthbearer.jwt.retriever.class": "sasl.oauthbearer.token.callback=module:function",
}


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """Whether and how connections are encrypted (`tls`) and who we are (`sasl`)."""

    protocol: str = "PLAINTEXT"
    tls: TlsConfig | None = None
    sasl: SaslConfig | None = None


def is_security(name: str) -> bool:
    """Whether a property belongs to this module."""
    return name in NAMES or name.startswith(_PREFIXES)


def parse_security(properties: Mapping[str, str], faults: list[ConfigFault]) -> SecurityConfig:
    """The properties for which `is_security` holds. Whatever is wrong goes to `faults`; the value is of use without."""
    known = {}
    for name, value in properties.items():
        if name in NAMES:
            known[name] = str(value)
        else:
            faults.append(_unknown(name))
    protocol = known.pop("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        faults.append(
            ConfigFault("security.protocol", f"{protocol!r} is not a protocol", f"one of {', '.join(PROTOCOLS)}")
        )
        return SecurityConfig()
    ssl = {name: value for name, value in known.items() if name in SSL_NAMES}
    sasl = {name: value for name, value in known.items() if name in SASL_NAMES}
    tls_config = sasl_config = None
    if protocol.endswith("SSL"):
        from kseg.client.security.sslconfig import parse_tls

        tls_config = parse_tls(ssl, faults)
    else:
        _without_effect(ssl, protocol, faults)
    if protocol.startswith("SASL"):
        from kseg.client.security.saslconfig import parse_sasl

        sasl_config = parse_sasl(sasl, faults)
    else:
        _without_effect(sasl, protocol, faults)
    return SecurityConfig(protocol, tls_config, sasl_config)


def _without_effect(names: Mapping[str, str], protocol: str, faults: list[ConfigFault]) -> None:
    for name in names:
        kind = "TLS" if name.startswith("ssl.") else "SASL"
        better = "SSL or SASL_SSL" if (protocol, kind) == ("PLAINTEXT", "TLS") else "SASL_SSL"
        reason = f"has no effect: security.protocol is {protocol}, without {kind}"
        faults.append(ConfigFault(name, reason, f"set security.protocol to {better}, or remove it"))


def _unknown(name: str) -> ConfigFault:
    instead = _INSTEAD.get(name)
    if instead is not None:
        return ConfigFault(name, "is not supported by this name", f"use {instead}")
    if name in _JAVA_ONLY:
        return ConfigFault(
            name, "this client does not support it: it concerns Java's own classes or logins", "remove it"
        )
    return ConfigFault(name, "unknown property", "check the spelling against the Kafka consumer's configuration")


_JAVA_ONLY: Final = frozenset(
    """
    security.providers ssl.engine.factory.class ssl.keymanager.algorithm ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.client.auth ssl.principal.mapping.rules
    sasl.login.class sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.jitter sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    """.split()  # noqa: SIM905
)
