"""The embedded Kafka: a real broker, started on loopback, for tests, the demo and trying things out."""

from jobs.broker.errors import BrokerError, JarsUnavailable, JavaMissing, StartFailed
from jobs.broker.listeners import Listener
from jobs.broker.process import VERSION, EmbeddedKafka

__all__ = ["VERSION", "BrokerError", "EmbeddedKafka", "JarsUnavailable", "JavaMissing", "Listener", "StartFailed"]
