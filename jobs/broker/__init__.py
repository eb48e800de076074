"""The embedded Kafka: a real broker, started on loopback, for tests, the demo and trying things out."""

from kseg.jobs.broker.errors import BrokerError, JarsUnavailable, JavaMissing, StartFailed
from kseg.jobs.broker.listeners import Listener
from kseg.jobs.broker.process import VERSION, EmbeddedKafka

__all__ = ["VERSION", "BrokerError", "EmbeddedKafka", "JarsUnavailable", "JavaMissing", "Listener", "StartFailed"]
