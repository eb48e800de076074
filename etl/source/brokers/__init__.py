"""Records from brokers: the logs they serve, and Fetch answers prefetched in a worker."""
