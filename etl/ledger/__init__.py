"""The job's memory: a Delta table of append-only events, written by delta-rs alone, on which exactly-once rests."""
