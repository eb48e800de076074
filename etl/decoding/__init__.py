"""A job's `decode:` section at work: payloads of keys and values as typed columns, in the tasks."""
