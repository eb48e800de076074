"""The ledger: a job's state as a Delta table of append-only events, written by delta-rs. Exactly-once rests on it."""
