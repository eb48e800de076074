"""The ledger: a Delta table of append-only events that define a job's state. Exactly-once depends on it."""
