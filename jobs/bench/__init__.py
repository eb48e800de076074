"""How fast, beside Spark's own Kafka connector: `kseg bench`."""
