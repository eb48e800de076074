"""Client properties by their Java names, checked in full, as one frozen value that can be pickled to workers.

Names, units and defaults are those of https://kafka.apache.org/documentation/#configuration (consumer and producer),
except that fetch sizes are larger: a batch reader wants throughput, not many small partitions at once.

Unsupported properties are rejected, not ignored: setting `ssl.truststore.location` must not look like encryption.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kseg.client.errors import ConfigError, ConfigFault
from kseg.client.protocol.old_releases import parse_release
from kseg.client.protocol.suggestion import did_you_mean
from kseg.client.retry import RetryPolicy
from kseg.client.security.config import NAMES as SECURITY_NAMES
from kseg.client.security.config import PROTOCOLS, SecurityConfig, is_security, parse_security
from kseg.client.security.foreign_names import as_given, in_java_names

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The settings of a `Cluster`. Times in milliseconds, sizes in bytes, -1 for "the system's default"."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    connection_setup_timeout_ms: int = 10_000
    connections_max_idle_ms: int = 540_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    metadata_recovery_strategy: str = "rebootstrap"
    receive_buffer_bytes: int = -1
    send_buffer_bytes: int = -1
    fetch_max_bytes: int = 8 * 1024 * 1024  # several batches; above 32 MB the system maps new memory for each answer
    max_partition_fetch_bytes: int = 8 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    transaction_timeout_ms: int = 60_000
    broker_version_fallback: str | None = None  # a release before 0.10, for brokers that do not report their versions
    api_version_request_timeout_ms: int = 5_000  # with a fallback: how long to wait for ApiVersions
    security: SecurityConfig = field(default_factory=SecurityConfig)
    bootstrap_controllers: tuple[tuple[str, int], ...] = ()
    client_rack: str = ""

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, client_id: str, others: Collection[str] = ()
    ) -> ClientConfig:
        """Java property names to a config. `client_id` is used where `client.id` is not set. others: names that the
        caller takes besides, for suggestions.

        Raises ConfigError with every fault at once; the text of a fault never has a property's value in it if the
        property may be a secret.
        """
        misnamed: list[ConfigFault] = []
        faults: list[ConfigFault] = []
        properties, given = in_java_names(properties, misnamed)
        fields: dict[str, Any] = {"client_id": client_id}
        security = {
            key: raw if isinstance(raw, str) else _text(raw) for key, raw in properties.items() if is_security(key)
        }
        fields["security"] = parse_security(security, faults)
        faults.extend(_place_of_servers(properties))
        if "bootstrap.controllers" in properties:
            fields["bootstrap_servers"] = ()
        faults.extend(_of_registry(properties))
        rest = {key: raw for key, raw in properties.items() if key not in security and not key.startswith(_REGISTRY)}
        fields |= _parsed(rest, others, faults)
        faults.extend(_other_protocols(_text(properties.get("bootstrap.servers", "")), fields["security"].protocol))
        if misnamed or faults:
            raise ConfigError([*misnamed, *as_given(faults, given)])
        return cls(**fields)

    @property
    def retry(self) -> RetryPolicy:
        return RetryPolicy(self.retry_backoff_ms / 1000, max(self.retry_backoff_ms, self.retry_backoff_max_ms) / 1000)


@dataclass(frozen=True, slots=True)
class _Property:
    field: str | None
    parse: Callable[[str], Any]
    remedy: str


def _parsed(properties: Mapping[str, str], others: Collection[str], faults: list[ConfigFault]) -> dict[str, Any]:
    """The fields that properties outside of `parse_security` mean."""
    fields: dict[str, Any] = {}
    for key, raw in properties.items():
        property_ = _PROPERTIES.get(key)
        if property_ is None:
            faults.append(_unknown(key, others))
            continue
        try:
            value = property_.parse(_text(raw))
        except ValueError as error:
            faults.append(ConfigFault(key, str(error), property_.remedy))
            continue
        if property_.field is not None:
            fields[property_.field] = value
    return fields


def _text(raw: object) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return str(raw).strip()


def _integer(low: int, high: int = INT32_MAX) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise ValueError(f"{text!r} is not a whole number")
        number = int(text)
        if not low <= number <= high:
            raise ValueError(f"{number} is outside {low}..{high}")
        return number

    return parse


def _one_of(*allowed: str, why: str = "") -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"{text!r} is not supported{why}")
        return text

    return parse


def _name(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return text


def parse_servers(text: str) -> tuple[tuple[str, int], ...]:
    """`host:port,[::1]:port,SASL_SSL://host:port` to pairs. Raises ValueError."""
    servers: list[tuple[str, int]] = []
    for item in (part.strip() for part in text.split(",")):
        if not item:
            continue
        match = re.fullmatch(
            r"(?:(?P<protocol>[A-Za-z_]+)://)?(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]/\s]+)):(?P<port>\d{1,5})", item
        )
        if match is None:
            raise ValueError(f"{item!r} is not host:port")
        if match["protocol"] and match["protocol"].upper() not in PROTOCOLS:
            raise ValueError(f"{item!r}: {match['protocol']} is not a security protocol")
        port = int(match["port"])
        if not 0 < port < 65536:
            raise ValueError(f"{item!r}: port {port} is outside 1..65535")
        servers.append((match["v6"] or match["host"], port))
    if not servers:
        raise ValueError("names no server")
    return tuple(dict.fromkeys(servers))


def _other_protocols(servers: str, protocol: str) -> list[ConfigFault]:
    """A server's own protocol changes nothing, so it must not say something else."""
    named = {match.upper() for match in re.findall(r"(?:^|,)\s*([A-Za-z_]+)://", servers)} & set(PROTOCOLS)
    others = sorted(named - {protocol})
    problem = f"names {', '.join(others)}, and security.protocol is {protocol}"
    return [ConfigFault("bootstrap.servers", problem, "give only host:port")] if others else []


