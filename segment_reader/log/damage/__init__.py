"""Damage of logs: validation of batches, damaged ranges, and reading past them."""
