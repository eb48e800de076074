"""Kafka to Delta Lake and back: planning, the ledger, running a job, Spark. Knows no command line."""
