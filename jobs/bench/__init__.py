"""Benchmarks, with Spark's own Kafka connector and other clients for comparison: `kseg bench`."""
