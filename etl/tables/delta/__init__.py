"""Delta tables through delta-rs: describe, ensure, commit, remove, maintain."""
