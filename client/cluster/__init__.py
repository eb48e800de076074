"""Many brokers as one: bootstrap, metadata, leaders, coordinators, routing, retries, the error policy."""
