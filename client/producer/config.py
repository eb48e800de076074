"""A producer's properties by their Java names, with Java's defaults (Kafka 4): the producer's own, then the client's.

Source: https://kafka.apache.org/documentation/#producerconfigs
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kseg.client.config import INT32_MAX, ClientConfig
from kseg.client.errors import ConfigError, ConfigFault
from kseg.segment_reader.codecs.registry import BY_NAME, CODECS

ALL_IN_SYNC: Final = -1
_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}
_ROUND_ROBIN: Final = ("round_robin", "org.apache.kafka.clients.producer.RoundRobinPartitioner")
_RANDOM: Final = ("random",)
_DEFAULT: Final = ("default", "")
#: A leader remembers a producer's last five batches: it recognizes a duplicate if no more than five are in flight.
MAX_IN_FLIGHT_WITH_SEQUENCES: Final = 5


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """The configuration of a `KafkaProducer`. Times in milliseconds, sizes in bytes (before compression)."""

    client: ClientConfig
    acks: int = ALL_IN_SYNC
    idempotent: bool = True
    transactional_id: str | None = None
    batch_size: int = 16_384
    linger_ms: int = 5
    buffer_memory: int = 32 * 1024 * 1024
    max_block_ms: int = 60_000
    max_request_size: int = 1024 * 1024
    max_in_flight: int = 5
    delivery_timeout_ms: int = 120_000
    retries: int = INT32_MAX
    compression: str = "none"
    compression_levels: Mapping[str, int] = field(default_factory=dict)
    partitioner: str = "default"
    ignore_keys: bool = False
    adaptive_partitioning: bool = True

    @property
    def compression_level(self) -> int | None:
        """The chosen codec's level; None: the codec's default."""
        return self.compression_levels.get(self.compression)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, client_id: str = "kseg-producer") -> ProducerConfig:
        """A config from properties by their Java names. Raises ConfigError with all faults, and without secrets."""
        faults: list[ConfigFault] = []
        fields: dict[str, Any] = {}
        levels: dict[str, int] = {}
        rest: dict[str, str] = {}
        for key, raw in properties.items():
            parse = _OWN.get(key)
            if parse is None:
                rest[key] = raw
                continue
            text = str(raw).strip()
            try:
                name, value = parse(text)
            except ValueError as error:
                faults.append(ConfigFault(key, str(error), _REMEDY))
                continue
            if name in _LEVELS:
                levels[name] = value
            else:
                fields[name] = value
        try:
            fields["client"] = ClientConfig.from_properties(rest, client_id=client_id, others=_OWN)
        except ConfigError as error:
            faults += error.faults
        if "client" in fields:
            _check_together(fields, "enable.idempotence" in properties, "delivery.timeout.ms" in properties, faults)
        if faults:
            raise ConfigError(faults)
        return cls(compression_levels=levels, **fields)


def _check_together(
    fields: dict[str, Any], idempotence_is_asked_for: bool, timeout_is_set: bool, faults: list[ConfigFault]
) -> None:
    """Rules across properties. On a conflict, idempotence is switched off unless it was requested (as in Java)."""
    transactional = fields.get("transactional_id") is not None
    conflicts = []
    if fields.get("acks", ALL_IN_SYNC) != ALL_IN_SYNC:
        conflicts.append(ConfigFault("acks", "idempotence needs the acknowledgement of all replicas", "acks=all"))
    if fields.get("max_in_flight", 5) > MAX_IN_FLIGHT_WITH_SEQUENCES:
        key = "max.in.flight.requests.per.connection"
        conflicts.append(ConfigFault(key, "idempotence allows five at most", "5 or less, or enable.idempotence=false"))
    if fields.get("retries", 1) == 0:
        conflicts.append(ConfigFault("retries", "idempotence without retries does nothing", "leave it out"))
    if not fields.get("idempotent", True):
        if transactional:
            faults.append(ConfigFault("enable.idempotence", "a transactional producer is idempotent", "leave it out"))
    elif conflicts and not (idempotence_is_asked_for or transactional):
        fields["idempotent"] = False
    else:
        faults += conflicts
    least = fields.get("linger_ms", 5) + fields["client"].request_timeout_ms
    if fields.get("delivery_timeout_ms", 120_000) < least:
        if timeout_is_set:
            why = f"is less than linger.ms + request.timeout.ms ({least})"
            faults.append(ConfigFault("delivery.timeout.ms", why, "raise it, or lower request.timeout.ms"))
        else:
            fields["delivery_timeout_ms"] = least


_REMEDY: Final = "see docs/guides/producing.md"
_LEVELS: Final = {codec.name for codec in CODECS if codec.levels}

_Parse = Callable[[str], tuple[str, Any]]


def _integer(name: str, low: int, high: int = INT32_MAX) -> _Parse:
    def parse(text: str) -> tuple[str, Any]:
        if not text.lstrip("+-").isdecimal():
            raise ValueError(f"{text!r} is not a whole number")
        if not low <= int(text) <= high:
            raise ValueError(f"{text} is outside {low}..{high}")
        return name, int(text)

    return parse


def _truth(name: str) -> _Parse:
    def parse(text: str) -> tuple[str, Any]:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{text!r} is neither true nor false")
        return name, text.lower() == "true"

    return parse


def _acks(text: str) -> tuple[str, Any]:
    if text not in _ACKS:
        raise ValueError(f"{text!r} is not one of all, -1, 0, 1: brokers reject any other number")
    return "acks", _ACKS[text]


def _compression(text: str) -> tuple[str, Any]:
    if text not in BY_NAME:
        raise ValueError(f"{text!r} is not one of {', '.join(BY_NAME)}")
    return "compression", text


def _partitioner(text: str) -> tuple[str, Any]:
    for name, spellings in (("default", _DEFAULT), ("round_robin", _ROUND_ROBIN), ("random", _RANDOM)):
        if text in spellings:
            return "partitioner", name
    raise ValueError(f"{text!r} is not supported: use default, round_robin, random, or give a callable to the producer")


def _transactional_id(text: str) -> tuple[str, Any]:
    if not text:
        raise ValueError("is empty")
    return "transactional_id", text


def _int64(name: str) -> _Parse:
    return _integer(name, 0, 2**63 - 1)


_OWN: dict[str, _Parse] = {
    "acks": _acks,
    "enable.idempotence": _truth("idempotent"),
    "transactional.id": _transactional_id,
    "batch.size": _integer("batch_size", 0),
    "linger.ms": _int64("linger_ms"),
    "buffer.memory": _int64("buffer_memory"),
    "max.block.ms": _int64("max_block_ms"),
    "max.request.size": _integer("max_request_size", 1),
    "max.in.flight.requests.per.connection": _integer("max_in_flight", 1),
    "delivery.timeout.ms": _integer("delivery_timeout_ms", 0),
    "retries": _integer("retries", 0),
    "compression.type": _compression,
    **{f"compression.{codec.name}.level": _integer(codec.name, *codec.levels) for codec in CODECS if codec.levels},
    "partitioner.class": _partitioner,
    "partitioner.ignore.keys": _truth("ignore_keys"),
    "partitioner.adaptive.partitioning.enable": _truth("adaptive_partitioning"),
}