_MILLISECONDS = "give a whole number of milliseconds"
_BYTES = "give a whole number of bytes"

_PROPERTIES: dict[str, _Property] = {
    "bootstrap.servers": _Property("bootstrap_servers", parse_servers, "give host:port, several separated by commas"),
    "bootstrap.controllers": _Property(
        "bootstrap_controllers", parse_servers, "give host:port of KRaft controllers, several separated by commas"
    ),
    "client.rack": _Property("client_rack", str, "give the rack's name, as in the brokers' broker.rack"),
    "client.id": _Property("client_id", _name, "leave it out for the default"),
    "client.dns.lookup": _Property(None, _one_of("use_all_dns_ips"), "leave it out: every address of a name is tried"),
    "request.timeout.ms": _Property("request_timeout_ms", _integer(1), _MILLISECONDS),
    "default.api.timeout.ms": _Property("default_api_timeout_ms", _integer(1), _MILLISECONDS),
    "socket.connection.setup.timeout.ms": _Property("connection_setup_timeout_ms", _integer(1), _MILLISECONDS),
    "connections.max.idle.ms": _Property("connections_max_idle_ms", _integer(-1), "give milliseconds, -1 for never"),
    "retry.backoff.ms": _Property("retry_backoff_ms", _integer(0), _MILLISECONDS),
    "retry.backoff.max.ms": _Property("retry_backoff_max_ms", _integer(0), _MILLISECONDS),
    "metadata.max.age.ms": _Property("metadata_max_age_ms", _integer(0), _MILLISECONDS),
    "metadata.recovery.strategy": _Property(
        "metadata_recovery_strategy", _one_of("rebootstrap", "none"), "use rebootstrap or none"
    ),
    "receive.buffer.bytes": _Property("receive_buffer_bytes", _integer(-1), _BYTES + ", -1 for the system's default"),
    "send.buffer.bytes": _Property("send_buffer_bytes", _integer(-1), _BYTES + ", -1 for the system's default"),
    "fetch.max.bytes": _Property("fetch_max_bytes", _integer(1), _BYTES),
    "max.partition.fetch.bytes": _Property("max_partition_fetch_bytes", _integer(1), _BYTES),
    "fetch.max.wait.ms": _Property("fetch_max_wait_ms", _integer(0), _MILLISECONDS),
    "transaction.timeout.ms": _Property("transaction_timeout_ms", _integer(1), _MILLISECONDS),
    # These two are librdkafka's: the Java clients do not support brokers that do not report their versions.
    "broker.version.fallback": _Property(
        "broker_version_fallback", parse_release, "give the release of the oldest broker, such as 0.9.0"
    ),
    "api.version.request.timeout.ms": _Property("api_version_request_timeout_ms", _integer(1), _MILLISECONDS),
}

#: Every property that this client acts on.
NAMES = frozenset(_PROPERTIES) | SECURITY_NAMES

# Properties of the Java clients that have nothing to act on here, so that users see why they are rejected.
_WITHOUT_MEANING = frozenset(
    """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.size
    buffer.memory check.crcs compression.type delivery.timeout.ms enable.auto.commit enable.idempotence
    enable.metrics.push exclude.internal.topics fetch.min.bytes group.id group.instance.id group.protocol
    group.remote.assignor heartbeat.interval.ms interceptor.classes isolation.level key.deserializer key.serializer
    linger.ms max.block.ms max.in.flight.requests.per.connection max.poll.interval.ms max.poll.records max.request.size
    metadata.recovery.rebootstrap.trigger.ms metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms partition.assignment.strategy partitioner.class reconnect.backoff.max.ms
    reconnect.backoff.ms retries session.timeout.ms socket.connection.setup.timeout.max.ms transactional.id
    value.deserializer value.serializer
    """.split()  # noqa: SIM905
)


#: Vendors' files for clients have these beside the properties of Kafka's clients.
_REGISTRY = ("schema.registry.", "basic.auth.", "bearer.auth.")


def _of_registry(properties: Mapping[str, str]) -> list[ConfigFault]:
    """One fault for all properties of a schema registry."""
    names = [key for key in properties if key.startswith(_REGISTRY)]
    if not names:
        return []
    others = f", like {', '.join(names[1:])}" if len(names) > 1 else ""
    message = f"is a property of the schema registry's client{others}"
    return [ConfigFault(names[0], message, "move it to the job file's section `registry`, without schema.registry.")]


def _place_of_servers(properties: Mapping[str, str]) -> list[ConfigFault]:
    if ("bootstrap.servers" in properties) != ("bootstrap.controllers" in properties):
        return []
    if "bootstrap.servers" in properties:
        return [ConfigFault("bootstrap.servers", "cannot be combined with bootstrap.controllers", "give one of them")]
    return [ConfigFault("bootstrap.servers", "is missing", "give at least one host:port")]


def _unknown(key: str, others: Collection[str]) -> ConfigFault:
    if key in _WITHOUT_MEANING:
        return ConfigFault(
            key, "this client does not use it", "remove it; the job file's own keys may have this setting"
        )
    nearest = did_you_mean(key, [*NAMES, *others])
    return ConfigFault(key, "unknown property", nearest or "check the spelling against Kafka's documentation")
