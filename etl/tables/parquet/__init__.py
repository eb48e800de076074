"""In the tasks: rows to Parquet files with statistics, and the task output for the driver. No Spark, no delta-rs."""
