"""Kafka's record formats: bytes in, Arrow out. Knows no sockets and no Spark."""
