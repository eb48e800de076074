"""Bytes of keys and values -> typed Arrow columns: a plain reference and a compiled kernel a format."""
