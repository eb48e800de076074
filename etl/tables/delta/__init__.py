"""Delta tables through delta-rs: look, ensure, commit, remove, maintain."""
