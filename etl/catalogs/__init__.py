"""Catalogs: what the name of a target table leads to."""
