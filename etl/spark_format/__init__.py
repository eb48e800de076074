"""`format("kseg")` for `spark.read` and `spark.readStream`: options, planning, micro-batches."""
