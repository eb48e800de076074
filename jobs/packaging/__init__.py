"""What executors need of us, packed for spark-submit: see `kseg package`."""
