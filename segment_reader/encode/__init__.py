"""Records to batches, from Python values or from Arrow columns."""
