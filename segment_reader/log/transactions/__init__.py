"""Finds aborted transactions, by markers and by transaction indexes."""
