"""Formats of payloads, one module each; `registry` has them all."""
