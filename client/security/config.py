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
from kseg.client.security.property_names import SASL_NAMES, SSL_NAMES, listed

if TYPE_CHECKING:
    from kseg.client.security.saslconfig import SaslConfig
    from kseg.client.security.tls import TlsConfig

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
NAMES: Final = frozenset({"security.protocol"}) | SSL_NAMES | SASL_NAMES
_PREFIXES: Final = ("ssl.", "sasl.", "security.", "enable.ssl.", "enable.sasl.")


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
    is_default = "security.protocol" not in known
    protocol = known.pop("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        faults.append(
            ConfigFault("security.protocol", f"{protocol!r} is not a protocol", f"one of {', '.join(PROTOCOLS)}")
        )
        return SecurityConfig()
    ssl = {name: value for name, value in known.items() if name in SSL_NAMES}
    sasl = {name: value for name, value in known.items() if name in SASL_NAMES}
    tls_config = sasl_config = None
    idle: list[str] = []
    if protocol.endswith("SSL"):
        from kseg.client.security.sslconfig import parse_tls

        tls_config = parse_tls(ssl, faults)
    else:
        idle += ssl
    if protocol.startswith("SASL"):
        from kseg.client.security.saslconfig import parse_sasl

        sasl_config = parse_sasl(sasl, faults)
    else:
        idle += sasl
    _without_effect(idle, protocol, is_default, faults)
    return SecurityConfig(protocol, tls_config, sasl_config)


def _without_effect(names: list[str], protocol: str, is_default: bool, faults: list[ConfigFault]) -> None:
    """One fault for all properties that the protocol leaves without effect."""
    if not names:
        return
    missing = " and ".join(
        kind for prefix, kind in (("ssl.", "TLS"), ("sasl.", "SASL")) if any(name.startswith(prefix) for name in names)
    )
    better = "SSL or SASL_SSL" if (protocol, missing) == ("PLAINTEXT", "TLS") else "SASL_SSL"
    reason = f"is {protocol}{', its default' if is_default else ''}: without {missing}, {listed(names)} no effect"
    faults.append(ConfigFault("security.protocol", reason, f"set it to {better}, or remove {', '.join(names)}"))


def _unknown(name: str) -> ConfigFault:
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
