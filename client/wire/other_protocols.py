"""Errors for a port at which something else listens than this client expects, as its own bytes prove.

No retry helps: they name the setting to correct (`KafkaError.setting`).
"""

from __future__ import annotations

from kseg.client.errors import ProtocolFault


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
