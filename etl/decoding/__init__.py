"""Carries out a job's `decode:` section in the tasks: payloads of keys and values become typed columns."""
