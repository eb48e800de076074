"""The embedded Kafka: a real broker, started on loopback, for tests, the demo and trying things out."""
