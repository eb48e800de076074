"""The ledger: a Delta table of append-only events with a job's state, written by delta-rs. Exactly-once depends on it."""
