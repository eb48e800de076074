"""Secure listeners of the embedded broker, beside its PLAINTEXT one, which its own traffic and the probe use.

    EmbeddedKafka(listeners=[Listener("TLS", "SSL", {"ssl.keystore.location": …})], scram={"alice": "…"})
    kafka.servers_of("TLS")

A listener's settings are Kafka's own, without the prefix `listener.name.<name>.`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_TAKEN = frozenset({"PLAINTEXT", "CONTROLLER"})
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True)
class Listener:
    """One listener: its name (capitals), its security protocol, its settings.

    advertised: the host by which clients are told to reach it, with the same port; None: the one that it listens on.
    """

    name: str
    protocol: str
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    advertised: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _TAKEN:
            raise ValueError(f"{self.name!r} is not a name for a listener")
        if self.protocol not in _PROTOCOLS:
            raise ValueError(f"{self.protocol!r} is not a security protocol")


def login_module(name: str, **options: str) -> str:
    """A value for `sasl.jaas.config`; `name` is the class's simple name."""
    package = {"PlainLoginModule": "plain", "ScramLoginModule": "scram", "OAuthBearerLoginModule": "oauthbearer"}[name]
    quoted = " ".join(f'{key}="{_quoted(value)}"' for key, value in options.items())
    return f"org.apache.kafka.common.security.{package}.{name} required {quoted};"


def listener_properties(listeners: Sequence[Listener], ports: Sequence[int], host: str) -> dict[str, str]:
    """The entries of `server.properties` for them: both kinds of addresses, the protocol map, and their settings."""
    each = list(zip(listeners, ports, strict=True))
    properties = {
        "listeners": ",".join(f"{one.name}://{host}:{port}" for one, port in each),
        "advertised.listeners": ",".join(f"{one.name}://{one.advertised or host}:{port}" for one, port in each),
        "listener.security.protocol.map": ",".join(f"{one.name}:{one.protocol}" for one in listeners),
    }
    for listener in listeners:
        for key, value in listener.config.items():
            properties[f"listener.name.{listener.name.lower()}.{key}"] = value
    return properties


def scram_arguments(users: Mapping[str, str]) -> Iterator[str]:
    """For `StorageTool format`: each user with its password, for both SCRAM mechanisms."""
    for mechanism in SCRAM:
        for name, password in users.items():
            yield "--add-scram"
            yield f"{mechanism}=[name={name},password={password}]"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
