"""Remembers the brokers and addresses that failed last, so that the others are tried before them.

Java's client does this in two places: `leastLoadedNode` leaves out brokers in reconnect backoff, and after a connection
that was not established, whatever the reason, the next one goes to the next address of the broker's name (KIP-302).

A port that speaks another protocol, as its own bytes prove, is an error that no retry helps with; it names the setting
to correct (`KafkaError.setting`).
"""

from __future__ import annotations

import time

from kseg.client.errors import ProtocolFault


class LastFailures:
    """The time at which each (host, port) last failed, until a connection there is served again: it is negotiated and
    logged in.

    The host is a broker's, as advertised or configured, or one of the addresses that it resolves to.
    """

    def __init__(self) -> None:
        self._at: dict[tuple[str, int], float] = {}

    def add(self, *places: tuple[str, int]) -> None:
        self._at.update(dict.fromkeys(places, time.monotonic()))

    def discard(self, *places: tuple[str, int]) -> None:
        for place in places:
            self._at.pop(place, None)

    def at(self, host: str, port: int) -> float:
        """Monotonic time of the last failure in seconds, 0.0 if there is none: the lowest is to be tried first."""
        return self._at.get((host, port), 0.0)


def other_protocol(name: str, broker: str | None) -> ProtocolFault:
    """The port speaks the protocol of this name."""
    fault = ProtocolFault(f"this port speaks {name}, not Kafka's protocol: check bootstrap.servers", broker=broker)
    fault.blame("bootstrap.servers", "set bootstrap.servers to host and port of a Kafka broker's listener")
    return fault


def encrypted_listener(broker: str | None) -> ProtocolFault:
    """The port answers in TLS, and this client does not encrypt."""
    remedy = "set security.protocol to SSL or SASL_SSL, or use a PLAINTEXT one"
    fault = ProtocolFault(f"this is a TLS listener: {remedy}", broker=broker)
    fault.blame("security.protocol", remedy)
    return fault
