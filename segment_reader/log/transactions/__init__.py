"""Which transactions were aborted, from markers and from transaction indexes."""
