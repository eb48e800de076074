"""One connection to one broker: sockets, TLS, frames, negotiated versions, throttling, tracing, the pool."""
